"""Signing in by OAuth 2 tokens."""

from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from postroom.server.addresses import is_loopback
from postroom.server.configuration.values import Name, PlacedError, Positive

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
DEFAULT_ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA")
URL_MARK: Final = "://"


class OAuthConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Users sign in with tokens (JWTs, RFC 7519) of an authorization server, by OAUTHBEARER or XOAUTH2."""

    issuer: Name
    """Just what the claim `iss` of a token must be."""
    audience: Name
    """What its claim `aud` must be, or have among others."""
    jwks: Name
    """The server's public keys (RFC 7517): a file, or an `https://` URL."""
    jwks_cache_s: Positive = 300
    """So long keys of a URL are used before they are fetched again; when that fails, they are used on."""
    user_claim: Name = "sub"
    """The claim that is the user's name."""
    roles_claim: str = ""
    """The claim that names roles, in a list or separated by spaces; those that aren't defined count for
    nothing. Empty: a token gives no roles."""
    leeway_s: Annotated[int, Meta(ge=0, le=300)] = 30
    """How far the two machines' clocks may be apart."""
    algorithms: Annotated[list[Algorithm], Meta(min_length=1)] | None = None
    """By which a token may be signed; unset: RS256, PS256, ES256, EdDSA."""

    def __post_init__(self) -> None:
        if URL_MARK not in self.jwks:
            return
        url = urlsplit(self.jwks)
        if url.scheme != "https" and not (url.scheme == "http" and is_loopback(url.hostname or "")):
            raise PlacedError(("jwks",), f"{self.jwks!r}: give a file, or an https:// URL")
