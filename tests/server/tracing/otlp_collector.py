"""A collector that speaks OTLP over HTTP, as small as it can be."""

import gzip
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

TIMEOUT_S = 20.0


class Collector:
    """Keeps the spans that it is sent; a context manager."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        """What it answers; nothing is kept of what isn't answered with 200."""
        self._changed = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                collector.take(dict(self.headers), gzip.decompress(data))
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                """It says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def take(self, headers: dict[str, str], data: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(data)
        with self._changed:
            self.headers.append(headers)
            if self.status == 200:
                for each in request.resource_spans:
                    self.resources.append(attributes_of(each.resource.attributes))
                    self.spans += [span for scope in each.scope_spans for span in scope.spans]
            self._changed.notify_all()

    def wait_for(self, names: list[str], trace_id: str = "") -> list[Span]:
        """The spans of a trace in the order of their beginnings, when they are these."""

        def found() -> list[Span]:
            spans = [span for span in self.spans if trace_id in ("", span.trace_id.hex())]
            return sorted(spans, key=lambda span: (span.start_time_unix_nano, span.end_time_unix_nano))

        def done() -> bool:
            return sorted(span.name for span in found()) == sorted(names)

        with self._changed:
            assert self._changed.wait_for(done, TIMEOUT_S), [span.name for span in found()]
        return found()

    def wait(self, until: Callable[[], bool]) -> None:
        """Until that is so, looked at with each request."""
        with self._changed:
            assert self._changed.wait_for(until, TIMEOUT_S)

    def __enter__(self) -> "Collector":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def attributes_of(attributes: object) -> dict[str, str]:
    """As text, by name."""
    return {
        each.key: each.value.string_value or str(each.value.int_value)
        for each in attributes  # type: ignore[attr-defined]
    }
