"""What is traced goes on over a restart: by what was noted, after a crash by the bodies."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.storage.body_requests import Body, BodyPlace
from postroom.manager.kernel.trace_contexts import TraceContexts
from postroom.server.tracing.follower import ReadBodies, TraceFollower
from postroom.server.tracing.lives import Lives
from postroom.server.tracing.span_queue import SpanQueue
from postroom.server.tracing.spans import Span
from postroom.server.tracing.state_file import STATE_NAME
from tests.manager import messages
from tests.manager.over_ledger import LedgerWorld

TRACE = "0af7651916cd43dd8448eb211c80319c"
SAMPLED = f"00-{TRACE}-b7ad6b7169203331-01"
UNSAMPLED = f"00-{TRACE}-b7ad6b7169203331-00"


class Exporter:
    def __init__(self) -> None:
        self.spans: list[Span] = []

    def export(self, spans: Sequence[Span]) -> str:
        self.spans += spans
        return ""


class Traced:
    """A ledger in a folder and one process that follows it after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = LedgerWorld()
        self.queue = self.world.queue()

    def run(
        self, puts: int = 0, takes: int = 0, crash: bool = False, read: ReadBodies | None = None
    ) -> list[str]:
        """A process in which so much happens; the names of its spans."""
        contexts, exporter = TraceContexts(1.0, 100), Exporter()
        queue = SpanQueue(exporter, 1000, 100)
        self.world.write_out(self.folder)
        follower = TraceFollower(
            self.folder,
            self.world.ledger.ledger_id.bytes,
            contexts,
            Lives(self.world.ledger.ledger_id.bytes, 100),
            queue,
            lambda: self.world.ledger.durable_through,
            read or self.world.ledger.read_bodies,
            3600.0,
        )
        queue.start()
        follower.start()
        self.world.manager.core.trace_contexts = contexts
        self._act(puts, takes)
        if crash:
            follower.poll()
            queue.stop()
        else:
            follower.stop()
            queue.stop()
        return [span.name for span in exporter.spans]

    def _act(self, puts: int, takes: int) -> None:
        world = self.world
        queue = world.manager.queues["q"]
        for _ in range(puts):
            messages.put(world, queue, "one", traceparent=SAMPLED)
            messages.put(world, queue, "two", traceparent=UNSAMPLED)
        world.turn()
        if takes:
            consumer = world.consumer(queue, 2 * takes)
            world.turn()
            for entry in world.held(consumer):
                world.accept(consumer, entry)
            world.turn()
        world.write_out(self.folder)


def test_after_an_orderly_end_what_waits_is_known(tmp_path: Path) -> None:
    def no_bodies(wanted: Sequence[BodyPlace]) -> list[Body]:
        assert not wanted, "nothing was lost, so nothing is read"
        return []

    traced = Traced(tmp_path)
    assert traced.run(puts=2) == ["put q"] * 2
    traced.world.restart()
    assert traced.run(takes=2, read=no_bodies) == ["wait q", "wait q", *["deliver q", "settle q"] * 2]
    traced.world.restart()
    assert traced.run() == []


def test_after_a_crash_the_bodies_tell(tmp_path: Path) -> None:
    traced = Traced(tmp_path)
    traced.run(puts=1)
    traced.world.restart()
    assert traced.run(puts=2, crash=True) == ["put q"] * 2
    traced.world.restart()
    names = traced.run(takes=3)
    assert names.count("put q") == 2, "made again, as the same spans"
    assert names.count("settle q") == 3


def test_it_goes_on_from_file_to_file(tmp_path: Path) -> None:
    traced = Traced(tmp_path)
    traced.run(puts=1)
    for _ in range(3):
        traced.world.restart()
        traced.world.maintain()  # seals what is before
        assert traced.run(puts=1) == ["put q"]
    traced.world.restart()
    traced.world.maintain()
    assert traced.run(takes=4).count("settle q") == 4
    assert len(list(tmp_path.glob("*.events"))) >= 3


def test_a_body_that_cant_be_read_is_passed_over(tmp_path: Path) -> None:
    def damaged(wanted: Sequence[BodyPlace]) -> list[Body]:
        return [LedgerCorrupt("00000001.journal", 0, "its CRC is wrong") for _ in wanted]

    traced = Traced(tmp_path)
    traced.run(puts=1)
    traced.world.restart()
    traced.run(puts=1, crash=True)
    traced.world.restart()
    assert traced.run(takes=2, read=damaged).count("settle q") == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"ledger_id": 7}', b"\xff"])
def test_notes_that_cant_be_read_count_for_nothing(tmp_path: Path, content: bytes) -> None:
    traced = Traced(tmp_path)
    traced.run(puts=1)
    (tmp_path / STATE_NAME).write_bytes(content)
    traced.world.restart()
    assert traced.run(takes=1) == []


def test_notes_of_another_ledger_count_for_nothing(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    Traced(tmp_path / "a").run(puts=3)
    other = Traced(tmp_path / "b")
    other.world.write_out(tmp_path / "b")
    (tmp_path / "b" / STATE_NAME).write_bytes((tmp_path / "a" / STATE_NAME).read_bytes())
    assert other.run(puts=1, takes=1) == ["put q", "wait q", "deliver q", "settle q"]


def test_what_goes_wrong_is_said_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    contexts = TraceContexts(1.0, 100)
    queue = SpanQueue(Exporter(), 10, 10)
    follower = TraceFollower(
        tmp_path, bytes(16), contexts, Lives(bytes(16), 10), queue, lambda: 7, lambda _: [], 3600.0
    )
    contexts.note(5, messages_opening())
    for _ in range(3):
        follower.poll()
    assert caplog.text.count("tracing-failed") == 1
    assert follower.behind == 7


def messages_opening() -> bytes:
    from postroom.amqp.message.sections import Message

    return Message(application_properties={"traceparent": SAMPLED}).encode()
