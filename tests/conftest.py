"""What all tests share: which of them are played, in what order, and what each costs."""

import os

import pytest

pytest_plugins = ["tests.sampling", "tests.scheduling", "tests.times"]

MOST_DESCRIPTORS = 800
"""Of a process of tests. Proton can't use one above 1,023: its test would fail for what others leave open."""

os.environ.pop("SSL_CERT_FILE", None)
"""No test trusts what the machine trusts, and each container of Proton reads such a file whole: 60 ms."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Whoever leaves descriptors open is found before somebody else has none."""
    with os.scandir("/proc/self/fd") as descriptors:
        count = sum(1 for _ in descriptors)
    assert count <= MOST_DESCRIPTORS, f"{count} descriptors are open in this process of tests"
