"""Entries whose bodies can't be had: damaged ones end, what the disk didn't give is asked for again later."""

from typing import Final

from mypy_extensions import i64

from postroom.ledger.errors import BodyUnreadable, LedgerCorrupt
from postroom.manager.core import Core
from postroom.manager.deadletter import discard_damaged
from postroom.manager.entry import Entry
from postroom.manager.placing import delay
from postroom.manager.transitions import step
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
