"""Sessions of users who have signed in by name and password: what a cookie stands for.

A cookie has 256 random bits and is kept as their hash. A session ends by sign-out, when nothing has come for
a while, after its longest time, and as soon as the user's password changes or the user is locked.
"""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from postroom.server.configuration.http import HttpConfig
from postroom.server.http.errors import Refusal
from postroom.server.http.sign_in import SignedIn

SECRET_BYTES: Final = 32
MAX_SESSIONS_OF_USER: Final = 50
"""One more ends the one that was quiet longest."""
MAX_COOKIE_CHARS: Final = 200


class Session:
    """One, from signing in to its end."""

    def __init__(self, signed_in: SignedIn, now_s: float) -> None:
        self.user: Final = signed_in.user
        self.kept: Final = signed_in.kept
        self.csrf_token: Final = secrets.token_urlsafe(SECRET_BYTES)
        """Shown with every unsafe request."""
        self.began_s: Final = now_s
        self.used_s = now_s
        self.ended = False


class Sessions:
    """Those of one broker; used in the thread that serves HTTP alone, but for `replace_users`."""

    def __init__(
        self, config: HttpConfig, users: Mapping[str, tuple[str, ...]], clock_s: Callable[[], float]
    ) -> None:
        """``users``: name → what is kept of the password, of those who may sign in."""
        self._config: Final = config
        self._users = users
        self._clock_s: Final = clock_s
        self._sessions: Final[OrderedDict[str, Session]] = OrderedDict()
        """By the hash of the cookie; the one used last at the end."""

    def replace_users(self, users: Mapping[str, tuple[str, ...]]) -> None:
        """From any thread: others may sign in, or with other passwords."""
        self._users = users

    def begin(self, signed_in: SignedIn) -> tuple[str, Session]:
        """A new session, and its cookie's value. Raises `Refusal` where there are too many."""
        self._drop_over()
        own = [key for key, each in self._sessions.items() if each.user == signed_in.user]
        if len(own) >= MAX_SESSIONS_OF_USER:
            self._end(own[0])
        if len(self._sessions) >= self._config.max_sessions:
            what = f"{self._config.max_sessions} sessions are open, as many as max_sessions allows"
            raise Refusal(503, "too-many-sessions", what, {"retry-after": "60"})
        cookie = secrets.token_urlsafe(SECRET_BYTES)
        made = self._sessions[_key_of(cookie)] = Session(signed_in, self._clock_s())
        return cookie, made

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie, used now; None: there is none, or it is over."""
        if not 0 < len(cookie) <= MAX_COOKIE_CHARS:
            return None
        key = _key_of(cookie)
        found = self._sessions.get(key)
        if found is None or not self.lives(found):
            self._end(key)
            return None
        found.used_s = self._clock_s()
        self._sessions.move_to_end(key)
        return found

    def lives(self, session: Session) -> bool:
        """Whether it isn't over: a stream, which sends nothing, asks."""
        now_s = self._clock_s()
        return (
            not session.ended
            and now_s - session.used_s < self._config.session_idle_s
            and now_s - session.began_s < self._config.session_lifetime_s
            and self._users.get(session.user) == session.kept
        )

    def end(self, cookie: str) -> None:
        """The user has signed out."""
        self._end(_key_of(cookie))

    def _end(self, key: str) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            session.ended = True

    def _drop_over(self) -> None:
        for key in [key for key, each in self._sessions.items() if not self.lives(each)]:
            self._end(key)


def _key_of(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).hexdigest()
