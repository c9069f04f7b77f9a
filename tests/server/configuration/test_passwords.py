"""What is kept of passwords: made, checked, and refused when damaged."""

import pytest

from postroom.server.configuration.passwords import (
    SCHEMES,
    PasswordHashError,
    hash_password,
    parse_hash,
    unmatched_hash,
    verify_password,
)

KEY, LONG_KEY = "A" * 43 + "=", "A" * 86 + "=="
SALT = "c2FsdHNhbHRzYWx0"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_password_matches_its_own_hash_only(scheme: str) -> None:
    stored = hash_password("sesame", scheme)
    assert stored.startswith(scheme + "$")
    assert str(parse_hash(stored)) == stored
    assert "sesame" not in stored
    assert verify_password("sesame", stored)
    assert not verify_password("Sesame", stored)
    assert not verify_password("", stored)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_two_hashes_of_one_password_differ(scheme: str) -> None:
    assert hash_password("x", scheme) != hash_password("x", scheme)


def test_a_password_that_no_client_could_prepare_is_refused() -> None:
    with pytest.raises(PasswordHashError, match="SASLprep"):
        hash_password("\0")
    assert not verify_password("\0", hash_password("x"))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_nobody_matches_costs_what_the_users_cost(scheme: str) -> None:
    made = unmatched_hash({"ann": (hash_password("x", scheme),)})
    assert made.partition("$")[0] == scheme
    assert not verify_password("x", made)


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
        "scrypt$63$8$1$c2FsdA==$" + KEY,
        f"SCRAM-SHA-1$4096:{SALT}${KEY}:{KEY}",
        f"SCRAM-SHA-256$4096:{SALT}${KEY}",
        f"SCRAM-SHA-256$4096:{SALT}${KEY}:{LONG_KEY}",
        f"SCRAM-SHA-512$4096:{SALT}${KEY}:{KEY}",
        f"SCRAM-SHA-256$4095:{SALT}${KEY}:{KEY}",
        f"SCRAM-SHA-256$10000001:{SALT}${KEY}:{KEY}",
        f"SCRAM-SHA-256$4096:c2FsdA==${KEY}:{KEY}",
        f"SCRAM-SHA-256$4096${KEY}:{KEY}",
        "SCRAM-SHA-256$$",
    ],
)
def test_a_damaged_hash_is_refused(stored: str) -> None:
    with pytest.raises(PasswordHashError):
        parse_hash(stored)
