"""A topic, where messages published to it go, and sets of queues that an arrival can name as one: each is
written to the ledger once, and kept while it is used."""

from typing import Final, final

from mypy_extensions import i64

from postroom.ledger.format.block import BlockBuilder
from postroom.ledger.format.records import SET_BASE, RecordType
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.options import QueueDefinition
from postroom.manager.kernel.statistics import HeldByAll
from postroom.manager.queues.queue import Subscription

_DEFINED: Final = int(RecordType.ROUTING_SET_DEFINED)
_DROPPED: Final = int(RecordType.ROUTING_SET_DROPPED)
_MEMBER_BYTES: Final = 4


@final
class RoutingSet:
    """A set in force, or one that was."""

    def __init__(self, id: i64, members: bytes) -> None:
        self.id: i64 = id
        self.members = members
        """Queue ids, 4 bytes each, ascending."""
        self.dropped = False


@final
class RoutingSets:
    """The sets in force by what is in them; the one that was used longest ago goes first."""

    def __init__(self, ledger: BlockBuilder, max_sets: i64, max_members: i64) -> None:
        self.next_id: i64 = SET_BASE
        self._ledger = ledger
        self._max_sets: i64 = max_sets
        self._max_bytes: i64 = max_members * _MEMBER_BYTES
        self._bytes: i64 = 0
        self._by_members: dict[bytes, RoutingSet] = {}

    def __len__(self) -> int:
        return len(self._by_members)

    def find(self, members: bytes) -> RoutingSet:
        """The set of these members (queue ids as in `RoutingSet.members`), defined if it isn't in force."""
        found = self._by_members.pop(members, None)
        if found is None:
            found = RoutingSet(self.next_id, members)
            self.next_id += 1
            self._ledger.record(_DEFINED, 0, 0, found.id, 0, 0, members)
            self._bytes += len(members)
        self._by_members[members] = found  # behind all others: used last
        while len(self._by_members) > 1 and (
            len(self._by_members) > self._max_sets or self._bytes > self._max_bytes
        ):
            self._drop(next(iter(self._by_members.values())))
        return found

    def restore(self, id: i64, queues: list[int], in_use: bool) -> None:
        """Take over a set that was in force when the ledger was last written; it is dropped unless
        ``in_use``: all its queues are still there.
        """
        members = b"".join([queue.to_bytes(_MEMBER_BYTES, "little") for queue in queues])
        found = RoutingSet(id, members)
        self._by_members[members] = found
        self._bytes += len(members)
        if not in_use:
            self._drop(found)

    def _drop(self, gone: RoutingSet) -> None:
        gone.dropped = True
        self._bytes -= len(gone.members)
        del self._by_members[gone.members]
        self._ledger.record(_DROPPED, 0, 0, gone.id, 0, 0, b"")


@final
class Route:
    """The subscriptions that match one topic's name, as long as none comes or goes."""

    def __init__(self, queues: list[Subscription], version: i64) -> None:
        self.version: i64 = version
        self.queues = queues
        self.choosy = False
        """Some take only part of what is published."""
        self.closed: list[Subscription] = []
        """Those whose production or insertion is paused."""
        self.limited: list[Subscription] = []
        """Those that may have no room."""
        self.metered: list[Subscription] = []
        """Those that may be above a threshold."""
        self.set: RoutingSet | None = None
        """Of all of them, once something was published to all."""


@final
class Topic(Destination):
    """A topic: it holds no entries, it passes messages on to its subscriptions."""

    def __init__(
        self, id: i64, definition: QueueDefinition, max_message_bytes: i64, held_by_all: HeldByAll
    ) -> None:
        super().__init__(id, definition, max_message_bytes, held_by_all)
        self.route: Route | None = None
        self.unrouted: i64 = 0
        """Messages published while nobody subscribed, or wanted them."""
