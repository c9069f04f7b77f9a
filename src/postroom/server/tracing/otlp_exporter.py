"""Spans in OpenTelemetry's protocol, OTLP over HTTP, with its own messages (the extra ``otel`` brings them).

They are made here and not by OpenTelemetry's exporter: that makes an object of the SDK of each span, and each
attribute anew, which takes several times as long (docs/explanation/own-parts.md). Most attributes of a
broker's spans are the same again and again.
"""

import gzip
import ssl
from collections.abc import Mapping, Sequence
from functools import lru_cache
from http.client import HTTPException
from types import MappingProxyType
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2 as otlp

from postroom import __version__
from postroom.server.configuration.tracing import TracingConfig
from postroom.server.tracing.spans import CLIENT, INTERNAL, SERVER, Span, Value

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.37.0"
"""Of the conventions whose names the attributes have."""
KNOWN_ATTRIBUTES: Final = 4096
"""Attributes that are kept as they are sent."""
MAX_REASON_BYTES: Final = 512
"""Of what the collector says of a request that it refuses."""

_KINDS: Final = MappingProxyType(
    {
        SERVER: otlp.Span.SPAN_KIND_SERVER,
        CLIENT: otlp.Span.SPAN_KIND_CLIENT,
        INTERNAL: otlp.Span.SPAN_KIND_INTERNAL,
    }
)
_REMOTE_PARENT: Final = 0x300
"""Flags of a span: it is known where its parent is, and it is elsewhere."""
_NS_A_US: Final = 1000
_COMPRESSION: Final = 1
"""The fastest: spans repeat themselves."""


class _NoRedirect(HTTPRedirectHandler):
    """A redirected POST would become a GET, and take the headers to who knows whom."""

    def redirect_request(self, *arguments: object) -> None:
        return None


class OtlpExporter:
    """Sends spans to the collector of a configuration; a `SpanExporter`."""

    def __init__(self, config: TracingConfig, resource: Mapping[str, str]) -> None:
        """``resource``: what is the same of all spans."""
        self._endpoint: Final = config.endpoint
        self._timeout_s: Final = config.timeout_ms / 1000
        self._headers: Final = config.headers() | {
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
            "user-agent": f"postroom/{__version__}",
        }
        trusted = ssl.create_default_context(cafile=config.ca_file or None)
        self._opener: Final = build_opener(HTTPSHandler(context=trusted), _NoRedirect())
        self._resource: Final = Resource(attributes=[_attribute(*each) for each in resource.items()])
        self._scope: Final = InstrumentationScope(name="postroom.server", version=__version__)

    def export(self, spans: Sequence[Span]) -> str:
        data = gzip.compress(self._request(spans).SerializeToString(), _COMPRESSION)
        request = Request(self._endpoint, data, self._headers, method="POST")
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                answer.read(MAX_REASON_BYTES)
        except HTTPError as error:
            with error:
                text = error.read(MAX_REASON_BYTES).decode("utf-8", "replace").strip()
            return f"the collector answers {error.code} {error.reason}{': ' if text else ''}{text}"
        except (URLError, HTTPException, OSError) as error:
            return f"{self._endpoint}: {error}"
        return ""

    def _request(self, spans: Sequence[Span]) -> ExportTraceServiceRequest:
        made = [_encoded(span) for span in spans]
        scope = otlp.ScopeSpans(scope=self._scope, spans=made, schema_url=SCHEMA_URL)
        whole = otlp.ResourceSpans(resource=self._resource, scope_spans=[scope], schema_url=SCHEMA_URL)
        return ExportTraceServiceRequest(resource_spans=[whole])


def _encoded(span: Span) -> otlp.Span:
    made = otlp.Span(
        trace_id=span.trace_id,
        span_id=span.span_id,
        trace_state=span.trace_state,
        parent_span_id=span.parent_id,
        flags=span.flags | _REMOTE_PARENT,
        name=span.name,
        kind=_KINDS[span.kind],
        start_time_unix_nano=span.start_us * _NS_A_US,
        end_time_unix_nano=span.end_us * _NS_A_US,
        attributes=[_attribute(name, value) for name, value in span.attributes.items()],
    )
    for event in span.events:
        made.events.add(name=event.name, time_unix_nano=event.time_us * _NS_A_US)
    if span.link_id:
        made.links.add(trace_id=span.trace_id, span_id=span.link_id, trace_state=span.trace_state)
    if span.error:
        made.status.code = otlp.Status.STATUS_CODE_ERROR
        made.status.message = span.error
    return made


@lru_cache(KNOWN_ATTRIBUTES, typed=True)
def _attribute(name: str, value: Value) -> KeyValue:
    if isinstance(value, bool):
        return KeyValue(key=name, value=AnyValue(bool_value=value))
    if isinstance(value, int):
        return KeyValue(key=name, value=AnyValue(int_value=value))
    return KeyValue(key=name, value=AnyValue(string_value=value))
