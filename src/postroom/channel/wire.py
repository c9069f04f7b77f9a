"""What two message channel agents say to each other on their link, beside the messages themselves.

Addresses, link properties, delivery tags, message formats and error conditions of protocol 1. The page
"Channel protocol" of the reference describes all of it for other implementations.
"""

from struct import Struct
from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.encoding.codec import decode_all, encode
from postroom.amqp.encoding.types import Described, UInt, ULong
from postroom.amqp.errors import DECODE_ERROR, INVALID_FIELD, AmqpError, DecodeError
from postroom.amqp.message.message_head import scan_head
from postroom.model.channel import LUWID_BYTES, MAX_BATCH_MESSAGES, MAX_RETRIES

CHANNEL_ADDRESS: Final = "$channel"
"""Target of the link of a sending agent, source of that of a requesting one."""
PROTOCOL: Final = 1

# Link properties.
CHANNEL: Final = "postroom:channel"
QUEUE_MANAGER: Final = "postroom:queue-manager"
LEDGER: Final = "postroom:ledger"
PROTOCOL_VERSION: Final = "postroom:protocol"
BATCH_SIZE: Final = "postroom:batch-size"
SEQUENCE_WRAP: Final = "postroom:sequence-wrap"
NONPERSISTENT_SPEED: Final = "postroom:nonpersistent-speed"
MAX_MESSAGE_BYTES: Final = "postroom:max-message-bytes"
LAST_SEQUENCE: Final = "postroom:last-sequence"
LAST_LUWID: Final = "postroom:last-luwid"
RESET_SEQUENCE: Final = "postroom:reset-sequence"

# Error conditions beside those of AMQP.
SEQUENCE_ERROR: Final = "postroom:sequence-error"
"""The two ends don't agree on the number of the last message (IBM's AMQ9526)."""
WRAP_ERROR: Final = "postroom:sequence-wrap-error"
"""Their sequence numbers don't end at the same number."""
CHANNEL_STOPPED: Final = "postroom:channel-stopped"
"""The other end was stopped by a command, or is being."""
CHANNEL_IN_USE: Final = "postroom:channel-in-use"
"""The other end is at work with another partner, or on its way to be."""
CALL_BACK: Final = "postroom:call-back"
"""Not a failure: the sender that a requester has asked will open a connection of its own."""
BATCH_REFUSED: Final = "postroom:batch-refused"
"""A message of the batch can neither be put nor dead-lettered: all of it was backed out."""

ALL_ANSWERED: Final = frozenset((BATCH_REFUSED, CHANNEL_STOPPED))
"""A receiver that detaches with one of these has answered every batch that it has: it has no other."""

BATCH_END_FORMAT: Final = 0x506F_0001
HEARTBEAT_FORMAT: Final = 0x506F_0002
"""Message formats (AMQP part 2, section 2.7.5; "Po") of the two unsettled transfers: the answer is wanted."""

IN_BATCH: Final = 0
FAST: Final = 1
CONTROL: Final = 2
"""First byte of a delivery tag."""
TAG: Final = Struct(">BQQ")
"""Delivery tag: kind, sequence number, serial of the message in the sender's ledger."""
TAG_BYTES: Final = 17

_AMQP_VALUE: Final = ULong(0x77)


@final
class Tag:
    """A delivery tag, read."""

    __slots__ = ("kind", "sequence", "serial")

    def __init__(self, kind: i64, sequence: i64, serial: i64) -> None:
        self.kind: i64 = kind
        self.sequence: i64 = sequence
        self.serial: i64 = serial


def read_tag(tag: bytes) -> Tag:
    """Raises `AmqpError` for what is no tag of a message."""
    if len(tag) == TAG_BYTES and tag[0] <= FAST and tag[1] < 0x80 and tag[9] < 0x80:
        return Tag(tag[0], int.from_bytes(tag[1:9], "big"), int.from_bytes(tag[9:17], "big"))
    raise AmqpError(
        INVALID_FIELD,
        f"a delivery tag of a channel is kind (0 in a batch, 1 fast), sequence number and serial, "
        f"{TAG_BYTES} bytes: this one is {tag[:32].hex()}",
    )


@final
class BatchEnd:
    """Everything of one batch has been sent: confirm it."""

    __slots__ = ("count", "last_sequence", "luwid")

    def __init__(self, luwid: bytes, last_sequence: i64, count: i64) -> None:
        self.luwid = luwid
        """The name of the batch (logical unit of work id), unique for ever."""
        self.last_sequence: i64 = last_sequence
        self.count: i64 = count
        """Messages in it."""

    def encode(self) -> bytes:
        """The section amqp-value with the list."""
        return encode(Described(_AMQP_VALUE, [self.luwid, ULong(self.last_sequence), UInt(self.count)]))


HEARTBEAT: Final = encode(Described(_AMQP_VALUE, []))
"""The message of a batch heartbeat."""


def read_batch_end(payload: bytes) -> BatchEnd:
    """The message with this value for its body, whatever sections are before it. Raises `AmqpError`."""
    try:
        value = decode_all(payload[scan_head(payload).body_start :])
    except DecodeError as error:
        raise AmqpError(DECODE_ERROR, f"the end of a batch: {error.description}") from error
    if isinstance(value, Described) and value.descriptor == _AMQP_VALUE:
        fields = value.value
        if isinstance(fields, list) and len(fields) == 3:
            luwid, last_sequence, count = fields
            named = isinstance(luwid, bytes) and len(luwid) == LUWID_BYTES
            if named and is_number(last_sequence, 1, MAX_RETRIES) and is_number(count, 1, MAX_BATCH_MESSAGES):
                return BatchEnd(luwid, int(last_sequence), int(count))
    raise AmqpError(
        INVALID_FIELD,
        "the end of a batch is a list of its name (binary of 16), last sequence number and count",
    )


def is_number(value: object, lowest: int, highest: int) -> bool:
    """Whether ``value`` is an integer of any AMQP type in that range."""
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest
