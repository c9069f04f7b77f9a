"""Cells of the matrix in which a reader refuses nothing, each with the reason why that can't matter."""

from enum import StrEnum
from typing import Final

from tests.damage.damages import Damage


class Excuse(StrEnum):
    """Why a damage may pass."""

    BEHIND = "nothing counts there: behind the last block, or behind a copy of the superblock"
    UNREAD = "bodies aren't read, and the verdict says so; one that is read is held against its CRC"
    COPIED = "records are read from the events file; verify --bodies compares this copy of them, too"
    BY_MESSAGE = "a broker that runs knows its state; a body that can't be had is told message by message"
    SPARE = "the checkpoint before tells of the same, and of what ended since; verify warns"
    FLOOR = "an older superblock vouches for less, and that is there"
    TWIN = "the superblock's other copy says the same; verify warns"


WHOLE_FILE: Final = ("removed", "emptied", "swapped", "another ledger's", "older")
RECORDS: Final = ("'s header", "'s arrivals", "'s transitions", "'s names")


def excuse_of(damage: Damage, reader: str) -> Excuse | None:
    """Why the reader may take the ledger in spite of the damage; None: it must not."""
    if damage.kind == "superblock":
        return _of_superblock(damage)
    if damage.section.startswith("behind"):
        return Excuse.BEHIND
    if "checkpoint" in damage.kind and (damage.what != "swapped" or reader == "http"):
        return Excuse.SPARE
    if _is_in_bodies(damage):
        return None if reader == "verify --bodies" else Excuse.UNREAD
    if damage.kind == "bodies" and damage.what == "flipped" and damage.section.endswith(RECORDS):
        return None if reader == "verify --bodies" else Excuse.COPIED
    if damage.kind in ("bodies", "packed") and reader == "http" and not _is_reported_at_once(damage):
        return Excuse.BY_MESSAGE
    return None


def _is_in_bodies(damage: Damage) -> bool:
    return damage.what == "flipped" and damage.section.endswith("bodies")


def _is_reported_at_once(damage: Damage) -> bool:
    """A packed file whose header or index is wrong can't be used for any message."""
    return damage.kind == "packed" and damage.what != "removed"


def _of_superblock(damage: Damage) -> Excuse | None:
    if damage.what == "older":
        return Excuse.FLOOR
    if damage.what == "truncated":
        second_is_lost = damage.section in ("behind the first copy", "second copy")
        return Excuse.TWIN if second_is_lost else Excuse.BEHIND if "behind" in damage.section else None
    if damage.what == "flipped" and damage.section.startswith("behind"):
        return Excuse.BEHIND
    return Excuse.TWIN if damage.section in ("first copy", "second copy") else None
