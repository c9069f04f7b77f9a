"""A report as a message: what it says of the one that it is about.

The one that it is about is seen as it is stored, in its sections from the message annotations on; of a large
one that has just come, only those before the body need to be there, unless the report is to carry data.
"""

from dataclasses import replace
from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.field_reader import read_descriptor
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.types import Int, UInt
from postroom.amqp.message.report_options import PROPERTY_MASKS, REPORT_ANNOTATION
from postroom.amqp.message.sections import Message, Properties
from postroom.manager.headers.mq_properties import (
    CHARACTER_SET,
    ENCODING,
    FEEDBACK,
    FORMAT,
    MSG_TYPE,
    PUT_APPL_NAME,
    PUT_APPL_TYPE,
    PUT_BY_QUEUE_MANAGER,
    PUT_DATE,
    PUT_TIME,
    put_date_and_time,
)
from postroom.manager.producing.report_checks import Original
from postroom.model import mq

MAX_DATA_BYTES: Final = 100
"""Of the message, in a report "with data"."""
_MESSAGE_KIND: Final = "x-opt-jms-msg-type"
_OF_THE_DATA: Final = (FORMAT, ENCODING, CHARACTER_SET)
"""Properties that describe the data, and go with it."""
_MESSAGE_ID: Final = 0
_REPLY_TO: Final = 4
_CORRELATION_ID: Final = 5
_CONTENT_TYPE: Final = 6
_CONTENT_ENCODING: Final = 7


@final
class ReportText:
    """What is to be said: ``feedback`` (MQFB_, or MQRC_ of an exception), how much ``data`` of the message
    goes with it, ``word`` its report options; a new ``message_id``, and who says it and when."""

    def __init__(
        self, feedback: i64, data: mq.Data, word: i64, message_id: str, queue_manager: str, now_us: i64
    ) -> None:
        self.feedback: i64 = feedback
        self.data = data
        self.word: i64 = word
        self.message_id = message_id
        self.queue_manager = queue_manager
        self.now_us: i64 = now_us


def needs_body(data: mq.Data) -> bool:
    """Whether a report with so much data can't be made from the sections before the body."""
    return data is not mq.Data.NONE and data is not mq.Data.PLAIN


def report_sections(original: Original, text: ReportText) -> bytes:
    """The sections of the report, without header."""
    full = text.data is mq.Data.WITH_FULL_DATA
    properties = _properties(original, text)
    if full:
        properties = replace(
            properties,
            content_type=_text(original.fields.property_at(_CONTENT_TYPE)),
            content_encoding=_text(original.fields.property_at(_CONTENT_ENCODING)),
        )
    front = Message(
        message_annotations=_annotations(original, text, full),
        properties=properties,
        application_properties=_application_properties(original, text, full),
    ).encode()
    return front + _data(original, text.data)


def _properties(original: Original, text: ReportText) -> Properties:
    fields, word = original.fields, text.word
    message_id = fields.property_at(_MESSAGE_ID)
    correlation = fields.property_at(_CORRELATION_ID) if word & mq.PASS_CORREL_ID != 0 else message_id
    passed = message_id if word & mq.PASS_MSG_ID != 0 else None
    return Properties(
        message_id=text.message_id if passed is None else passed,  # type: ignore[arg-type]
        to=original.reply_to,
        correlation_id=correlation,  # type: ignore[arg-type]
        creation_time=text.now_us // 1000,
    )


def _annotations(original: Original, text: ReportText, full: bool) -> dict[object, object]:
    annotations: dict[object, object] = {}
    kind = original.fields.annotation(_MESSAGE_KIND) if full else None
    if kind is not None:
        annotations[_MESSAGE_KIND] = kind
    if text.word & mq.PASS_DISCARD_AND_EXPIRY != 0 and text.word & mq.DISCARD_MSG != 0:
        annotations[REPORT_ANNOTATION] = UInt(mq.DISCARD_MSG)
    return annotations


def _application_properties(original: Original, text: ReportText, full: bool) -> dict[str, object]:
    record: dict[str, object] = {}
    if full:
        record = {
            name: value for name, value in original.fields.application().items() if name not in PROPERTY_MASKS
        }
    elif needs_body(text.data):
        for name in _OF_THE_DATA:
            value = original.fields.application_property(name)
            if value is not None:
                record[name] = value
    record[MSG_TYPE] = Int(mq.MessageType.REPORT.value)
    record[FEEDBACK] = Int(text.feedback)
    record[PUT_APPL_TYPE] = Int(PUT_BY_QUEUE_MANAGER)
    record[PUT_APPL_NAME] = text.queue_manager
    record[PUT_DATE], record[PUT_TIME] = put_date_and_time(text.now_us)
    return record


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


# --- data

_NO_DATA: Final = b"\x00\x53\x75\xa0\x00"
"""A data section without bytes."""


def _data(original: Original, data: mq.Data) -> bytes:
    body = original.sections[original.head.body_start :]
    if data is mq.Data.WITH_FULL_DATA:
        return body or _NO_DATA
    if data is not mq.Data.WITH_DATA:
        return _NO_DATA
    first = first_bytes(body)
    return b"\x00\x53\x75\xa0" + bytes([len(first)]) + first


def first_bytes(body: bytes) -> bytes:
    """The first `MAX_DATA_BYTES` of a message's data: of its bytes, its text in UTF-8, or of the encoding of
    whatever else it is."""
    r = Reader(body, 0, len(body))
    found = b""
    while r.pos < r.end and len(found) < MAX_DATA_BYTES:
        code = read_descriptor(r)
        start = r.pos
        if code == d.FOOTER:
            break
        value = r.value() if code != d.AMQP_SEQUENCE else None
        if isinstance(value, bytes):
            found += value[:MAX_DATA_BYTES]
        elif isinstance(value, str):
            found += value[:MAX_DATA_BYTES].encode("utf-8", "replace")
        else:
            if code == d.AMQP_SEQUENCE:
                r.skip()
            found += body[start : r.pos][:MAX_DATA_BYTES]
    return found[:MAX_DATA_BYTES]
