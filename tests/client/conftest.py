"""A certificate for the brokers of tests."""

import pytest

from tests.certificates import Certificate, sign


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """For localhost and 127.0.0.1, trusted by nobody."""
    return sign(tmp_path_factory.mktemp("tls"), address="127.0.0.1")
