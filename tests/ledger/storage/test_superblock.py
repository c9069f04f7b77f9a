"""The superblock's two copies: power cuts one after the other, at any operation, leave one of them whole."""

from itertools import product
from random import Random

import pytest

from postroom.ledger.format.headers import Seal
from postroom.ledger.storage.superblock import Superblock, SuperblockFile, create_superblock, read_superblock
from tests.simulation.disk import PowerLost, SimDisk

OPERATIONS = 5
"""Of one write: each copy is written and synced; the last is after it."""
CUTS = 3
LEDGER_ID = bytes(16)


def cut_while_writing(disk: SimDisk, operation: int, random: Random) -> tuple[SimDisk, Superblock]:
    """Write once, lose the power at that operation; what the disk has then, and says."""
    before = read_superblock(disk)
    assert before is not None
    file = SuperblockFile(disk, before)
    disk.crash_at_operation = disk.operations + operation
    try:
        file.opened(before.newest_file + 1, Seal(before.newest_file + 1, 1, 1, 1))
        written = True
    except PowerLost:
        written = False
    after = disk.crash(random)
    found = read_superblock(after)
    assert found is not None
    assert found.newest_file in (before.newest_file, before.newest_file + 1)
    assert found.newest_file == before.newest_file + 1 or not written
    return after, found


@pytest.mark.parametrize("seed", range(8))
def test_one_copy_is_whole_after_any_power_cuts(seed: int) -> None:
    for operations in product(range(OPERATIONS), repeat=CUTS):
        random = Random(f"{seed} {operations}")
        disk = SimDisk()
        create_superblock(disk, Superblock(LEDGER_ID))
        for operation in operations:
            disk, _ = cut_while_writing(disk, operation, random)
