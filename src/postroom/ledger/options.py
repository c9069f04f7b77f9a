"""The ledger's settings, each with its unit. Described in docs/reference/ledger-options.md."""

from dataclasses import dataclass, replace
from typing import Final

from postroom.ledger.errors import VolumeTooSmall

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class LedgerOptions:
    """How much the ledger writes ahead, keeps and rewrites."""

    journal_file_bytes: int = 256 * MIB
    """What a file may need of the disk: the journal, and twice the `.events` file that is made of it (see
    `journal.EVENTS_GENERATIONS`). A journal is followed by the next when it would need more."""

    reserve_bytes: int = 64 * MIB
    """Space set aside ahead of the writing place; when the disk can't give it, `space_low` is raised."""

    at_once_bytes: int = 4096
    """A block no larger than this that finds the ledger idle is written by the caller itself: handing it to
    the writer's thread and back would take longer than it saves. 0: never.
    """

    retention_bytes: int = 16 * GIB
    """History (`.events` files) above this goes, oldest first, when checkpoints cover it. 0 keeps none."""

    retention_s: int = 0
    """History older than this goes too; 0: no limit by age."""

    acts_retention_bytes: int = GIB
    """Acts outlive their history in files of their own (`.acts`) up to this size, at most 1/8 of the volume;
    above it the oldest go. 0: they go with their history."""

    acts_retention_s: int = 0
    """Acts older than this go too, file by file; 0: no limit by age."""

    max_leases: int = 64
    """Leases of readers at a time, broken ones that were not released included."""

    max_lease_s: int = 7 * 86_400
    """Longest time from a lease's grant or renewal to its end; what is granted where none is asked for."""

    max_lease_bytes: int = 16 * GIB
    """Most that one lease may keep of what would have gone without it."""

    compact_below: float = 0.5
    """A file of bodies is rewritten when less than this share of it is live."""

    carry_below: float = 0.5
    """An `.events` file goes only when less than this share of its arrivals is live (they are carried)."""

    maintenance_failing_s: int = 60
    """Background work may fail, and hold up new files, for so long; then the process must end."""

    standby: bool = False
    """Wait for the folder's lock instead of raising LedgerLocked."""

    read_gap_bytes: int = 64 * 1024
    """Bodies not farther apart than this are read in one go."""

    def __post_init__(self) -> None:
        if not MIB // 16 <= self.journal_file_bytes <= GIB:
            raise ValueError(f"journal_file_bytes is {self.journal_file_bytes}: 64 KiB to 1 GiB is possible")
        if self.reserve_bytes < 0 or self.retention_bytes < 0 or self.retention_s < 0:
            raise ValueError("reserve_bytes, retention_bytes and retention_s can't be negative")
        if self.acts_retention_bytes < 0 or self.acts_retention_s < 0:
            raise ValueError("acts_retention_bytes and acts_retention_s can't be negative")
        if self.max_leases < 0 or self.max_lease_s < 1 or self.max_lease_bytes < 1:
            raise ValueError(
                "max_leases can't be negative, max_lease_s and max_lease_bytes must be 1 or more"
            )
        if self.maintenance_failing_s < 0:
            raise ValueError("maintenance_failing_s can't be negative")
        if not (0 < self.compact_below <= 1 and 0 < self.carry_below <= 1):
            raise ValueError("compact_below and carry_below are shares: above 0, at most 1")

    @property
    def upkeep_bytes(self) -> int:
        """Free space that is left to the background work: for the `.events` file of one journal, and for the
        live bodies of one file that is packed."""
        return self.journal_file_bytes // EVENTS_SHARE + int(self.journal_file_bytes * self.compact_below)


EVENTS_SHARE: Final = 3
"""At most this part of a journal file's bound is records, since they count three times in it."""

SMALLEST_VOLUME_BYTES: Final = 48 * MIB
"""On a smaller one the reserve would be smaller than a block, which is judged only when it is written."""

VOLUME_SHARE: Final = 8
"""A journal file, the reserve, and acts that outlive their history take at most this part of the volume
each."""


def fitted(options: LedgerOptions, where: str, volume_bytes: int) -> LedgerOptions:
    """The options for a volume of this size: with smaller files and a smaller reserve where it is small.

    Raises ``VolumeTooSmall``.
    """
    if volume_bytes < SMALLEST_VOLUME_BYTES:
        raise VolumeTooSmall(where, volume_bytes, SMALLEST_VOLUME_BYTES)
    most = volume_bytes // VOLUME_SHARE
    return replace(
        options,
        journal_file_bytes=min(options.journal_file_bytes, most),
        reserve_bytes=min(options.reserve_bytes, most),
        acts_retention_bytes=min(options.acts_retention_bytes, most),
    )
