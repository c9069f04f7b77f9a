"""The active member's end of the log: appends in order, heartbeats, and word of how far this folder is.

For one event loop. The first failure is the last: who has been overtaken, or doesn't know what became of an
append, appends nothing more.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from postroom.ledger.errors import LedgerFailed
from postroom.ledger.storage.disk import Bytes
from postroom.replication.cancelling import cancel
from postroom.replication.entries import (
    Entry,
    Kind,
    Place,
    Release,
    decode_entry,
    parts_of_block,
    parts_of_file,
)
from postroom.replication.errors import CopyNeeded, EngineUnavailable, Overtaken
from postroom.replication.lag import Growth, Lag
from postroom.replication.log import MemberNote, ReplicatedLog
from postroom.replication.options import ReplicationOptions
from postroom.replication.order import LogOrder

TEND_S: Final = 2.0
"""So often an active says how far it is, and trims the log."""

_LOG: Final = logging.getLogger("postroom")

Make = Callable[[int], list[bytes]]
"""Entries that follow on the one with this sequence."""


class Active:
    """Holds a claim."""

    def __init__(
        self,
        log: ReplicatedLog,
        options: ReplicationOptions,
        order: LogOrder,
        note: MemberNote,
        lost: Callable[[LedgerFailed], None],
    ) -> None:
        """`order` ends with our claim; `lost` is called once when the claim is no longer ours to use."""
        self._log: Final = log
        self._options: Final = options
        self._order: Final = order
        self._note: Final = note
        self._lost: Final = lost
        self._appending: Final = asyncio.Lock()
        self._failure: LedgerFailed | None = None
        self._appended_s = time.monotonic()
        self._tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._tend())]
        self.saved = order.sequence
        """Entries up to this one are durable in this folder."""
        self.durable_through: Callable[[], int] = int
        """The last durable position of the ledger, once it is open."""
        self.notes: list[MemberNote] = []
        """What members have said last."""
        self.growth: Final = Growth()
        """The log's end since the claim."""
        self._appended_bytes = 0

    @property
    def sequence(self) -> int:
        """Of the last entry."""
        return self._order.sequence

    @property
    def claim(self) -> bytes:
        """The claim in force."""
        return self._order.claim

    def lag(self, sequence: int) -> Lag:
        """Of who has everything up to that entry."""
        found = self.growth.lag(sequence)
        return found._replace(entries=max(0, self._order.sequence - sequence))

    async def append_block(self, place: Place, parts: Sequence[Bytes]) -> None:
        """What is written at that place of the journal; durable on return. Raises `LedgerFailed`."""
        claim, most_bytes = self._order.claim, self._log.most_bytes
        await self._append(lambda after: parts_of_block(claim, after, place, parts, most_bytes))

    async def append_file(self, name: str, data: bytes) -> None:
        """A file beside the ledger that all members shall have; durable on return. Raises `LedgerFailed`."""
        claim, most_bytes = self._order.claim, self._log.most_bytes
        await self._append(lambda after: parts_of_file(claim, after, name, data, most_bytes))

    async def release(self, to: str = "") -> None:
        """Give the claim up: `to`, or whoever comes first, may claim at once. Raises `LedgerFailed`."""
        payload = msgspec.json.encode(Release(self._options.member, to))
        await self._append(lambda after: [Entry(Kind.RELEASE, self._order.claim, after, payload).encode()])

    async def stop(self) -> None:
        """No more heartbeats."""
        await cancel(*self._tasks)

    async def _append(self, make: Make) -> None:
        async with self._appending:
            if self._failure is not None:
                raise self._failure
            try:
                await self._append_next(make)
            except LedgerFailed as error:
                self._failure = error
                self._lost(error)
                raise
            self._appended_s = time.monotonic()

    async def _append_next(self, make: Make) -> None:
        while True:
            after = self._order.sequence
            try:
                entries = make(after)
                self._order.sequence = await self._log.append(after, entries)
                self._appended_bytes += sum(map(len, entries))
                return
            except Overtaken:
                try:
                    await self._read_on()
                except CopyNeeded as error:
                    raise Overtaken(f"others have claimed the log, and trimmed it: {error}") from error

    async def _read_on(self) -> None:
        """Read what others have appended behind us. Raises `Overtaken` if a claim is among it, `CopyNeeded`
        if it isn't all there any more."""
        ours, last = self._order.claim, await self._log.last()
        async with contextlib.aclosing(self._log.read(self._order.sequence)) as entries:
            async for sequence, data in entries:
                entry = decode_entry(sequence, data)
                if self._order.take(sequence, entry) and entry.claim != ours:
                    raise Overtaken(
                        f"member {entry.claimant().member!r} has claimed the log at entry {sequence}; nothing"
                        " of this process was acknowledged since: start it again, and it follows"
                    )
                if sequence >= last:
                    return

    async def _beat(self) -> None:
        """Say that we are there whenever nothing else has."""
        interval_s = self._options.heartbeat_ms / 1e3
        while self._failure is None:
            wait_s = self._appended_s + interval_s - time.monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
                continue
            try:
                await self._append(lambda after: [Entry(Kind.HEARTBEAT, self._order.claim, after).encode()])
            except LedgerFailed:
                return  # `lost` was told
            except Exception as error:  # without heartbeats another claims: this process ends before
                self._failure = EngineUnavailable(f"heartbeats can't be appended: {error!r}")
                self._lost(self._failure)
                raise

    async def _tend(self) -> None:
        """Say how far this folder is, and trim the log to what no member needs. What goes wrong is tried
        again, for the claim isn't in question."""
        logged = ""
        while self._failure is None:
            self.growth.sample(self._order.sequence, self._appended_bytes)
            try:
                note = msgspec.structs.replace(
                    self._note,
                    sequence=self.saved,
                    position=self.durable_through(),
                    time_us=time.time_ns() // 1000,
                )
                await self._log.note(note)
                self.notes = await self._log.notes()
                await self._trim()
                logged = ""
            except EngineUnavailable:
                pass  # appends fail likewise, and tell
            except Exception as error:
                if logged != repr(error):
                    logged = repr(error)
                    _LOG.error("replication: members' notes and trimming fail: %s", logged, exc_info=error)
            await asyncio.sleep(TEND_S)

    async def _trim(self) -> None:
        """Where the log has grown over its bound, up to what every member has; over the other, further."""
        size_bytes = await self._log.size_bytes()
        if size_bytes <= self._options.log_bytes:
            return  # so that a new member finds all of it
        through = self.saved
        if size_bytes <= self._options.max_log_bytes:
            through = min([through, *(note.sequence for note in self.notes)])
        if through >= await self._log.first():
            await self._log.trim(through)
