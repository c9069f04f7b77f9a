"""A member from its start: it follows the log, claims when nobody else is active, and is active then.

Everything here runs in the loop of one thread, `EngineThread`; the process' own loop, which serves clients,
doesn't wait for the engine, nor the engine's heartbeats for it.
"""

import asyncio
import contextlib
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import uvloop

from postroom import __version__
from postroom.ledger.errors import LedgerCorrupt, LedgerFailed
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.storage.disk import Bytes, RealDisk
from postroom.ledger.verification.integrity import files_of
from postroom.replication.active import Active
from postroom.replication.cancelling import cancel
from postroom.replication.entries import CLAIM_ID_BYTES, Claimant, Entry, Kind, decode_entry
from postroom.replication.errors import (
    COPY_ADVICE,
    CopyNeeded,
    CopyUnavailable,
    EngineUnavailable,
    MemberRefused,
    Overtaken,
)
from postroom.replication.folder_state import FolderState, read_state, write_state
from postroom.replication.follower import Follower
from postroom.replication.lag import Growth
from postroom.replication.log import MemberNote, ReplicatedLog
from postroom.replication.options import ReplicationOptions
from postroom.replication.order import LogOrder
from postroom.replication.writer import ReplicatedWriter

NOTE_S: Final = 2.0
"""So often a follower says how far it is."""
JITTER: Final = 0.3
"""Followers wait up to this share longer, so that they don't claim at once."""

RETRY_S: Final = 1.0
"""So often an engine, or a copy, that isn't there is tried again."""
CATCH_UP_S: Final = 10.0
"""So long a node of the engine that has just started again may tell less of the log than it has."""
MAX_COPIES: Final = 5
"""So many copies in a row, of which none was followed far, end a member."""
FOLLOWED_ENTRIES: Final = 1000
"""That far."""

STARTING: Final = "starting"
FOLLOWING: Final = "following"
COPYING: Final = "copying"
ACTIVE: Final = "active"

T = TypeVar("T")
_LOG: Final = logging.getLogger("postroom")


class EngineThread:
    """A thread with an event loop for the engine's client."""

    def __init__(self) -> None:
        self.loop: Final = uvloop.new_event_loop()
        self._thread: Final = threading.Thread(target=self.loop.run_forever, name="replication", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Have it done there."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The same, and wait."""
        return self.start(work).result()

    def stop(self) -> None:
        """End what still runs, and the thread."""
        self.run(_cancel_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def _cancel_others() -> None:
    await cancel(*asyncio.all_tasks() - {asyncio.current_task()})


class Member:
    """One member of a replicated queue manager: first `follow`, then `open_ledger`, at last `end`."""

    def __init__(
        self,
        log: ReplicatedLog,
        options: ReplicationOptions,
        folder: Path,
        ledger_options: LedgerOptions,
        urls: list[str],
        keep_file: Callable[[str, bytes], None],
    ) -> None:
        """`keep_file` puts a file that goes with the ledger into its place, durably."""
        self._keep_file: Final = keep_file
        self._parts_of_file: list[Bytes] = []
        self._log: Final = log
        self._options: Final = options
        self._folder: Final = folder
        self._ledger_options: Final = ledger_options
        self._urls: Final = urls
        self._order = LogOrder()
        self._claims: set[bytes] = set()
        """Ids of the claims that we have appended, or tried to."""
        self.active: Active | None = None
        """Once this member is."""
        self.when_lost: Callable[[LedgerFailed], None] = self._keep_failure
        """Called in the engine's thread, once, when this member may no longer be active."""
        self.failure: LedgerFailed | None = None
        """Why the claim was lost while nobody listened."""
        self.active_member = ""
        """Who is active, as far as the log was read; "": nobody."""
        self.active_urls: list[str] = []
        """Where that member takes clients."""
        self.state = STARTING
        """"starting", "following", "copying" or "active"."""
        self.read_s = time.monotonic()
        """When anything was read of the log last, or following began."""
        self.growth: Final = Growth()
        """The log's end while this member follows."""
        self.position = 0
        """The last position of the ledger in the folder, as far as its files were begun."""

    @property
    def sequence(self) -> int:
        """Of the last entry that was read or appended."""
        return self._order.sequence

    async def follow(self) -> None:
        """Until this member is the active one.

        Raises `EngineRefused`, `MemberRefused` or another `LedgerError`, or OSError: it can't follow.
        """
        await self._open_log()
        copies, copied_at = 0, 0
        while True:
            try:
                return await self._follow_in_folder()
            except EngineUnavailable as error:
                _LOG.warning("replication: waits for the engine: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            except (CopyNeeded, LedgerCorrupt) as error:
                copies = copies + 1 if self._order.sequence < copied_at + FOLLOWED_ENTRIES else 1
                if copies > MAX_COPIES or not self._may_copy():
                    raise
                _LOG.warning("replication: copies another member's folder: %s", error)
            copied_at = await self._copy()

    async def _follow_in_folder(self) -> None:
        self.state = STARTING
        follower = await asyncio.to_thread(Follower, self._folder, self._ledger_options)
        try:
            await self._follow(follower)
            follower.save(self._order.sequence, self._order.claim)
        finally:
            await asyncio.to_thread(follower.close)

    def _may_copy(self) -> bool:
        """Whether nothing is lost by it: the folder is empty, or has followed this log."""
        if not self._options.copy_from:
            return False
        disk = RealDisk(self._folder)
        try:
            state = read_state(disk)
            return not files_of(disk.names()) if state is None else state.log == self._log.identity
        finally:
            disk.unlock()

    async def _copy(self) -> int:
        """Have the folder be another member's, as far as that is now; the entry that it goes on behind.

        Raises `MemberRefused` where no member will ever give it, OSError.
        """
        # Imported here: who needs no copy starts sooner.
        from postroom.replication.copying import Copying

        self.state = COPYING
        while True:
            copying = Copying(self._options, self._folder)
            try:
                keeps = await self._log.first() - 1  # so that nothing is trimmed that the copy needs
                await self._note_state("copying", keeps, 0)
                job = asyncio.ensure_future(asyncio.to_thread(copying.copy, self._log.identity))
                while not job.done():
                    await asyncio.wait({job}, timeout=NOTE_S)
                    await self._note_state("copying", keeps, 0)
                copied = job.result()
            except (CopyUnavailable, EngineUnavailable) as error:
                _LOG.warning("replication: no copy yet: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            finally:
                copying.stop()
            _LOG.warning("replication: copied %s", copied)
            return copied.sequence

    def open_ledger(self, thread: EngineThread, now_us: int) -> Ledger:
        """The ledger, whose blocks go through the log from now on; raises as `Ledger.open`."""
        active = self.active
        assert active is not None, "this member isn't active"
        disk = RealDisk(self._folder)

        def save(sequence: int, claim: bytes) -> None:
            write_state(disk, FolderState(self._log.identity, sequence, claim.hex()))

        writer = ReplicatedWriter(thread.loop, active, disk, save)
        # Written at once means written without the log.
        options = replace(self._ledger_options, at_once_bytes=0)
        ledger = Ledger.open(self._folder, options, now_us, disk=disk, writer=writer)
        active.durable_through = lambda: ledger.durable_through
        return ledger

    async def forget(self, member: str) -> None:
        """The log needn't wait for that one. Raises `EngineUnavailable`."""
        await self._log.forget(member)

    async def replicate_file(self, name: str, data: bytes) -> None:
        """Have a file beside the ledger at all members; raises `LedgerFailed`."""
        assert self.active is not None, "this member isn't active"
        await self.active.append_file(name, data)

    async def end(self, to: str = "") -> None:
        """Give up the claim, if we still have it, in favour of a member or of whoever comes first; close."""
        if self.active is not None:
            await self.active.stop()
            with contextlib.suppress(LedgerFailed):  # the claim is lost already
                await self.active.release(to)
        await self._log.close()

    def _keep_failure(self, failure: LedgerFailed) -> None:
        self.failure = failure

    async def _open_log(self) -> None:
        """However long the engine isn't there."""
        is_first = True
        while True:
            try:
                await self._log.open()
                return
            except EngineUnavailable as error:
                if is_first:
                    _LOG.warning("replication: waits for the engine: %s", error)
                is_first = False
                await asyncio.sleep(RETRY_S)

    async def _follow(self, follower: Follower) -> None:
        state = follower.begins_with(self._log.identity)
        self._order = LogOrder(state.sequence, bytes.fromhex(state.claim))
        await self._check_reach()
        await self._find_active()
        silence_s = self._silence_s() if await self._log.last() else 0.0
        self.read_s = heard_s = time.monotonic()
        noted_s = 0.0
        self.state = FOLLOWING
        entries = self._log.read(self._order.sequence)
        coming: asyncio.Future[tuple[int, bytes]] | None = None
        try:
            while True:
                if time.monotonic() >= noted_s + NOTE_S:
                    noted_s = time.monotonic()
                    await self._note(follower)
                coming = coming or asyncio.ensure_future(anext(entries))
                wait_s = min(heard_s + silence_s, noted_s + NOTE_S) - time.monotonic()
                await asyncio.wait({coming}, timeout=max(0.0, wait_s))
                if coming.done():
                    (sequence, data), coming = coming.result(), None
                    self.read_s = heard_s = time.monotonic()
                    silence_s = self._take(follower, sequence, data)
                    if self._order.claim in self._claims and await self._is_last():
                        return self._become_active()
                elif time.monotonic() >= heard_s + silence_s:
                    if await self._claim():
                        return self._become_active()
                    heard_s, silence_s = time.monotonic(), self._silence_s()
        finally:
            if coming is not None:
                await cancel(coming)
            await entries.aclose()

    def _silence_s(self) -> float:
        """After so long without a word this member claims."""
        return self._options.claim_after_ms / 1e3 * (1 + JITTER * random.random())

    async def _check_reach(self) -> None:
        """Whether the log has everything that comes behind what this folder has."""
        has, last, until_s = self._order.sequence, await self._log.last(), time.monotonic() + CATCH_UP_S
        while has > last and time.monotonic() < until_s:
            await asyncio.sleep(RETRY_S)
            last = await self._log.last()
        first = await self._log.first()
        if has > last:
            raise MemberRefused(
                f"{self._folder} has followed the log to entry {has}, and the log ends with entry {last}: the"
                " engine has lost what it had acknowledged; make the member that has most of it (`postroom"
                " ledger stats`) the first of a new stream"
            )
        if has + 1 < first:
            raise CopyNeeded(
                f"{self._folder} has followed the log to entry {has}, and the log begins with entry {first}:"
                f" {COPY_ADVICE}"
            )

    async def _find_active(self) -> None:
        """By what members say of themselves: the claim may lie before what this folder reads."""
        notes = [note for note in await self._log.notes() if note.state == ACTIVE]
        if notes and not self.active_member:
            latest = max(notes, key=lambda note: note.time_us)
            self.active_member, self.active_urls = latest.member, latest.urls

    def _take(self, follower: Follower, sequence: int, data: bytes) -> float:
        """One entry; how long a silence behind it may be, in seconds."""
        entry = decode_entry(sequence, data)
        if not self._order.take(sequence, entry):
            return self._silence_s()
        if entry.kind is Kind.PART:
            if follower.apply(entry):
                follower.save(sequence, entry.claim)
        elif entry.kind is Kind.FILE:
            self._take_part_of_file(entry)
        elif entry.kind is Kind.CLAIM:
            claimant = entry.claimant()
            self.active_member, self.active_urls = claimant.member, claimant.urls
        elif entry.kind is Kind.RELEASE:
            self.active_member, self.active_urls = "", []
            if entry.release().to in ("", self._options.member):
                return 0.0
        return self._silence_s()

    def _take_part_of_file(self, entry: Entry) -> None:
        if entry.part == 0:
            self._parts_of_file = []
        self._parts_of_file.append(entry.payload)
        if entry.part == entry.parts - 1:
            name, _, data = b"".join(self._parts_of_file).partition(b"\0")
            self._parts_of_file = []
            self._keep_file(name.decode(), data)

    async def _is_last(self) -> bool:
        return await self._log.last() == self._order.sequence

    async def _claim(self) -> bool:
        """Try to become the active one; whether that was done."""
        claimant = msgspec.json.encode(Claimant(self._options.member, self._urls, __version__))
        claim = os.urandom(CLAIM_ID_BYTES)
        entry = Entry(Kind.CLAIM, claim, self._order.sequence, claimant)
        try:
            if not await self._is_last():
                return False
            self._claims.add(claim)
            sequence = await self._log.append(entry.after, [entry.encode()])
        except (Overtaken, EngineUnavailable) as error:
            _LOG.warning("replication: the claim failed: %s", error)
            return False
        return self._order.take(sequence, entry)

    def _become_active(self) -> None:
        self.active_member, self.active_urls = self._options.member, self._urls
        note = MemberNote(self._options.member, "active", 0, 0, 0, self._urls, __version__)
        self.state = ACTIVE
        self.active = Active(self._log, self._options, self._order, note, lambda error: self.when_lost(error))

    async def _note(self, follower: Follower) -> None:
        """Say how far this folder is, and have it so."""
        follower.check_upkeep()
        follower.save(self._order.sequence, self._order.claim)
        with contextlib.suppress(EngineUnavailable):  # the next one comes soon
            self.position = follower.position
            self.growth.sample(await self._log.last())
            await self._note_state("follower", self._order.sequence, follower.position)

    async def _note_state(self, state: str, sequence: int, position: int) -> None:
        """Put down what this member is doing, and up to where it doesn't need the log."""
        time_us = time.time_ns() // 1000
        note = MemberNote(self._options.member, state, sequence, position, time_us, version=__version__)
        await self._log.note(note)
