"""What the rooms of the server share of the broker: its queue manager, its ledger, its connections and what
they wait for.

The composition is `connection.broker.Broker`. What belongs to one feature is state of its own, kept here
under its class; a function of the feature asks for it (`registry_of`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from postroom.ledger.format.block import BlockBuilder
from postroom.ledger.retention.leases import Lease, Leases
from postroom.manager.manager import QueueManager
from postroom.model.message import MessageHead
from postroom.server.alarms import Alarms
from postroom.server.configuration.config import Config

if TYPE_CHECKING:
    from postroom.server.kernel.bound_link import BoundLink
    from postroom.server.kernel.connection_state import ConnectionState


class LedgerFace(Protocol):
    """What the broker needs of the ledger."""

    @property
    def builder(self) -> BlockBuilder: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def ledger_id(self) -> UUID: ...

    @property
    def epoch(self) -> int: ...

    @property
    def epoch_id(self) -> bytes: ...

    @property
    def space_short(self) -> bool: ...

    @property
    def space_low(self) -> bool: ...

    @property
    def free_bytes(self) -> int: ...

    @property
    def most_unsynced_bytes(self) -> int:
        """What may wait for the disk, by the ledger's reserve."""

    @property
    def in_flight(self) -> bool: ...

    def tend(self, now_us: int) -> list[Lease]: ...

    def submit(self) -> bool: ...

    def mark_idle(self) -> bool: ...

    def complete(self) -> int: ...


class BrokerState:
    """One queue manager with its ledger and its connections."""

    def __init__(
        self, config: Config, ledger: LedgerFace, manager: QueueManager, new_name: Callable[[], str]
    ) -> None:
        """``new_name`` gives a name that no one else has or guesses, for dynamic nodes."""
        self.config: Final = config
        self.ledger: Final = ledger
        self.manager: Final = manager
        self.new_name: Final = new_name
        self.ledger_id: Final = ledger.ledger_id.hex
        """By which partners of channels know it again, whatever its name."""
        self.connections: Final[dict[ConnectionState, None]] = {}
        """In the order in which they came."""
        self.connections_high = 0
        """Most at a time, and all, since the start or the last reset."""
        self.connections_total = 0
        self.touched: Final[dict[ConnectionState, None]] = {}
        """Connections that may have something to send."""
        self.durable_through = ledger.builder.next_position - 1
        self.space_low = False
        """The disk is nearly full: new messages are refused, everything else goes on."""
        self.held_back: Final[dict[BoundLink, None]] = {}
        """Links that get no credit meanwhile: what they send is settled, and would be refused unheard."""
        self.alarms: Final = Alarms()
        self.adjust_head: Callable[[MessageHead], None] | None = None
        """Called with the head of each message that a client sends, before anything is made of it: where the
        broker's time is not that of its clients."""
        self.after: list[tuple[ConnectionState, Callable[[int], None]]] = []
        """What is to be done once everything written so far is durable."""
        self.in_flight_bytes = 0
        """Of the block that is being written."""
        self._transactions = 0
        self._leased: frozenset[str] = frozenset()
        """The queues that leases name, as the queue manager knows them."""
        self._states: Final[dict[object, object]] = {}
        self.heed_leases()

    def keep(self, state: object, kind: object = None) -> None:
        """Keep the state of a feature; it is the only one of its class, or of the class ``kind``."""
        self._states[kind or type(state)] = state

    def state(self, kind: object) -> object:
        """What was kept of the class ``kind``; the function of its feature asks for it."""
        return self._states[kind]

    def after_durable(self, binding: "ConnectionState", action: Callable[[int], None]) -> None:
        """Call ``action`` with the time once everything written so far, this turn included, is durable.

        A defect in it ends ``binding``.
        """
        self.after.append((binding, action))

    def unsynced_bytes(self) -> int:
        """Written by the queue manager and not yet durable."""
        return self.ledger.builder.waiting_bytes() + self.in_flight_bytes

    def next_transaction_number(self) -> int:
        """A number that no transaction of this run has had."""
        self._transactions += 1
        return self._transactions

    def heed_leases(self) -> None:
        """Leases were granted, released or broken: the queue manager must know whose bodies they want."""
        names = self.ledger.leases.queues
        if names is not self._leased:
            self._leased = names
            self.manager.set_leased(names)

    def links_of(self, queue: str) -> int:
        """How many links are attached to ``queue``."""
        return sum(
            1 for binding in self.connections for bound in binding.links.values() if bound.address == queue
        )
