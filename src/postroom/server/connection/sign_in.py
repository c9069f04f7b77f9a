"""Signing in: by SCRAM (RFC 5802, RFC 7677), where both ends prove that they know the password and neither
sends it, and whose password, sent by PLAIN, is checked next.

The library `scramp` speaks the protocol; here stands which users there are, and that names that don't exist
are answered as others are.
"""

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from scramp import ScramException, ScramMechanism  # type: ignore[import-untyped]

from postroom.server.configuration.passwords import (
    ITERATIONS,
    KEY_BYTES,
    SALT_BYTES,
    ScramVerifier,
    parse_hash,
)
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.kernel.connection_state import ConnectionState

MAX_REMEMBERED: Final = 10_000
"""Users with their addresses of which it is known that they have, or haven't, been let in."""
MAX_REMEMBERED_CHARS: Final = 256
"""Of a user's name."""

Decided = Callable[[str, bool, int], None]
"""Takes the answer to a login: the user, whether that is who it is, and the time."""


class SignInRefused(Exception):
    """The client hasn't shown that it knows the password of a user, or speaks another protocol."""


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

    def __init__(self, mechanism: str, verifiers: Verifiers) -> None:
        self.mechanism: Final = mechanism
        self.user = ""
        """Whom the client says it is; it is so once `finish` has returned."""
        self._verifiers: Final = verifiers
        self._server: Final = ScramMechanism(mechanism).make_server(self._authenticate)

    def _authenticate(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        self.user = user
        kept = self._verifiers.of(user, self.mechanism)
        return kept.salt, kept.stored_key, kept.server_key, kept.iterations

    def challenge(self, response: bytes) -> bytes:
        """The server's first message for the client's first. Raises `SignInRefused`."""
        try:
            self._server.set_client_first(response.decode())
            message: str = self._server.get_server_first()
        except (ScramException, UnicodeDecodeError) as error:
            raise SignInRefused(str(error)) from error
        return message.encode()

    def finish(self, response: bytes) -> bytes:
        """The server's last message, which proves that it knows the user, too. Raises `SignInRefused`."""
        try:
            self._server.set_client_final(response.decode())
            message: str = self._server.get_server_final()
        except (ScramException, UnicodeDecodeError) as error:
            raise SignInRefused(str(error)) from error
        return message.encode()


class Login:
    """A name and password to be checked off the loop."""

    def __init__(self, binding: ConnectionState, user: str, password: str, decided: Decided) -> None:
        self.binding: Final = binding
        self.user: Final = user
        self.password: Final = password
        self.decided: Final = decided
        """To be called with the answer, while the connection lives."""


class SignIns:
    """Who is signing in, and whose password is checked next.

    A check costs tens of milliseconds, so whoever guesses passwords must not keep others waiting: first come
    those who have signed in before or have no failure behind them, by address and user, then by address.
    """

    def __init__(self, users: Mapping[str, tuple[str, ...]]) -> None:
        self.verifiers: Final = Verifiers(users)
        self.logins: Final[list[Login]] = []
        """Passwords to be checked off the loop, as they came."""
        self._failures: Final[dict[tuple[str, str], int]] = {}
        """Since the last success, by address and user; by address alone with user ""."""
        self._known: Final[dict[tuple[str, str], None]] = {}
        """Who has signed in, from which address."""

    def take(self) -> Login:
        """The login to be checked next; there is one."""
        best = min(range(len(self.logins)), key=lambda at: self._rank(self.logins[at]))
        return self.logins.pop(best)

    def _rank(self, login: Login) -> tuple[int, bool, int]:
        key = _key(login.binding.remote, login.user)
        of_address = self._failures.get((key[0], ""), 0)
        return self._failures.get(key, 0), key not in self._known, of_address

    def note(self, remote: str, user: str, accepted: bool) -> None:
        """``user`` was let in from ``remote``, or was not."""
        key = _key(remote, user)
        if accepted:
            self._failures.pop(key, None)
            self._known.pop(key, None)
            self._known[key] = None
            _bound(self._known)
            return
        for each in (key, (key[0], "")):
            self._failures[each] = self._failures.pop(each, 0) + 1
        _bound(self._failures)


def _key(remote: str, user: str) -> tuple[str, str]:
    """The host of ``HOST:PORT``, and the user."""
    return remote.rpartition(":")[0] or remote, user[:MAX_REMEMBERED_CHARS]


def _bound(remembered: dict[tuple[str, str], Any]) -> None:
    """What wasn't renewed for longest goes."""
    while len(remembered) > MAX_REMEMBERED:
        del remembered[next(iter(remembered))]


def sign_ins_of(broker: BrokerState) -> SignIns:
    """Those of a broker."""
    return cast(SignIns, broker.state(SignIns))
