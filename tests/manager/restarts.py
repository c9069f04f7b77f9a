"""Restarts over the real ledger, by where recovery finds what it needs."""

from typing import Final

from postroom.manager.kernel.options import ManagerOptions
from tests.manager.over_ledger import LedgerWorld
from tests.manager.recount import check_counters

WITHOUT_HISTORY: Final = "without history"
HOW: Final = ("journal", "maintained", WITHOUT_HISTORY)
"""In the journal, in a checkpoint, or in one whose files have gone."""


def world_of(how: str, options: ManagerOptions | None = None) -> LedgerWorld:
    """One that keeps as much history as that needs."""
    return LedgerWorld(options, retention_bytes=0 if how == WITHOUT_HISTORY else 16 << 30)


def restart(world: LedgerWorld, how: str) -> None:
    """Start again, and once more, since a restart must find what a restart has left; history goes when the
    checkpoint after the one that covers it is there."""
    world.turn()
    for _ in range(3 if how == WITHOUT_HISTORY else 2):
        if how != "journal":
            fill(world)
            world.maintain()
        world.restart()
        check_counters(world.manager.core)
    names = world.disk.names()
    assert any(name.endswith(".checkpoint") for name in names) == (how != "journal")
    assert any(name.startswith("00000001.") for name in names if not name.endswith("bodies")) == (
        how != WITHOUT_HISTORY
    )


def fill(world: LedgerWorld) -> None:
    """Enough to begin another file."""
    queue = world.queue("filler")
    for _ in range(60):
        world.put(queue, bytes(1000))
        world.turn()
    world.manager.purge_queue("filler", world.now_us)
    world.turn()
