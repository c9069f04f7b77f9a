"""Queues whose messages are read beside their consumers: bodies of non-persistent ones are stored, too.

They are stored for readers of the ledger only (flag TAPPED): such a message lives in memory as without it,
and is lost at a restart. Leases that name queues are one reason; there may be others, each of which counts.
"""

from collections.abc import Sequence

from mypy_extensions import i64

from postroom.manager.destinations.tables import destinations_of
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.model import numbers as n


def set_leased(core: Core, names: frozenset[str]) -> None:
    """Leases in force name these queues, subscriptions and topics, whether there are such or not."""
    destinations = destinations_of(core)
    before, destinations.leased_names = destinations.leased_names, names
    for queue in core.destinations.values():
        if queue.name in names and queue.name not in before:
            begin(core, queue)
        elif queue.name in before and queue.name not in names:
            end(core, queue)


def begin(core: Core, queue: Destination) -> None:
    """One reason more to store the bodies of what comes to ``queue``."""
    if queue.taps == 0:
        destinations_of(core).tapped += 1
    queue.taps += 1


def end(core: Core, queue: Destination) -> None:
    """One reason less."""
    queue.taps -= 1
    if queue.taps == 0:
        destinations_of(core).tapped -= 1


def note_leased(core: Core, queue: Destination) -> None:
    """A queue is new: a lease may have named it before."""
    if queue.name in destinations_of(core).leased_names:
        begin(core, queue)


def forget(core: Core, queue: Destination) -> None:
    """It is no more."""
    if queue.taps != 0:
        queue.taps = 0
        destinations_of(core).tapped -= 1


def flag(core: Core, queues: Sequence[Destination], flags: i64, body: bytes | None) -> i64:
    """FLAG_TAPPED if the body of an arrival with ``flags`` for these is to be stored though nobody else needs
    it; else 0."""
    if body is None or flags & n.FLAG_BODY_STORED != 0 or destinations_of(core).tapped == 0:
        return 0
    for queue in queues:
        if queue.taps != 0:
            return n.FLAG_TAPPED
    return 0
