"""The table ``[tracing]`` of the configuration."""

import os
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from postroom.server.configuration.values import Name, PlacedError, Positive

MAX_HEADERS_BYTES = 64 << 10
"""Of the file of headers."""


class TracingConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the broker sends the spans of sampled messages; without the table it makes none."""

    endpoint: Name = "http://127.0.0.1:4318/v1/traces"
    """The collector's URL for traces, OTLP over HTTP (protobuf), with its path."""
    ratio: Annotated[float, Meta(ge=0.0, le=1.0)] = 1.0
    """How many of the traces that their senders sample are kept, 0 to 1; by the trace's id, so that every
    broker keeps the same."""
    service_name: Name = "postroom"
    """`service.name` of the spans; `service.instance.id` is the container id."""
    headers_file: str = ""
    """File with a header in each line, `NAME: VALUE`, that requests to the collector have, as for a token;
    read at the start."""
    ca_file: str = ""
    """PEM file with the authorities that the collector's certificate may be of; empty: those of the
    system."""
    interval_s: Annotated[float, Meta(gt=0, le=3600)] = 1.0
    """How often the ledger is looked at; spans are sent so much later."""
    timeout_ms: Positive = 10_000
    """Time for one request to the collector, its repetitions included."""
    max_messages: Annotated[int, Meta(ge=1, le=10_000_000)] = 100_000
    """Traced messages that are alive at a time, and as many that have just come; more aren't traced, which
    `postroom_trace_messages_dropped_total` counts."""
    max_spans: Annotated[int, Meta(ge=1, le=10_000_000)] = 50_000
    """Spans that wait for the collector; more are dropped, which `postroom_trace_spans_dropped_total`
    counts."""
    batch_spans: Annotated[int, Meta(ge=1, le=100_000)] = 512
    """Of one request to the collector, at most."""

    def __post_init__(self) -> None:
        url = urlsplit(self.endpoint)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise PlacedError(("endpoint",), f"{self.endpoint!r}: give an http:// or https:// URL")
        if url.path in ("", "/"):
            what = f"{self.endpoint!r} has no path: that of a collector for traces ends in /v1/traces"
            raise PlacedError(("endpoint",), what)
        if url.username or url.password:
            what = "has a password in it: put what the collector wants into headers_file"
            raise PlacedError(("endpoint",), what)
        if self.ca_file and not os.access(self.ca_file, os.R_OK):
            raise PlacedError(("ca_file",), f"{self.ca_file!r} can't be read")
        self.headers()

    def headers(self) -> dict[str, str]:
        """Those of the file. Raises `PlacedError`."""
        if not self.headers_file:
            return {}
        try:
            with Path(self.headers_file).open(encoding="utf-8") as file:
                text = file.read(MAX_HEADERS_BYTES + 1)
        except (OSError, UnicodeDecodeError) as error:
            raise PlacedError(("headers_file",), f"{self.headers_file!r} can't be read: {error}") from error
        if len(text) > MAX_HEADERS_BYTES:
            what = f"{self.headers_file!r} has more than {MAX_HEADERS_BYTES} bytes"
            raise PlacedError(("headers_file",), what)
        found = {}
        for number, line in enumerate(text.splitlines(), 1):
            name, colon, value = line.partition(":")
            name, value = name.strip().lower(), value.strip()
            if not line.strip():
                continue
            if not colon or not _is_token(name) or not value.isprintable():
                what = f"{self.headers_file!r}, line {number}: is no header as NAME: VALUE"
                raise PlacedError(("headers_file",), what)
            found[name] = value
        return found


def _is_token(name: str) -> bool:
    """Whether it can be a header's name (RFC 9110)."""
    return bool(name) and all(
        char.isascii() and (char.isalnum() or char in "!#$%&'*+-.^_`|~") for char in name
    )
