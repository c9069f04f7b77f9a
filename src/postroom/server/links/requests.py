"""Messages that the broker itself reads and writes: requests to the management node and their answers."""

from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.field_reader import read_descriptor
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.types import Int
from postroom.amqp.errors import DecodeError
from postroom.amqp.frames.outcomes import Declare, Discharge, decode_declare_or_discharge
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Message, Properties, Value


def write_response(request: Message, status: dict[str, object], body: object) -> bytes:
    """The sections of the answer to ``request``; ``status`` are its application properties, numbers as int.

    It repeats the request's correlation id, or its message id where it has none.
    """
    request_properties = request.properties or Properties()
    correlation_id = (
        request_properties.correlation_id
        if request_properties.correlation_id is not None
        else request_properties.message_id
    )
    properties = Properties(to=request_properties.reply_to, correlation_id=correlation_id)
    numbered = {key: Int(value) if type(value) is int else value for key, value in status.items()}
    return Message(properties=properties, application_properties=numbered, body=Value(body)).encode()


def read_coordinator_request(payload: bytes) -> Declare | Discharge:
    """The declare or discharge that a message to the coordinator is; `DecodeError` for anything else."""
    head = scan_head(payload)
    reader = Reader(payload, head.body_start, len(payload))
    if head.body_start == len(payload) or read_descriptor(reader) != d.AMQP_VALUE:
        raise DecodeError("a message to the coordinator holds its declare or discharge in an amqp-value")
    return decode_declare_or_discharge(payload, reader.pos)
