"""Signing in over HTTP with the broker's users: by the same checks, rules and records as over SASL.

What is here runs in the broker's thread but for the methods that wait for it.
"""

import asyncio
import logging
from functools import partial
from typing import Final, NamedTuple, TypeVar

from postroom.amqp.frames.sasl import OAUTHBEARER, PLAIN
from postroom.manager.security.acts import SIGN_IN, Act
from postroom.model.entity_types import USER_TYPE
from postroom.server.access.access import UNAUTHORIZED
from postroom.server.access.oauth import TokenRefused, VerifiedToken
from postroom.server.access.sign_in_policy import Arrival
from postroom.server.configuration.http import HttpConfig
from postroom.server.connection.broker import Broker
from postroom.server.connection.sign_in import Login
from postroom.server.http.errors import Refusal
from postroom.server.http.gateway import Command, Pending
from postroom.server.logs import log
from postroom.server.management.request import OK, Requester

CONTAINER: Final = "http"
"""In place of a container id, in the record of acts."""
MAX_CREDENTIAL_CHARS: Final = 1024
"""Of a name, and of a password."""
BEARER: Final = {"www-authenticate": 'Bearer realm="postroom"'}

T = TypeVar("T")


class SignedIn(NamedTuple):
    """Who, and what is kept of the password that was right: the session ends when that changes."""

    user: str
    kept: tuple[str, ...]


class HttpSignIn:
    """Of one broker."""

    def __init__(self, broker: Broker, command: Command, config: HttpConfig) -> None:
        self._broker: Final = broker
        self._access: Final = broker.access
        self._command: Final = command
        self._listen: Final = config.address
        """Which rules of sign-in speak of."""
        self._timeout_ms: Final = config.management_timeout_ms

    async def by_password(self, user: str, password: str, remote: str) -> SignedIn:
        """Check them. Raises `Refusal`: at once, or later who has failed before."""
        if max(len(user), len(password)) > MAX_CREDENTIAL_CHARS:
            raise Refusal(
                413, "too-long", f"a name or password has {MAX_CREDENTIAL_CHARS} characters at most"
            )
        pending = Pending[SignedIn | Refusal]()
        decided = partial(self._login_decided, pending, remote)
        login = Login(remote, user, password, decided, lambda: not pending.future.cancelled())
        self._command(lambda _: self._broker.sign_ins.logins.append(login))
        return await self._decided(pending)

    async def by_web_token(self, token: str, remote: str) -> Requester:
        """Check a JSON Web Token of the configured issuer. Raises `Refusal`."""
        pending = Pending[Requester | Refusal]()
        decided = partial(self._token_decided, pending, remote)
        self._command(partial(self._broker.tokens.check, token, decided))
        return await self._decided(pending)

    async def _decided(self, pending: Pending[T | Refusal]) -> T:
        try:
            answer = await asyncio.wait_for(pending.future, self._timeout_ms / 1000)
        except TimeoutError:
            raise Refusal(504, "too-slow", f"not decided within {self._timeout_ms} ms") from None
        if isinstance(answer, Refusal):
            raise answer
        return answer

    # In the broker's thread.

    def _login_decided(
        self,
        pending: Pending[SignedIn | Refusal],
        remote: str,
        user: str,
        accepted: bool | None,
        now_us: int,
    ) -> None:
        sign_ins = self._broker.sign_ins
        if accepted is None:
            what = "too many refusals for that user or address wait"
            self._record(user, remote, PLAIN, what, now_us)
            pending.give(Refusal(429, "too-many-sign-ins", what, {"retry-after": "5"}))
            return
        reason = self._access.policy.refusal(self.arrival(remote), user, PLAIN) if accepted else ""
        if accepted and not reason:
            sign_ins.succeeded(remote, user)
            act = Act(user, remote, CONTAINER, SIGN_IN, USER_TYPE, user, OK, f"by {PLAIN}, over HTTP")
            self._access.acts.done(act, now_us)
            pending.give(SignedIn(user, sign_ins.users.get(user, ())))
            return
        self._record(user, remote, PLAIN, reason, now_us)
        refusal = Refusal(401, "wrong-sign-in", "no such user, wrong password, or not from here", BEARER)
        sign_ins.failed(remote, user, lambda _: pending.give(refusal), now_us)

    def _token_decided(
        self,
        pending: Pending[Requester | Refusal],
        remote: str,
        token: VerifiedToken | TokenRefused,
        now_us: int,
    ) -> None:
        access = self._access
        if isinstance(token, VerifiedToken):
            reason = access.policy.refusal(self.arrival(remote), token.user, OAUTHBEARER, token.roles)
            if not access.may_sign_in(token.user, by_token=True):
                reason = "the user is locked, or a role"
            if not reason:
                pending.give(Requester(token.user, remote, CONTAINER, token.roles))
                return
        else:
            reason = str(token)
        self._record(token.user, remote, OAUTHBEARER, reason, now_us)
        refusal = Refusal(401, "bad-token", "the token is not taken", BEARER)
        self._broker.sign_ins.failed(remote, "", lambda _: pending.give(refusal), now_us)

    def arrival(self, remote: str) -> Arrival:
        """Where a request comes in, for the rules of sign-in."""
        return Arrival(remote, self._listen)

    def _record(self, user: str, remote: str, mechanism: str, reason: str, now_us: int) -> None:
        what = f"by {mechanism}, over HTTP" + (f": {reason}" if reason else "")
        log(logging.WARNING, "login-refused", remote=remote, user=user, mechanism=mechanism, reason=what)
        act = Act(user, remote, CONTAINER, SIGN_IN, USER_TYPE, user, UNAUTHORIZED, what)
        self._access.acts.refused(act, now_us)
