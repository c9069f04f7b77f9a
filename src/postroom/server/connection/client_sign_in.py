"""How the client of one connection signs in, by whatever mechanism (SASL: part 5, section 5.3)."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from postroom.amqp.engine.events import SaslInitReceived, SaslResponseReceived
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.frames.sasl import (
    ANONYMOUS,
    EXTERNAL,
    OAUTHBEARER,
    PLAIN,
    SASL_AUTH,
    SASL_SYS_TEMP,
    TOKEN_MECHANISMS,
)
from postroom.manager.security.acts import SIGN_IN, Act
from postroom.model.entity_types import USER_TYPE
from postroom.server.access.access import UNAUTHORIZED, access_of
from postroom.server.access.oauth import TokenRefused, VerifiedToken
from postroom.server.access.sign_in_policy import Arrival
from postroom.server.connection.sign_in import Login, ScramSignIn, SignInRefused, sign_ins_of
from postroom.server.connection.token_sign_in import INVALID_TOKEN, token_sign_ins_of
from postroom.server.kernel.connection_state import ANONYMOUS_USER, ConnectionState
from postroom.server.logs import log


class ClientSignIn:
    """Of one connection; ``handle`` carries out what the engine makes of an answer. Whose user is taken has
    it in ``connection.user``."""

    def __init__(
        self,
        connection: ConnectionState,
        arrival: Arrival,
        handle: Callable[[list[Event], int], None],
        end_point: bytes,
    ) -> None:
        """``end_point`` is what SCRAM is bound to here; empty: nothing."""
        self._connection: Final = connection
        self._arrival: Final = arrival
        self._handle: Final = handle
        self._broker: Final = connection.broker
        self._sign_ins: Final = sign_ins_of(connection.broker)
        self._access: Final = access_of(connection.broker)
        self._scram: ScramSignIn | None = None
        """What is under way."""
        self._end_point: Final = end_point
        self._explanation = b""
        """What is left to be told to a client that isn't let in, before the outcome."""

    def begin(self, event: SaslInitReceived, now_us: int) -> None:
        """The client has chosen a mechanism."""
        mechanism = event.mechanism
        if mechanism == ANONYMOUS:
            self._let_in(ANONYMOUS_USER, ANONYMOUS, now_us)
        elif mechanism == EXTERNAL:
            user, refusal = self._access.policy.holder(self._arrival, event.response, now_us)
            if refusal:
                self._reject(user, EXTERNAL, now_us, refusal)
            else:
                self._let_in(user, EXTERNAL, now_us)
        elif mechanism in TOKEN_MECHANISMS:
            decided = partial(self._token_decided, mechanism)
            token_sign_ins_of(self._broker).begin(event.response, decided, now_us)
        elif mechanism != PLAIN:
            self._scram = ScramSignIn(mechanism, self._sign_ins.verifiers, self._end_point)
            self._challenge(self._scram, event.response, now_us)
        elif event.authorize_as in ("", event.username):
            remote = self._connection.remote
            login = Login(remote, event.username, event.password, self._login_decided, self._waits)
            self._sign_ins.logins.append(login)
        else:
            self._reject(event.username, mechanism, now_us)

    def go_on(self, event: SaslResponseReceived, now_us: int) -> None:
        """The client has answered a challenge."""
        scram = self._scram
        if scram is None:  # the client has taken notice of why it was refused
            self._refuse(now_us)
            return
        if self._sign_ins.failures.crowded(self._connection.remote, scram.user):  # since the challenge
            self._turn_away(scram.user, scram.mechanism, now_us)
            return
        try:
            proof = scram.finish(event.response)
        except SignInRefused as refused:
            self._reject_scram(scram, refused, now_us)
        else:
            self._let_in(scram.user, scram.mechanism, now_us, proof)

    def _challenge(self, scram: ScramSignIn, response: bytes, now_us: int) -> None:
        try:
            challenge = scram.challenge(response)
        except SignInRefused as refused:
            self._reject_scram(scram, refused, now_us)
            return
        if self._sign_ins.failures.crowded(self._connection.remote, scram.user):
            self._turn_away(scram.user, scram.mechanism, now_us)
        else:
            self._handle(self._connection.engine.sasl_challenge(challenge), now_us)

    def _token_decided(self, mechanism: str, token: VerifiedToken | TokenRefused, now_us: int) -> None:
        if not self._waits():
            return
        connection = self._connection
        if isinstance(token, VerifiedToken) and not self._access.may_sign_in(token.user, by_token=True):
            token = TokenRefused("the user is locked, or a role", token.user)
        if isinstance(token, TokenRefused):
            self._record_refusal(token.user, mechanism, str(token), now_us)
            self._explanation = INVALID_TOKEN if mechanism == OAUTHBEARER else b""
            self._sign_ins.failed(connection.remote, "", self._refuse, now_us)
            return
        connection.by_token, connection.roles = True, token.roles
        token_sign_ins_of(self._broker).expires(connection, token.expires_us)
        self._let_in(token.user, mechanism, now_us)

    def _login_decided(self, user: str, accepted: bool | None, now_us: int) -> None:
        """The answer to a `Login`; None: too many have failed from there, it may try again later."""
        if accepted is None:
            self._turn_away(user, PLAIN, now_us)
        elif accepted:
            self._let_in(user, PLAIN, now_us)
        else:
            self._reject(user, PLAIN, now_us)

    def _let_in(self, user: str, mechanism: str, now_us: int, proof: bytes | None = None) -> None:
        """The client is ``user``, and may come in if no rule is against it."""
        connection = self._connection
        refusal = self._access.policy.refusal(self._arrival, user, mechanism, connection.roles)
        if refusal:
            self._reject(user, mechanism, now_us, refusal)
            return
        connection.user = user
        if mechanism != ANONYMOUS:
            self._sign_ins.succeeded(connection.remote, user)
        self._handle(connection.engine.sasl_accept(proof), now_us)

    def _reject(self, user: str, mechanism: str, now_us: int, reason: str = "") -> None:
        self._record_refusal(user, mechanism, reason, now_us)
        self._sign_ins.failed(self._connection.remote, user, self._refuse, now_us)

    def _reject_scram(self, scram: ScramSignIn, refused: SignInRefused, now_us: int) -> None:
        self._scram, self._explanation = None, refused.explanation
        self._reject(scram.user, scram.mechanism, now_us, str(refused))

    def _turn_away(self, user: str, mechanism: str, now_us: int) -> None:
        self._record_refusal(user, mechanism, "too many refusals for that user or address wait", now_us)
        self._handle(self._connection.engine.sasl_reject(SASL_SYS_TEMP), now_us)

    def _record_refusal(self, user: str, mechanism: str, reason: str, now_us: int) -> None:
        why, remote = {"reason": reason} if reason else {}, self._connection.remote
        log(logging.WARNING, "login-refused", remote=remote, user=user, mechanism=mechanism, **why)
        what = f"by {mechanism}: {reason}" if reason else f"by {mechanism}"
        act = Act(user, remote, "", SIGN_IN, USER_TYPE, user, UNAUTHORIZED, what)
        self._access.acts.refused(act, now_us)

    def _refuse(self, now_us: int) -> None:
        """What there is to explain (RFC 5802, section 5.1; RFC 7628, section 3.2.2) is a challenge: the
        client answers, and then hears the outcome."""
        if not self._waits():
            return
        explanation, self._explanation = self._explanation, b""
        engine = self._connection.engine
        answer = engine.sasl_challenge(explanation) if explanation else engine.sasl_reject(SASL_AUTH)
        self._handle(answer, now_us)

    def _waits(self) -> bool:
        """Whether there is somebody who waits for an answer."""
        connection = self._connection
        is_over = connection.failed or connection.engine.finished
        return connection in self._broker.connections and not is_over
