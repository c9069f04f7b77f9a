"""What connections may do, asked where they do it, and what becomes of those that may no more.

Rights are decided at attach; a message to the anonymous terminus, and each request to the management node,
ask again (`Rights` remembers what it has decided). A change of users, roles or grants holds at once: links
that wouldn't be let in any more are detached, connections of users who are gone or locked are closed.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol, cast

from postroom.amqp.encoding.composite import Error
from postroom.amqp.errors import UNAUTHORIZED_ACCESS, AmqpError
from postroom.manager.kernel.name_rules import SUBSCRIPTION_MARK
from postroom.manager.security.acts import ATTACH, Act
from postroom.manager.security.principal_definition import USER, PrincipalDefinition
from postroom.model.rights import QUEUE_MANAGER, Right, Rights
from postroom.server.access.acts import Acts
from postroom.server.access.sign_in_policy import SignInPolicy
from postroom.server.access.verifier_file import VerifierMemory, VerifierStore
from postroom.server.configuration.config import Config
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.kernel.connection_state import ANONYMOUS_USER, ConnectionState
from postroom.server.logs import log

FORBIDDEN: Final = 403
UNAUTHORIZED: Final = 401
"""Of a failed sign-in."""


class Requester(Protocol):
    """A connection, or a request that has come over one."""

    @property
    def user(self) -> str: ...

    @property
    def roles(self) -> tuple[str, ...]: ...


class Access:
    """Rights of the users of one broker."""

    def __init__(self, broker: BrokerState, verifiers: VerifierStore | None = None) -> None:
        self.acts: Final = Acts(broker.manager.security)
        self.verifiers: Final = verifiers or VerifierMemory()
        self.listeners: Final[list[Callable[[dict[str, tuple[str, ...]]], None]]] = []
        """Called with the users and what they sign in with, when these have changed."""
        self.owners: Final[dict[str, str]] = {}
        """Of dynamic nodes: who has had one made may do with it what is done with destinations."""
        self.policy: Final = SignInPolicy(broker.manager.security.principals)
        self._broker: Final = broker
        self._security: Final = broker.manager.security
        self.configure(broker.config)

    # Users.

    def configure(self, config: Config) -> None:
        """Take the users, roles and rules of a configuration."""
        self.policy.configure(config)
        self._configured_users = {user: kept for user, kept in config.passwords.items() if kept}
        users = [PrincipalDefinition(name) for name in config.users]
        roles = [each.definition() for each in config.role if each.defines]
        self._security.configure([*users, *roles], {each.name: each.members for each in config.role})

    @property
    def in_force(self) -> bool:
        """Whether rights are asked for at all: somebody is defined."""
        return self._security.in_force

    def users(self) -> dict[str, tuple[str, ...]]:
        """User name → what they can sign in with; those who can't are left out."""
        found = dict(self._configured_users)
        for name, principal in self._security.principals.by_name.items():
            kept = map(self.verifiers.get, principal.definition.verifiers)
            texts = tuple(text for text in kept if text is not None)
            if name not in found and texts and not principal.definition.locked:
                found[name] = texts
        return found

    def forget_unused_verifiers(self) -> None:
        """What no definition names, once what names it no more is durable."""
        principals = self._security.principals.by_name.values()
        self.verifiers.keep_only([id for each in principals for id in each.definition.verifiers])

    # Questions.

    def rights_of(self, who: Requester) -> Rights:
        """What somebody may do, by name and by the roles of the token, if there is one."""
        return self._security.rights_of(who.user, who.roles)

    def may(self, who: Requester, right: Right, address: str) -> bool:
        """Whether ``who`` has ``right`` on a destination, or on the topic of a subscription."""
        return self.has(self.rights_of(who), who.user, right, self.governing_name(address))

    def has(self, rights: Rights, user: str, right: Right, name: str) -> bool:
        """Whether ``rights``, those of ``user``, give ``right`` on a destination, or it is the user's own."""
        return rights.on(right, name) or self.owners.get(name) == user

    def governing_name(self, address: str) -> str:
        """The name that grants speak of: without this queue manager's own, and a subscription's topic."""
        return self._broker.manager.names.local(address).partition(SUBSCRIPTION_MARK)[0]

    def require(
        self, connection: ConnectionState, right: Right, address: str, operation: str = ATTACH
    ) -> tuple[Right, str]:
        """Raise `AmqpError` unless the connection's user has ``right`` on a destination; what was asked."""
        name = self.governing_name(address)
        if not self.has(self.rights_of(connection), connection.user, right, name):
            what = missing(connection.user, right, name)
            self.refused(connection, operation, "destination", name, what)
            raise AmqpError(UNAUTHORIZED_ACCESS, what)
        return right, name

    def require_on_queue_manager(
        self, connection: ConnectionState, right: Right, operation: str, type: str, name: str
    ) -> None:
        """As `require`, of a right on the queue manager, which the thing of that type and name asks for."""
        if not self.rights_of(connection).on_queue_manager(right):
            what = missing(connection.user, right, QUEUE_MANAGER)
            self.refused(connection, operation, type, name, what)
            raise AmqpError(UNAUTHORIZED_ACCESS, what)

    def refused(self, connection: ConnectionState, operation: str, type: str, name: str, what: str) -> None:
        """Something was refused for want of a right."""
        act = Act(
            user=connection.user,
            remote=connection.remote,
            container=connection.container_id,
            operation=operation,
            type=type,
            name=name,
            status=FORBIDDEN,
            description=what,
        )
        self.acts.refused(act, self._broker.manager.core.now_us)

    def on_queue_manager(self) -> dict[str, frozenset[Right]] | None:
        """What each user has on the queue manager; None where everybody may do everything."""
        if not self.in_force:
            return None
        users = [each.name for each in self._security.principals.all() if each.kind == USER]
        held = {user: self._security.rights_of(user) for user in users}
        return {user: frozenset(filter(rights.on_queue_manager, Right)) for user, rights in held.items()}

    # Changes.

    def changed(self) -> None:
        """Users, roles or grants have changed: who may no more, goes."""
        users = self.users()
        for listener in self.listeners:
            listener(users)
        self._recheck()

    def _recheck(self) -> None:
        for connection in list(self._broker.connections):
            if connection.by_us:
                continue
            if not self._is_known(connection):
                what = f"user {connection.user!r} may sign in no more"
                log(logging.WARNING, "connection-refused", remote=connection.remote, reason=what)
                connection.close(UNAUTHORIZED_ACCESS, what)
                continue
            rights = self.rights_of(connection)
            for bound in list(connection.links.values()):
                missed = (need for need in bound.needs if not self.has(rights, connection.user, *need))
                lacking = next(missed, None)
                if lacking is not None:
                    what = missing(connection.user, *lacking)
                    self.refused(connection, ATTACH, "destination", lacking[1], what)
                    connection.end_link(bound, Error(UNAUTHORIZED_ACCESS, what))

    def _is_known(self, connection: ConnectionState) -> bool:
        if connection.user == ANONYMOUS_USER or not self.in_force:
            return True
        return self.may_sign_in(connection.user, connection.by_token)

    def may_sign_in(self, user: str, by_token: bool) -> bool:
        """Whether there is such a user who isn't locked; of a token nobody needs to know the user."""
        return self.policy.is_user(user) or (by_token and self._security.principals.get(user) is None)


def missing(user: str, right: Right, name: str) -> str:
    """What a refusal says."""
    on = name if name == QUEUE_MANAGER else repr(name)
    return f"user {user!r} has no right {right.value!r} on {on}"


def access_of(broker: BrokerState) -> Access:
    """That of a broker."""
    return cast(Access, broker.state(Access))
