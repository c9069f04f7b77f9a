"""What one task attempt sends: in sink branches, one after the other, each sealed before the next begins.

A branch is only ever sealed whole. What it has is kept here until then, so that a lost connection costs no
more than sending it again in another branch: how much of the first has arrived nobody knows, and it is rolled
back. That is why a branch is bounded in bytes, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from postroom.spark.sink.errors import SinkError
from postroom.spark.sink.link import LOST, Begun, Patience, SinkLink
from postroom.spark.sink.options import SinkOptions

MAX_BRANCH_BYTES: Final = 64 << 20
"""Kept for as long as a branch is open; a larger message has a branch of its own."""


@dataclass(frozen=True, slots=True)
class Share:
    """Some messages for one queue."""

    queue: str
    payloads: list[bytes]


class Branches:
    """The branches of a task attempt. Not for two threads."""

    def __init__(self, options: SinkOptions, app: str, begin_body: Mapping[str, object]) -> None:
        """``begin_body``: what BEGIN says, the same for each branch."""
        self._options: Final = options
        self._app: Final = app
        self._begin_body: Final = begin_body
        self._patience: Final = Patience(options.broker_timeout_s)
        self._link: SinkLink | None = None
        self._begun: Begun | None = None
        self._given_up: list[str] = []
        """Branches that broke off, to be rolled back."""
        self._kept: list[Share] = []
        """What the open branch has, or is to have."""
        self._kept_messages = 0
        self._kept_bytes = 0
        self._sent = 0
        """How many of `_kept` were sent in it."""
        self.sealed: list[str] = []
        """Names, in order."""
        self.messages = 0
        """In those."""

    async def begin(self) -> Begun:
        """Ask first: what the broker says of the batch."""
        while True:
            try:
                begun = await self._open_branch()
            except LOST as failure:
                await self._lose()
                await self._patience.lost(failure)
            else:
                self._patience.done()
                return begun

    async def write(self, share: Share) -> None:
        """Send, sealing branches that are full on the way."""
        start = 0
        while start < len(share.payloads):
            end = self._end_of_branch(share.payloads, start)
            if end > start:
                self._keep(Share(share.queue, share.payloads[start:end]))
                await self._deliver(is_last=False)
            if end < len(share.payloads):
                await self._deliver(is_last=True)
            start = end

    async def finish(self) -> list[str]:
        """Seal what is open; the names of the branches that have everything."""
        if self._kept:
            await self._deliver(is_last=True)
        elif self._begun is not None and self._begun.branch:
            await self._give_up([self._begun.branch])
        await self._hang_up()
        return self.sealed

    async def abandon(self) -> None:
        """The attempt has failed: its branches are rolled back, if the broker can be reached."""
        begun = [] if self._begun is None else [self._begun.branch]
        await self._give_up([*self._given_up, *begun, *self.sealed])
        await self._hang_up()

    # --- a branch

    def _end_of_branch(self, payloads: list[bytes], start: int) -> int:
        """Up to where the messages fit into the open branch; at least one into an empty one."""
        most = self._options.max_branch_messages
        if self._begun is not None:
            most = min(most, self._begun.max_messages)
        room = max(most - self._kept_messages, 0 if self._kept else 1)
        size = self._kept_bytes
        end = start
        while end < len(payloads) and end - start < room:
            size += len(payloads[end])
            if size > MAX_BRANCH_BYTES and (self._kept or end > start):
                break
            end += 1
        return end

    def _keep(self, share: Share) -> None:
        self._kept.append(share)
        self._kept_messages += len(share.payloads)
        self._kept_bytes += sum(map(len, share.payloads))

    async def _deliver(self, is_last: bool) -> None:
        """Send what is kept, over lost connections; `is_last`: and seal it."""
        while True:
            try:
                await self._send()
                if is_last:
                    await self._seal()
                self._patience.done()
                return
            except LOST as failure:
                await self._lose()
                await self._patience.lost(failure)

    async def _send(self) -> None:
        begun = await self._open_branch()
        if begun.decided:
            raise SinkError(
                "the batch was decided while this task wrote it: nobody wants its result any more"
            )
        assert self._link is not None
        while self._sent < len(self._kept):
            share = self._kept[self._sent]
            await self._link.send_all(share.queue, share.payloads, begun.txn_id)
            self._sent += 1

    async def _seal(self) -> None:
        assert self._link is not None and self._begun is not None
        there = await self._link.seal(self._begun.branch)
        if there != self._kept_messages:
            raise SinkError(
                f"branch {self._begun.branch} has {there} messages at the broker, and {self._kept_messages}"
                " were sent: nothing of it counts"
            )
        self.sealed.append(self._begun.branch)
        self.messages += there
        self._begun = None
        self._kept, self._kept_messages, self._kept_bytes, self._sent = [], 0, 0, 0

    async def _open_branch(self) -> Begun:
        """The open branch; a new one where there is none."""
        if self._link is None:
            options = self._options
            self._link = await SinkLink.open(options.broker, self._app, options.broker_timeout_s)
        if self._begun is None:
            self._begun = await self._link.begin(self._begin_body)
            for name in self._given_up:
                await self._link.roll_back(name)
            self._given_up = []
        return self._begun

    # --- breaks

    async def _lose(self) -> None:
        """The connection is no good: what was sent and not sealed is to be sent again."""
        if self._begun is not None and self._begun.branch:
            self._given_up.append(self._begun.branch)
        self._begun = None
        self._sent = 0
        await self._hang_up()

    async def _give_up(self, names: list[str]) -> None:
        """Roll back; what can't be, the batch's decision ends."""
        self._begun = None
        try:
            for name in names:
                if self._link is not None and name:
                    await self._link.roll_back(name)
        except LOST:
            return

    async def _hang_up(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()
