"""One message on one queue, as a live object: the head of a queue, and whatever is held, delayed or
returned."""

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

if TYPE_CHECKING:
    from postroom.manager.kernel.destination import Destination

from postroom.model.numbers import AVAILABLE, NO_HOLDER, START
from postroom.model.packed import PackedEntry

ENTRY_OVERHEAD_BYTES: Final = 320
"""What a live entry costs beside its body; charged where memory is bounded."""


@final
class Entry:
    """Everything the rules need of one entry; the body too while it is in memory.

    ``place`` and ``ordinal`` say where it stands among those of its priority: position of the event that
    first made it available, and rank within that event. They are kept when the entry returns.
    """

    def __init__(
        self,
        queue: "Destination",
        serial: i64,
        priority: i64,
        flags: i64,
        expiry_us: i64,
        body_offset: i64,
        body_len: i64,
        body: bytes | None,
    ) -> None:
        self.queue = queue
        self.serial: i64 = serial
        self.priority: i64 = priority
        self.flags: i64 = flags  # ArrivalFlag
        self.expiry_us: i64 = expiry_us  # absolute, 0 never
        self.body_serial: i64 = serial  # whose body it has: its own, unless it is made of another
        self.body_offset: i64 = body_offset
        self.body_len: i64 = body_len
        self.body = body
        self.state: i64 = AVAILABLE
        self.holder_kind: i64 = NO_HOLDER
        self.holder: i64 = 0
        self.owner: object | None = None  # the Consumer or Transaction that `holder` names
        self.held_since: i64 = 0  # position of the event that gave it to its holder
        self.place: i64 = serial
        self.ordinal: i64 = 0
        self.causes: i64 = 0  # DelayCause set
        self.due_us: i64 = 0
        self.noted: i64 = 0  # Event that waits until its holder gives it back: DELETE
        self.delivery_count: i64 = 0
        self.failure_count: i64 = 0
        self.releases: i64 = 0  # times in a row that it has been released
        self.fetching = False
        self.judging = False  # its body is being read for selectors: damage doesn't end it
        self.counted = False  # among the live entries of the queue manager
        self.annotations: dict[str, object] | None = None
        self.excluded: list[i64] | None = None  # consumers it may not go to again
        self.group: i64 = -2  # its message group, to its queue's groups; -1 none, -2 not looked at
        self.band_part: i64 = 0  # which part of its band it is in; the band's
        self.verdicts: dict[int, bool] | None = None  # what selectors said of it, by cursor id

    def before(self, other: "Entry") -> bool:
        """Whether this one stands ahead of ``other``, both of one priority."""
        if self.place != other.place:
            return self.place < other.place
        return self.ordinal < other.ordinal

    def at(self, place: i64, ordinal: i64) -> bool:
        """Whether this one stands at that place."""
        return self.place == place and self.ordinal == ordinal

    def behind(self, place: i64, ordinal: i64) -> bool:
        """Whether this one stands behind that place."""
        if self.place != place:
            return self.place > place
        return self.ordinal > ordinal

    def copy_for(self, owner: object) -> "Entry":
        """What ``owner`` is to be told of it, or has its body read by, whatever becomes of it."""
        copy = Entry(
            self.queue,
            self.serial,
            self.priority,
            self.flags,
            self.expiry_us,
            self.body_offset,
            self.body_len,
            self.body,
        )
        copy.body_serial = self.body_serial
        copy.state = START
        copy.place = self.place
        copy.ordinal = self.ordinal
        copy.owner = owner
        copy.delivery_count = self.delivery_count
        copy.annotations = self.annotations
        return copy


def by_place(entry: Entry) -> tuple[int, int]:
    """Sort key for entries of one priority."""
    return (entry.place, entry.ordinal)


def write_entry(w: BytesWriter, entry: Entry) -> None:
    """Append the entry as a packed one; its place isn't in it."""
    packed = PackedEntry()
    packed.serial = entry.serial
    packed.body_serial = entry.body_serial
    packed.expiry_us = entry.expiry_us
    packed.body_offset = entry.body_offset
    packed.body_len = entry.body_len
    packed.delivery_count = entry.delivery_count
    packed.failure_count = entry.failure_count
    packed.priority = entry.priority
    packed.flags = entry.flags
    packed.write(w)


def unpacked(queue: "Destination", packed: PackedEntry) -> Entry:
    """A packed entry as an object, in no order and without its body."""
    entry = Entry(
        queue,
        packed.serial,
        packed.priority,
        packed.flags,
        packed.expiry_us,
        packed.body_offset,
        packed.body_len,
        None,
    )
    entry.body_serial = packed.body_serial
    entry.delivery_count = packed.delivery_count
    entry.failure_count = packed.failure_count
    if queue.annotated is not None:
        entry.annotations = annotations_of(queue, packed.serial)
    return entry


def annotations_of(queue: "Destination", serial: i64) -> dict[str, object] | None:
    """What stands in the ledger beside the body of that entry."""
    annotation = queue.annotated.get(int(serial)) if queue.annotated is not None else None
    return annotation.values if annotation is not None else None
