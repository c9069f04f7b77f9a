"""Parts of AMQP as bytes, and back."""

from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.composite import Performative
from postroom.amqp.encoding.field_reader import read_descriptor, read_symbol_map
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.writer import BytesWriter
from postroom.amqp.frames.outcomes import LastTransactionalState
from postroom.amqp.frames.performatives import read_performative
from postroom.amqp.message.trace_context import TraceContext


def encode_performative(performative: Performative) -> bytes:
    """As it stands in a frame; EncodeError for a field out of its range."""
    w = BytesWriter()
    performative.write(w)
    return w.getvalue()


def decode_performative(
    data: bytes, offset: int = 0, last: LastTransactionalState | None = None
) -> tuple[Performative, int]:
    """The performative that begins at ``offset``, and where a transfer's payload begins. ``last`` is that of
    a connection; None: a new one's."""
    r = Reader(data, offset, len(data))
    return read_performative(r, last or LastTransactionalState()), r.pos


def read_annotations(stored: bytes) -> dict[object, object]:
    """The message annotations that stored sections begin with; empty when there are none."""
    r = Reader(stored, 0, len(stored))
    r.context = "message"
    if not stored or read_descriptor(r) != d.MESSAGE_ANNOTATIONS:
        return {}
    return read_symbol_map(r, "message-annotations")


def traceparent(context: TraceContext) -> str:
    """As text, version 00."""
    return f"00-{context.trace_id.hex()}-{context.span_id.hex()}-{int(context.flags):02x}"
