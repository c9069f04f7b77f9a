"""Members that the log can't bring up to date copy another's folder, and go on from the log."""

import asyncio
import io
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import nats as nats_client
import pytest
from tools.peers.nats import NatsCluster
from tools.peers.ports import free_port

from postroom.client import ConnectionFactory, Message
from postroom.ledger.copying.archive import archive_pieces, unpack
from postroom.ledger.copying.frozen import freeze
from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.ledger import Ledger
from postroom.ledger.verification.verification import Severity, verify
from postroom.replication import active as active_module
from postroom.replication import member as member_module
from postroom.replication.errors import MemberRefused
from postroom.replication.folder_state import BESIDE
from postroom.replication.member import EngineThread
from postroom.server.http.tokens import Right, add_token
from tests.clients.broker import BrokerProcess
from tests.ledger.workload import START_US
from tests.replication.copy_server import TOKEN, CopyServer, copy_server
from tests.replication.members import member
from tests.replication.memory_log import Stream
from tests.replication.test_members import assert_found, begun, work_on
from tests.replication.test_take_over import TIMEOUT_S, wait_for_members
from tests.replication.unit import SMALL, WAIT_S, Unit, engine_thread

pytestmark = pytest.mark.sockets


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active_module, "TEND_S", 0.01)
    monkeypatch.setattr(member_module, "NOTE_S", 0.01)
    monkeypatch.setattr(member_module, "RETRY_S", 0.01)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CopyServer]:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with copy_server(tmp_path / "a") as made:
        yield made


def copier(thread: EngineThread, stream: Stream, folder: Path, *urls: str) -> Unit:
    """A member that copies."""
    token_file = str(folder.parent / "token")
    return Unit(thread, stream, folder, copy_from=urls, copy_token_file=token_file)


def copy(folder: Path, to: Path) -> None:
    """Beside its writer."""
    to.mkdir()
    with closing(freeze(folder, BESIDE)) as found:
        unpack(io.BytesIO(b"".join(read() for read in archive_pieces(found))), to, BESIDE)


def assert_whole(folder: Path) -> None:
    found = verify(folder, bodies=True)
    assert found.of(Severity.ERROR) == []
    assert found.bodies_checked


@pytest.mark.usefixtures("quick")
def test_a_member_joins_a_log_that_was_trimmed(tmp_path: Path, server: CopyServer) -> None:
    """An empty folder, and one that was away for too long; over answers that fail and break off. While the
    copy is made the log keeps what it lacks."""
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a", log_bytes=50_000)
        active.wait_until_active()
        ledger = active.open_ledger()
        work = begun(ledger)
        away = Unit(thread, stream, tmp_path / "b")
        away.wait_until_read(active.member.sequence)
        away.crash()
        thread.run(active.member.forget("b"))
        while stream.trimmed <= away.member.sequence:
            work_on(ledger, work, 100)
        server.refusals, server.cuts = [503, 429], [0, 1000, 100_000]
        closed = "http://127.0.0.1:1"
        joining = [copier(thread, stream, tmp_path / name, closed, server.url) for name in "bc"]
        for unit in joining:
            unit.wait_until_read(active.member.sequence)
        assert server.served == 2
        work_on(ledger, work, 300)
        for unit in joining:
            unit.wait_until_read(active.member.sequence)
        assert {note.state for note in stream.notes.values()} == {"active", "follower"}
        snapshot = work.snapshot()
        active.crash()
        joining[1].crash()
        joining[0].wait_until_active()
        assert_found(joining[0].open_ledger(), snapshot)
        joining[0].stop()
    for name in "bc":
        assert_whole(tmp_path / name)


@pytest.mark.usefixtures("quick")
def test_the_log_waits_for_a_copy(tmp_path: Path, server: CopyServer) -> None:
    """While it is made nothing is trimmed that it will need, and one is enough."""
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a", log_bytes=50_000)
        active.wait_until_active()
        ledger = active.open_ledger()
        work = begun(ledger)
        while stream.trimmed == 0:
            work_on(ledger, work, 100)
        server.goes_on.clear()
        follower = copier(thread, stream, tmp_path / "b", server.url)
        assert server.frozen.wait(WAIT_S)
        trimmed = stream.trimmed
        assert stream.notes["b"].state == "copying"
        for _ in range(10):
            work_on(ledger, work, 100)
        server.goes_on.set()
        follower.wait_until_read(active.member.sequence)
        assert server.served == 1
        assert trimmed <= stream.trimmed
        active.crash()
        follower.wait_until_active()
        assert_found(follower.open_ledger(), work.snapshot())
        follower.stop()


@pytest.mark.usefixtures("quick")
def test_what_has_no_beginning_in_the_log_is_copied(tmp_path: Path, server: CopyServer) -> None:
    """A ledger that was a single broker's: its files are nowhere in the log. The file of passwords comes
    with it."""
    single = Ledger.open(tmp_path / "a", SMALL, START_US)
    work = begun(single)
    work_on(single, work, 300)
    single.close()
    (tmp_path / "a" / "verifiers.json").write_text("{}")
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a")
        active.wait_until_active()
        ledger = active.open_ledger()
        work.adopt(work.snapshot(), ledger.builder)
        work_on(ledger, work, 100)
        follower = copier(thread, stream, tmp_path / "b", server.url)
        follower.wait_until_read(active.member.sequence)
        active.crash()
        follower.wait_until_active()
        assert_found(follower.open_ledger(), work.snapshot())
        assert (tmp_path / "b" / "verifiers.json").read_text() == "{}"
        follower.stop()


@pytest.mark.usefixtures("quick")
def test_a_damaged_folder_is_copied_anew(tmp_path: Path, server: CopyServer) -> None:
    """If it has followed this log; what never has is left alone."""
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a")
        active.wait_until_active()
        ledger = active.open_ledger()
        work = begun(ledger)
        work_on(ledger, work, 300)
        follower = Unit(thread, stream, tmp_path / "b")
        follower.wait_until_read(active.member.sequence)
        while not list((tmp_path / "b").glob("*.events")):
            work_on(ledger, work, 100)  # what it has read is sealed beside
        follower.stop()
        oldest = sorted((tmp_path / "b").glob("*.events"))[-1]
        oldest.write_bytes(bytes(oldest.stat().st_size))
        shutil.copytree(tmp_path / "b", tmp_path / "single")
        (tmp_path / "single" / "replication").unlink()
        for folder, urls in ((tmp_path / "b", ()), (tmp_path / "single", (server.url,))):
            with pytest.raises(LedgerCorrupt):
                copier(thread, stream, folder, *urls).wait_until_active()
        follower = copier(thread, stream, tmp_path / "b", server.url)
        follower.wait_until_read(active.member.sequence)
        active.crash()
        follower.wait_until_active()
        assert_found(follower.open_ledger(), work.snapshot())
        follower.stop()


@pytest.mark.usefixtures("quick")
def test_copies_that_will_never_be_are_refused(tmp_path: Path, server: CopyServer) -> None:
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a", log_bytes=50_000)
        active.wait_until_active()
        ledger = active.open_ledger()
        work = begun(ledger)
        while stream.trimmed == 0:
            work_on(ledger, work, 100)
        (tmp_path / "wrong").write_text("wrong")
        wrong: dict[str, object] = {"copy_from": (server.url,), "copy_token_file": str(tmp_path / "wrong")}
        with pytest.raises(MemberRefused, match="/ledger/copy: 401: no copy for you"):
            Unit(thread, stream, tmp_path / "b", **wrong).wait_until_active()
        missing = wrong | {"copy_token_file": str(tmp_path / "nothing")}
        with pytest.raises(MemberRefused, match=r"copy_token_file .*nothing: No such file"):
            Unit(thread, stream, tmp_path / "b", **missing).wait_until_active()
        Ledger.open(tmp_path / "other", SMALL, START_US).close()
        server.folder = tmp_path / "other"
        with pytest.raises(MemberRefused, match="it isn't a member of a replicated queue manager"):
            copier(thread, stream, tmp_path / "b", server.url).wait_until_active()
        for text, reason in (
            ('{"log": "another"}', r"it follows another log \(another\), not memory"),
            ('{"log": "memory"}', "it has another ledger than this member"),
        ):
            (tmp_path / "other" / "replication").write_text(text)
            shutil.rmtree(tmp_path / "old", ignore_errors=True)
            copy(tmp_path / "a", tmp_path / "old")
            (tmp_path / "old" / "replication").write_text('{"log": "memory"}')
            with pytest.raises(MemberRefused, match=reason):
                copier(thread, stream, tmp_path / "old", server.url).wait_until_active()
            assert_whole(tmp_path / "old")
        active.stop()


@pytest.mark.usefixtures("quick")
def test_a_copy_that_is_damaged_is_not_taken(
    tmp_path: Path, server: CopyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is had again; and who copies and copies, and never catches up, ends."""
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a", log_bytes=50_000)
        active.wait_until_active()
        ledger = active.open_ledger()
        work = begun(ledger)
        damaged: list[Path] = []
        while stream.trimmed == 0 or not damaged:  # files are sealed, and go, beside
            work_on(ledger, work, 100)
            shutil.rmtree(tmp_path / "damaged", ignore_errors=True)
            copy(tmp_path / "a", tmp_path / "damaged")
            damaged = [*(tmp_path / "damaged").glob("*.events")]
        for each in damaged:
            each.write_bytes(bytes(each.stat().st_size))
        server.folder = tmp_path / "damaged"
        follower = copier(thread, stream, tmp_path / "b", server.url)
        while server.served < 2:
            work_on(ledger, work, 1)
        assert not (tmp_path / "b" / "superblock").exists()
        server.folder = tmp_path / "a"
        follower.wait_until_read(active.member.sequence)
        follower.crash()
        copy(tmp_path / "a", tmp_path / "early")
        (tmp_path / "early" / "replication").write_text('{"log": "memory"}')
        server.folder, server.served = tmp_path / "early", 0
        with pytest.raises(MemberRefused, match="the log begins with entry"):
            copier(thread, stream, tmp_path / "c", server.url).wait_until_active()
        assert server.served == member_module.MAX_COPIES
        active.stop()


TINY = "log_bytes = 1\nmax_log_bytes = 1\n"
"""Trimmed to what the active member's folder has."""
FILES = "[ledger]\njournal_file_bytes = 1048576\n"


async def first_entry(nats: NatsCluster, stream: str) -> int:
    client = await nats_client.connect(nats.urls)
    try:
        return (await client.jetstream().stream_info(stream)).state.first_seq
    finally:
        await client.close()


def send(broker: BrokerProcess, numbers: range) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        producer = connection.create_session().create_producer("q")
        for number in numbers:
            producer.send(Message(f"{number}".ljust(100_000), message_id=f"ID:{number}"))


@pytest.mark.timeout(400)  # NATS takes up to 10 s to elect a leader
def test_members_on_nats_copy_join_and_take_over(tmp_path: Path, nats: NatsCluster, stream: str) -> None:
    """The log is trimmed whoever needs it; a third member begins with nothing, is all that is left, and gives
    the first one a copy in its turn."""
    tokens = tmp_path / "tokens.json"
    (tmp_path / "token").write_text(add_token(tokens, "members", [Right.REPLICATE]))
    ports = {name: free_port() for name in "ac"}
    urls = [f"http://127.0.0.1:{port}" for port in ports.values()]
    copies = f'copy_from = {urls}\ncopy_token_file = "{tmp_path / "token"}"\n'
    first, third = (
        member(
            tmp_path,
            name,
            nats,
            stream,
            f'{TINY}{copies}{FILES}[http]\ntokens = "{tokens}"\naddress = "127.0.0.1:{port}"\n',
        )
        for name, port in ports.items()
    )
    sent, other = 0, {first: third, third: first}
    with ExitStack() as stack:
        stack.callback(first.kill)
        stack.callback(third.kill)
        first.start()
        active, trimmed = first, 1
        for _ in range(2):
            while asyncio.run(first_entry(nats, stream)) <= trimmed:
                send(active, range(sent, sent + 10))
                sent += 10
            trimmed = asyncio.run(first_entry(nats, stream)) + 1
            joining = other[active]
            shutil.rmtree(joining.folder, ignore_errors=True)
            joining.launch()
            is_first = active is first
            states = ("active", "follower") if is_first else ("follower", "active")
            wait_for_members(active, dict(zip("ac", states, strict=True)))
            assert "replication: copied http://127.0.0.1" in joining.log_text
            send(active, range(sent, sent + 10))
            sent += 10
            active.kill()
            joining.wait_until_ready()
            active = joining
        with ConnectionFactory(active.url).create_connection() as connection:
            consumer = connection.create_session().create_consumer("q")
            received = [consumer.receive(TIMEOUT_S) for _ in range(sent)]
            found = [message and message.message_id for message in received]
        assert found == [f"ID:{number}" for number in range(sent)]
        active.stop()
    assert_whole(first.folder)
    assert_whole(third.folder)
