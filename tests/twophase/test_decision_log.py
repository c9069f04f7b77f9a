"""The decision log: what was decided is there after a crash, a torn tail isn't, and damage is refused."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.client.exceptions import DecisionLogException
from postroom.client.transactions import decision_log
from postroom.client.transactions.decision_log import LOG_NAME, DecisionLog
from postroom.client.transactions.decision_records import (
    ALIGNMENT_BYTES,
    HEADER,
    BranchName,
    DamagedLog,
    Decision,
    HeuristicOutcome,
    LogState,
    Record,
    encode_block,
    ended,
    forgotten,
    read_log,
)
from postroom.model.xa import XaCode

WAIT_S = 30


def decision(number: int) -> Decision:
    names = (BranchName(b"\0", "broker"), BranchName(b"\1", "postgresql:1/orders"))
    return Decision(number.to_bytes(8, "big"), names, 1_700_000_000_000 + number)


def finish(log: DecisionLog, number: int) -> None:
    """All branches have heard."""
    for branch in decision(number).branches:
        assert log.is_decided(decision(number).gtrid)
        log.heard(decision(number).gtrid, branch.bqual)
    assert not log.is_decided(decision(number).gtrid)


def heuristic(number: int, code: XaCode = XaCode.XA_HEURRB) -> HeuristicOutcome:
    known = decision(number)
    return HeuristicOutcome(known.gtrid, known.branches[0], "commit", code, known.decided_ms)


numbers = st.integers(0, 20)
records = st.one_of(
    numbers.map(lambda number: decision(number).record()),
    numbers.map(lambda number: ended(decision(number).gtrid)),
    numbers.map(lambda number: heuristic(number).record()),
    numbers.map(lambda number: forgotten(decision(number).gtrid)),
)
batches = st.lists(st.lists(records, min_size=1, max_size=60), max_size=8)
FIRST: list[Record] = [{"owner": "00" * 12, "epoch": 1}]


def log_of(written: list[list[Record]]) -> list[bytes]:
    """The blocks of a log to which so much was written."""
    return [encode_block(number, batch) for number, batch in enumerate([FIRST, *written], 1)]


def folded(written: list[list[Record]]) -> LogState:
    state = LogState()
    for batch in [FIRST, *written]:
        for record in batch:
            state.apply(record)
    return state


@given(batches, st.integers(0, 3))
def test_what_was_written_is_read(written: list[list[Record]], zeros: int) -> None:
    assert read_log(b"".join(log_of(written)) + bytes(zeros * ALIGNMENT_BYTES)) == folded(written)


@given(batches)
def test_a_compacted_log_says_the_same(written: list[list[Record]]) -> None:
    state = folded(written)
    assert read_log(encode_block(1, state.records())) == state


@given(batches.filter(bool), st.data())
def test_a_torn_tail_counts_for_nothing(written: list[list[Record]], data: st.DataObject) -> None:
    """Of the last write any pages may have reached the disk; a write whose sync came back is whole."""
    *before, last = log_of(written)
    pages = [last[at : at + ALIGNMENT_BYTES] for at in range(0, len(last), ALIGNMENT_BYTES)]
    kept = data.draw(st.lists(st.booleans(), min_size=len(pages), max_size=len(pages)))
    torn = b"".join(page if keep else bytes(len(page)) for page, keep in zip(pages, kept, strict=True))
    found = read_log(b"".join(before) + torn + bytes(ALIGNMENT_BYTES))
    assert found == folded(written if all(kept) else written[:-1])


@given(batches.filter(bool), st.data())
def test_a_file_cut_anywhere_is_what_came_before(written: list[list[Record]], data: st.DataObject) -> None:
    *before, last = log_of(written)
    cut = data.draw(st.integers(0, len(last) - ALIGNMENT_BYTES))
    assert read_log(b"".join(before) + last[:cut]) == folded(written[:-1])


@given(batches.filter(bool), st.data())
def test_damage_before_the_tail_is_refused(written: list[list[Record]], data: st.DataObject) -> None:
    blocks = log_of(written)
    which = data.draw(st.integers(0, len(blocks) - 2))
    block_bytes = HEADER.size + HEADER.unpack_from(blocks[which])[1]
    at = data.draw(st.integers(0, block_bytes - 1))
    damaged = bytearray(blocks[which])
    damaged[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedLog):
        read_log(b"".join([*blocks[:which], bytes(damaged), *blocks[which + 1 :]]))


@given(st.binary(max_size=200))
def test_what_was_never_a_log_is_refused(junk: bytes) -> None:
    with pytest.raises(DamagedLog):
        read_log(junk)


@pytest.mark.parametrize(
    "record", [{}, {"commit": "zz", "branches": [], "at_ms": 1}, {"end": 7}, {"new": "?"}]
)
def test_a_record_that_this_version_does_not_know_is_refused(record: Record) -> None:
    with pytest.raises(DamagedLog, match="can't be read"):
        read_log(encode_block(1, [*FIRST, record]))


def test_a_decision_is_there_after_a_crash_and_gone_after_its_end(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    for number in range(3):
        log.commit(decision(number)).result(WAIT_S)
    finish(log, 1)
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    (crashed / LOG_NAME).write_bytes((tmp_path / LOG_NAME).read_bytes())
    log.close()
    again, ended_well = DecisionLog(crashed), DecisionLog(tmp_path)
    # The end of a decision is no decision: it may be lost.
    assert again.decisions() == [decision(0), decision(1), decision(2)]
    assert ended_well.decisions() == [decision(0), decision(2)]
    assert (again.owner_id, again.epoch) == (log.owner_id, log.epoch + 1)
    for each in (again, ended_well):
        each.close()


def test_heuristic_outcomes_are_kept_until_they_are_forgotten(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    log.note_heuristic(heuristic(1)).result(WAIT_S)
    log.note_heuristic(heuristic(2)).result(WAIT_S)
    log.note_heuristic(heuristic(2)).result(WAIT_S)
    log.close()
    log = DecisionLog(tmp_path)
    assert log.heuristics() == [heuristic(1), heuristic(2)]
    log.forget(heuristic(1).gtrid).result(WAIT_S)
    log.close()
    log = DecisionLog(tmp_path)
    assert log.heuristics() == [heuristic(2)]
    log.close()


def test_a_log_has_one_owner(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    with pytest.raises(DecisionLogException, match="in use"):
        DecisionLog(tmp_path)
    log.close()
    log.close()
    DecisionLog(tmp_path).close()


def test_a_damaged_log_is_refused_and_says_where_it_is(tmp_path: Path) -> None:
    (tmp_path / LOG_NAME).write_bytes(b"something else")
    with pytest.raises(DecisionLogException, match=f"{LOG_NAME} is damaged"):
        DecisionLog(tmp_path)
    (tmp_path / LOG_NAME).unlink()
    DecisionLog(tmp_path).close()


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DecisionLogException, match="no decision log"):
        DecisionLog(tmp_path / "file" / "log")


def test_the_file_stays_as_large_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written again, with what still matters, when it is full."""
    blocks = 8
    monkeypatch.setattr(decision_log, "FILE_BYTES", blocks * ALIGNMENT_BYTES)
    log = DecisionLog(tmp_path)
    for number in range(3 * blocks):
        log.commit(decision(number)).result(WAIT_S)
        if number:
            finish(log, number)
    assert (tmp_path / LOG_NAME).stat().st_size == blocks * ALIGNMENT_BYTES
    log.close()
    log = DecisionLog(tmp_path)
    assert log.decisions() == [decision(0)]
    log.close()


def test_unfinished_transactions_are_bounded(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path, max_unfinished=3)
    for number in range(2):
        log.commit(decision(number)).result(WAIT_S)
    log.note_heuristic(heuristic(7)).result(WAIT_S)
    with pytest.raises(DecisionLogException, match="its bound"):
        log.commit(decision(2))
    finish(log, 0)
    log.commit(decision(2)).result(WAIT_S)
    log.close()


def test_decisions_that_come_together_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = DecisionLog(tmp_path)
    first, go_on = threading.Event(), threading.Event()
    syncs = []

    def sync(fd: int) -> None:
        syncs.append(fd)
        first.set()
        assert go_on.wait(WAIT_S)

    monkeypatch.setattr(os, "fdatasync", sync)
    promises: list[Future[None]] = [log.commit(decision(0))]
    assert first.wait(WAIT_S)
    promises += [log.commit(decision(number)) for number in range(1, 50)]
    go_on.set()
    for promise in promises:
        promise.result(WAIT_S)
    assert len(syncs) == 2
    log.close()


def test_after_a_failed_sync_nobody_knows_and_nothing_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    log = DecisionLog(tmp_path)
    log.commit(decision(0)).result(WAIT_S)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", fail)
        with pytest.raises(DecisionLogException, match="Input/output error"):
            log.commit(decision(1)).result(WAIT_S)
    for refused in (lambda: log.commit(decision(2)), log.check):
        with pytest.raises(DecisionLogException, match="opened again"):
            refused()
    log.close()
    log = DecisionLog(tmp_path)
    assert log.decisions()[0] == decision(0)
    log.check()
    log.close()


def test_a_closed_log_decides_nothing(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    log.close()
    with pytest.raises(DecisionLogException, match="closed"):
        log.commit(decision(0))


def test_a_crash_while_the_file_is_written_again_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(self: Path, target: Path) -> None:
        raise OSError("as far as it came")

    log = DecisionLog(tmp_path)
    log.commit(decision(0)).result(WAIT_S)
    log.close()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", crash)
        with pytest.raises(DecisionLogException, match="as far as it came"):
            DecisionLog(tmp_path)
    log = DecisionLog(tmp_path)
    assert log.decisions() == [decision(0)]
    log.close()
