"""By what a message can be asked for: its unique id, message id and correlation id.

The unique id is that of MQ Everyplace: the queue manager where the message was first put, and a time that
this queue manager gave to no other message. A message that brings none has a derived one: the name of the
queue manager that it lies on, and the serial of its arrival.
"""

from typing import Final, NamedTuple, final

from mypy_extensions import i64

from postroom.model.message import RecordedProperties

UNIQUE_ID: Final = 0
MESSAGE_ID: Final = 1
CORRELATION_ID: Final = 2
ID_KINDS: Final = 3

TIME_BYTES: Final = 8
MAX_UNIQUE_ID_BYTES: Final = 255
MAX_ORIGIN_BYTES: Final = MAX_UNIQUE_ID_BYTES - TIME_BYTES


class UniqueId(NamedTuple):
    """Origin queue manager and time, as MQe's Msg_OriginQMgr and Msg_Time."""

    origin: str
    time: int


def pack_unique_id(origin: str, time: int) -> bytes:
    """As the ledger keeps it. Raises ValueError: the name empty or too long, the time not of 64 bits."""
    name = origin.encode()
    if not 0 < len(name) <= MAX_ORIGIN_BYTES:
        raise ValueError(
            f"an origin queue manager has 1 to {MAX_ORIGIN_BYTES} bytes, {origin[:40]!r} has {len(name)}"
        )
    if not -(1 << 63) <= time < 1 << 63:
        raise ValueError(f"the time of a unique id has 64 bits, {time} has more")
    return time.to_bytes(TIME_BYTES, "little", signed=True) + name


def unpack_unique_id(packed: bytes) -> UniqueId:
    """What `pack_unique_id` packed."""
    time = int.from_bytes(packed[:TIME_BYTES], "little", signed=True)
    return UniqueId(packed[TIME_BYTES:].decode("utf-8", "replace"), time)


@final
class MessageIds(RecordedProperties):
    """The ids of one message: a unique id of b"" is derived, a type of 0 (IdType.NONE) says that there is no
    such id. What else the arrival says is known where it has been read back."""

    __slots__ = ("parent_queue", "parent_serial")

    def __init__(
        self,
        unique_id: bytes,
        message_id: bytes,
        message_id_type: i64,
        correlation_id: bytes,
        correlation_id_type: i64,
    ) -> None:
        super().__init__()
        self.unique_id = unique_id
        self.message_id = message_id
        self.message_id_type = message_id_type
        self.correlation_id = correlation_id
        self.correlation_id_type = correlation_id_type
        self.parent_queue: i64 = 0
        """Where what it was made of lay (dead letters, moves); 0: it was put."""
        self.parent_serial: i64 = 0


NO_IDS: Final = MessageIds(b"", b"", 0, b"", 0)
