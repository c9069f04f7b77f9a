"""The fixed-width records of the ledger, declared once: `struct` for the writer, a numpy dtype for readers.

Everything is little-endian. `FORMAT.md` beside this file explains every field.
"""

import struct
from enum import IntEnum, IntFlag
from typing import Final

FORMAT_VERSION: Final = 1
BLOCK_MAGIC: Final = 0x31425250  # "PRB1"
FILE_MAGIC: Final = 0x314C5250  # "PRL1"

_STRUCT_TO_NUMPY: Final = {"Q": "<u8", "q": "<i8", "I": "<u4", "i": "<i4", "H": "<u2", "B": "<u1"}


class Layout:
    """A record's fields in order: one declaration, two views."""

    def __init__(self, size_bytes: int, fields: list[tuple[str, str]]) -> None:
        self.fields: Final = fields
        self.struct: Final = struct.Struct("<" + "".join(code for _, code in fields))
        self.size_bytes: Final = size_bytes
        if self.struct.size != size_bytes:
            raise AssertionError(f"layout is {self.struct.size} bytes, declared {size_bytes}")

    def numpy_fields(self) -> list[tuple[str, str]]:
        """The same fields as the argument of ``numpy.dtype``."""
        return [
            (name, "S" + code[:-1] if code.endswith("s") else _STRUCT_TO_NUMPY[code])
            for name, code in self.fields
        ]


class RecordType(IntEnum):
    """What a 64-byte record says. Arrivals are a width of their own and have no type."""

    ENTRY_EVENT = 1
    """One entry changes state (serial, queue, from_state, to_state, …)."""
    GROUP_EVENT = 2
    """Many entries change alike: detail holds groups (see ``GROUP``), for purge, loss at a crash."""
    DECISION = 3
    """A transaction or branch is prepared or decided: holder says which, event PREPARE, CONFIRM, UNDO or
    LINK_LOST, detail holds groups."""
    QUEUE_DEFINED = 4
    """queue is created or redefined; detail is its definition as JSON."""
    QUEUE_DELETED = 5
    """queue is no more; detail is empty, or JSON where that was forced (forced_by, rolled_back)."""
    ROUTING_SET_DEFINED = 6
    """holder is the set's id; detail is its queue ids (u32 each)."""
    ROUTING_SET_DROPPED = 7
    HOLDER_OPENED = 8
    """holder of holder_kind begins; detail is JSON (name, container, user)."""
    HOLDER_CLOSED = 9
    PRODUCER_OPENED = 10
    """holder is the producer's id; detail is JSON (name, container, user)."""
    PRODUCER_CLOSED = 11
    LEASE_GRANTED = 12
    """A reader's lease is granted or renewed: holder is its id, detail is JSON (`leases.Lease`)."""
    LEASE_BROKEN = 13
    """It is out of its bounds: what it kept may go; detail says why, it stays known until released."""
    LEASE_RELEASED = 14
    BODY_CHUNK = 15
    """Part of a large body: serial is the upload's id (position of its first chunk); detail lies in the
    *bodies* heap. With event UNDO and no detail: the upload is aborted and its chunks are dead."""
    EPOCH_OPENED = 16
    """First record of an epoch; detail is JSON (broker version, the checkpoint that recovery began with, what
    it passed over)."""
    CHECKPOINT_WRITTEN = 17
    """A checkpoint is durable: serial is the position it covers; detail is JSON (bytes, header_crc), by which
    the chain vouches for it when the files that it stands for have gone."""
    CHANNEL_DEFINED = 18
    """A message channel is defined or altered: holder is its id, detail its definition as JSON."""
    CHANNEL_DELETED = 19
    """holder is the id of a channel, or of a partner's state: it is no more, nor its state."""
    CHANNEL_STATE = 20
    """What must survive of a channel, or of one partner of a receiving one: holder is its id, detail JSON
    (last LUWID, last sequence number, status)."""
    ENTRY_ANNOTATED = 21
    """An entry has message annotations beside its body: holder is an id of their own, detail JSON (serial,
    queue, annotations)."""
    ANNOTATIONS_DROPPED = 22
    """holder is such an id: the entry has ended."""
    SINK_STATE = 23
    """What must survive of a Spark sink (app): holder is its id, detail JSON (query, runs, the batches that
    were decided last). In the block of the decisions that it tells of."""
    SPARK_SUBSCRIPTION_STATE = 24
    """What must survive of a Spark subscription: holder is its id, queue its queue, detail JSON (definition,
    registered checkpoint, positions); its HOLDER_CLOSED ends it."""
    SINK_FORGOTTEN = 25
    """holder is the id of a sink: nothing is known of it any more."""
    MESSAGE_REFUSED = 26
    """A message whose sender wanted no answer was refused, and became no entry: holder is its producer's id,
    serial the record's own position, detail JSON (address, bytes, condition, description)."""

    PRINCIPAL_DEFINED = 27
    """A user or a role is defined or altered: holder is its id, detail its definition as JSON."""
    PRINCIPAL_DROPPED = 28
    """holder is the id of a user or role that is no more."""
    ADMINISTRATIVE_ACT = 29
    """Somebody has changed something, or was refused: serial is the record's own position, detail JSON (user,
    remote, container, operation, type, name, status, description, arguments). In the block of what it has
    changed."""


DEFINING_TYPES: Final = ((4, 14), (18, 25), (27, 28))
"""First and last of each run of types whose records define or drop something."""


class ArrivalFlag(IntFlag):
    NONE = 0
    DURABLE = 1
    """The producer asked for persistence; the message survives a crash."""
    BODY_STORED = 2
    """The body is in the ledger, its own or a shared one (not so for non-persistent messages, unless they
    were put in a branch, came in chunks, or are TAPPED)."""
    BODY_CHUNKED = 4
    """The body lies in BODY_CHUNK records; their list is at body_offset (with CHUNKED_OFFSET set)."""
    BODY_SHARED = 8
    """A move, dead letter or replay: the body is that of body_serial."""
    ADVERSE = 16
    """Put by the queue manager itself (dead letter, report), not by a producer."""
    PUBLISHED = 32
    """Published to a topic: the entries of its routing set share the body."""
    DEAD_LETTER_ELIGIBLE = 64
    """Its sender says that it may become a dead letter; queues can be made to ask for that."""
    RECEIVED = 256
    """It came through a channel: parent_serial is its serial in the sender's ledger, parent_queue its number
    in the channel's sequence. The producer's detail names the channel and the sender's ledger."""
    REPORTS = 512
    """It asks for reports (MQMD.Report); what for stands in its sections."""
    TAPPED = 1024
    """Non-persistent, and its body is stored for readers of the ledger only: it is lost at a restart like one
    whose body isn't."""
    ACQUIRED = 2048
    """Somebody has held it: in an arrival, the parent of a dead letter or moved message; in a checkpoint, the
    entry (what Spark subscriptions hold isn't noted)."""
    EXPIRY_REPLACED = 4096
    """The absolute-expiry-time of its properties may be earlier than its expiry_us (it is a dead letter or a
    redirected message, or its destination says how long messages live): whoever gives it out puts expiry_us
    in its place."""


class TransitionFlag(IntFlag):
    NONE = 0
    SENT = 1
    """The delivery was put on the wire before it came back (so delivery_delta is 1 unless released)."""
    FIRST = 2
    """The end of a delay made the entry available that had never been so."""


ARRIVAL: Final = Layout(
    128,
    [
        ("position", "Q"),  # also the message's serial
        ("time_us", "q"),  # never goes backwards
        ("expiry_us", "q"),  # absolute, 0 never
        ("due_us", "q"),  # absolute birth time, 0 at once
        ("creation_us", "q"),  # the producer's creation-time, 0 unknown
        ("body_serial", "Q"),  # whose body; equal to position unless BODY_SHARED
        ("parent_serial", "Q"),  # the entry this one was made from, 0 none
        ("parent_queue", "I"),  # that entry's queue; with parent_serial 0 the topic it was published to
        ("routing_set", "I"),  # below SET_BASE: the one queue of that id; else a defined set
        ("holder", "I"),  # with holder_kind, when put held
        ("producer", "I"),
        ("body_offset", "I"),  # from the start of the block's bodies heap (journal) – see FORMAT.md
        ("body_len", "I"),
        ("body_crc", "I"),
        ("message_format", "I"),
        ("message_id_offset", "I"),  # in the names heap, AMQP-encoded value bytes without constructor
        ("correlation_id_offset", "I"),
        ("group_id_offset", "I"),
        ("message_id_len", "H"),
        ("correlation_id_len", "H"),
        ("group_id_len", "H"),
        ("flags", "H"),
        ("message_id_type", "B"),  # IdType
        ("correlation_id_type", "B"),
        ("to_state", "B"),
        ("holder_kind", "B"),
        ("causes", "B"),
        ("priority", "B"),
        ("event", "B"),  # PUT or PUT_HELD, or what made it of its parent (DEAD_LETTER, MOVE, …)
        ("unique_id_len", "B"),  # in the names heap, directly behind the message id
        ("group_sequence", "I"),
        ("upload", "Q"),  # BODY_CHUNKED: id of the upload whose chunks are the body, 0 none
    ],
)

TRANSITION: Final = Layout(
    64,
    [
        ("position", "Q"),
        ("time_us", "q"),
        ("serial", "Q"),
        ("due_us", "q"),  # end of a delay that begins here, 0 none
        ("queue", "I"),
        ("holder", "I"),
        ("detail_offset", "I"),  # in the names heap
        ("detail_len", "I"),
        ("type", "B"),
        ("from_state", "B"),
        ("to_state", "B"),
        ("holder_kind", "B"),
        ("event", "B"),
        ("outcome", "B"),
        ("causes", "B"),  # the set after the event
        ("flags", "B"),
        ("delivery_delta", "B"),  # added to the entry's delivery count
        ("failure_delta", "B"),  # added to the entry's failure count
        ("reserved", "H"),
        ("reserved2", "I"),
    ],
)

BLOCK_HEADER: Final = Layout(
    96,
    [
        ("magic", "I"),
        ("header_crc", "I"),  # CRC-32 of the header with this field zero
        ("ledger_id", "16s"),
        ("epoch", "I"),
        ("file_number", "I"),
        ("first_position", "Q"),
        ("time_us", "q"),
        ("durable_through", "Q"),  # highest position known synced when this block was written
        ("arrivals", "I"),
        ("transitions", "I"),
        ("names_bytes", "I"),
        ("bodies_bytes", "I"),
        ("records_crc", "I"),  # CRC-32 of arrivals, transitions and names, in that order
        ("previous_crc", "I"),  # header_crc of the block before: the chain
        ("flags", "I"),
        ("reserved", "I"),
        ("reserved2", "Q"),
    ],
)

GROUP: Final = Layout(
    16,
    [
        ("queue", "I"),
        ("range_count", "I"),  # that many RANGE follow
        ("from_state", "B"),
        ("to_state", "B"),
        ("outcome", "B"),
        ("causes", "B"),
        ("delivery_delta", "B"),
        ("failure_delta", "B"),
        ("flags", "H"),
    ],
)
"""One kind of change in a GROUP_EVENT or DECISION; the detail is a run of (GROUP, RANGE…)."""

RANGE: Final = Layout(16, [("first_serial", "Q"), ("last_serial", "Q")])
"""Serials from first to last, both included. A range is exact: every integer in it is the serial of one entry
of the group's queue that makes this change, so that a reader expands it without looking at any other record.
A group's ranges ascend; large changes may be told by several GROUP_EVENT records."""

SET_BASE: Final = 0x8000_0000
"""Routing-set ids from here on are defined by ROUTING_SET_DEFINED; smaller ones are one queue."""

MAX_BLOCK_BYTES: Final = 4 << 20
CHUNK_BODY_BYTES: Final = 256 << 10
"""Bodies over this many bytes are written as BODY_CHUNK records while they arrive."""
