"""The decision log of a transaction manager: a file that says which transactions were decided to commit.

One thread writes; decisions that come while it syncs share the next sync. The file has all its bytes from the
start, as zeros, so that a sync has no new size to make durable; when it is full, what still matters is
written to a new one that takes its name.
"""

from __future__ import annotations

import os
import secrets
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from postroom.client.exceptions import DecisionLogException
from postroom.client.transactions import durable_files
from postroom.client.transactions.decision_records import (
    ALIGNMENT_BYTES,
    FIRST_SEQUENCE,
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

LOG_NAME: Final = "decisions"
LOCK_NAME: Final = "lock"
OWNER_ID_BYTES: Final = 12
FILE_BYTES: Final = 4 * 1024 * 1024
"""The least size of the file; more only where what still matters fills half of it."""
DEFAULT_MAX_UNFINISHED: Final = 10_000


class DecisionLog:
    """The log in ``folder``, which is made unless it is there. Used from any thread.

    At most ``max_unfinished`` transactions are kept of which some branch hasn't heard yet, or has a heuristic
    outcome that nobody took note of; a decision above that is refused. Raises DecisionLogException: another
    process has the log, it is damaged, or the disk failed.
    """

    def __init__(self, folder: Path, max_unfinished: int = DEFAULT_MAX_UNFINISHED) -> None:
        self._path = folder / LOG_NAME
        self._max_unfinished = max_unfinished
        self._fd = -1
        self._end = 0
        self._sequence = FIRST_SEQUENCE
        self._failure: DecisionLogException | None = None
        self._heard: dict[bytes, set[bytes]] = {}
        """Of unfinished transactions: the branches that have heard."""
        self._waiting: list[Record] = []
        self._promises: list[Future[None]] = []
        self._is_closing = False
        self._changed = threading.Condition()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock_fd = _lock(folder)
        except OSError as error:
            raise DecisionLogException(f"no decision log in {folder}: {error}") from error
        try:
            self._state = self._read()
            self._state.epoch += 1
            self._rewrite()
        except OSError as error:
            self._close_files()
            raise DecisionLogException(f"{self._path} can't be opened: {error}") from error
        except DecisionLogException:
            self._close_files()
            raise
        self._writer = threading.Thread(target=self._write_all, name="postroom-decisions", daemon=True)
        self._writer.start()

    @property
    def owner_id(self) -> bytes:
        """Begins the global transaction id of every transaction of this log's owner, and of nobody else's."""
        return self._state.owner_id

    @property
    def epoch(self) -> int:
        """How many times the log has been opened."""
        return self._state.epoch

    def commit(self, decision: Decision) -> Future[None]:
        """Decide; done when the decision is on disk. Raises DecisionLogException when nothing is decided.

        A DecisionLogException as the future's result leaves open whether it is on disk: whoever opens the log
        next finds out.
        """
        with self._changed:
            self._check()
            if len(self._state.decisions) + len(self._state.heuristics) >= self._max_unfinished:
                raise DecisionLogException(
                    f"{self._path} has {self._max_unfinished} unfinished transactions, which is its bound: "
                    "recover their resource managers, and forget heuristic outcomes"
                )
            return self._promise(decision.record())

    def note_heuristic(self, outcome: HeuristicOutcome) -> Future[None]:
        """Keep a heuristic outcome until it is forgotten; done when it is on disk."""
        with self._changed:
            self._check()
            return self._promise(outcome.record())

    def heard(self, gtrid: bytes, bqual: bytes) -> None:
        """A branch has heard the decision. When all have, the transaction has ended: that is written with the
        next decision, for a recovery finds it out again.
        """
        with self._changed:
            decision = self._state.decisions.get(gtrid)
            if decision is None:
                return
            heard = self._heard.setdefault(gtrid, set())
            heard.add(bqual)
            if all(branch.bqual in heard for branch in decision.branches):
                del self._heard[gtrid]
                self._add(ended(gtrid))

    def forget(self, gtrid: bytes) -> Future[None]:
        """Keep nothing more of a transaction: somebody has taken note; done when that is on disk."""
        with self._changed:
            self._check()
            self._heard.pop(gtrid, None)
            return self._promise(forgotten(gtrid))

    def check(self) -> None:
        """Raise what has made the log useless, if anything has: what it says may not be true then."""
        with self._changed:
            self._check()

    def is_decided(self, gtrid: bytes) -> bool:
        """Whether the transaction was decided to commit, and hasn't ended."""
        with self._changed:
            return gtrid in self._state.decisions

    def decisions(self) -> list[Decision]:
        """The transactions of which some branch may not have heard."""
        with self._changed:
            return list(self._state.decisions.values())

    def heuristics(self) -> list[HeuristicOutcome]:
        """The outcomes that nobody has taken note of, oldest first."""
        with self._changed:
            return [outcome for known in self._state.heuristics.values() for outcome in known]

    def close(self) -> None:
        """Write what is left and give up the lock; a second call does nothing."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._writer.join()
        self._close_files()

    # --- the writer

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_closing:
            raise DecisionLogException(f"{self._path} is closed")

    def _promise(self, record: Record) -> Future[None]:
        promise: Future[None] = Future()
        promise.set_running_or_notify_cancel()  # it can't be cancelled
        self._promises.append(promise)
        self._add(record)
        self._changed.notify()
        return promise

    def _add(self, record: Record) -> None:
        self._state.apply(record)
        self._waiting.append(record)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._promises or self._is_closing)
                records, self._waiting = self._waiting, []
                promises, self._promises = self._promises, []
                is_last = self._is_closing
            self._write_batch(records, promises)
            if is_last:
                return

    def _write_batch(self, records: list[Record], promises: list[Future[None]]) -> None:
        """One write and one sync for all; after a failure nobody knows what is on disk, and nothing is
        written.
        """
        if self._failure is None and records:
            try:
                self._write(encode_block(self._sequence, records))
            except Exception as error:
                self._failure = DecisionLogException(
                    f"{self._path} can't be written: {error}. What was decided last is known when the log is "
                    "opened again"
                )
        for promise in promises:
            if self._failure is not None:
                promise.set_exception(self._failure)
            else:
                promise.set_result(None)

    def _write(self, block: bytes) -> None:
        if self._end + len(block) > os.fstat(self._fd).st_size:
            self._rewrite()  # says what the block does
            return
        durable_files.write_at(self._fd, self._end, block)
        durable_files.sync_data(self._fd)
        self._end += len(block)
        self._sequence += 1

    # --- files

    def _read(self) -> LogState:
        if not self._path.exists():
            return LogState(owner_id=secrets.token_bytes(OWNER_ID_BYTES))
        try:
            return read_log(self._path.read_bytes())
        except DamagedLog as damage:
            raise DecisionLogException(
                f"{self._path} is damaged: {damage}. Decisions may be lost: decide by hand about what the "
                "resource managers have prepared, then remove the file"
            ) from None

    def _rewrite(self) -> None:
        """Write all that still matters to a new file, durably, and go on with that one."""
        with self._changed:
            block = encode_block(FIRST_SEQUENCE, self._state.records())
        size = max(FILE_BYTES, -(-2 * len(block) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
        temporary = self._path.with_suffix(".tmp")
        fd = durable_files.open_file(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            durable_files.write_at(fd, 0, block + bytes(size - len(block)))
            durable_files.sync(fd)
        finally:
            os.close(fd)
        self._close_file()
        durable_files.replace(temporary, self._path)
        self._fd = durable_files.open_file(self._path, os.O_RDWR)
        self._end, self._sequence = len(block), FIRST_SEQUENCE + 1

    def _close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _close_files(self) -> None:
        self._close_file()
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
        self._lock_fd = -1


def _lock(folder: Path) -> int:
    """Two managers with one log would roll back each other's transactions."""
    try:
        return durable_files.lock(folder / LOCK_NAME)
    except BlockingIOError:
        raise DecisionLogException(
            f"the decision log in {folder} is in use by another transaction manager"
        ) from None
