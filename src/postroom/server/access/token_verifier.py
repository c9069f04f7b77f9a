"""Tokens of OAuth 2 (JWTs, RFC 7519): whether one is good, whom it is of, and which roles it gives.

The library PyJWT reads and verifies them. Only algorithms with a public key are ever allowed; which key it is
is said by the configured key set alone, whatever a token's header names beside its key id.
"""

from typing import Any, Final

import jwt

from postroom.server.access.oauth import TokenRefused, VerifiedToken
from postroom.server.configuration.oauth import DEFAULT_ALGORITHMS, OAuthConfig
from postroom.server.kernel.connection_state import ANONYMOUS_USER

MAX_TOKEN_CHARS: Final = 12_000
MAX_ROLES: Final = 100
MAX_USER_BYTES: Final = 255
MIN_RSA_BITS: Final = 2048
_LAST_S: Final = 1 << 40
_SECOND_US: Final = 1_000_000


class TokenVerifier:
    """Judges tokens by a configuration and the keys that are there."""

    def __init__(self, config: OAuthConfig) -> None:
        self.config: Final = config
        self.keys: list[dict[str, Any]] = []
        self._prepared: Final[dict[tuple[str | None, str], jwt.PyJWK]] = {}

    def replace_keys(self, keys: list[dict[str, Any]]) -> None:
        """These count from now on."""
        self.keys = keys
        self._prepared.clear()

    def has_key_for(self, token: str) -> bool:
        """Whether there is a key of the id that the token names; nothing about whether it is good."""
        try:
            header = _header(token)
        except TokenRefused:
            return True  # no other keys will help
        return any(_matches(key, header.get("kid")) for key in self.keys)

    def verify(self, token: str) -> VerifiedToken:
        """Raises `TokenRefused`."""
        config, header = self.config, _header(token)
        algorithm = header.get("alg")
        if algorithm not in (config.algorithms or DEFAULT_ALGORITHMS):
            raise TokenRefused(f"algorithm {str(algorithm)[:20]!r} isn't allowed")
        key = self._key(header.get("kid"), str(algorithm))
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[str(algorithm)],
                audience=config.audience,
                issuer=config.issuer,
                leeway=config.leeway_s,
                options={"require": ["exp", "iss", "aud", config.user_claim]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
            raise TokenRefused(str(error)[:200]) from error
        expires_s = min(int(claims["exp"]), _LAST_S) + config.leeway_s
        return VerifiedToken(self._user(claims), self._roles(claims), expires_s * _SECOND_US)

    def _key(self, key_id: object, algorithm: str) -> jwt.PyJWK:
        name = key_id if isinstance(key_id, str) else None
        prepared = self._prepared.get((name, algorithm))
        if prepared is not None:
            return prepared
        found = [key for key in self.keys if _matches(key, key_id) and key.get("alg", algorithm) == algorithm]
        for data in found if len(found) == 1 else []:
            try:
                made = jwt.PyJWK(data, algorithm)
            except (jwt.PyJWTError, ValueError, TypeError) as error:
                raise TokenRefused(f"the key isn't one for {algorithm}") from error
            if getattr(made.key, "key_size", MIN_RSA_BITS) < MIN_RSA_BITS and data["kty"] == "RSA":
                raise TokenRefused(f"the key has fewer than {MIN_RSA_BITS} bits")
            self._prepared[name, algorithm] = made
            return made
        raise TokenRefused("the key set has no such key, or several")

    def _user(self, claims: dict[str, Any]) -> str:
        user = claims[self.config.user_claim]
        if (
            not isinstance(user, str)
            or not user.isprintable()
            or not 0 < len(user.encode()) <= MAX_USER_BYTES
        ):
            what = f"1 to {MAX_USER_BYTES} bytes that can be printed"
            raise TokenRefused(f"claim {self.config.user_claim!r} is no user's name: {what}")
        if user == ANONYMOUS_USER:
            raise TokenRefused(f"{user!r} is who hasn't signed in")
        return user

    def _roles(self, claims: dict[str, Any]) -> tuple[str, ...]:
        named = claims.get(self.config.roles_claim) if self.config.roles_claim else None
        names = named.split() if isinstance(named, str) else named
        if not isinstance(names, list):
            return ()
        return tuple(dict.fromkeys(name for name in names[:MAX_ROLES] if isinstance(name, str)))


def _header(token: str) -> dict[str, Any]:
    if len(token) > MAX_TOKEN_CHARS:
        raise TokenRefused(f"the token is longer than {MAX_TOKEN_CHARS} characters")
    try:
        return jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise TokenRefused("that is no signed token") from error


def _matches(key: dict[str, Any], key_id: object) -> bool:
    """A token without a key id means whatever key there is."""
    return key_id is None or key.get("kid") == key_id
