"""Recovery as decision tables: what was found on the disk → what to do about it.

A crash can leave a folder in many shapes, a broken disk in more. Each table lists, for one question, every
combination of facts with one verdict; `tests/ledger/storage/test_recovery_cases.py` goes over all inputs.
The rule behind them: a file or block that was being written when the process ended is void, because nothing
that depended on it was released; anything else that is missing or damaged is corruption, and refused with
its place.

**The tail of a journal.** Blocks are read one by one. At the first place that isn't the next valid block,
three facts decide: is there a seal (a successor's header that says where this file ends), what lies here,
and does a valid block of this file follow. One block is in flight at a time, so a damaged block with a
valid successor had been durable, and so had a block with anything behind it.

**A journal file's head.** Header, dictionary and first block are one write, so a damaged head in the newest
file is a file that never came to be – unless a second block follows, written only once the first was
durable.

**The files of one number.** Sealing writes `.events` and renames `.journal` to `.bodies`, in that order;
retention removes `.events`, compaction `.bodies`, both only under a checkpoint.
"""

from enum import Enum, auto
from itertools import product
from typing import Final


class SealFact(Enum):
    """Where the scan stands in relation to the file's seal."""

    NO_SEAL = auto()
    """The newest file: no successor says where it ends."""
    BEFORE_SEAL = auto()
    """The sealed position is not reached yet."""
    AT_SEAL = auto()
    """The last block is the one that the seal names, position and CRC."""
    PAST_SEAL = auto()
    """The sealed position was reached or passed by a block that is not the one named."""


class BlockFact(Enum):
    """What lies at the scan's place."""

    END = auto()
    """Nothing: the file ends."""
    ZEROS = auto()
    """Only zeros up to the end: space that was written ahead, or a size that outlived its content."""
    DAMAGED = auto()
    """Header or records are not those of the next block."""
    DAMAGED_BODIES = auto()
    """Header and records are right, a body is not, and nothing lies behind."""
    VALID = auto()
    """The next block."""


class TailVerdict(Enum):
    NEXT_BLOCK = auto()
    CLEAN = auto()
    CUT_TORN = auto()
    """The block in flight when the process ended: cut logically, reported."""
    VOID_AFTER_SEAL = auto()
    """Written by someone who no longer owned the ledger, or torn before the seal was set: ignored."""
    REFUSE_DAMAGED = auto()
    REFUSE_SHORT = auto()
    """The seal names a block that is not there."""
    REFUSE_OTHER_HISTORY = auto()
    """The seal names another block at that position: files of different ledgers or backups are mixed."""


def _tail_verdict(seal: SealFact, block: BlockFact, successor: bool) -> TailVerdict:
    if seal is SealFact.PAST_SEAL:
        return TailVerdict.REFUSE_OTHER_HISTORY
    if seal is SealFact.AT_SEAL:
        return TailVerdict.CLEAN if block in (BlockFact.END, BlockFact.ZEROS) else TailVerdict.VOID_AFTER_SEAL
    if block is BlockFact.VALID:
        return TailVerdict.NEXT_BLOCK
    if successor and block is not BlockFact.END:
        return TailVerdict.REFUSE_DAMAGED
    if seal is SealFact.BEFORE_SEAL:
        return TailVerdict.REFUSE_DAMAGED if block in _DAMAGED else TailVerdict.REFUSE_SHORT
    return TailVerdict.CUT_TORN if block in _DAMAGED else TailVerdict.CLEAN


_DAMAGED: Final = (BlockFact.DAMAGED, BlockFact.DAMAGED_BODIES)

TAIL_CASES: Final[dict[tuple[SealFact, BlockFact, bool], TailVerdict]] = {
    case: _tail_verdict(*case) for case in product(SealFact, BlockFact, (False, True))
}
"""(seal, block, a valid successor follows) → verdict."""


class HeadFact(Enum):
    """What a journal file's first bytes are."""

    GOOD = auto()
    DAMAGED = auto()
    OTHER_LEDGER = auto()
    OTHER_NUMBER = auto()
    """The header's file number isn't that of the name: a copied or renamed file."""
    WRONG_PREDECESSOR = auto()
    """Its seal doesn't name the file before, or its epoch went back."""


class HeadVerdict(Enum):
    USE = auto()
    NEVER_BEGUN = auto()
    """The file's first write never finished: removed."""
    REFUSE = auto()


HEAD_CASES: Final[dict[tuple[HeadFact, bool, bool], HeadVerdict]] = {
    (head, newest, second_block): (
        HeadVerdict.USE
        if head is HeadFact.GOOD
        else HeadVerdict.NEVER_BEGUN
        if head is HeadFact.DAMAGED and newest and not second_block
        else HeadVerdict.REFUSE
    )
    for head, newest, second_block in product(HeadFact, (False, True), (False, True))
}
"""(head, it is the newest file, a second data block follows) → verdict."""


class FilesVerdict(Enum):
    JOURNAL = auto()
    """Not yet sealed."""
    SEALED = auto()
    FINISH_SEAL = auto()
    """`.events` is complete, the rename to `.bodies` was cut off: do it now."""
    REDO_SEAL = auto()
    """`.events` is damaged but the journal is still there: write it again."""
    BODIES_GONE = auto()
    """Only history: every body was dead or has moved to a packed file."""
    EVENTS_GONE = auto()
    """History dropped by retention; bodies that are live stay."""
    ALL_GONE = auto()
    REFUSE_MISSING = auto()
    REFUSE_DAMAGED = auto()
    REFUSE_TWICE = auto()
    """Journal and bodies of one number: files of different states are mixed."""


class EventsFact(Enum):
    NONE = auto()
    GOOD = auto()
    DAMAGED = auto()


def _files_verdict(journal: bool, events: EventsFact, bodies: bool, covered: bool) -> FilesVerdict:
    if journal and bodies:
        return FilesVerdict.REFUSE_TWICE
    if journal:
        return _WITH_JOURNAL[events]
    if events is EventsFact.GOOD:
        return FilesVerdict.SEALED if bodies else FilesVerdict.BODIES_GONE
    if events is EventsFact.DAMAGED:
        return FilesVerdict.REFUSE_DAMAGED
    if not covered:
        return FilesVerdict.REFUSE_MISSING
    return FilesVerdict.EVENTS_GONE if bodies else FilesVerdict.ALL_GONE


_WITH_JOURNAL: Final = {
    EventsFact.NONE: FilesVerdict.JOURNAL,
    EventsFact.GOOD: FilesVerdict.FINISH_SEAL,
    EventsFact.DAMAGED: FilesVerdict.REDO_SEAL,
}

FILE_CASES: Final[dict[tuple[bool, EventsFact, bool, bool], FilesVerdict]] = {
    case: _files_verdict(*case) for case in product((False, True), EventsFact, (False, True), (False, True))
}
"""(journal there, events, bodies there, the checkpoint in use needs no events of this number) → verdict."""
