"""Followers, claims and take-overs on a log in memory, with real ledgers in real folders beside a model."""

import contextlib
import logging
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from random import Random

import msgspec
import pytest

from postroom.ledger.errors import LedgerFailed
from postroom.ledger.ledger import Ledger
from postroom.ledger.verification.verification import Severity, verify
from postroom.replication import active as active_module
from postroom.replication import member as member_module
from postroom.replication.entries import Kind, decode_entry
from postroom.replication.errors import CopyNeeded, EngineUnavailable, MemberRefused, Overtaken
from postroom.replication.folder_state import STATE_NAME, FolderState
from postroom.replication.log import MemberNote
from postroom.spark.places.folder import FolderPlace
from tests.ledger.workload import START_US, Snapshot, Workload, assert_bodies, assert_recovered
from tests.replication.memory_log import MOST_BYTES, MemoryLog, Stream
from tests.replication.unit import SMALL, Unit, engine_thread, first_active
from tests.spark.real_ledgers import rows_of
from tests.waiting import wait_for

STEPS_PER_BLOCK = 10


def work_on(ledger: Ledger, work: Workload, steps: int) -> None:
    for step in range(steps):
        work.step()
        if step % STEPS_PER_BLOCK == 0:
            ledger.flush()
    ledger.flush()


def begun(ledger: Ledger, seed: int = 1) -> Workload:
    work = Workload(ledger.builder, Random(seed))
    work.define()
    return work


def assert_found(ledger: Ledger, snapshot: Snapshot) -> None:
    assert_recovered(ledger.recovered, snapshot)
    assert_bodies(ledger, snapshot)


@pytest.mark.parametrize("is_conditional", [True, False])
def test_who_takes_over_has_everything(tmp_path: Path, is_conditional: bool) -> None:
    """By a crash and in order, back and forth, while files are sealed and let go on both."""
    stream = Stream(is_conditional)
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a")
        active.wait_until_active()
        ledger = active.open_ledger()
        work = begun(ledger)
        follower = Unit(thread, stream, tmp_path / "b")
        for turn in range(4):
            work_on(ledger, work, 300)
            snapshot, ledger_id, epoch = work.snapshot(), ledger.ledger_id, ledger.epoch
            if turn % 2:
                active.stop()
            else:
                active.crash()
            follower.wait_until_active()
            taken_over = follower.open_ledger()
            assert_found(taken_over, snapshot)
            assert (taken_over.ledger_id, taken_over.epoch) == (ledger_id, epoch + 1)
            work.adopt(snapshot, taken_over.builder)
            back = Unit(thread, stream, active.folder)
            active, ledger, follower = follower, taken_over, back
        work_on(ledger, work, 50)
        follower.wait_until_read(active.member.sequence)
        active.stop()
        follower.stop()
    for name in "ab":
        found = verify(tmp_path / name, bodies=True)
        assert found.of(Severity.ERROR) == []
        assert found.bodies_checked


def test_folders_have_the_same_events(tmp_path: Path) -> None:
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a")
        active.wait_until_active()
        ledger = active.open_ledger()
        work = begun(ledger)
        follower = Unit(thread, stream, tmp_path / "b")
        work_on(ledger, work, 100)
        active.stop("nobody")
        follower.wait_until_read(active.member.sequence)
        follower.stop()
    of_active, of_follower = (rows_of(FolderPlace(tmp_path / name)) for name in "ab")
    assert of_active.num_rows > 100
    assert of_active.equals(of_follower)


@pytest.mark.parametrize("is_lost", [False, True])
def test_what_a_node_tells_too_early_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """One that has just started again may have more of the log than it tells at first; what is gone for good
    is told."""
    monkeypatch.setattr(member_module, "RETRY_S", 0.001)
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a")
        active.wait_until_active()
        ledger = active.open_ledger()
        work_on(ledger, begun(ledger), 20)
        snapshot_at = stream.last
        active.stop()
        if is_lost:
            monkeypatch.setattr(member_module, "CATCH_UP_S", 0.05)
            del stream.entries[2:]
        early = [snapshot_at - 1, snapshot_at - 1]
        true_last = MemoryLog.last

        async def last(log: MemoryLog) -> int:
            return early.pop() if early else await true_last(log)

        monkeypatch.setattr(MemoryLog, "last", last)
        again = Unit(thread, stream, active.folder)
        if is_lost:
            with pytest.raises(MemberRefused, match="the engine has lost what it had acknowledged"):
                again.wait_until_active()
            return
        again.wait_until_active()
        assert not early
        again.stop()


def test_a_stale_active_is_told_at_its_next_append(tmp_path: Path) -> None:
    """It was silent for too long, and knows nothing of the claim since."""
    stream = Stream()
    with engine_thread() as thread:
        stale = Unit(thread, stream, tmp_path / "a", heartbeat_ms=600_000)
        stale.wait_until_active()
        ledger = stale.open_ledger()
        work = begun(ledger)
        work_on(ledger, work, 20)
        snapshot = work.snapshot()
        other = Unit(thread, stream, tmp_path / "b")
        other.wait_until_active()
        work.step()
        with pytest.raises(Overtaken, match=r"member 'b' has claimed the log at entry \d+"):
            ledger.flush()
        assert [type(each) for each in stale.lost] == [Overtaken]
        assert_found(other.open_ledger(), snapshot)
        other.stop()
        stale.crash()


def test_a_stale_active_from_whom_the_claim_was_trimmed_is_told(tmp_path: Path) -> None:
    """By the gap alone: what comes behind it looks like entries of somebody else's that don't count."""
    stream = Stream()
    with engine_thread() as thread:
        stale = Unit(thread, stream, tmp_path / "a", heartbeat_ms=600_000)
        stale.wait_until_active()
        ledger = stale.open_ledger()
        work = begun(ledger)
        work_on(ledger, work, 20)
        other = Unit(thread, stream, tmp_path / "b")
        other.wait_until_active()
        thread.run(other.log.trim(other.member.sequence))
        other.open_ledger()
        work.step()
        with pytest.raises(Overtaken, match="others have claimed the log, and trimmed it: "):
            ledger.flush()
        other.stop()
        stale.crash()


def test_a_follower_notices_what_was_trimmed_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hasn't read it yet, and was behind the log's beginning only when it had begun to read."""
    stream, read = Stream(), MemoryLog.read

    async def without_the_tenth(log: MemoryLog, after: int) -> AsyncGenerator[tuple[int, bytes], None]:
        async with contextlib.aclosing(read(log, after)) as entries:
            async for sequence, data in entries:
                if sequence != 10:
                    yield sequence, data

    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a")
        active.wait_until_active()
        ledger = active.open_ledger()
        work_on(ledger, begun(ledger), 200)
        assert stream.last > 10
        monkeypatch.setattr(MemoryLog, "read", without_the_tenth)
        behind = Unit(thread, stream, tmp_path / "b")
        with pytest.raises(CopyNeeded, match="read to entry 9, and goes on with entry 11"):
            behind.wait_until_active()
        active.stop()


def test_what_is_cut_off_from_the_log_acknowledges_nothing(tmp_path: Path) -> None:
    stream = Stream()
    with engine_thread() as thread:
        cut = Unit(thread, stream, tmp_path / "a")
        cut.wait_until_active()
        ledger = cut.open_ledger()
        work = begun(ledger)
        work_on(ledger, work, 20)
        snapshot = work.snapshot()
        cut.log.is_cut = True
        work.put()
        with pytest.raises(LedgerFailed):
            ledger.flush()
        assert len(cut.lost) == 1
        other = Unit(thread, stream, tmp_path / "b")
        other.wait_until_active()
        assert_found(other.open_ledger(), snapshot)
        other.stop()
        cut.crash()


def test_a_block_whose_answer_is_lost_is_there_or_not_for_everybody(tmp_path: Path) -> None:
    """It is in the log: nobody was told, and who takes over has it."""
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a")
        active.wait_until_active()
        ledger = active.open_ledger()
        work = begun(ledger)
        work_on(ledger, work, 20)
        work.put()
        active.log.lost_answers = 1
        with pytest.raises(LedgerFailed, match="lost"):
            ledger.flush()
        active.crash()
        other = Unit(thread, stream, tmp_path / "b")
        other.wait_until_active()
        assert_found(other.open_ledger(), work.snapshot())
        other.stop()


def test_a_block_of_which_parts_are_missing_is_void(tmp_path: Path) -> None:
    """As if its writer had been killed in the middle of it."""
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a")
        active.wait_until_active()
        ledger = active.open_ledger()
        work = begun(ledger)
        work_on(ledger, work, 20)
        snapshot, before = work.snapshot(), stream.last
        for _ in range(100):
            work.put()
        ledger.flush()
        active.crash()
        kinds = [decode_entry(0, entry).kind for entry in stream.entries[before : before + 3]]
        assert kinds == [Kind.PART] * 3, "the block has fewer parts than this test is about"
        cut = Unit(thread, Stream(entries=stream.entries[: before + 2]), tmp_path / "c")
        cut.wait_until_active()
        assert_found(cut.open_ledger(), snapshot)
        cut.stop()


def test_of_two_that_begin_at_once_one_is_active(tmp_path: Path) -> None:
    stream = Stream()
    with engine_thread() as thread:
        active, follower = first_active(thread, [Unit(thread, stream, tmp_path / name) for name in "ab"])
        ledger = active.open_ledger()
        work = begun(ledger)
        work_on(ledger, work, 20)
        follower.wait_until_read(active.member.sequence)
        assert follower.member.active_member == active.folder.name
        assert follower.member.active_urls == [f"amqp://{active.folder.name}"]
        active.crash()
        follower.wait_until_active()
        assert_found(follower.open_ledger(), work.snapshot())
        follower.stop()


def test_a_claim_whose_answer_is_lost_holds(tmp_path: Path) -> None:
    """Its member learns of it from the log."""
    with engine_thread() as thread:
        unit = Unit(thread, Stream(), tmp_path / "a", lost_answers=1)
        unit.wait_until_active()
        begun(unit.open_ledger())
        unit.stop()


def test_an_engine_that_does_not_answer_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unanswered, last = 3, MemoryLog.last

    async def sometimes(log: MemoryLog) -> int:
        nonlocal unanswered
        if unanswered:
            unanswered -= 1
            raise EngineUnavailable("no answer")
        return await last(log)

    monkeypatch.setattr(MemoryLog, "last", sometimes)
    monkeypatch.setattr(member_module, "RETRY_S", 0.01)
    with engine_thread() as thread:
        unit = Unit(thread, Stream(), tmp_path / "a")
        unit.wait_until_active()
        assert unanswered == 0
        unit.stop()


def test_a_hand_over_names_who_goes_on(tmp_path: Path) -> None:
    """The others wait as long as for one that is gone."""
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a")
        active.wait_until_active()
        work = begun(active.open_ledger())
        patient = Unit(thread, stream, tmp_path / "b", claim_after_ms=600_000)
        named = Unit(thread, stream, tmp_path / "c", claim_after_ms=600_000)
        for each in (patient, named):
            each.wait_until_read(active.member.sequence)
        active.stop("c")
        named.wait_until_active()
        assert_found(named.open_ledger(), work.snapshot())
        patient.wait_until_read(named.member.sequence)
        assert patient.member.active_member == "c"
        named.stop("b")
        patient.wait_until_active()
        patient.stop()


def test_a_folder_is_read_again_from_what_was_durable(tmp_path: Path) -> None:
    """A follower that has lost what it hadn't synced writes it anew; one that has lost its folder begins with
    the log."""
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a")
        active.wait_until_active()
        ledger = active.open_ledger()
        work = begun(ledger)
        follower = Unit(thread, stream, tmp_path / "b")
        follower.wait_until_read(active.member.sequence)
        follower.stop()
        shutil.copytree(tmp_path / "b", tmp_path / "old")
        work_on(ledger, work, 200)
        follower = Unit(thread, stream, tmp_path / "b")
        follower.wait_until_read(active.member.sequence)
        follower.stop()
        work_on(ledger, work, 50)
        shutil.copy(tmp_path / "old" / STATE_NAME, tmp_path / "b" / STATE_NAME)
        active.crash()
        for name in ("b", "old", "new"):
            unit = Unit(thread, Stream(entries=stream.entries.copy()), tmp_path / name)
            unit.wait_until_active()
            assert_found(unit.open_ledger(), work.snapshot())
            unit.stop()


def test_what_does_not_go_with_the_log_is_refused(tmp_path: Path) -> None:
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a")
        active.wait_until_active()
        ledger = active.open_ledger()
        work = begun(ledger)
        work_on(ledger, work, 200)
        follower = Unit(thread, stream, tmp_path / "b")
        follower.wait_until_read(active.member.sequence)
        follower.stop()
        Ledger.open(tmp_path / "other", SMALL, START_US).close()
        shutil.copytree(tmp_path / "b", tmp_path / "moved")
        state = FolderState("another", 3)
        (tmp_path / "moved" / STATE_NAME).write_bytes(msgspec.json.encode(state))
        shutil.copytree(tmp_path / "b", tmp_path / "damaged")
        (tmp_path / "damaged" / STATE_NAME).write_text("{")
        refusals = {
            "other": "has a ledger of its own",
            "moved": r"has followed another log \(another\), not memory",
            "damaged": "replication: damaged",
        }
        for name, reason in refusals.items():
            with pytest.raises(MemberRefused, match=reason):
                Unit(thread, stream, tmp_path / name).wait_until_active()
        active.crash()
        lost = Stream(entries=stream.entries[:2])
        with pytest.raises(MemberRefused, match="the engine has lost what it had acknowledged"):
            Unit(thread, lost, tmp_path / "b").wait_until_active()
        trimmed = Stream(entries=stream.entries[5:], trimmed=5)
        with pytest.raises(MemberRefused, match="the log begins with entry 6"):
            Unit(thread, trimmed, tmp_path / "new").wait_until_active()


def test_a_ledger_becomes_a_member_s(tmp_path: Path) -> None:
    """It is the beginning: a copy of its folder follows from there, an empty one can't."""
    single = Ledger.open(tmp_path / "a", SMALL, START_US)
    work = begun(single)
    work_on(single, work, 300)
    single.close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a")
        active.wait_until_active()
        ledger = active.open_ledger()
        assert_found(ledger, work.snapshot())
        work.adopt(work.snapshot(), ledger.builder)
        work_on(ledger, work, 100)
        follower = Unit(thread, stream, tmp_path / "b")
        with pytest.raises(MemberRefused, match="ends with file 0, and the log goes on in file 4"):
            Unit(thread, stream, tmp_path / "empty").wait_until_active()
        follower.wait_until_read(active.member.sequence)
        active.crash()
        follower.wait_until_active()
        assert_found(follower.open_ledger(), work.snapshot())
        follower.stop()
    again = Ledger.open(tmp_path / "b", SMALL, START_US)  # and is a single queue manager's again
    assert_found(again, work.snapshot())
    again.close()


def test_the_log_is_trimmed_to_what_members_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active_module, "TEND_S", 0.01)
    monkeypatch.setattr(member_module, "NOTE_S", 0.01)
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a", log_bytes=50_000)
        active.wait_until_active()
        ledger = active.open_ledger()
        work = begun(ledger)
        follower = Unit(thread, stream, tmp_path / "b")
        while stream.trimmed == 0:
            work_on(ledger, work, 100)
        follower.stop()
        (note,) = [note for note in stream.notes.values() if note.member == "b"]
        for _ in range(5):
            work_on(ledger, work, 100)
        assert stream.trimmed <= note.sequence, "a member needs what is gone"
        active.crash()
        follower = Unit(thread, stream, tmp_path / "b")
        follower.wait_until_active()
        assert_found(follower.open_ledger(), work.snapshot())
        follower.stop()


def test_a_log_over_its_bound_is_trimmed_whoever_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_module, "TEND_S", 0.01)
    stream = Stream()
    stream.notes["gone"] = MemberNote("gone", "follower", 0, 0, 0)
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a", log_bytes=50_000, max_log_bytes=200_000)
        active.wait_until_active()
        ledger = active.open_ledger()
        work = begun(ledger)
        while stream.trimmed == 0:
            held_bytes = sum(map(len, stream.entries))
            work_on(ledger, work, 20)
        assert held_bytes > 150_000, "a member that may come back was not waited for"
        active.stop()


def test_a_file_beside_the_ledger_is_at_every_member(tmp_path: Path) -> None:
    """As a whole, the newest; whoever begins later has it, too."""
    stream = Stream()
    with engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a")
        active.wait_until_active()
        follower = Unit(thread, stream, tmp_path / "b")
        for size in (10, 3 * MOST_BYTES, 0):
            data = bytes(range(256)) * (size // 256) + bytes(size % 256)
            thread.run(active.member.replicate_file("secrets.json", data))
            follower.wait_until_read(active.member.sequence)
            assert follower.files == {"secrets.json": data}
        late = Unit(thread, stream, tmp_path / "c")
        late.wait_until_read(active.member.sequence)
        assert late.files == {"secrets.json": b""}
        for each in (late, follower, active):
            each.crash()


def test_trimming_goes_on_after_notes_that_could_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As when somebody else has put something there."""
    monkeypatch.setattr(active_module, "TEND_S", 0.01)
    read = MemoryLog.notes
    refused: list[bool] = []

    async def notes(log: MemoryLog) -> list[MemberNote]:
        if len(refused) < 3:
            refused.append(True)
            raise ValueError("no note")
        return await read(log)

    stream = Stream()
    with caplog.at_level(logging.ERROR, "postroom"), engine_thread() as thread:
        active = Unit(thread, stream, tmp_path / "a", log_bytes=50_000)
        active.wait_until_active()
        monkeypatch.setattr(MemoryLog, "notes", notes)
        ledger = active.open_ledger()
        work = begun(ledger)
        while stream.trimmed == 0:
            work_on(ledger, work, 100)
        active.stop()
    assert [record.getMessage() for record in caplog.records] == [
        "replication: members' notes and trimming fail: ValueError('no note')"
    ]


def test_a_member_whose_heartbeats_fail_is_active_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_thread() as thread:
        active = Unit(thread, Stream(), tmp_path / "a")
        active.wait_until_active()
        active.open_ledger()

        async def append(log: MemoryLog, after: int, entries: list[bytes]) -> int:
            raise ValueError("a defect")

        monkeypatch.setattr(MemoryLog, "append", append)
        wait_for(lambda: active.lost)
        active.crash()
    (lost,) = active.lost
    assert isinstance(lost, EngineUnavailable)
    assert "heartbeats can't be appended: ValueError('a defect')" in str(lost)
