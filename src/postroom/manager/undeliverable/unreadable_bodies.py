"""Entries whose bodies can't be had: damaged ones end, what the disk didn't give is asked for again later."""

from typing import Final

from mypy_extensions import i64

from postroom.ledger.errors import BodyUnreadable, LedgerCorrupt
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.transitions import step
from postroom.manager.queues.placement import delay
from postroom.manager.undeliverable.dead_letters import discard_damaged
from postroom.model import numbers as n

UNREADABLE_DELAY_US: Final[i64] = 5_000_000
"""So long an entry waits whose body the disk didn't give."""


def without_body(core: Core, entry: Entry, damage: LedgerCorrupt) -> None:
    """An available entry has left the order, for its body can't be read: nobody can be given it now. While
    the disk may still have it, it isn't lost."""
    if not isinstance(damage, BodyUnreadable):
        discard_damaged(core, entry, damage)
        return
    entry.due_us = core.now_us + UNREADABLE_DELAY_US
    step(core, entry, n.EVENT_DELAY, 0, 0, None, n.REDELIVERY_DELAY)
    delay(core, entry)
