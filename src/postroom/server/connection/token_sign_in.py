"""Signing in with tokens: SASL OAUTHBEARER (RFC 7628) and XOAUTH2, keys that are fetched, and tokens that run
out while their connections live."""

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from postroom.amqp.errors import UNAUTHORIZED_ACCESS
from postroom.server.access.oauth import (
    MIN_REFETCH_S,
    KeysUnavailable,
    TokenRefused,
    VerifiedToken,
    load_keys,
)
from postroom.server.configuration.oauth import URL_MARK, OAuthConfig
from postroom.server.exits import Exit, StartError
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.logs import log

if TYPE_CHECKING:
    from postroom.server.access.token_verifier import TokenVerifier

SEPARATOR: Final = b"\x01"
BEARER: Final = "bearer "
INVALID_TOKEN: Final = json.dumps({"status": "invalid_token"}).encode()
"""What the client is answered before the outcome (RFC 7628, section 3.2.2)."""

Decided = Callable[[VerifiedToken | TokenRefused, int], None]
"""Takes what a token says, or why it doesn't count, and the time."""


def bearer_token(response: bytes) -> tuple[str, str]:
    """The token of an initial response of OAUTHBEARER (GS2 header first) or XOAUTH2, and the user that it
    claims to be of, "" where it claims none. Raises `TokenRefused`."""
    head, *pairs = response.split(SEPARATOR)
    if head.startswith(b"user="):
        user = head.removeprefix(b"user=")
    elif head.startswith(b"n,") and head.endswith(b","):  # no channel binding
        user = head[2:-1].removeprefix(b"a=").replace(b"=2C", b",").replace(b"=3D", b"=")
    else:
        raise TokenRefused("the response begins neither as OAUTHBEARER's nor as XOAUTH2's")
    found = [pair.removeprefix(b"auth=") for pair in pairs if pair.startswith(b"auth=")]
    if len(found) != 1 or pairs[-2:] != [b"", b""]:
        raise TokenRefused("the response has no authorization, or isn't ended")
    try:
        text, name = found[0].decode("ascii"), user.decode()
    except UnicodeDecodeError:
        raise TokenRefused("the response is no text") from None
    if not text[: len(BEARER)].lower() == BEARER:
        raise TokenRefused("the authorization is no bearer token")
    return text[len(BEARER) :].strip(), name


class TokenSignIns:
    """Those of one broker."""

    def __init__(self, config: OAuthConfig | None) -> None:
        """Raises `StartError` for a file of keys that can't be used."""
        self.waiting: Final[list[tuple[str, Decided]]] = []
        """Tokens that wait for keys to be fetched."""
        self.fetching = False
        self._fetched_from = ""
        """Where the keys that are being fetched are: at SIGHUP the configuration may come to name others."""
        self._verifier: TokenVerifier | None = None
        self._expiries: Final[dict[ConnectionState, int]] = {}
        self._next_us = 0
        self._fetched_us = 0
        self._tried_us = 0
        self.configure(config)

    def configure(self, config: OAuthConfig | None) -> None:
        """Take this configuration; the keys of a file are read. Raises `StartError`, and then nothing has
        changed."""
        before = self._verifier
        if config is None:
            self._verifier = None
            return
        is_same = before is not None and before.config.jwks == config.jwks
        keys = before.keys if before is not None and is_same else []
        if URL_MARK not in config.jwks:
            try:
                keys = load_keys(config.jwks)
            except KeysUnavailable as error:
                raise StartError(Exit.CONFIGURATION, f"oauth.jwks: {error}") from error
        self._verifier = _new_verifier(config)
        self._verifier.replace_keys(keys)
        if not is_same:
            self._fetched_us = self._tried_us = 0

    def begin(self, response: bytes, decided: Decided, now_us: int) -> None:
        """A client's initial response: have ``decided`` called, now or when keys have been fetched."""
        try:
            token, claimed = bearer_token(response)
        except TokenRefused as refused:
            decided(refused, now_us)
            return

        def decide(found: VerifiedToken | TokenRefused, later_us: int) -> None:
            if isinstance(found, VerifiedToken) and claimed not in ("", found.user):
                found = TokenRefused("the token is another user's", found.user)
            decided(found, later_us)

        self.check(token, decide, now_us)

    def check(self, token: str, decided: Decided, now_us: int) -> None:
        """A bearer token as such: have ``decided`` called, now or when keys have been fetched."""
        verifier = self._verifier
        if verifier is None:
            decided(TokenRefused("tokens are taken no more"), now_us)
        elif self.fetching or self._wants_keys(verifier, token, now_us):
            self.waiting.append((token, decided))
        else:
            decided(_judged(verifier, token), now_us)

    def _wants_keys(self, verifier: "TokenVerifier", token: str, now_us: int) -> bool:
        if URL_MARK not in verifier.config.jwks or now_us - self._tried_us < MIN_REFETCH_S * 1_000_000:
            return False
        old = now_us - self._fetched_us >= verifier.config.jwks_cache_s * 1_000_000
        return old or not verifier.has_key_for(token)

    def begin_fetch(self, now_us: int) -> Callable[[], list[dict[str, Any]]]:
        """What gives the keys, off the loop; `fetched` takes them."""
        assert self._verifier is not None
        source = self._fetched_from = self._verifier.config.jwks
        self.fetching, self._tried_us = True, now_us
        return lambda: load_keys(source)

    def fetched(self, keys: list[dict[str, Any]] | BaseException, now_us: int) -> None:
        """The keys, or why there are none: then those that are there go on to count."""
        self.fetching = False
        if isinstance(keys, BaseException):
            log(logging.ERROR, "oauth-keys-unavailable", reason=str(keys))
        elif self._verifier is not None and self._verifier.config.jwks == self._fetched_from:
            self._verifier.replace_keys(keys)
            self._fetched_us = now_us
        waiting = self.waiting[:]
        self.waiting.clear()
        for token, decided in waiting:
            refused = TokenRefused("tokens are taken no more")
            decided(refused if self._verifier is None else _judged(self._verifier, token), now_us)

    # Tokens run out.

    def expires(self, connection: ConnectionState, expires_us: int) -> None:
        """Close ``connection`` then."""
        self._expiries[connection] = expires_us
        self._next_us = min(self._next_us or expires_us, expires_us)

    def gone(self, connection: ConnectionState) -> None:
        """Its socket is closed."""
        self._expiries.pop(connection, None)

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never."""
        return self._next_us

    def on_time(self, now_us: int) -> None:
        """Close the connections whose tokens have run out."""
        if not 0 < self._next_us <= now_us:
            return
        due = [connection for connection, expires_us in self._expiries.items() if expires_us <= now_us]
        for connection in due:
            del self._expiries[connection]
        self._next_us = min(self._expiries.values(), default=0)
        for connection in due:
            what = f"the token of user {connection.user!r} has expired"
            log(logging.INFO, "token-expired", remote=connection.remote, user=connection.user)
            if connection.engine.peer_open is None:
                connection.cut()
            else:
                connection.close(UNAUTHORIZED_ACCESS, what)


def _new_verifier(config: OAuthConfig) -> "TokenVerifier":
    try:
        # Imported here: who takes no tokens starts sooner, and needs no library for them.
        from postroom.server.access.token_verifier import TokenVerifier
    except ImportError as error:
        what = f"[oauth] needs a library that isn't here ({error.name}): pip install 'postroom[oauth]'"
        raise StartError(Exit.CONFIGURATION, what) from error
    return TokenVerifier(config)


def _judged(verifier: "TokenVerifier", token: str) -> VerifiedToken | TokenRefused:
    try:
        return verifier.verify(token)
    except TokenRefused as refused:
        return refused


def token_sign_ins_of(broker: BrokerState) -> TokenSignIns:
    """Those of a broker."""
    return cast(TokenSignIns, broker.state(TokenSignIns))
