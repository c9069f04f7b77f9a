"""Tokens: who may read what over HTTP.

A token is ``<id>.<secret>``; the file has the id, the SHA-256 of the secret, a name, the user whose token it
is, rights and an end. A secret has 256 random bits, so that a fast hash is as good as a slow one. The file is
written by `postroom token` and read by the broker whenever it has changed: a removed token ends at once.
"""

import contextlib
import hashlib
import hmac
import secrets
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from postroom.server.configuration.http import HttpConfig
from postroom.server.private_files import replace_private

TOKENS_NAME: Final = "http-tokens.json"
"""In the data folder, unless the configuration says another place."""
ID_BYTES: Final = 6
SECRET_BYTES: Final = 32
MAX_TOKENS: Final = 10_000
MAX_TOKEN_CHARS: Final = 200
MAX_FILE_BYTES: Final = 16 << 20


class Right(StrEnum):
    """What a token opens."""

    LEDGER = "ledger"
    """Records, names and ids of messages; no body and no property."""
    BODIES = "bodies"
    """Beside `ledger`: bodies and properties of messages, too."""
    METRICS = "metrics"
    REPLICATE = "replicate"
    """The whole ledger, as another member copies it, with what is kept of passwords."""
    MANAGE = "manage"
    """The API: everything that the token's user may do."""


class TokensError(Exception):
    """The file of tokens can't be used, or not as asked; one line of text."""


class Token(Struct, frozen=True, forbid_unknown_fields=True):
    """One token as the file has it."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    name: Annotated[str, Meta(min_length=1, max_length=255)]
    rights: list[Right]
    secret_sha256: Annotated[str, Meta(min_length=64, max_length=64)]
    created_us: int
    user: Annotated[str, Meta(max_length=255)] = ""
    """It opens nothing that this user may not read; "" opens something only while there are no users."""
    expires_us: int = 0
    """0 never."""

    def in_force(self, now_us: int) -> bool:
        return self.expires_us == 0 or now_us < self.expires_us


def tokens_file(config: HttpConfig, data_folder: Path) -> Path:
    """Where the tokens are."""
    return Path(config.tokens) if config.tokens else data_folder / TOKENS_NAME


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def read_tokens(file: Path) -> list[Token]:
    """All tokens of a file; none if there is no file. Raises `TokensError`."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TokensError(f"{file}: can't be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise TokensError(f"{file}: longer than {MAX_FILE_BYTES} bytes: not a file of tokens")
    try:
        return msgspec.json.decode(data, type=list[Token])
    except msgspec.DecodeError as error:  # of syntax, or of a value
        raise TokensError(f"{file}: {error}") from error


def write_tokens(file: Path, tokens: list[Token]) -> None:
    """Take the place of the file at once, readable by its owner only."""
    replace_private(file, msgspec.json.format(msgspec.json.encode(tokens), indent=2) + b"\n")


def add_token(file: Path, name: str, rights: list[Right], duration_s: int = 0, user: str = "") -> str:
    """A new token, of ``user``; what is returned is told nowhere else.

    Raises `TokensError` for a name that has one.
    """
    tokens = read_tokens(file)
    if any(token.name == name for token in tokens):
        raise TokensError(f"{file}: {name!r} has a token already: remove it first, or choose another name")
    if len(tokens) >= MAX_TOKENS:
        raise TokensError(f"{file}: {MAX_TOKENS} tokens are there already")
    now_us = time.time_ns() // 1000
    id, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    expires_us = now_us + duration_s * 1_000_000 if duration_s else 0
    made = Token(id, name, sorted(set(rights)), digest_of(secret), now_us, user, expires_us)
    write_tokens(file, [*tokens, made])
    return f"{id}.{secret}"


def remove_token(file: Path, name: str) -> None:
    """Raises `TokensError` where no token has that name."""
    tokens = read_tokens(file)
    left = [token for token in tokens if token.name != name]
    if len(left) == len(tokens):
        raise TokensError(f"{file}: there is no token {name!r}")
    write_tokens(file, left)


class Tokens:
    """The file as it is now, for the server: looked at again when it has changed."""

    def __init__(self, file: Path) -> None:
        self._file: Final = file
        self._seen: tuple[int, int, int] | None = None
        self._by_id: dict[str, Token] = {}
        self.error = ""
        """Why the file as it is now can't be used; no token is in force then."""

    def find(self, presented: str, now_us: int) -> Token | None:
        """The token that these characters are; None if they are none that is in force."""
        self._reload()
        id, dot, secret = presented.partition(".")
        token = self._by_id.get(id)
        if token is None or not dot or len(presented) > MAX_TOKEN_CHARS:
            return None
        matches = hmac.compare_digest(digest_of(secret), token.secret_sha256)
        return token if matches and token.in_force(now_us) else None

    def _reload(self) -> None:
        seen = None
        with contextlib.suppress(OSError):
            stat = self._file.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen == self._seen:
            return
        try:
            self._by_id = {token.id: token for token in read_tokens(self._file)}
            self.error = ""
        except TokensError as error:
            self._by_id, self.error = {}, str(error)
        self._seen = seen
