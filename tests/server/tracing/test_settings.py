"""The table [tracing]: what of it is refused where, beside what the configuration's own tests try."""

import sys
from pathlib import Path

import pytest

from postroom.ledger.ledger import Ledger
from postroom.server.configuration.config import Config
from postroom.server.configuration.tracing import MAX_HEADERS_BYTES, TracingConfig
from postroom.server.configuration.values import PlacedError
from postroom.server.exits import Exit, StartError
from postroom.server.start import open_ledger
from postroom.server.tracing.tracer import make_tracer


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return open_ledger(Config(data=str(tmp_path / "data")))


def test_without_the_table_nothing_is_traced(ledger: Ledger) -> None:
    try:
        assert make_tracer(Config(), ledger) is None
    finally:
        ledger.close()


def test_without_the_library_the_start_says_what_to_install(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.trace.v1", None)
    monkeypatch.delitem(sys.modules, "postroom.server.tracing.otlp_exporter", raising=False)
    try:
        with pytest.raises(StartError, match=r"pip install 'postroom\[otel\]'") as caught:
            make_tracer(Config(tracing=TracingConfig()), ledger)
        assert caught.value.code == Exit.CONFIGURATION
    finally:
        ledger.close()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"no colon\n", "line 1: is no header"),
        (b"A: b\n: no name\n", "line 2: is no header"),
        (b"A b: no token\n", "line 1: is no header"),
        (b"A: \x07\n", "line 1: is no header"),
        (b"\xff", "can't be read"),
        (b"A: " + b"b" * MAX_HEADERS_BYTES, f"more than {MAX_HEADERS_BYTES} bytes"),
    ],
)
def test_headers_that_are_none(tmp_path: Path, content: bytes, what: str) -> None:
    file = tmp_path / "headers"
    file.write_bytes(content)
    with pytest.raises(PlacedError, match=what) as caught:
        TracingConfig(headers_file=str(file))
    assert caught.value.path == ("headers_file",)


def test_headers(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer a:b \n\nX-Tenant:shop\n")
    assert TracingConfig(headers_file=str(file)).headers() == {
        "authorization": "Bearer a:b",
        "x-tenant": "shop",
    }
