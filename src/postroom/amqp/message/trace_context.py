"""The trace context of a message, as W3C Trace Context has it.

A sender puts it into application properties, ``traceparent`` and ``tracestate`` as text; who annotates a
message on its way uses message annotations of the same names, which count before those (W3C Trace Context:
AMQP protocol, a draft). Qpid Proton's instrumentation has both in one message annotation, a map. A
``traceparent`` may be binary, too, in the form that the draft takes from W3C Trace Context: Binary protocol.
"""

from collections.abc import Mapping
from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.message.message_fields import MessageFields

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
QPID_TRACESTATE: Final = "x-opt-qpid-tracestate"
"""The message annotation of Qpid Proton: a map of both."""
MAX_TRACESTATE_CHARS: Final = 512
"""A longer one is left out (W3C Trace Context, section 3.3.1.5: at least so much goes on)."""
SAMPLED: Final = 1
"""The flag that says that the sender records this trace."""

_TEXT_CHARS: Final = 55
_BINARY_BYTES: Final = 29
_ZERO_TRACE: Final = bytes(16)
_ZERO_SPAN: Final = bytes(8)
_HEX: Final = frozenset("0123456789abcdef")


@final
class TraceContext:
    """Whose trace a message belongs to, and the span that sent it."""

    __slots__ = ("flags", "span_id", "trace_id", "trace_state")

    def __init__(self, trace_id: bytes, span_id: bytes, flags: i64, trace_state: str = "") -> None:
        """``trace_id`` has 16 bytes, ``span_id`` 8, neither all zero."""
        self.trace_id = trace_id
        self.span_id = span_id
        self.flags: i64 = flags
        self.trace_state = trace_state

    def is_sampled(self) -> bool:
        return self.flags & SAMPLED != 0


def parse_traceparent(value: object) -> TraceContext | None:
    """The context of a ``traceparent``, text or binary; None for one that says nothing."""
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, bytes):
        return _of_binary(value)
    return None


def _of_text(text: str) -> TraceContext | None:
    size = len(text)
    if size < _TEXT_CHARS or text[2] != "-" or text[35] != "-" or text[52] != "-":
        return None
    version = text[:2]
    if version == "ff" or (size > _TEXT_CHARS and (version == "00" or text[_TEXT_CHARS] != "-")):
        return None
    digits = version + text[3:35] + text[36:52] + text[53:55]
    if not _HEX.issuperset(digits):
        return None
    known = bytes.fromhex(digits)
    return _context(known[1:17], known[17:25], known[25])


def _of_binary(data: bytes) -> TraceContext | None:
    """Version, then each field behind its number: trace-id, span-id, flags."""
    if len(data) != _BINARY_BYTES or data[0] != 0 or data[1] != 0 or data[18] != 1 or data[27] != 2:
        return None
    return _context(data[2:18], data[19:27], data[28])


def _context(trace_id: bytes, span_id: bytes, flags: int) -> TraceContext | None:
    if trace_id == _ZERO_TRACE or span_id == _ZERO_SPAN:
        return None
    return TraceContext(trace_id, span_id, flags)


def trace_context_of(fields: MessageFields) -> TraceContext | None:
    """The context that a message carries; None for one without, or with none that can be read."""
    return find_trace_context(fields.annotations(), fields.application())


def find_trace_context(
    annotations: Mapping[str, object], properties: Mapping[str, object]
) -> TraceContext | None:
    """The same of its message annotations and application properties."""
    of_qpid = annotations.get(QPID_TRACESTATE)
    for carrier in (annotations, of_qpid, properties):
        if isinstance(carrier, dict):
            context = parse_traceparent(carrier.get(TRACEPARENT))
            if context is not None:
                context.trace_state = _trace_state(carrier.get(TRACESTATE))
                return context
    return None


def _trace_state(value: object) -> str:
    """As text: a map of strings is one, too (the draft)."""
    text = ""
    if isinstance(value, str):
        text = value
    elif isinstance(value, dict):
        text = ",".join(f"{key}={member}" for key, member in value.items())
    return text if len(text) <= MAX_TRACESTATE_CHARS else ""
