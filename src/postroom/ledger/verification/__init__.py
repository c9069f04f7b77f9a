"""Is this ledger whole? The one check that everybody asks, and what its owner may accept."""
