"""The message log of the broker: what is told, how files turn over, and that nothing is lost by a restart."""

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection

from postroom.amqp.message.sections import Data
from postroom.amqp.message.sections import Message as AmqpMessage
from postroom.ledger.reading.message_log import LogRecord
from postroom.ledger.storage.body_requests import Body, BodyPlace
from postroom.server.configuration.config import MessageLogConfig
from postroom.server.connection.message_log import (
    LOG_NAME,
    POSITION_NAME,
    MessageLogFile,
    MessageLogWriter,
    content_of,
)
from postroom.server.exits import Exit
from tests.manager import messages
from tests.manager.ledger_reading import written
from tests.manager.over_ledger import LedgerWorld
from tests.server.broker_process import Process, begin


def events(folder: Path) -> list[str]:
    lines = (folder / LOG_NAME).read_text().splitlines()
    return [line.split("> <")[8] for line in lines]


def no_bodies(wanted: Sequence[BodyPlace]) -> list[Body]:
    raise AssertionError("nobody has asked for the content")


def a_writer(folder: Path, wanted: bool = True) -> MessageLogWriter:
    return MessageLogWriter(folder, MessageLogConfig(), lambda: wanted, lambda: 0, no_bodies)


def test_files_turn_over_and_the_oldest_go(tmp_path: Path) -> None:
    file = MessageLogFile(tmp_path, MessageLogConfig(max_file_bytes=4096, max_files=3))
    for number in range(20):
        file.write([LogRecord(number, "q", "Produced", "", "", message_id=f"m{number:02}" + "x" * 990)])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [LOG_NAME, f"{LOG_NAME}.1", f"{LOG_NAME}.2"]
    kept = "".join((tmp_path / name).read_text() for name in reversed(names))
    content_of = [line.split("<m")[1][:2] for line in kept.splitlines()]
    assert (
        content_of == [f"{number:02}" for number in range(20 - len(content_of), 20)] and len(content_of) > 8
    )


def test_each_event_is_told_once(tmp_path: Path) -> None:
    world = LedgerWorld()
    queue = world.queue(message_logging=True)
    world.put(queue)
    world.turn()
    writer = a_writer(written(world, tmp_path))
    writer.poll()
    writer.poll()
    assert events(tmp_path) == ["Produced"]
    world.put(queue)
    world.turn()
    written(world, tmp_path)
    writer.poll()
    assert events(tmp_path) == ["Produced"] * 2
    world.put(queue)
    world.turn()
    a_writer(written(world, tmp_path)).poll()
    assert events(tmp_path) == ["Produced"] * 3


def test_nothing_is_read_while_nobody_asks(tmp_path: Path) -> None:
    a_writer(tmp_path, wanted=False).poll()  # there is no ledger, and that is no error
    assert not (tmp_path / LOG_NAME).exists() and not (tmp_path / POSITION_NAME).exists()


def test_what_goes_wrong_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    a_writer(tmp_path).poll()
    assert "message-log-failed" in caplog.text


def test_the_content_if_it_is_asked_for(tmp_path: Path) -> None:
    world = LedgerWorld()
    queue = world.queue(message_logging=True)
    messages.put(world, queue, "some text", colour="red")
    world.turn()
    folder = written(world, tmp_path)
    config = MessageLogConfig(content=True)
    MessageLogWriter(folder, config, lambda: True, lambda: 0, world.ledger.read_bodies).poll()
    (line,) = (tmp_path / LOG_NAME).read_text().splitlines()
    assert line.endswith('<{"properties": {"colour": "red"}, "body": "some text"}> <>')


def test_long_contents_are_cut_and_bad_ones_explained() -> None:
    sections = AmqpMessage(body=Data([b"x" * 100])).encode()
    assert content_of(sections, 40) == content_of(sections, 1000)[:39] + "…"
    assert content_of(b"nonsense", 40)


@pytest.mark.sockets
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_log_of_a_broker_goes_on_after_a_restart(
    start: list[Process], tmp_path: Path, number: int
) -> None:
    config = tmp_path / "postroom.toml"
    config.write_text("[[queue]]\nname = 'told'\nmessage_logging = true\n")
    for ending in (number, signal.SIGTERM):
        broker = begin(start, tmp_path, "--config", str(config), "--listen", "127.0.0.1:0")
        connection = BlockingConnection(broker.ready(), timeout=15)
        for name in ("told", "untold"):
            connection.create_sender(name).send(Message(body="x", durable=True))
        broker.end(ending)
    last = begin(start, tmp_path, "--config", str(config), "--listen", "127.0.0.1:0")
    last.ready()
    assert last.end() == Exit.STOPPED
    (file,) = tmp_path.rglob(LOG_NAME)
    assert events(file.parent) == ["Produced"] * 2
