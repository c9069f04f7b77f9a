"""Messages that the broker itself reads and writes: requests to the management node and their answers."""

from typing import Final

from postroom.amqp import descriptors as d
from postroom.amqp.codec import decode, encode
from postroom.amqp.errors import DecodeError
from postroom.amqp.fields import read_descriptor
from postroom.amqp.messaging import scan_head
from postroom.amqp.outcomes import Declare, Discharge, decode_declare_or_discharge
from postroom.amqp.reader import Reader
from postroom.amqp.types import Described, Int, ULong

MESSAGE_ID: Final = 0
TO: Final = 2
REPLY_TO: Final = 4
CORRELATION_ID: Final = 5
"""Places of these in the list of properties (part 3, section 3.2.4)."""


class RequestMessage:
    """What a request says beside its body: where the answer goes, and what it refers to."""

    def __init__(self) -> None:
        self.reply_to = ""
        self.correlation_id: object = None
        """The request's own, else its message id: what the answer repeats."""
        self.properties: dict[object, object] = {}
        """Application properties."""
        self.body: object = None


def read_request(payload: bytes) -> RequestMessage:
    """The parts of a request that matter. Raises `DecodeError` for what is not a message."""
    scan_head(payload)
    request = RequestMessage()
    offset = 0
    while offset < len(payload):
        section, offset = decode(payload, offset)
        if isinstance(section, Described):
            _take_section(request, section)
    return request


def _take_section(request: RequestMessage, section: Described) -> None:
    code = section.descriptor
    if isinstance(code, str):
        code = d.CODE_OF_SYMBOL.get(code)
    value = section.value
    if code == d.PROPERTIES and isinstance(value, list):
        fields = value + [None] * (CORRELATION_ID + 1 - len(value))
        request.reply_to = fields[REPLY_TO] if isinstance(fields[REPLY_TO], str) else ""
        own = fields[CORRELATION_ID]
        request.correlation_id = own if own is not None else fields[MESSAGE_ID]
    elif code == d.APPLICATION_PROPERTIES and isinstance(value, dict):
        request.properties = value
    elif code == d.AMQP_VALUE:
        request.body = value


def write_response(to: str, correlation_id: object, properties: dict[str, object], body: object) -> bytes:
    """The sections of an answer: properties, application properties, a value."""
    fields: list[object] = [None, None, to, None, None, correlation_id]
    numbered = {key: Int(value) if type(value) is int else value for key, value in properties.items()}
    sections = ((d.PROPERTIES, fields), (d.APPLICATION_PROPERTIES, numbered), (d.AMQP_VALUE, body))
    return b"".join(encode(Described(ULong(code), value)) for code, value in sections)


def read_coordinator_request(payload: bytes) -> Declare | Discharge:
    """The declare or discharge that a message to the coordinator is. Raises `DecodeError` for anything
    else.
    """
    head = scan_head(payload)
    reader = Reader(payload, head.body_start, len(payload))
    if head.body_start == len(payload) or read_descriptor(reader) != d.AMQP_VALUE:
        raise DecodeError("a message to the coordinator holds its declare or discharge in an amqp-value")
    return decode_declare_or_discharge(payload, reader.pos)
