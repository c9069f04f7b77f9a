"""What the two records of an entry say: its arrival, and each change of its state.

The queue manager fills one in, and `block.BlockBuilder` writes it. What each field means is in ``FORMAT.md``
(sections "Arrival", "Transition"); `records` declares the layout. Compiled: one of each that nobody holds any
more is kept for the next, so that they cost no allocation.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from postroom.model.message import RecordedProperties

_ENTRY_EVENT: Final = 1  # records.RecordType, as a plain int for the hot path
_SIGN_8: Final = 0x80
_TWO_8: Final = 0x100


@final
@mypyc_attr(free_list_len=1, acyclic=True)
class Arrival:
    """An arrival. The builder adds the position, which is the message's serial, and the time.

    The body is ``body``; or the chunks of an upload (``chunk_positions``, with ``body_len`` and the CRC of
    the whole); or another message's (``body_serial`` with that entry's ``body_offset`` and ``body_len``, flag
    BODY_SHARED); or not stored (``body`` None, with ``body_len``).
    """

    __slots__ = (
        "body",
        "body_crc",
        "body_len",
        "body_offset",
        "body_serial",
        "causes",
        "chunk_positions",
        "due_us",
        "event",
        "expiry_us",
        "flags",
        "holder",
        "holder_kind",
        "parent_queue",
        "parent_serial",
        "priority",
        "producer",
        "properties",
        "routing_set",
        "to_state",
    )

    def __init__(
        self,
        routing_set: i64,
        event: i64,
        to_state: i64,
        properties: RecordedProperties,
        *,
        priority: i64,
        flags: i64,
        expiry_us: i64,
    ) -> None:
        self.routing_set: i64 = routing_set
        """The id of its queue, or of the set of queues that it is routed to."""
        self.event: i64 = event
        self.to_state: i64 = to_state
        self.properties = properties
        self.priority: i64 = priority
        self.flags: i64 = flags
        """`records.ArrivalFlag`; the builder adds BODY_STORED and BODY_CHUNKED to the record of a body of its
        own."""
        self.expiry_us: i64 = expiry_us
        """When it expires, since 1970; 0: never."""
        self.holder_kind: i64 = 0
        self.holder: i64 = 0
        self.causes: i64 = 0
        """What it waits for in the state DELAYED; in PUT_UNCONFIRMED, when it will be committed."""
        self.due_us: i64 = 0
        """When it is to become available, since 1970; 0: not by time."""
        self.producer: i64 = 0
        self.parent_serial: i64 = 0
        self.parent_queue: i64 = 0
        self.body: bytes | None = None
        self.body_crc: i64 = 0
        self.body_len: i64 = 0
        """In bytes; the builder counts those of ``body``."""
        self.body_serial: i64 = 0
        """The serial of the message whose body it shares; 0: its own."""
        self.body_offset: i64 = 0
        """Where the body lies; the builder says so of a body of its own: entries have to remember it."""
        self.chunk_positions: list[int] | None = None


@final
@mypyc_attr(free_list_len=1, acyclic=True)
class EntryEvent:
    """A change of an entry's state, whichever entry it is, and whoever holds it. Encoded as it is made: those
    that happen to every message are made once."""

    __slots__ = ("codes", "deltas", "detail", "due_us")

    def __init__(
        self,
        event: i64,
        from_state: i64,
        to_state: i64,
        holder_kind: i64,
        outcome: i64 = 0,
        causes: i64 = 0,
        flags: i64 = 0,
    ) -> None:
        """``holder_kind`` is that of who holds it then or, if nobody does, of who held it; ``flags``:
        `records.TransitionFlag`."""
        if flags >= _SIGN_8:
            flags -= _TWO_8
        kinds = _ENTRY_EVENT | from_state << 8 | to_state << 16 | holder_kind << 24
        self.codes: i64 = kinds | event << 32 | outcome << 40 | causes << 48 | flags << 56
        """The eight fields of a byte each, from type to flags, as the record has them."""
        self.deltas: i64 = 0
        self.due_us: i64 = 0
        """When it is to become available, since 1970; 0: not by time."""
        self.detail = b""
        """JSON (condition, description), for what people will ask about."""

    def count(self, delivery_delta: i64, failure_delta: i64) -> None:
        """So many deliveries and failures more."""
        self.deltas = delivery_delta | failure_delta << 8
