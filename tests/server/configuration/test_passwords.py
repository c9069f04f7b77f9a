"""Password hashes: made, checked, and refused when damaged."""

import pytest

from postroom.server.configuration.passwords import (
    PasswordHashError,
    hash_password,
    parse_hash,
    verify_password,
)


def test_a_password_matches_its_own_hash_only() -> None:
    stored = hash_password("sesame")
    assert verify_password("sesame", stored)
    assert not verify_password("Sesame", stored)
    assert not verify_password("", stored)


def test_two_hashes_of_one_password_differ() -> None:
    assert hash_password("x") != hash_password("x")


def test_an_endless_password_is_refused_unread() -> None:
    assert not verify_password("x" * 1025, "not even a hash")


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "sesame",
        "scrypt$14$8$1$c2FsdA==",
        "scrypt$x$8$1$c2FsdA==$aGFzaA==",
        "scrypt$14$8$1$c2FsdA==$aGFzaA==",
        "scrypt$14$8$1$*$*",
        "scrypt$63$8$1$c2FsdA==$" + "A" * 43 + "=",
    ],
)
def test_a_damaged_hash_is_refused(stored: str) -> None:
    with pytest.raises(PasswordHashError):
        parse_hash(stored)
