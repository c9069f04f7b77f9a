"""The client's instrumentation for OpenTelemetry (extra ``otel``).

``ClientOptions(tracing=OpenTelemetryTracing())`` has each send make a span and put its context into the
message, as W3C Trace Context has it, and each receive and each call of a listener make one that is linked to
the sender's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from postroom import __version__
from postroom.amqp.message.trace_context import TRACEPARENT, TRACESTATE, find_trace_context
from postroom.client.messages.base_message import Message

__all__ = ["OpenTelemetryTracing"]

SYSTEM: Final = "postroom"
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_NAMES: Final = (TRACEPARENT, TRACESTATE)
Attributes = dict[str, str | int]


class OpenTelemetryTracing:
    """Spans by OpenTelemetry's conventions for messaging: ``send``, ``receive`` and ``process``.

    A message that has a context of its own, which the application has put into its properties, keeps it: its
    span is linked to it. One that was received and is sent on, with properties that are read-only, gets the
    new context as message annotations.
    """

    def __init__(self, tracer_provider: trace.TracerProvider | None = None) -> None:
        """``tracer_provider`` None: the one that is set when a span is made."""
        self._provider: Final = tracer_provider

    @property
    def _tracer(self) -> trace.Tracer:
        return trace.get_tracer("postroom.client", __version__, self._provider)

    @contextmanager
    def sending(self, messages: Sequence[Message], destination: str, client_id: str) -> Iterator[Span]:
        """Around a send of one message or many; each of them gets the span's context."""
        attributes = _attributes("send", "send", destination, client_id)
        own = [context for message in messages if (context := _own_context(message)) is not None]
        with self._span("send", destination, SpanKind.PRODUCER, attributes, own) as span:
            for message in messages:
                _inject(message)
            if len(messages) == 1:
                span.set_attributes(_of_message(messages[0]))
            else:
                span.set_attribute("messaging.batch.message_count", len(messages))
            yield span
            if len(messages) == 1:
                span.set_attributes(_of_message(messages[0]))  # the producer has made its id

    @contextmanager
    def receiving(self, message: Message, destination: str, client_id: str) -> Iterator[Span]:
        """Around the way of a message to whom has called ``receive``."""
        attributes = _attributes("receive", "receive", destination, client_id) | _of_message(message)
        links = _contexts(message)
        with self._span("receive", destination, SpanKind.CLIENT, attributes, links) as span:
            yield span

    @contextmanager
    def processing(self, message: Message, destination: str = "", client_id: str = "") -> Iterator[Span]:
        """Around the work at a message: a span that is linked to its sender's, and in the same trace where
        there is no other span around it."""
        destination = destination or _destination_of(message)
        attributes = _attributes("process", "process", destination, client_id) | _of_message(message)
        contexts = _contexts(message)
        parent = None
        if contexts and not trace.get_current_span().get_span_context().is_valid:
            parent = trace.set_span_in_context(trace.NonRecordingSpan(contexts[0]))
        with (
            self._tracer.start_as_current_span(
                f"process {destination}",
                parent,
                SpanKind.CONSUMER,
                attributes,
                [Link(context) for context in contexts],
            ) as span,
            _error_type(span),
        ):
            yield span

    @contextmanager
    def _span(
        self,
        operation: str,
        destination: str,
        kind: SpanKind,
        attributes: Attributes,
        links: list[SpanContext],
    ) -> Iterator[Span]:
        with (
            self._tracer.start_as_current_span(
                f"{operation} {destination}", None, kind, attributes, [Link(context) for context in links]
            ) as span,
            _error_type(span),
        ):
            yield span


@contextmanager
def _error_type(span: Span) -> Iterator[None]:
    """Says of what kind a failure was; the rest of it OpenTelemetry says itself."""
    try:
        yield
    except BaseException as error:
        span.set_attribute("error.type", type(error).__qualname__)
        raise


def _attributes(operation: str, kind: str, destination: str, client_id: str) -> Attributes:
    found: Attributes = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
    }
    if destination:
        found["messaging.destination.name"] = destination
    if client_id:
        found["messaging.client.id"] = client_id
    return found


def _of_message(message: Message) -> Attributes:
    found: Attributes = {}
    if message.message_id is not None:
        found["messaging.message.id"] = str(message.message_id)
    if message.correlation_id is not None:
        found["messaging.message.conversation_id"] = str(message.correlation_id)
    return found


def _destination_of(message: Message) -> str:
    destination = message.destination
    if destination is None or isinstance(destination, str):
        return destination or ""
    return str(destination.name)


def _contexts(message: Message) -> list[SpanContext]:
    """The context that a message carries, if it does."""
    found = find_trace_context(message.annotations, message.properties)
    if found is None:
        return []
    ids = int.from_bytes(found.trace_id, "big"), int.from_bytes(found.span_id, "big")
    state = TraceState.from_header([found.trace_state]) if found.trace_state else None
    return [SpanContext(*ids, True, TraceFlags(int(found.flags)), state)]


def _own_context(message: Message) -> SpanContext | None:
    """The one that came with the message before this producer, which is not to be changed."""
    if _is_ours(message):
        return None
    contexts = _contexts(message)
    return contexts[0] if contexts else None


def _is_ours(message: Message) -> bool:
    """Whether a send before this one has put the context there."""
    made = message.stamp.get(TRACEPARENT)
    return made is not None and _carrier(message).get(TRACEPARENT) == made


def _carrier(message: Message) -> Mapping[str, object]:
    return message.annotations if message.properties.read_only else message.properties


def _inject(message: Message) -> None:
    """Put the context of the current span into the message, unless it has one of the application's."""
    if not message.properties.read_only and _own_context(message) is not None:
        return
    context: dict[str, str] = {}
    _PROPAGATOR.inject(context)
    into: dict[str, object] = message.annotations if message.properties.read_only else message.properties
    for name in _NAMES:
        if name in context:
            into[name] = context[name]
        else:
            into.pop(name, None)
    message.stamp[TRACEPARENT] = context.get(TRACEPARENT)
