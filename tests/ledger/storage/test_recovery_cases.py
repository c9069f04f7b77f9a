"""The recovery tables: total, consistent, and each case brought about on a disk."""

from itertools import product
from random import Random

import pytest

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.file_names import Listing
from postroom.ledger.format.headers import FILE_HEADER_BYTES
from postroom.ledger.ledger import Ledger
from postroom.ledger.storage.journal_scan import Scan, scan_journal
from postroom.ledger.storage.recovery_cases import (
    FILE_CASES,
    HEAD_CASES,
    TAIL_CASES,
    BlockFact,
    EventsFact,
    FilesVerdict,
    HeadFact,
    HeadVerdict,
    SealFact,
    TailVerdict,
)
from tests.ledger.histories import HISTORY, SMALL, opened, run
from tests.ledger.workload import Snapshot, Workload, assert_bodies, assert_recovered, stored_bodies
from tests.simulation.disk import SimDisk


def test_tables_are_total() -> None:
    assert TAIL_CASES.keys() == set(product(SealFact, BlockFact, (False, True)))
    assert HEAD_CASES.keys() == set(product(HeadFact, (False, True), (False, True)))
    assert FILE_CASES.keys() == set(product((False, True), EventsFact, (False, True), (False, True)))
    assert set(TAIL_CASES.values()) == set(TailVerdict)
    assert set(HEAD_CASES.values()) == set(HeadVerdict)
    assert set(FILE_CASES.values()) == set(FilesVerdict)


@pytest.mark.parametrize(("seal", "block", "successor"), list(TAIL_CASES))
def test_tail_rules(seal: SealFact, block: BlockFact, successor: bool) -> None:
    """What must hold of the table, said in another way than the table is made."""
    verdict = TAIL_CASES[seal, block, successor]
    damaged = block in (BlockFact.DAMAGED, BlockFact.DAMAGED_BODIES)
    refused = verdict.name.startswith("REFUSE")
    if seal is SealFact.AT_SEAL:
        assert not refused, "what lies behind a seal is void, whatever it is"
    if seal is SealFact.PAST_SEAL:
        assert refused
    if verdict is TailVerdict.CUT_TORN:
        assert seal is SealFact.NO_SEAL and damaged and not successor
    if verdict is TailVerdict.NEXT_BLOCK:
        assert block is BlockFact.VALID and seal in (SealFact.NO_SEAL, SealFact.BEFORE_SEAL)
    if damaged and successor and seal is not SealFact.AT_SEAL:
        assert refused, "a block with a valid successor had been durable"
    if seal is SealFact.BEFORE_SEAL and block is not BlockFact.VALID:
        assert refused, "a sealed file must be there up to its seal"


@pytest.mark.parametrize(("journal", "events", "bodies", "covered"), list(FILE_CASES))
def test_file_rules(journal: bool, events: EventsFact, bodies: bool, covered: bool) -> None:
    verdict = FILE_CASES[journal, events, bodies, covered]
    refused = verdict.name.startswith("REFUSE")
    assert refused == (
        (journal and bodies)
        or (not journal and events is EventsFact.DAMAGED)
        or (not journal and events is EventsFact.NONE and not covered)
    )
    if verdict in (FilesVerdict.JOURNAL, FilesVerdict.REDO_SEAL):
        assert journal and events is not EventsFact.GOOD
    if verdict is FilesVerdict.FINISH_SEAL:
        assert journal and events is EventsFact.GOOD


@pytest.mark.parametrize(("head", "newest", "second"), list(HEAD_CASES))
def test_head_rules(head: HeadFact, newest: bool, second: bool) -> None:
    verdict = HEAD_CASES[head, newest, second]
    assert (verdict is HeadVerdict.USE) == (head is HeadFact.GOOD)
    if verdict is HeadVerdict.NEVER_BEGUN:
        assert newest and not second and head is HeadFact.DAMAGED


# --- the same on a disk


class Made:
    """A disk with a ledger on it, and what must be recovered from it."""

    def __init__(self, steps: int = 300, maintenance: bool = False, seed: int = 5) -> None:
        self.disk = SimDisk()
        self.ledger = opened(self.disk, HISTORY if not maintenance else SMALL)
        self.work = Workload(self.ledger.builder, Random(seed))
        self.work.define()
        run(self.ledger, self.work, steps, maintenance)
        self.snapshot: Snapshot = self.work.snapshot()
        self.disk = self.disk.copy()
        self.listing = Listing(self.disk.names())

    @property
    def active(self) -> str:
        return f"{self.listing.journal[-1]:08d}.journal"

    def content(self, name: str) -> bytearray:
        return self.disk.files[name].now

    def open(self) -> Ledger:
        return opened(self.disk, HISTORY)

    def check(self) -> Ledger:
        ledger = self.open()
        assert_recovered(ledger.recovered, self.snapshot)
        assert_bodies(ledger, self.snapshot)
        return ledger

    def refused(self, match: str) -> LedgerCorrupt:
        before = {name: bytes(file.now) for name, file in self.disk.files.items()}
        with pytest.raises(LedgerCorrupt, match=match) as caught:
            self.open()
        assert {name: bytes(file.now) for name, file in self.disk.files.items()} == before
        return caught.value


def test_clean_tail() -> None:
    assert Made().check().recovered.report.cut == []


def test_zeros_behind_the_last_block() -> None:
    made = Made()
    made.content(made.active).extend(bytes(5000))
    made.check()


def last_block(made: Made, content: bytearray | None = None) -> tuple[int, int]:
    """Start and end of the last block, of the active file if no other is given."""
    scan = scanned(made, content)
    return scan.blocks[-1].offset, scan.end


def scanned(made: Made, content: bytearray | None = None) -> Scan:
    content = made.content(made.active) if content is None else content
    scan = scan_journal(made.active, memoryview(bytes(content)), None)
    assert scan is not None
    return scan


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.99])
def test_torn_last_block_is_cut(share: float) -> None:
    """Whatever byte of the last block is wrong or missing, the state before it is recovered."""
    made = Made()
    earlier = made.snapshot
    made = Made()
    made.ledger = made.open()
    made.work.adopt(earlier, made.ledger.builder)
    for _ in range(20):
        made.work.step()
    made.ledger.flush()
    made.disk = made.disk.copy()
    made.listing = Listing(made.disk.names())
    start, end = last_block(made)
    place = start + int((end - start) * share)
    flipped = made.content(made.active)
    flipped[place] ^= 0x40
    report = made.check().recovered.report
    assert any("CUT_TORN" in line for line in report.cut)


def test_shortened_last_block_is_cut() -> None:
    made = Made()
    start, end = last_block(made)
    del made.content(made.active)[end - 1 :]
    ledger = made.open()
    assert any("CUT_TORN" in line for line in ledger.recovered.report.cut)
    assert ledger.recovered.next_position > 2
    assert start < end - 1


def test_damaged_block_with_a_successor_is_refused_with_its_place() -> None:
    made = Made(steps=60)
    scan = scanned(made)
    place = scan.blocks[2].offset + 100
    made.content(made.active)[place] ^= 1
    error = made.refused("damaged, and valid blocks follow")
    assert made.active in error.file and error.offset == scan.blocks[2].offset


def test_torn_tail_is_not_touched_and_void_for_ever() -> None:
    made = Made()
    _, end = last_block(made)
    name = made.active
    made.content(name)[end : end + 12] = b"half a block"
    ledger = made.check()
    sealed = name.replace(".journal", ".bodies")
    assert bytes(made.disk.files[sealed].now)[end:].rstrip(b"\0") == b"half a block"
    ledger.flush()
    made.disk = made.disk.copy()
    made.check()


def test_fenced_writer_is_void() -> None:
    """Someone who slept through a restart goes on writing to the old file: nothing of it counts."""
    made = Made()
    stale = opened(made.disk.copy(), HISTORY)
    extra = Workload(stale.builder, Random(1))
    extra.put()
    stale.flush()
    ledger = made.open()
    old = f"{made.listing.journal[-1]:08d}.bodies"
    newest = max(name for name in stale._disk.names() if name.endswith(".journal"))
    foreign = bytes(stale._disk.open(newest).view())
    _, end = last_block(made, made.content(old))
    made.content(old)[end:] = foreign[FILE_HEADER_BYTES:]
    ledger.flush()
    made.disk = made.disk.copy()
    made.check()


def test_empty_new_file_is_removed() -> None:
    made = Made()
    number = made.listing.journal[-1] + 1
    made.disk.create(f"{number:08d}.journal")
    ledger = made.check()
    assert any("never begun" in line for line in ledger.recovered.report.cut)
    assert ledger.epoch == 2


@pytest.mark.parametrize("kept", [1, 100, 159, 170, 250])
def test_torn_first_write_of_a_new_file_is_removed(kept: int) -> None:
    made = Made()
    number = made.listing.journal[-1] + 1
    made.disk = _in_first_write(made)
    del made.content(f"{number:08d}.journal")[kept:]
    made.check()


def _in_first_write(made: Made) -> SimDisk:
    """As after a crash in the first write of the next epoch: the file before is not sealed yet, and nothing
    vouches for the new one."""
    number = made.listing.journal[-1]
    vouching = bytes(made.content("superblock"))
    made.open()
    made.content("superblock")[:] = vouching
    disk = made.disk.copy()
    disk.rename(f"{number:08d}.bodies", f"{number:08d}.journal")
    disk.remove(f"{number:08d}.events")
    return disk.copy()


def test_damaged_head_of_a_file_in_use_is_refused() -> None:
    made = Made(steps=60)
    made.content(made.active)[20] ^= 1
    made.refused("header or dictionary is damaged")


def test_damaged_head_with_one_block_is_put_aside() -> None:
    """It can't be told from a torn first write; but the block is there, so the file is kept, renamed."""
    made = Made()
    newest = f"{made.listing.journal[-1] + 1:08d}.journal"
    made.disk = _in_first_write(made)
    made.content(newest)[20] ^= 1
    made.check()
    assert newest + ".void" in made.disk.names()


def test_damaged_head_of_a_file_that_was_durable_is_refused() -> None:
    made = Made()
    made.open()
    made.content(f"{made.listing.journal[-1] + 1:08d}.journal")[20] ^= 1
    made.refused("header or dictionary is damaged")


def test_another_ledgers_file_is_refused() -> None:
    made, other = Made(steps=3000), Made(steps=3000, seed=6)
    number = made.listing.journal[0]
    made.disk.files[f"{number:08d}.journal"] = other.disk.files[f"{number:08d}.journal"]
    made.refused("belongs to another ledger")


def test_a_copied_file_is_refused() -> None:
    made = Made(steps=3000)
    first, last = made.listing.journal[0], made.listing.journal[-1]
    made.disk.files[f"{last + 1:08d}.journal"] = made.disk.files[f"{first:08d}.journal"]
    made.refused("another file number")


def test_missing_journal_is_refused() -> None:
    made = Made(steps=3000)
    assert len(made.listing.journal) > 2
    made.disk.remove(f"{made.listing.journal[1]:08d}.journal")
    made.refused("missing|does not follow")


def test_missing_active_journal_is_refused() -> None:
    made = Made(steps=3000, maintenance=True)
    for number in made.listing.journal:
        made.disk.remove(f"{number:08d}.journal")
    made.refused("missing: the newest file that is there is .*, and the ledger had come to file")


def test_missing_events_file_is_refused() -> None:
    made = Made(steps=1500)
    while made.ledger.maintenance_step():
        pass
    made.disk = made.ledger._disk.copy()  # type: ignore[attr-defined]
    for name in made.disk.names():
        if name.endswith(".checkpoint"):
            made.disk.remove(name)
    made.disk.remove("00000001.events")
    made.refused("missing: nothing is there of positions 1 to")


def test_missing_bodies_file_is_refused() -> None:
    made = Made(steps=1500)
    while made.ledger.maintenance_step():
        pass
    made.disk = made.ledger._disk.copy()  # type: ignore[attr-defined]
    gone = [name for name in made.disk.names() if name.endswith((".bodies", ".packed"))]
    for name in gone:
        made.disk.remove(name)
    made.refused("body of message .* is missing")


def test_interrupted_seal_is_finished() -> None:
    made = Made(steps=1500)
    made.ledger.maintenance_step()
    made.disk = made.ledger._disk.copy()  # type: ignore[attr-defined]
    sealed = [name for name in made.disk.names() if name.endswith(".bodies")][-1]
    made.disk.rename(sealed, sealed.replace(".bodies", ".journal"))
    ledger = made.check()
    assert any("sealing finished" in line for line in ledger.recovered.report.cut)


def test_damaged_events_beside_the_journal_are_made_again() -> None:
    made = Made(steps=1500)
    for name in made.disk.names():
        if name.endswith(".journal") and name != made.active:
            made.disk.create(name.replace(".journal", ".events")).write_at(0, [b"broken"])
    made.check()


def test_damaged_events_are_refused_with_their_place() -> None:
    made = Made(steps=1500)
    while made.ledger.maintenance_step():
        pass
    made.disk = made.ledger._disk.copy()  # type: ignore[attr-defined]
    for name in made.disk.names():
        if name.endswith(".checkpoint"):
            made.disk.remove(name)
    made.content("00000001.events")[300] ^= 1
    assert "00000001" in made.refused("damaged").file


def test_journal_and_bodies_of_one_number_are_refused() -> None:
    made = Made()
    made.disk.create(made.active.replace(".journal", ".bodies"))
    made.refused("a journal and a bodies file")


def test_unfinished_files_are_removed() -> None:
    made = Made()
    made.disk.create("00000001.events.tmp").write_at(0, [b"half"])
    made.disk.create("00000000000000000009.checkpoint.tmp")
    report = made.check().recovered.report
    assert sum("unfinished, removed" in line for line in report.cut) == 2


def test_a_damaged_checkpoint_falls_back_to_the_one_before() -> None:
    made = Made(steps=3000, maintenance=True)
    assert len(made.listing.checkpoints) == 2
    newest = f"{made.listing.checkpoints[-1]:020d}.checkpoint"
    for place in (10, 140, 600, len(made.content(newest)) - 1):
        made.content(newest)[place] ^= 1
        ledger = opened(made.disk.copy(), SMALL)
        assert_recovered(ledger.recovered, made.snapshot)
        assert ledger.recovered.report.checkpoint_position == made.listing.checkpoints[0]
        while ledger.maintenance_step():
            pass
        assert_bodies(ledger, made.snapshot)
        made.content(newest)[place] ^= 1


def test_leftovers_of_compaction_are_removed() -> None:
    made = Made(steps=3000, maintenance=True)
    packed = made.listing.packed[-1]
    made.disk.create(f"{packed.first:08d}.bodies").write_at(0, [b"left over"])
    made.disk.create(f"{packed.first:08d}-{packed.first:08d}.0000.packed").write_at(0, [b"left over"])
    report = made.check().recovered.report
    assert sum("packed" in line for line in report.cut) == 2


@pytest.mark.parametrize("suffix", [".packed", ".journal"])
def test_damaged_body_is_found_when_read(suffix: str) -> None:
    made = Made(steps=3000, maintenance=True)
    name = next(name for name in made.disk.names() if name.endswith(suffix))
    content = made.content(name)
    bodies = [body for body in made.snapshot.bodies.values() if len(body) > 30 and body in content]
    content[content.index(bodies[0]) + 10] ^= 1
    wanted, bodies = stored_bodies(made.snapshot)
    found = made.open().read_bodies(wanted)
    (damage,) = [body for body in found if isinstance(body, LedgerCorrupt)]
    assert "CRC is wrong" in damage.reason and name.partition(".")[0] in damage.file
    at = found.index(damage)
    assert found[:at] + found[at + 1 :] == bodies[:at] + bodies[at + 1 :]


@pytest.mark.parametrize("at", [10, -10])
def test_damaged_packed_file_is_refused(at: int) -> None:
    made = Made(steps=3000, maintenance=True)
    name = next(name for name in made.disk.names() if name.endswith(".packed"))
    made.content(name)[at] ^= 1
    with pytest.raises(LedgerCorrupt, match=r"header is damaged|index is damaged"):
        assert_bodies(made.open(), made.snapshot)
