"""Names of the ledger's files. See ``FORMAT.md``, "Files"."""

import re
from typing import Final, NamedTuple

_PLAIN: Final = re.compile(r"(\d{8})\.(journal|events|bodies|acts)")
_PACKED: Final = re.compile(r"(\d{8})-(\d{8})\.(\d{4,})\.packed")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint")
SUPERBLOCK_NAME: Final = "superblock"
TMP_SUFFIX: Final = ".tmp"
VOID_SUFFIX: Final = ".void"
"""A file whose first write can't be told from one that was never finished; left to people, ignored."""


def journal_name(number: int) -> str:
    return f"{number:08d}.journal"


def events_name(number: int) -> str:
    return f"{number:08d}.events"


def bodies_name(number: int) -> str:
    return f"{number:08d}.bodies"


def acts_name(number: int) -> str:
    return f"{number:08d}.acts"


def packed_name(packed: "PackedName") -> str:
    return f"{packed.first:08d}-{packed.last:08d}.{packed.generation:04d}.packed"


def checkpoint_name(position: int) -> str:
    return f"{position:020d}.checkpoint"


class PackedName(NamedTuple):
    """The file numbers that a packed file stands for, and its generation."""

    first: int
    last: int
    generation: int

    def supersedes(self, other: "PackedName") -> bool:
        """Whether `other` is a leftover beside this file."""
        within = self.first <= other.first and other.last <= self.last
        return within and other != self and other.generation < self.generation


class Listing:
    """The folder's files by kind, each ascending; names that are not the ledger's are left alone."""

    def __init__(self, names: list[str]) -> None:
        self.journal: list[int] = []
        self.events: list[int] = []
        self.bodies: list[int] = []
        self.packed: list[PackedName] = []
        self.checkpoints: list[int] = []
        self.acts: list[int] = []
        """Numbers of their own: these files are of no journal."""
        self.unfinished: list[str] = []
        for name in sorted(names):
            self._add(name)

    def is_empty(self) -> bool:
        """Whether there is nothing of a ledger."""
        kinds = (self.journal, self.events, self.bodies, self.packed, self.checkpoints, self.acts)
        return not any(kinds)

    def sealed(self, number: int) -> None:
        """A journal is a .bodies file now."""
        self.journal.remove(number)
        self.bodies = sorted([*self.bodies, number])

    def _add(self, name: str) -> None:
        if name.endswith(TMP_SUFFIX):
            self.unfinished.append(name)
        elif match := _PLAIN.fullmatch(name):
            getattr(self, match[2]).append(int(match[1]))
        elif match := _PACKED.fullmatch(name):
            self.packed.append(PackedName(int(match[1]), int(match[2]), int(match[3])))
        elif match := _CHECKPOINT.fullmatch(name):
            self.checkpoints.append(int(match[1]))
