"""What all tests share: which of them are played, in what order, and what each costs."""

import os

pytest_plugins = ["tests.sampling", "tests.scheduling", "tests.times"]

os.environ.pop("SSL_CERT_FILE", None)
"""No test trusts what the machine trusts, and each container of Proton reads such a file whole: 60 ms."""
