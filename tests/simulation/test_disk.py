"""The simulated disk itself: it must lose what was not synced, and only that."""

from random import Random

import pytest

from tests.simulation.disk import PowerLost, SimDisk


def written(sync: bool, sync_names: bool) -> SimDisk:
    disk = SimDisk()
    file = disk.create("a")
    if sync_names:
        disk.sync_names()
    file.write_at(0, [b"x" * 4096])
    if sync:
        file.sync()
    return disk


def test_what_was_synced_survives_every_crash() -> None:
    for seed in range(50):
        survived = written(True, True).crash(Random(seed))
        assert survived.open("a").read_at(0, 9999) == b"x" * 4096


def test_unsynced_bytes_are_sometimes_lost_sometimes_torn_sometimes_kept() -> None:
    found = {bytes(written(False, True).crash(Random(seed)).open("a").now) for seed in range(50)}
    assert b"" in found
    assert b"x" * 4096 in found
    assert len(found) > 5


def test_unsynced_names_are_sometimes_lost() -> None:
    found = {tuple(written(True, False).crash(Random(seed)).names()) for seed in range(50)}
    assert found == {(), ("a",)}


def test_a_rename_is_kept_or_undone_whole() -> None:
    outcomes = set()
    for seed in range(50):
        disk = written(True, True)
        disk.rename("a", "b")
        outcomes.add(tuple(disk.crash(Random(seed)).names()))
    assert outcomes == {("a",), ("b",)}


def test_nothing_can_be_written_after_the_crash() -> None:
    disk = written(True, True)
    file = disk.open("a")
    disk.crash(Random(1))
    with pytest.raises(PowerLost):
        file.write_at(0, [b"late"])
