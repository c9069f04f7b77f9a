"""What a broker keeps of a password: a SCRAM verifier or a scrypt hash, in one printable string, never the
password itself.

``SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`` (and SCRAM-SHA-512), as RFC 5803 writes it and
PostgreSQL stores it; ``scrypt$<log2 n>$<r>$<p>$<salt>$<hash>``; all in base64. The costs are in the string:
raising the defaults later leaves old ones valid. Who signs in by SCRAM never sends the password; PLAIN is
checked against either.
"""

import base64
import binascii
import functools
import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scramp import ScramException, ScramMechanism  # type: ignore[import-untyped]

from postroom.amqp.frames.sasl import PLUS, SCRAM_SHA_256, SCRAM_SHA_512

SCRAM_MECHANISMS: Final = (SCRAM_SHA_512, SCRAM_SHA_256)
"""Best first."""
BOUND_MECHANISMS: Final = tuple(each + PLUS for each in SCRAM_MECHANISMS)
"""The same with channel binding; a verifier serves both."""
SCRYPT: Final = "scrypt"
SCHEMES: Final = (SCRAM_SHA_256, SCRAM_SHA_512, SCRYPT)
"""What a password can be kept as, the default first."""
ITERATIONS: Final = 65_536
"""Of PBKDF2 in a new SCRAM verifier; clients pay them at each connection."""
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 10_000_000
MIN_SALT_BYTES: Final = 12
LOG2_N: Final = 14
BLOCK_SIZE: Final = 8
PARALLEL: Final = 1
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32
MAX_MEMORY_BYTES: Final = 256 << 20
MAX_PASSWORD_BYTES: Final = 1024
"""Longer passwords are refused unread, so that a login can't be made expensive."""
KEY_BYTES: Final = {SCRAM_SHA_256: 32, SCRAM_SHA_512: 64}


class PasswordHashError(ValueError):
    """The text is no verifier or hash of the forms that ``postroom user hash`` prints."""


@dataclass(frozen=True, slots=True)
class ScramVerifier:
    """What RFC 5802 has a server keep of a password."""

    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        keys = f"{_base64(self.stored_key)}:{_base64(self.server_key)}"
        return f"{self.mechanism}${self.iterations}:{_base64(self.salt)}${keys}"

    def matches(self, password: str) -> bool:
        """Takes tens of milliseconds."""
        try:
            made = _scram(self.mechanism, password, self.iterations, self.salt)
        except ScramException:  # characters that no password may have (RFC 4013)
            return False
        return hmac.compare_digest(made.stored_key, self.stored_key)


@dataclass(frozen=True, slots=True)
class ScryptHash:
    """A password's hash with its costs."""

    log2_n: int
    block_size: int
    parallel: int
    salt: bytes
    digest: bytes

    def __str__(self) -> str:
        costs = f"{SCRYPT}${self.log2_n}${self.block_size}${self.parallel}"
        return f"{costs}${_base64(self.salt)}${_base64(self.digest)}"

    def matches(self, password: str) -> bool:
        """Takes tens of milliseconds."""
        digest = _scrypt(password, self.salt, self.log2_n, self.block_size, self.parallel)
        return hmac.compare_digest(digest, self.digest)


def hash_password(password: str, scheme: str = SCHEMES[0], *, iterations: int = ITERATIONS) -> str:
    """What is kept of ``password``, with a new salt, to be put into the configuration under ``[users]``.

    Raises `PasswordHashError` for a password that SASLprep (RFC 4013) doesn't allow.
    """
    salt = os.urandom(SALT_BYTES)
    if scheme == SCRYPT:
        digest = _scrypt(password, salt, LOG2_N, BLOCK_SIZE, PARALLEL)
        return str(ScryptHash(LOG2_N, BLOCK_SIZE, PARALLEL, salt, digest))
    try:
        return str(_scram(scheme, password, iterations, salt))
    except ScramException as error:
        raise PasswordHashError(f"no password by the rules of SASLprep: {error}") from error


def unmatched_hash(users: Mapping[str, tuple[str, ...]]) -> str:
    """What no password matches, and takes as long to check as what is kept of the first user's."""
    secret = base64.b64encode(os.urandom(HASH_BYTES)).decode()
    for kept in users.values():
        made = parse_hash(kept[0])
        if isinstance(made, ScramVerifier):
            return hash_password(secret, made.mechanism, iterations=made.iterations)
        break
    return hash_password(secret, SCRYPT)


def verify_password(password: str, stored: str) -> bool:
    """Whether ``password`` is the one that ``stored`` was made of. Takes tens of milliseconds: not on a loop.

    Raises `PasswordHashError` where ``stored`` is none.
    """
    if len(password.encode()) > MAX_PASSWORD_BYTES:
        return False
    return parse_hash(stored).matches(password)


def scheme_of(stored: str) -> str:
    """Of `SCHEMES`, where ``stored`` is a password's hash."""
    return stored.partition("$")[0]


@functools.lru_cache(maxsize=1000)
def parse_hash(stored: str) -> ScramVerifier | ScryptHash:
    """Raises `PasswordHashError`."""
    scheme, *parts = stored.split("$")
    try:
        if scheme in KEY_BYTES and len(parts) == 2:
            return _parse_scram(scheme, *parts)
        if scheme == SCRYPT and len(parts) == 5:
            log2_n, block_size, parallel = (int(part) for part in parts[:3])
            return _checked(ScryptHash(log2_n, block_size, parallel, _bytes(parts[3]), _bytes(parts[4])))
    except (ValueError, binascii.Error) as error:
        raise PasswordHashError(f"damaged password hash: {error}") from error
    raise PasswordHashError("not a password hash: make one with `postroom user hash`")


def _parse_scram(mechanism: str, costs: str, keys: str) -> ScramVerifier:
    iterations, _, salt = costs.partition(":")
    stored_key, _, server_key = keys.partition(":")
    made = ScramVerifier(mechanism, int(iterations), _bytes(salt), _bytes(stored_key), _bytes(server_key))
    if {len(made.stored_key), len(made.server_key)} != {KEY_BYTES[mechanism]}:
        raise ValueError(f"keys of {mechanism} have {KEY_BYTES[mechanism]} bytes")
    if not MIN_ITERATIONS <= made.iterations <= MAX_ITERATIONS or len(made.salt) < MIN_SALT_BYTES:
        raise ValueError(
            f"iterations must be {MIN_ITERATIONS} to {MAX_ITERATIONS}, a salt at least {MIN_SALT_BYTES} bytes"
        )
    return made


def _checked(made: ScryptHash) -> ScryptHash:
    costs = 1 <= made.log2_n <= 20 and 1 <= made.block_size <= 16 and 1 <= made.parallel <= 16
    if not costs or len(made.digest) != HASH_BYTES:
        raise ValueError("costs out of bounds")
    return made


def _scram(mechanism: str, password: str, iterations: int, salt: bytes) -> ScramVerifier:
    salt, stored_key, server_key, iterations = ScramMechanism(mechanism).make_auth_info(
        password, iterations, salt
    )
    return ScramVerifier(mechanism, iterations, salt, stored_key, server_key)


def _scrypt(password: str, salt: bytes, log2_n: int, block_size: int, parallel: int) -> bytes:
    return hashlib.scrypt(
        password.encode(),
        salt=salt,
        n=1 << log2_n,
        r=block_size,
        p=parallel,
        maxmem=MAX_MEMORY_BYTES,
        dklen=HASH_BYTES,
    )


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
