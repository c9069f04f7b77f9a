"""What is counted of requests over HTTP, for Prometheus."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REQUEST_BUCKETS_S: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0)


class HttpCounters:
    """What is asked for over HTTP."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests: Final = Counter(
            "postroom_http_requests", "Requests answered", ["path", "status"], registry=registry
        )
        self.bytes: Final = Counter(
            "postroom_http_response_bytes", "Bytes of bodies of answers", ["path"], registry=registry
        )
        self.seconds: Final = Histogram(
            "postroom_http_request_seconds",
            "From a request to the last byte of its answer",
            ["path"],
            buckets=REQUEST_BUCKETS_S,
            registry=registry,
        )
        self.in_work: Final = Gauge(
            "postroom_http_requests_in_work", "Requests that are being answered", registry=registry
        )

    def count(self, path: str, status: int, size_bytes: int, seconds: float) -> None:
        """One answer has ended; status 0: nobody was there any more to take it."""
        self.requests.labels(path, str(status)).inc()
        self.bytes.labels(path).inc(size_bytes)
        self.seconds.labels(path).observe(seconds)
