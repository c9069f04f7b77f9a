"""Spans in OpenTelemetry's protocol, OTLP over HTTP, by its own exporter (the extra ``otel``)."""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from postroom import __version__
from postroom.server.configuration.tracing import TracingConfig
from postroom.server.tracing.spans import CLIENT, INTERNAL, SERVER, Span

LIBRARY_LOGGER: Final = "opentelemetry"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.37.0"
"""Of the conventions whose names the attributes have."""

_KINDS: Final = MappingProxyType(
    {SERVER: SpanKind.SERVER, CLIENT: SpanKind.CLIENT, INTERNAL: SpanKind.INTERNAL}
)
_NS_A_US: Final = 1000


class _LastRecord(logging.Handler):
    """Keeps what the library says last: it returns no reason."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


class OtlpExporter:
    """Sends spans to the collector of a configuration; a `SpanExporter`."""

    def __init__(self, config: TracingConfig, resource: Mapping[str, str]) -> None:
        """``resource``: what is the same of all spans."""
        self._exporter: Final = OTLPSpanExporter(
            endpoint=config.endpoint,
            certificate_file=config.ca_file or None,
            headers=config.headers(),
            timeout=config.timeout_ms / 1000,
            compression=Compression.Gzip,
        )
        self._resource: Final = Resource(dict(resource), SCHEMA_URL)
        self._scope: Final = InstrumentationScope("postroom.server", __version__, SCHEMA_URL)
        self._last_record: Final = _LastRecord()
        library = logging.getLogger(LIBRARY_LOGGER)
        library.addHandler(self._last_record)
        library.propagate = False  # the broker's log says it, once

    def export(self, spans: Sequence[Span]) -> str:
        self._last_record.text = ""
        result = self._exporter.export([self._readable(span) for span in spans])
        if result == SpanExportResult.SUCCESS:
            return ""
        return self._last_record.text or "the collector has not taken them"

    def close(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _readable(self, span: Span) -> ReadableSpan:
        """As the library has it."""
        links = [Link(_context(span, span.link_id))] if span.link_id else []
        return ReadableSpan(
            name=span.name,
            context=_context(span, span.span_id),
            parent=_context(span, span.parent_id, is_remote=True),
            resource=self._resource,
            attributes=span.attributes,
            events=[Event(event.name, timestamp=event.time_us * _NS_A_US) for event in span.events],
            links=links,
            kind=_KINDS[span.kind],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=span.start_us * _NS_A_US,
            end_time=span.end_us * _NS_A_US,
            instrumentation_scope=self._scope,
        )


def _context(span: Span, span_id: bytes, is_remote: bool = False) -> SpanContext:
    state = TraceState.from_header([span.trace_state]) if span.trace_state else None
    numbers = int.from_bytes(span.trace_id, "big"), int.from_bytes(span_id, "big")
    return SpanContext(*numbers, is_remote, TraceFlags(span.flags), state)
