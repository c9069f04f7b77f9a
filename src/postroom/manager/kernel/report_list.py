"""Reports that are to be made: what has happened, and what is needed to tell it."""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.entry import Entry

REPORTER: Final = "(reports)"
"""The producer of reports, as the ledger names it."""


@final
class Cause:
    """Something that a report may be asked about: ``feedback`` (MQFB_) has happened to ``entry``, a copy."""

    __slots__ = ("entry", "feedback")

    def __init__(self, entry: Entry, feedback: i64) -> None:
        self.entry = entry
        self.feedback: i64 = feedback


@final
class Reports:
    """The list of one queue manager."""

    def __init__(self) -> None:
        self.due: list[Cause] = []
        """What this command has brought about; its reports are made before it ends."""
        self.waiting: deque[Cause] = deque()
        """Those whose messages have to be read first."""
        self.reading: list[Cause] = []
        """Those of them that are being read."""
        self.crowded = False
        """So many wait that some were not made; until none waits."""
        self.made: i64 = 0
        """Reports since the start, those that went to a dead-letter queue included."""
        self.unmade: i64 = 0
        """Reports that could be put nowhere, or whose message could not be read, since the start."""
        self.producer: Producer | None = None

    def note(self, entry: Entry, feedback: i64) -> None:
        """``feedback`` has happened to ``entry``, which asks for reports of some kind."""
        self.due.append(Cause(entry.copy_for(self), feedback))
