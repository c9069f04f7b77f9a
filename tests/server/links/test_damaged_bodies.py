"""A body that the disk has damaged ends its own message: the others go out and the broker goes on."""

import errno
import logging
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection, BlockingReceiver

from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.storage.disk import RealFile
from postroom.model.codes import Outcome
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets


def send(url: str, *texts: str) -> None:
    connection = BlockingConnection(url, timeout=15)
    sender = connection.create_sender("q")
    for text in texts:
        sender.send(Message(body=text, durable=True))
    connection.close()


def take(receiver: BlockingReceiver, count: int) -> list[str]:
    taken = []
    for _ in range(count):
        taken.append(receiver.receive(timeout=15).body)
        receiver.accept()
    return taken


def damage(folder: Path, body: bytes) -> None:
    """One bit of it is another in whichever file has it."""
    for path in folder.glob("*.journal"):
        data = bytearray(path.read_bytes())
        at = data.find(body)
        if at >= 0:
            data[at] ^= 1
            path.write_bytes(data)
            return
    raise AssertionError(f"no journal holds {body!r}")


def test_a_damaged_body_ends_its_message_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = make_config(("q",))
    with BrokerThread(config, folder=tmp_path) as broker:
        send(broker.url, "body-0", "body-1", "body-2", "body-3", "body-4")
    damage(tmp_path, b"body-2")
    with BrokerThread(config, folder=tmp_path) as broker, caplog.at_level(logging.ERROR, "postroom"):
        connection = BlockingConnection(broker.url, timeout=15)
        receiver = connection.create_receiver("q", credit=10)
        assert take(receiver, 4) == ["body-0", "body-1", "body-3", "body-4"]
        send(broker.url, "later")
        assert take(receiver, 1) == ["later"]
        connection.close()
    (line,) = [record for record in caplog.records if record.getMessage() == "body-damaged"]
    fields = line.__dict__["fields"]
    assert fields["queue"] == "q" and "CRC is wrong" in fields["reason"]
    assert discarded(tmp_path) == [fields["message"]]


def test_a_body_that_the_disk_does_not_give_is_asked_for_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others go out, an alarm tells, and when the disk gives it the message comes: none is lost."""
    config = make_config(("q",))
    with BrokerThread(config, folder=tmp_path) as broker:
        send(broker.url, "body-0", "body-1", "body-2", "body-3", "body-4")
    fails: list[bool] = []
    read_at = RealFile.read_at

    def read(file: RealFile, offset: int, size: int) -> bytes:
        data = read_at(file, offset, size)
        if fails and b"body-2" in data:
            raise OSError(errno.EIO, "the disk fails")
        return data

    monkeypatch.setattr(RealFile, "read_at", read)
    monkeypatch.setattr(RealFile, "read_cached", lambda *_: None)
    with BrokerThread(config, folder=tmp_path) as broker, caplog.at_level(logging.ERROR, "postroom"):
        fails.append(True)
        connection = BlockingConnection(broker.url, timeout=30)
        receiver = connection.create_receiver("q", credit=10)
        assert take(receiver, 4) == ["body-0", "body-1", "body-3", "body-4"]
        assert [alarm.name for alarm in broker.call(lambda found: found.alarms.all())] == [
            "bodies-unreadable"
        ]
        fails.clear()
        assert take(receiver, 1) == ["body-2"]
        connection.close()
    fields = {record.getMessage(): record.__dict__["fields"] for record in caplog.records}
    assert "can't be read: the disk fails" in fields["body-unreadable"]["reason"]
    assert fields["alarm"]["name"] == "bodies-unreadable"
    assert discarded(tmp_path) == []


def discarded(folder: Path) -> list[int]:
    """The serials of the messages that were discarded, by the ledger."""
    found: list[int] = []
    for rows in LedgerReader(folder).rows():
        found += rows["serial"][rows["outcome"] == Outcome.DISCARDED].tolist()
    return found
