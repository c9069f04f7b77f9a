"""Hashed passwords: scrypt from the standard library, in one printable string.

Form: ``scrypt$<log2 n>$<r>$<p>$<salt>$<hash>``, salt and hash in base64. The costs are in the string, so
raising the defaults later leaves old hashes valid.
"""

import base64
import binascii
import hashlib
import hmac
import os
from typing import Final

LOG2_N: Final = 14
BLOCK_SIZE: Final = 8
PARALLEL: Final = 1
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32
MAX_MEMORY_BYTES: Final = 256 << 20
MAX_PASSWORD_BYTES: Final = 1024
"""Longer passwords are refused unread, so that a login can't be made expensive."""


class PasswordHashError(ValueError):
    """The text is not a password hash of the form that ``postroom user hash`` prints."""


def hash_password(password: str, log2_n: int = LOG2_N) -> str:
    """A new salted hash of ``password``, to be put into the configuration under ``[users]``."""
    salt = os.urandom(SALT_BYTES)
    digest = _scrypt(password.encode(), salt, log2_n, BLOCK_SIZE, PARALLEL)
    return f"scrypt${log2_n}${BLOCK_SIZE}${PARALLEL}${_base64(salt)}${_base64(digest)}"


def unmatched_hash() -> str:
    """A hash that no password has, and that takes as long to check as others."""
    salt, digest = os.urandom(SALT_BYTES), os.urandom(HASH_BYTES)
    return f"scrypt${LOG2_N}${BLOCK_SIZE}${PARALLEL}${_base64(salt)}${_base64(digest)}"


def verify_password(password: str, stored: str) -> bool:
    """Whether ``password`` is the one that ``stored`` was made of. Takes tens of milliseconds: not on a loop.

    Raises `PasswordHashError` where ``stored`` is not a hash.
    """
    secret = password.encode()
    if len(secret) > MAX_PASSWORD_BYTES:
        return False
    log2_n, block_size, parallel, salt, expected = parse_hash(stored)
    return hmac.compare_digest(_scrypt(secret, salt, log2_n, block_size, parallel), expected)


def parse_hash(stored: str) -> tuple[int, int, int, bytes, bytes]:
    """The parts of a stored hash: log2 n, r, p, salt, hash. Raises `PasswordHashError`."""
    parts = stored.split("$")
    if len(parts) != 6 or parts[0] != "scrypt":
        raise PasswordHashError("not a password hash: make one with `postroom user hash`")
    try:
        log2_n, block_size, parallel = int(parts[1]), int(parts[2]), int(parts[3])
        salt, expected = base64.b64decode(parts[4], validate=True), base64.b64decode(parts[5], validate=True)
    except (ValueError, binascii.Error) as error:
        raise PasswordHashError(f"damaged password hash: {error}") from error
    if not (
        1 <= log2_n <= 20 and 1 <= block_size <= 16 and 1 <= parallel <= 16 and len(expected) == HASH_BYTES
    ):
        raise PasswordHashError("password hash with costs out of bounds")
    return log2_n, block_size, parallel, salt, expected


def _scrypt(password: bytes, salt: bytes, log2_n: int, block_size: int, parallel: int) -> bytes:
    return hashlib.scrypt(
        password,
        salt=salt,
        n=1 << log2_n,
        r=block_size,
        p=parallel,
        maxmem=MAX_MEMORY_BYTES,
        dklen=HASH_BYTES,
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
