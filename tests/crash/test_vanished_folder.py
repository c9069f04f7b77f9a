"""The data folder goes, moves, or loses its lock under a running broker: nobody is told what isn't so."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from proton import Message, ProtonException
from proton.utils import BlockingConnection

from postroom.ledger.verification.verification import verify
from postroom.server.exits import Exit
from tests.server.broker_process import Process

Serve = Callable[[Path], Process]

pytestmark = pytest.mark.sockets


def sender_of(process: Process) -> tuple[BlockingConnection, Callable[[str], object]]:
    connection = BlockingConnection(process.ready(), timeout=30)
    sender = connection.create_sender("orders")
    return connection, lambda text: sender.send(Message(body=text, durable=True))


def remove_all(folder: Path) -> None:
    shutil.rmtree(folder)


def remove_lock(folder: Path) -> None:
    (folder / "lock").unlink()


def make_anew(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize("harm", [remove_all, remove_lock, make_anew])
def test_a_broker_whose_folder_or_lock_is_removed_ends_before_it_answers(
    serve: Serve, harm: Callable[[Path], None], tmp_path: Path
) -> None:
    process = serve(tmp_path)
    _, send = sender_of(process)
    send("accepted")
    harm(tmp_path / "data")
    with pytest.raises(ProtonException):
        send("never answered")
    assert process.wait() == Exit.LEDGER_FAILED
    (line,) = [line for line in process.log_text().splitlines() if "ledger-failed" in line]
    assert "the lock, or the whole folder, was removed" in line


def test_a_folder_that_is_moved_is_written_on_where_it_is(serve: Serve, tmp_path: Path) -> None:
    process = serve(tmp_path)
    connection, send = sender_of(process)
    send("before")
    (tmp_path / "data").rename(tmp_path / "moved")
    other = serve(tmp_path)
    other_connection, send_to_other = sender_of(other)
    send("after")
    send_to_other("elsewhere")
    for each, ended in ((connection, process), (other_connection, other)):
        each.close()
        assert ended.end() == 0
    assert [records_of(tmp_path / name) for name in ("moved", "data")] == [2, 1]


def records_of(folder: Path) -> int:
    """How many messages its ledger has, which is whole."""
    found = verify(folder, bodies=True)
    assert found.is_whole
    return found.bodies_checked


def test_a_second_broker_on_one_folder_is_refused(serve: Serve, tmp_path: Path) -> None:
    process = serve(tmp_path)
    process.ready()
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "data").symlink_to(tmp_path / "data")
    second = serve(tmp_path / "second")
    assert second.wait() == Exit.LOCKED
    assert f"in use by process {process.process.pid}" in second.log_text()
    assert process.end() == 0
