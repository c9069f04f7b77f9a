"""A Spark subscription: a consumer that is nobody's link. What it is given is told by the ledger alone.

The broker assigns to it, as to any consumer that has credit, what is available; the records of that are what
a Spark query reads, by position. Confirming a position consumes everything that was assigned there or before.
So planning, reading and reading again change nothing, and what was not confirmed is still held after any
failure, until the lease of the subscription ends.
"""

import json
from dataclasses import asdict, dataclass
from struct import pack
from typing import TYPE_CHECKING, Final, cast, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.kernel.errors import DefinitionInvalid
from postroom.manager.kernel.name_rules import check_name
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.kernel.transition_table import ASSIGNED
from postroom.manager.kernel.turn_state import NO_POSITION
from postroom.manager.queues.held_entries import PackedHolder
from postroom.model import numbers as n
from postroom.model.settings import restored

if TYPE_CHECKING:
    from postroom.manager.kernel.consumer import Consumer
    from postroom.manager.queues.queue import Queue

DEFAULT_WINDOW: Final = 100_000
DEFAULT_WINDOW_BYTES: Final = 256 << 20
DEFAULT_LEASE_S: Final = 7 * 86_400
MAX_LEASE_S: Final = 365 * 86_400
MAX_CHECKPOINT_BYTES: Final = 256
"""Of the name that a query gives its checkpoint."""

ASSIGNED_TOGETHER: Final = 1024
"""Entries that one record assigns: the least that a range of positions can have is what one record says."""


@final
@dataclass(frozen=True)
class SparkSubscriptionDefinition:
    """What a Spark subscription is."""

    name: str
    queue: str
    window: int = DEFAULT_WINDOW
    """Messages that it may hold at a time."""
    window_bytes: int = DEFAULT_WINDOW_BYTES
    """Of their bodies: when it holds so much it is given nothing more."""
    lease_s: int = DEFAULT_LEASE_S
    """When nothing is heard of its query for so long it ends, and what it holds goes back."""
    selector: str = ""
    """Which messages it takes; "" all."""

    def check(self, options: ManagerOptions) -> None:
        """Raise NameNotAllowed or DefinitionInvalid."""
        check_name(self.name)
        for key, value, most in (
            ("window", self.window, options.max_spark_window),
            ("window_bytes", self.window_bytes, 1 << 50),
            ("lease_s", self.lease_s, MAX_LEASE_S),
        ):
            if not 1 <= value <= most:
                raise DefinitionInvalid(
                    f"Spark subscription {self.name!r}: {key} is {value}, must be 1 to {most}", key
                )


@final
class SparkSubscription(PackedHolder):
    """One Spark subscription, as a holder ``id``."""

    def __init__(self, id: i64, definition: SparkSubscriptionDefinition, queue: "Queue", user: str) -> None:
        super().__init__(id, definition.name)
        self.definition = definition
        self.queue = queue
        self.user = user
        self.consumer: Consumer | None = None
        """Its place among those who take from the queue; None when it has ended."""
        self.checkpoint = ""
        """Of the query that is registered; "" none."""
        self.confirmed: i64 = 0
        """What was assigned up to here has been consumed."""
        self.assigned: i64 = 0
        """Position of the last record that assigned something."""
        self.renewed_us: i64 = 0
        """When it was last heard of."""
        self.written_us: i64 = 0
        """The same, as the ledger knows it."""
        self.until_us: i64 = 0
        """The end of its lease."""
        self.ended_us: i64 = 0
        """When it ended; 0 it hasn't."""
        self.reason = ""
        """Why: "time", its lease; "bytes" or "space", of the history that it kept."""
        self.lost_first: i64 = 0
        """What was assigned from here on, up to `lost_last`, went back when it ended; 0 nothing did."""
        self.lost_last: i64 = 0
        self.returned = False
        """It has ended, and all has gone back."""
        self.deleted = False
        """It is forgotten when all has gone back."""

        # The record that is being filled, see `assign`.
        self.open_count: i64 = 0
        self._ranges = BytesWriter()
        self._range_count: i64 = 0
        self._first: i64 = 0
        self._last: i64 = 0

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.consumer is None

    def room(self) -> i64:
        """So many entries more it may be given now."""
        if self.held.size_bytes >= self.definition.window_bytes:
            return 0
        window: i64 = self.definition.window
        return max(window - self.held.count, 0)

    def takes_next(self, serial: i64) -> bool:
        """Whether the open record can assign this entry, too: they are told in order of serial."""
        return self.open_count < ASSIGNED_TOGETHER and serial > self._last

    def note(self, serial: i64) -> None:
        """The open record assigns this entry, too."""
        if self.open_count > 0 and serial == self._last + 1:
            self._last = serial
        else:
            self._end_range()
            self._first = self._last = serial
        self.open_count += 1

    def _end_range(self) -> None:
        if self.open_count > 0:
            write_i64_le(self._ranges, self._first)
            write_i64_le(self._ranges, self._last)
            self._range_count += 1

    def close_record(self) -> bytes:
        """The detail of the open record; the next one begins."""
        self._end_range()
        head = pack(
            "<IIBBBBBBH",
            int(self.queue.id),
            int(self._range_count),
            n.AVAILABLE,
            int(ASSIGNED),
            *(0, 0, 0, 0, 0),
        )
        detail = head + self._ranges.getvalue()
        self._ranges.truncate(0)
        self._range_count = self.open_count = self._last = 0
        return detail

    def opened(self) -> bytes:
        """Its detail as a holder."""
        record = {"name": self.name, "queue": self.queue.name, "user": self.user}
        return json.dumps(record, ensure_ascii=False).encode()

    def restore(self, record: dict[str, object]) -> None:
        """Take over what `state` wrote."""
        self.checkpoint = str(record.get("checkpoint", ""))
        self.confirmed = _number(record, "confirmed")
        self.assigned = max(self.confirmed, _number(record, "assigned"))
        self.renewed_us = self.written_us = _number(record, "renewed_us")
        self.ended_us = _number(record, "ended_us")
        self.lost_first = _number(record, "lost_first")
        self.lost_last = _number(record, "lost_last")
        self.reason = str(record.get("reason", ""))
        self.deleted = record.get("deleted") is True

    def state(self) -> bytes:
        """What must survive of it."""
        record: dict[str, object] = {**asdict(self.definition), "user": self.user}
        for name, value in (
            ("checkpoint", self.checkpoint),
            ("confirmed", int(self.confirmed)),
            ("assigned", int(self.assigned)),
            ("renewed_us", int(self.renewed_us)),
            ("ended_us", int(self.ended_us)),
            ("lost_first", int(self.lost_first)),
            ("lost_last", int(self.lost_last)),
            ("reason", self.reason),
            ("deleted", self.deleted),
        ):
            if value:
                record[name] = value
        return json.dumps(record, ensure_ascii=False).encode()


@final
class SparkSubscriptions:
    """Those of a queue manager."""

    def __init__(self) -> None:
        self.by_name: dict[str, SparkSubscription] = {}
        """Those that have ended included."""
        self.assigning: list[SparkSubscription] = []
        """Those with a record that is still being filled."""
        self.leases_ended: i64 = 0
        """How many have ended against the will of their queries."""
        self.unread_from: i64 = NO_POSITION
        """From here on the ledger's history is to stay for them; NEVER_TOLD there are none."""


def subscribed_to(queue: "Queue") -> list[SparkSubscription]:
    """The Spark subscriptions to a queue, those included of which something is still to go back."""
    return [each for each in queue.packed_holders if isinstance(each, SparkSubscription)]


def spark_subscriptions_of(core: Core) -> SparkSubscriptions:
    """Those of a queue manager."""
    return cast(SparkSubscriptions, core.state(SparkSubscriptions))


def definition_of(record: dict[str, object]) -> SparkSubscriptionDefinition:
    """The definition that `SparkSubscription.state` wrote."""
    return restored(SparkSubscriptionDefinition, record)


def _number(record: dict[str, object], name: str) -> int:
    value = record.get(name, 0)
    assert isinstance(value, int)
    return value
