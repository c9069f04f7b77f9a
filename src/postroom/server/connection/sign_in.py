"""Signing in: by SCRAM (RFC 5802, RFC 7677), where both ends prove that they know the password and neither
sends it, and whose password, sent by PLAIN, is checked next.

The library `scramp` speaks the protocol; here stands which users there are, and that names that don't exist
are answered as others are.
"""

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from typing import Final, cast

from scramp import ScramException, ScramMechanism  # type: ignore[import-untyped]

from postroom.amqp.frames.sasl import TLS_SERVER_END_POINT, without_binding
from postroom.server.configuration.config import LimitsConfig
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.passwords import (
    ITERATIONS,
    KEY_BYTES,
    SALT_BYTES,
    ScramVerifier,
    parse_hash,
    unmatched_hash,
)
from postroom.server.configuration.sign_in import SignInConfig
from postroom.server.connection.failed_sign_ins import FailedSignIns, Key, Refuse, key_of
from postroom.server.kernel.broker_state import BrokerState

MAX_KNOWN: Final = 10_000
"""Users with their addresses of which it is known that they have been let in."""

Decided = Callable[[str, bool | None, int], None]
"""Takes the answer to a login: the user, whether that is who it is (None: nobody has looked), and the time.
"""


BINDING_ERRORS: Final = frozenset(
    {
        "channel-bindings-dont-match",
        "server-does-support-channel-binding",
        "channel-binding-not-supported",
        "unsupported-channel-binding-type",
    }
)
"""Of RFC 5802's errors those that a client hears: they are found before anything is looked at that depends on
the user or the password."""


class SignInRefused(Exception):
    """The client hasn't shown that it knows the password of a user, or speaks another protocol."""

    def __init__(self, why: str, explanation: bytes = b"") -> None:
        """``explanation``: the message that says so to the client; empty: none does."""
        super().__init__(why)
        self.explanation: Final = explanation


class Verifiers:
    """The users of a broker by what they can sign in with."""

    def __init__(self, users: Mapping[str, tuple[str, ...]]) -> None:
        """``users``: name → what is kept of the password, in one form or several."""
        self._made: Final[dict[tuple[str, str], ScramVerifier]] = {}
        known = hashlib.sha256()
        for user, kept in sorted(users.items()):
            for text in kept:
                known.update(text.encode())
                verifier = parse_hash(text)
                if isinstance(verifier, ScramVerifier):
                    self._made[user, verifier.mechanism] = verifier
        self._secret: Final = known.digest()
        """Salts of unknown names come of it, the same after a restart as before."""

    def of(self, user: str, mechanism: str) -> ScramVerifier:
        """What ``user`` must match; for an unknown name what nobody matches, and looks like the others'."""
        return self._made.get((user, mechanism)) or self._unmatched(user, mechanism)

    def _unmatched(self, user: str, mechanism: str) -> ScramVerifier:
        like = next((made for (_, other), made in self._made.items() if other == mechanism), None)
        size = KEY_BYTES[mechanism]
        salt = hmac.digest(self._secret, f"{mechanism} {user}".encode(), "sha256")
        return ScramVerifier(
            mechanism,
            ITERATIONS if like is None else like.iterations,
            salt[: SALT_BYTES if like is None else len(like.salt)],
            os.urandom(size),
            os.urandom(size),
        )


class ScramSignIn:
    """One client's way in: `challenge`, then `finish`."""

    def __init__(self, mechanism: str, verifiers: Verifiers, end_point: bytes = b"") -> None:
        """``end_point``: what the connection is bound to, where mechanisms that bind are offered on it."""
        self.mechanism: Final = mechanism
        self.user = ""
        """Whom the client says it is; it is so once `finish` has returned."""
        self._verifiers: Final = verifiers
        binding = (TLS_SERVER_END_POINT, end_point) if end_point else None
        self._server: Final = ScramMechanism(mechanism).make_server(self._authenticate, binding)

    def _authenticate(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        self.user = user
        kept = self._verifiers.of(user, without_binding(self.mechanism))
        return kept.salt, kept.stored_key, kept.server_key, kept.iterations

    def challenge(self, response: bytes) -> bytes:
        """The server's first message for the client's first. Raises `SignInRefused`."""
        try:
            self._server.set_client_first(response.decode())
            message: str = self._server.get_server_first()
        except (ScramException, UnicodeDecodeError) as error:
            raise _refused(error) from error
        return message.encode()

    def finish(self, response: bytes) -> bytes:
        """The server's last message, which proves that it knows the user, too. Raises `SignInRefused`."""
        try:
            self._server.set_client_final(response.decode())
            message: str = self._server.get_server_final()
        except (ScramException, UnicodeDecodeError) as error:
            raise _refused(error) from error
        return message.encode()


def _refused(error: Exception) -> SignInRefused:
    code = error.server_error if isinstance(error, ScramException) else None
    if code is None or code.value not in BINDING_ERRORS:
        return SignInRefused(str(error))
    return SignInRefused(str(error), f"e={code.value}".encode())


class Login:
    """A name and password to be checked off the loop."""

    def __init__(
        self, remote: str, user: str, password: str, decided: Decided, is_wanted: Callable[[], bool]
    ) -> None:
        self.remote: Final = remote
        """``HOST:PORT`` from which it comes."""
        self.user: Final = user
        self.password: Final = password
        self.decided: Final = decided
        """To be called with the answer, as long as it is wanted."""
        self.is_wanted: Final = is_wanted
        """Whether somebody waits for the answer still."""


class SignIns:
    """Who may sign in, who is doing so, and whose password is checked next.

    A check costs tens of milliseconds, so whoever guesses passwords must not keep others waiting: first come
    those who have signed in before or have no failure behind them, by address and user, then by address.
    """

    def __init__(
        self,
        users: Mapping[str, tuple[str, ...]],
        config: SignInConfig | None = None,
        open_timeout_ms: int = LimitsConfig().open_timeout_ms,
    ) -> None:
        """``users``: name → what is kept of the password, in one form or several."""
        self.failures: Final = FailedSignIns(config or SignInConfig(), open_timeout_ms)
        self.takes_tokens = False
        """Whether OAuth tokens are."""
        self.users = users
        self.verifiers = Verifiers(users)
        self._no_user = unmatched_hash(users)
        """Checked for names that don't exist, so that the time taken doesn't tell."""
        self._offered: Final[dict[str, list[str]]] = {}
        """Mechanisms, by the listener's address."""
        self.logins: Final[list[Login]] = []
        """Passwords to be checked off the loop, as they came."""
        self._known: Final[dict[Key, None]] = {}
        """Who has signed in, from which address."""

    def replace_users(self, users: Mapping[str, tuple[str, ...]]) -> None:
        """Others may sign in from now on."""
        if users != self.users:
            self.users = users
            self.verifiers = Verifiers(users)
            self._offered.clear()

    def take_tokens(self, wanted: bool) -> None:
        """Offer mechanisms of tokens from now on, or don't."""
        self.takes_tokens = wanted
        self._offered.clear()

    def offered(self, listen: ListenConfig) -> list[str]:
        """The mechanisms by which one can sign in there, best first."""
        offered = self._offered.get(listen.address)
        if offered is None:
            offered = self._offered[listen.address] = listen.sasl_mechanisms(self.users, self.takes_tokens)
        return offered

    def kept_of(self, user: str) -> str:
        """What a password of ``user`` is checked against."""
        kept = self.users.get(user)
        return kept[0] if kept is not None else self._no_user

    def take(self) -> Login:
        """The login to be checked next; there is one."""
        best = min(range(len(self.logins)), key=lambda at: self._rank(self.logins[at]))
        return self.logins.pop(best)

    def _rank(self, login: Login) -> tuple[int, bool, int]:
        key = key_of(login.remote, login.user)
        return self.failures.count(key), key not in self._known, self.failures.count((key[0], ""))

    def succeeded(self, remote: str, user: str) -> None:
        """``user`` was let in from ``remote``."""
        key = key_of(remote, user)
        self.failures.forget(key)
        self._known.pop(key, None)
        self._known[key] = None
        while len(self._known) > MAX_KNOWN:  # what wasn't renewed for longest goes
            del self._known[next(iter(self._known))]

    def failed(self, remote: str, user: str, refuse: Refuse, now_us: int) -> None:
        """``user`` was not let in from ``remote``: have that said, now or later."""
        self.failures.add(remote, user, refuse, now_us)


def sign_ins_of(broker: BrokerState) -> SignIns:
    """Those of a broker."""
    return cast(SignIns, broker.state(SignIns))
