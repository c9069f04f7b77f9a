"""What comes of a token of OAuth 2, and the public keys by which it is verified."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import HTTPRedirectHandler, Request

from postroom.server.configuration.oauth import URL_MARK

MAX_JWKS_BYTES: Final = 1 << 20
MAX_KEYS: Final = 1000
FETCH_TIMEOUT_S: Final = 5.0
MIN_REFETCH_S: Final = 10
"""So soon after another, successful or not, keys are not fetched again."""
PUBLIC_KEY_TYPES: Final = ("RSA", "EC", "OKP")


class TokenRefused(Exception):
    """The token doesn't let anybody in; one line, why. ``user`` where it is known for certain."""

    def __init__(self, what: str, user: str = "") -> None:
        super().__init__(what)
        self.user: Final = user


class KeysUnavailable(Exception):
    """The key set can't be had or used; one line, why."""


@dataclass(frozen=True)
class VerifiedToken:
    """What a good token says."""

    user: str
    roles: tuple[str, ...]
    expires_us: int
    """µs since 1970, with the leeway."""


class _NoRedirects(HTTPRedirectHandler):
    """Keys come from where the configuration says, and from nowhere else."""

    def redirect_request(self, *arguments: Any) -> Request | None:
        return None


def load_keys(source: str) -> list[dict[str, Any]]:
    """The public keys of a file or URL; blocks. Raises `KeysUnavailable`."""
    try:
        if URL_MARK in source:
            opener = urllib.request.build_opener(_NoRedirects)
            with opener.open(source, timeout=FETCH_TIMEOUT_S) as answer:
                data = answer.read(MAX_JWKS_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                data = file.read(MAX_JWKS_BYTES + 1)
    except OSError as error:
        raise KeysUnavailable(f"{source}: can't be read: {error}") from error
    try:
        keys = json.loads(data)["keys"] if len(data) <= MAX_JWKS_BYTES else []
        usable = [key for key in keys if key["kty"] in PUBLIC_KEY_TYPES and key.get("use") != "enc"]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise KeysUnavailable(f"{source}: is no key set (RFC 7517)") from error
    if not 0 < len(usable) <= MAX_KEYS:
        raise KeysUnavailable(f"{source}: has no public key to verify signatures by, or too many")
    return usable
