"""Brokers with a planted bug each, run like ``postroom.cli``: the tests of this folder must find them."""
