"""The dead-letter header: why a message lies on a dead-letter queue, and where it was to go (MQDLH).

It is a message annotation, a map with MQ's fields and the expiry that the message had, so that it stays with
the message wherever that goes. The properties of the message are not changed but for that expiry: format,
encoding and character set, which MQ moves from the message's descriptor into the header and back, stand in
both.
"""

from dataclasses import dataclass
from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.encoding.types import Int, Timestamp
from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.message_head import merge_annotations
from postroom.manager.headers.mq_properties import (
    CHARACTER_SET,
    ENCODING,
    FORMAT,
    PUT_BY_QUEUE_MANAGER,
    put_date_and_time,
)

DEAD_LETTER: Final = "x-opt-dead-letter"
NATIVE_ENCODING: Final = 273
"""MQENC_NATIVE where numbers have their highest byte first, as in AMQP."""
UTF_8: Final = 1208
"""The coded character set id of UTF-8."""
MAX_APPL_NAME_CHARS: Final = 28
"""PutApplName of MQDLH."""

_NAMES: Final = (
    "reason",
    "queue",
    "queue-manager",
    "format",
    "encoding",
    "ccsid",
    "put-appl-type",
    "put-appl-name",
    "put-date",
    "put-time",
)
_EXPIRY: Final = "expiry"


@final
@dataclass
class DeadLetterHeader:
    """Why and where to, what the message is, and who put it on the dead-letter queue."""

    reason: int
    """MQRC_ or MQFB_."""
    queue: str
    queue_manager: str
    format: str = ""
    """Of the message; "" if it doesn't say."""
    encoding: int = NATIVE_ENCODING
    ccsid: int = UTF_8
    put_appl_type: int = PUT_BY_QUEUE_MANAGER
    put_appl_name: str = ""
    put_date: str = ""
    """YYYYMMDD, UTC."""
    put_time: str = ""
    """HHMMSSTH, UTC."""
    expiry_ms: int = 0
    """When the message would have expired, since 1970; 0: never. MQDLH has no field for it."""

    def annotation(self) -> dict[str, object]:
        """As the message annotation `DEAD_LETTER` has it."""
        what = (self.reason, self.queue, self.queue_manager, self.format, self.encoding, self.ccsid)
        by_whom = (self.put_appl_type, self.put_appl_name, self.put_date, self.put_time)
        values_by_name: dict[str, object] = {}
        for name, value in zip(_NAMES, (*what, *by_whom), strict=True):
            values_by_name[name] = Int(value) if isinstance(value, int) else value
        if self.expiry_ms != 0:
            values_by_name[_EXPIRY] = Timestamp(self.expiry_ms)
        return values_by_name


def header_for(
    reason: int, queue: str, queue_manager: str, fields: MessageFields | None, own_name: str, now_us: i64
) -> DeadLetterHeader:
    """The header that queue manager ``own_name`` puts on now; ``fields`` are those of the message, None where
    they are not at hand."""
    header = DeadLetterHeader(reason, queue, queue_manager)
    if fields is not None:
        header.format = _text(fields.application_property(FORMAT), "")
        header.encoding = _number(fields.application_property(ENCODING), NATIVE_ENCODING)
        header.ccsid = _character_set(fields.application_property(CHARACTER_SET))
    header.put_appl_name = own_name[:MAX_APPL_NAME_CHARS]
    header.put_date, header.put_time = put_date_and_time(now_us)
    return header


def with_dead_letter_header(stored: bytes, header: DeadLetterHeader) -> bytes:
    """The sections with the header on, instead of one that they may have."""
    return merge_annotations(stored, {DEAD_LETTER: header.annotation()})


def header_of(value: object) -> DeadLetterHeader | None:
    """The header in the value of its annotation; what it leaves out has its default. None for anything that
    is no header."""
    if not isinstance(value, dict):
        return None
    reason, queue, queue_manager = value.get("reason"), value.get("queue"), value.get("queue-manager")
    if (
        not isinstance(reason, int)
        or isinstance(reason, bool)
        or not isinstance(queue, str)
        or not isinstance(queue_manager, str)
    ):
        return None
    header = DeadLetterHeader(_number(reason, 0), queue, queue_manager)
    header.format = _text(value.get("format"), "")
    header.encoding = _number(value.get("encoding"), NATIVE_ENCODING)
    header.ccsid = _number(value.get("ccsid"), UTF_8)
    header.put_appl_type = _number(value.get("put-appl-type"), 0)
    header.put_appl_name = _text(value.get("put-appl-name"), "")
    header.put_date = _text(value.get("put-date"), "")
    header.put_time = _text(value.get("put-time"), "")
    header.expiry_ms = _time_ms(value.get(_EXPIRY))
    return header


def _number(value: object, default: int) -> int:
    """A number of 32 bits, signed."""
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 31) <= value < 1 << 31:
        return default
    return int(value)


def _time_ms(value: object) -> int:
    """A time in milliseconds since 1970; 0 for anything else, and for what no timestamp holds."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 63:
        return 0
    return int(value)


def _text(value: object, default: str) -> str:
    return value if isinstance(value, str) else default


def _character_set(value: object) -> int:
    """A number, or what IBM's JMS classes write: its digits, or the name of a character set of Java."""
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < 10 and value.isascii() else UTF_8
    return _number(value, UTF_8)
