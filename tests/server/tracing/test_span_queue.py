"""Spans on their way: what waits, what is dropped, and that a collector that is away harms nobody."""

import logging
import threading
from collections.abc import Sequence

import pytest

from postroom.server.tracing import span_queue
from postroom.server.tracing.span_queue import NO_ROOM, NOT_SENT, SpanQueue
from postroom.server.tracing.spans import INTERNAL, Span

TIMEOUT_S = 20.0


def a_span(number: int) -> Span:
    return Span("wait", f"q{number}", INTERNAL, b"t" * 16, b"s" * 8, b"p" * 8, "", 1, 0, number, {})


class Exporter:
    """Takes spans, or says why not."""

    def __init__(self, failure: str = "") -> None:
        self.failure = failure
        self.batches: list[list[Span]] = []
        self.tries = 0
        self.changed = threading.Condition()

    def export(self, spans: Sequence[Span]) -> str:
        with self.changed:
            self.tries += 1
            if not self.failure:
                self.batches.append(list(spans))
            self.changed.notify_all()
            return self.failure

    def wait(self, tries: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.tries >= tries, TIMEOUT_S)


class StuckExporter(Exporter):
    """Hangs until the test is over."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over = threading.Event()

    def export(self, spans: Sequence[Span]) -> str:
        super().export(spans)
        self.is_over.wait(TIMEOUT_S)
        return "the test is over"


def test_they_leave_in_order_and_in_batches() -> None:
    exporter = Exporter()
    queue = SpanQueue(exporter, 100, 4)
    queue.add([a_span(number) for number in range(10)])
    queue.start()
    queue.stop()
    assert [len(batch) for batch in exporter.batches] == [4, 4, 2]
    assert [span.end_us for batch in exporter.batches for span in batch] == list(range(10))
    assert queue.exported == 10 and queue.waiting == 0 and not any(queue.dropped.values())


def test_those_without_room_are_dropped_and_counted() -> None:
    queue = SpanQueue(Exporter(), 5, 4)
    queue.add([a_span(number) for number in range(3)])
    queue.add([a_span(number) for number in range(4)])
    assert queue.waiting == 5 and queue.dropped == {NO_ROOM: 2, NOT_SENT: 0}


def test_a_collector_that_is_back_gets_what_waited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(span_queue, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(span_queue, "LONGEST_PAUSE_S", 0.002)
    caplog.set_level(logging.INFO, "postroom")
    exporter = Exporter("nobody answers")
    queue = SpanQueue(exporter, 100, 4)
    queue.add([a_span(number) for number in range(6)])
    queue.start()
    exporter.wait(5)
    exporter.failure = ""
    exporter.wait(exporter.tries + 2)
    queue.stop()
    assert [span.end_us for batch in exporter.batches for span in batch] == list(range(6))
    assert queue.exported == 6
    assert caplog.text.count("trace-export-failed") == 1, "said once"
    assert "trace-export-works" in caplog.text


def test_a_batch_that_is_never_taken_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_queue, "GIVE_UP_S", 0.0)
    exporter = Exporter("it is refused")
    queue = SpanQueue(exporter, 100, 4)
    queue.add([a_span(number) for number in range(6)])
    queue.start()
    exporter.wait(2)
    queue.stop()
    assert queue.dropped[NOT_SENT] == 6 and queue.exported == 0 and queue.waiting == 0


def test_the_end_doesnt_wait_for_a_collector_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_queue, "STOP_S", 0.05)
    exporter = StuckExporter()
    queue = SpanQueue(exporter, 100, 4)
    queue.start()
    queue.add([a_span(1)])
    exporter.wait(1)
    queue.stop()
    assert queue.dropped[NOT_SENT] == 1
    exporter.is_over.set()
