"""Limits of connections, links, bytes and messages, by user and by listener.

Connections and links over a limit are refused. Rates are held by back pressure: what has come is taken and
paid for from a bucket that holds one second's worth, and while that is overdrawn nothing more is read from
the sockets of those who share it. Connections without a limit are not looked at.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, cast

from postroom.amqp.encoding.composite import Error
from postroom.amqp.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from postroom.server.configuration.config import Config
from postroom.server.configuration.limits import TrafficLimits
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.kernel.connection_state import ConnectionState

USER: Final = "user"
LISTENER: Final = "listener"
EVERY_USER: Final = "*"
UNOPENED_FACTOR: Final = 2
"""A listener accepts so many times its connections, as those over the limit are told so in their open; more
are cut as they come."""
MIN_PAUSE_US: Final = 10_000
"""A shorter pause costs more than it slows down."""
MAX_IDLE_USERS: Final = 1000
"""Whose buckets are kept, beside those of users with connections."""
SECOND_US: Final = 1_000_000

Resume = Callable[[], None]


class Bucket:
    """What may be taken at once, one second's worth at most; below 0 it is overdrawn."""

    def __init__(self, per_s: int) -> None:
        self.per_s = per_s
        """0: no limit."""
        self._left: float = per_s
        self._at_us = 0

    def configure(self, per_s: int) -> None:
        """Another rate from now on."""
        self._left = per_s if self.per_s == 0 else min(self._left, per_s)
        self.per_s = per_s

    def take(self, amount: int, now_us: int) -> None:
        """Take so much, though it may not be there."""
        if self.per_s:
            earned = max(0, now_us - self._at_us) * self.per_s / SECOND_US
            self._left = min(self.per_s, self._left + earned) - amount
            self._at_us = max(self._at_us, now_us)

    def wait_us(self, now_us: int) -> int:
        """How long until it isn't overdrawn."""
        self.take(0, now_us)
        return int(-self._left * SECOND_US / self.per_s) + 1 if self.per_s and self._left < 0 else 0


class Share:
    """A user or a listener, and its connections."""

    def __init__(self, kind: str, name: str, limits: TrafficLimits) -> None:
        self.kind: Final = kind
        self.name: Final = name
        self.connections: Final[dict[ConnectionState, None]] = {}
        self.paused_us = 0
        """How long its limits have kept connections from being read, all together."""
        self._bytes: Final = Bucket(limits.max_bytes_per_s)
        self._messages: Final = Bucket(limits.max_messages_per_s)
        self.configure(limits)

    def configure(self, limits: TrafficLimits) -> None:
        """Other limits from now on; what is over them stays."""
        self.limits = limits
        self._bytes.configure(limits.max_bytes_per_s)
        self._messages.configure(limits.max_messages_per_s)

    @property
    def has_rate(self) -> bool:
        return bool(self.limits.max_bytes_per_s or self.limits.max_messages_per_s)

    def take(self, size_bytes: int, messages: int, now_us: int) -> None:
        """So much has come over one of its connections."""
        self._bytes.take(size_bytes, now_us)
        self._messages.take(messages, now_us)

    def wait_us(self, now_us: int) -> int:
        """How long nothing more is to be read."""
        return max(self._bytes.wait_us(now_us), self._messages.wait_us(now_us))

    def check_connection(self) -> None:
        """Raise `AmqpError` where another connection is too many."""
        limit = self.limits.max_connections
        if 0 < limit <= len(self.connections):  # those that are closed may not be gone yet
            self._check(sum(not each.engine.finished for each in self.connections), limit, "connections")

    def check_link(self) -> None:
        """Raise `AmqpError` where another link is too many."""
        limit = self.limits.max_links
        if limit:
            self._check(sum(len(each.links) for each in self.connections), limit, "links")

    def _check(self, count: int, limit: int, what: str) -> None:
        if count >= limit:
            whose = f"{self.kind} {self.name!r}"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"{whose} has {count} {what} of {limit} (max_{what})")


class Traffic:
    """The limits of one broker."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker: Final = broker
        self._shares: Final[dict[tuple[str, str], Share]] = {}
        self._of: Final[dict[ConnectionState, list[Share]]] = {}
        """Opened connections that have limits."""
        self._accepted: Final[Counter[str]] = Counter()
        """Connections by listener, opened or not."""
        self._held: Final[dict[ConnectionState, tuple[int, Resume]]] = {}
        """Connections that aren't read: until when, and how to go on."""
        self._next_us = 0
        self._limits: dict[tuple[str, str], TrafficLimits] = {}
        self.configure(broker.config)

    def configure(self, config: Config) -> None:
        """Take the limits of a configuration; connections and links that are there stay."""
        self._limits = {(LISTENER, each.address): each for each in config.listen}
        self._limits |= {(USER, each.user): each for each in config.user_limit}
        for share in self._shares.values():
            share.configure(self._limits_of(share.kind, share.name) or TrafficLimits())
        for connection in self._broker.connections:
            if connection.engine.peer_open is not None:
                self._join(connection)

    def shares(self) -> list[Share]:
        """All that have had connections under limits."""
        return list(self._shares.values())

    # Connections and links.

    def accepts(self, listener: str) -> bool:
        """Whether another connection is taken there at all."""
        limits = self._limits.get((LISTENER, listener))
        limit = limits.max_connections if limits is not None else 0
        return not limit or self._accepted[listener] < UNOPENED_FACTOR * limit

    def accepted(self, connection: ConnectionState) -> None:
        """It counts at its listener."""
        self._accepted[connection.listener] += 1

    def admit(self, connection: ConnectionState) -> Error | None:
        """The user of a connection is known: what to close it with, where it is one too many."""
        shares = self._shares_of(connection)
        try:
            for share in shares:
                share.check_connection()
        except AmqpError as error:
            return Error(error.condition, error.description)
        return None

    def opened(self, connection: ConnectionState) -> None:
        """It was let in."""
        self._join(connection)

    def check_link(self, connection: ConnectionState) -> None:
        """Raise `AmqpError` where another link on ``connection`` is too many."""
        for share in self._of.get(connection, ()):
            share.check_link()

    def gone(self, connection: ConnectionState) -> None:
        """Its socket is closed."""
        if not connection.by_us:
            self._accepted[connection.listener] -= 1
        self._leave(connection)
        self._held.pop(connection, None)

    def _limits_of(self, kind: str, name: str) -> TrafficLimits | None:
        found = self._limits.get((kind, name))
        return self._limits.get((USER, EVERY_USER)) if found is None and kind == USER else found

    def _shares_of(self, connection: ConnectionState) -> list[Share]:
        found = []
        for kind, name in ((LISTENER, connection.listener), (USER, connection.user)):
            limits = None if connection.by_us else self._limits_of(kind, name)
            if limits is not None and _limits_anything(limits):
                share = self._shares.get((kind, name))
                if share is None:
                    self._forget_idle()
                    share = self._shares[kind, name] = Share(kind, name, limits)
                found.append(share)
        return found

    def _forget_idle(self) -> None:
        if len(self._shares) < MAX_IDLE_USERS:
            return
        now_us = self._broker.manager.core.now_us
        idle = [
            key for key, each in self._shares.items() if not each.connections and not each.wait_us(now_us)
        ]
        for key in idle[: len(self._shares) - MAX_IDLE_USERS + 1]:
            del self._shares[key]

    def _join(self, connection: ConnectionState) -> None:
        self._leave(connection)
        shares = self._shares_of(connection)
        for share in shares:
            share.connections[connection] = None
        if shares:
            self._of[connection] = shares
        connection.metered = any(share.has_rate for share in shares)

    def _leave(self, connection: ConnectionState) -> None:
        for share in self._of.pop(connection, ()):
            share.connections.pop(connection, None)

    # Rates.

    def took(
        self, connection: ConnectionState, size_bytes: int, messages: int, resume: Resume, now_us: int
    ) -> bool:
        """So much has come over ``connection``. Whether nothing more is to be read from it until ``resume``
        is called."""
        for share in self._of.get(connection, ()):
            share.take(size_bytes, messages, now_us)
        return self._hold(connection, resume, now_us)

    def is_held(self, connection: ConnectionState) -> bool:
        """Whether it isn't read at the moment."""
        return connection in self._held

    def _hold(self, connection: ConnectionState, resume: Resume, now_us: int) -> bool:
        waits = [(share.wait_us(now_us), share) for share in self._of.get(connection, ())]
        pause_us = max((wait_us for wait_us, _ in waits), default=0)
        if not pause_us:
            return False
        pause_us = max(pause_us, MIN_PAUSE_US)
        for wait_us, share in waits:
            share.paused_us += pause_us if wait_us else 0
        due_us = now_us + pause_us
        self._held[connection] = (due_us, resume)
        self._next_us = min(self._next_us or due_us, due_us)
        return True

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never."""
        return self._next_us

    def on_time(self, now_us: int) -> None:
        """Go on with those whose buckets have filled."""
        if not 0 < self._next_us <= now_us:
            return
        self._next_us = min((due for due, _ in self._held.values() if due > now_us), default=0)
        for connection, (due_us, resume) in list(self._held.items()):
            if due_us <= now_us:
                del self._held[connection]
                if not self._hold(connection, resume, now_us):
                    resume()


def _limits_anything(limits: TrafficLimits) -> bool:
    return any(getattr(limits, name) for name in TrafficLimits.__struct_fields__)


def traffic_of(broker: BrokerState) -> Traffic:
    """That of a broker."""
    return cast(Traffic, broker.state(Traffic))
