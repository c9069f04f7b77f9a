"""What is known of a traced message while it lives."""

from typing import Final

from msgspec import Struct, field

from postroom.amqp.message.trace_context import TraceContext
from postroom.server.tracing.spans import Attributes, SpanEvent

PUT: Final = "put"
WAIT: Final = "wait"
HELD: Final = "held"


class TracedEntry(Struct):
    """A traced message on one queue or subscription: the span that has begun and not ended."""

    stage: str
    """`PUT`: its transaction is undecided; `WAIT`; `HELD`: somebody has it, who must confirm."""
    since_us: int
    span_id: bytes
    operation: str
    destination: Attributes
    attributes: Attributes = field(default_factory=dict)
    """Of the span that has begun."""
    events: list[tuple[str, int]] = field(default_factory=list)
    attempts: int = 0
    """How often it was delivered."""
    disposed_us: int = 0
    """When its receiver disposed of it in a transaction that is undecided; 0: it has not."""
    link_id: bytes = b""

    def span_events(self) -> tuple[SpanEvent, ...]:
        return tuple(SpanEvent(name, time_us) for name, time_us in self.events)


class TracedMessage(Struct):
    """A message whose sender records the trace."""

    trace_id: bytes
    span_id: bytes
    flags: int
    trace_state: str
    attributes: Attributes = field(default_factory=dict)
    entries: dict[int, TracedEntry] = field(default_factory=dict)
    """By queue id."""

    @classmethod
    def of(cls, context: TraceContext) -> "TracedMessage":
        return cls(context.trace_id, context.span_id, int(context.flags), context.trace_state)

    def context(self) -> TraceContext:
        """As it was noted."""
        return TraceContext(self.trace_id, self.span_id, self.flags, self.trace_state)
