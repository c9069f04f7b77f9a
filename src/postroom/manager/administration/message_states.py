"""The states of messages as WebLogic JMS names them: a set of bits, so that a query can ask for several.

A message has at least one; a query means those that have any of the bits it names.
"""

from typing import Final

from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import RequestInvalid
from postroom.manager.undeliverable.dead_letters import over_limit
from postroom.manager.undeliverable.expiry import expired
from postroom.model import numbers as n
from postroom.model.holders import TRANSACTIONAL

VISIBLE: Final = 1
"""Can be received now."""
SEND: Final = 2
"""Put and not confirmed: of an open transaction, or under a confirm id."""
RECEIVE: Final = 4
"""Received and not confirmed."""
TRANSACTION: Final = 8
"""Beside SEND or RECEIVE: a transaction decides."""
ORDERED: Final = 16
"""Waits for an earlier member of its unit of order."""
DELAYED: Final = 32
"""Unborn, or in a redelivery delay."""
EXPIRED: Final = 64
"""Its time is over, and nobody has noticed yet."""
REDELIVERY_COUNT_EXCEEDED: Final = 128
"""Over the redelivery limit, and not yet disposed of."""
PAUSED: Final = 256
"""Held back while insertion is paused; beside VISIBLE: while consumption is, or the channel that empties the
queue is stopped."""
LOCKED: Final = 512
"""Locked by a browse of the message store; WebLogic has no such state."""

ALL_STATES: Final = 1023
CHANGEABLE: Final = VISIBLE | DELAYED | ORDERED
"""Of what can be deleted and moved."""

STATE_NAMES: Final = (
    "visible",
    "send",
    "receive",
    "transaction",
    "ordered",
    "delayed",
    "expired",
    "redelivery_count_exceeded",
    "paused",
    "locked",
)
"""By bit."""


def states_of(core: Core, entry: Entry) -> i64:
    """The states of a message that has not ended."""
    found: i64 = EXPIRED if expired(core, entry) else 0
    if entry.state == n.AVAILABLE:
        found |= 0 if found else VISIBLE
        if entry.queue.switches.consumption_paused or entry.queue.switches.get_inhibited:
            found |= PAUSED
    elif entry.state == n.DELAYED:
        found |= _waiting_states(entry.causes)
    elif entry.state == n.LOCKED_FOR_BROWSE:
        found |= LOCKED
    else:
        found |= SEND if entry.state == n.PUT_UNCONFIRMED else RECEIVE
        if entry.holder_kind in TRANSACTIONAL:
            found |= TRANSACTION
    if entry.state != n.PUT_UNCONFIRMED and over_limit(entry):
        found |= REDELIVERY_COUNT_EXCEEDED
    return found


def _waiting_states(causes: i64) -> i64:
    found: i64 = 0
    if causes & (n.UNBORN | n.REDELIVERY_DELAY):
        found |= DELAYED
    if causes & n.PAUSED:
        found |= PAUSED
    if causes & n.ORDERED:
        found |= ORDERED
    return found


def named(states: i64) -> list[str]:
    """The names of a set of states."""
    return [name for bit, name in enumerate(STATE_NAMES) if states & (1 << bit)]


def mask_of(names: list[str]) -> int:
    """The set of states that these names mean, whatever their case; none: all. Raises RequestInvalid."""
    mask = 0
    for name in names:
        if name.lower() not in STATE_NAMES:
            raise RequestInvalid(f"there is no message state {name!r}: {', '.join(STATE_NAMES)}")
        mask |= 1 << STATE_NAMES.index(name.lower())
    return mask or ALL_STATES
