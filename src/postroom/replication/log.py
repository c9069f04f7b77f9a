"""The port: what a replicated ledger needs of an engine that replicates.

A log is one ordered sequence of entries, numbered from 1 without gaps, of which the oldest may have been
trimmed. What `append` returned is durable on a majority of the engine's nodes. All methods belong to one
event loop.
"""

import logging
from collections.abc import AsyncGenerator
from typing import Final, Protocol

import msgspec

_LOG: Final = logging.getLogger("postroom")
MOST_PASSED_OVER: Final = 100
"""Names of no members that are logged."""


class MemberNote(msgspec.Struct, frozen=True):
    """What a member says of itself beside the log, now and then."""

    member: str
    state: str
    """"active", "follower" or "copying"."""
    sequence: int
    """Entries up to this one are in its folder, durably."""
    position: int
    """The last position of the ledger there."""
    time_us: int
    """When it said so, by its own clock."""
    urls: list[str] = []
    """Where it takes clients while it is active."""
    version: str = ""


class NoteReader:
    """Reads notes. What others have put among them is passed over, with a line in the log for each name: it
    says nothing of how far a member is."""

    def __init__(self) -> None:
        self._passed_over: Final[set[str]] = set()

    def read(self, name: str, data: bytes) -> MemberNote | None:
        """The note; None for what is none."""
        try:
            return msgspec.json.decode(data, type=MemberNote)
        except msgspec.MsgspecError as error:
            if name not in self._passed_over and len(self._passed_over) < MOST_PASSED_OVER:
                self._passed_over.add(name)
                _LOG.warning("replication: what is among members' notes as %r is none: %s", name, error)
            return None


class ReplicatedLog(Protocol):
    """One queue manager's log in an engine."""

    most_bytes: int
    """Largest entry that the engine takes; known once it is open."""
    identity: str
    """Another one where a log of the same name was made anew; known once it is open."""

    async def open(self) -> None:
        """Connect; make the log if there is none, check it if there is.

        Raises `EngineRefused` where durable wouldn't mean durable, `EngineUnavailable` where nobody answers.
        """

    async def append(self, after: int, entries: list[bytes]) -> int:
        """Append behind the entry `after`; returns the sequence of the last once all are durable.

        Lost answers are cleared up here: what is returned, or refused, is so. Raises `Overtaken` if another
        entry lies behind `after` (some of ours may then lie behind that one: `order` passes them over),
        `EngineUnavailable` if nobody has answered in time: then nothing is known.
        """

    async def last(self) -> int:
        """Sequence of the last entry, 0 before the first. No older than the call."""

    async def first(self) -> int:
        """Sequence of the oldest entry that wasn't trimmed; `last` + 1 if all were."""

    def read(self, after: int) -> AsyncGenerator[tuple[int, bytes], None]:
        """Entries behind `after` in order, without gaps, and those that come; ends only by an error."""

    async def trim(self, through: int) -> None:
        """Entries up to this one may go."""

    async def size_bytes(self) -> int:
        """What the log takes of each node."""

    async def note(self, note: MemberNote) -> None:
        """Put down what a member says of itself."""

    async def notes(self) -> list[MemberNote]:
        """What members have said last, by name."""

    async def forget(self, member: str) -> None:
        """Of a member that won't come back: the log needn't wait for it."""

    async def close(self) -> None: ...
