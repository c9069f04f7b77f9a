"""Where an entry changes its state: by the table, into the ledger, into the counters.

Nothing else in the house assigns the state or the holder of an entry (a test reads the source for it):

- here, one entry changes by an event of its own;
- `group_transitions`: many change by one record, a decision or a group event;
- `entry_creation`: an entry begins, or is made again of what was packed or recovered.

All three ask `transition_table` where a move leads, with what outcome, and who may hold the entry then: none
of that is written down beside the table of `model.lifecycle`. What an entry waits for (its causes,
`Entry.due_us`) and where it stands is the business of who asks for the move; the causes of an entry in
PUT_UNCONFIRMED are those that it will have when it is committed.

So a new kind of holder is a member at the end of `model.codes.HolderKind` with its twin in `model.numbers`,
its rule in `model.holders`, its rows in `model.lifecycle`, and its name in the row of each state from which
it takes entries. From these follow every move, the counters, what a restart loses and rolls back, who may
stand in a record, the drawing and the listing in the documents (`tools/life_cycle_docs.py`), and what the
audit takes for legal. What no table can say for it has to be written: an owner that lists what it holds and
calls `step`, or a record of many; `restore`, which gives a kept owner its entries back; and what the
management node tells of it (`server.management.entities.holders`). One that keeps what it holds packed, as
Spark subscriptions do, needs its form in the fold, in recovery and in `spark.held_entries`, too.
"""

from typing import Final

from mypy_extensions import i64

from postroom.ledger.format.entry_records import EntryEvent
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.statistics import slot_of
from postroom.manager.kernel.transition_table import (
    IllegalTransition,
    cell_of,
    ending,
    fixed,
    losing,
    outcome_of,
    target,
)
from postroom.model import numbers as n
from postroom.model.tables import DELIVERY, FAILURE, OUTCOME, STILL, TO_STATE

_ACQUIRED: Final[i64] = fixed(n.AVAILABLE, n.NO_HOLDER, n.EVENT_ACQUIRE, n.CONSUMER)
_CONFIRMED: Final[i64] = fixed(n.GET_UNCONFIRMED, n.CONSUMER, n.EVENT_CONFIRM)
_CONFIRMED_AS: Final[i64] = ending(n.GET_UNCONFIRMED, n.CONSUMER, n.EVENT_CONFIRM)
_LOST: Final[i64] = losing(n.AVAILABLE)

_ACQUIRE: Final = EntryEvent(n.EVENT_ACQUIRE, n.AVAILABLE, _ACQUIRED, n.CONSUMER)
_CONFIRM: Final = EntryEvent(
    n.EVENT_CONFIRM, n.GET_UNCONFIRMED, _CONFIRMED, n.CONSUMER, _CONFIRMED_AS, 0, n.FLAG_SENT
)
_LOSE: Final = EntryEvent(n.EVENT_RESTART, n.AVAILABLE, n.DELETED, n.NO_HOLDER, _LOST)

_AVAILABLE_SLOT: Final[i64] = slot_of(n.AVAILABLE, n.NO_HOLDER, 0)
_ACQUIRED_SLOT: Final[i64] = slot_of(_ACQUIRED, n.CONSUMER, 0)

if _ACQUIRED != n.GET_UNCONFIRMED or _CONFIRMED_AS != n.OUTCOME_CONSUMED:
    raise IllegalTransition(
        "`confirm` reports the consumption of what `acquire` took: it can do nothing else"
    )


def step(
    core: Core,
    entry: Entry,
    event: i64,
    holder_kind: i64,
    holder: i64,
    owner: object | None,
    causes: i64,
    detail: bytes = b"",
) -> i64:
    """Move ``entry`` by ``event`` and return the event's position. Raises IllegalTransition.

    ``holder_kind``, ``holder`` and ``owner`` say who holds it afterwards: 0, 0 and None if nobody does.
    ``causes`` are those left after the event; ``entry.due_us`` is written when it waits for a time.
    ``detail`` (JSON) goes to the ledger with it.
    """
    state, kind = entry.state, entry.holder_kind
    to = target(state, kind, event, causes, holder_kind)
    outcome = outcome_of(state, kind, event)
    if entry.flags & n.FLAG_REPORTS != 0:
        _note(core, entry, to, outcome)
    if holder_kind != 0:
        position = _record(core, entry, event, to, holder_kind, holder, causes, detail)
    else:
        position = _record(core, entry, event, to, kind, entry.holder, causes, detail)
    before = slot_of(state, kind, entry.causes)
    statistics = entry.queue.statistics
    if to == n.DELETED:
        statistics.end(before, outcome, entry.body_len)
    else:
        statistics.move(before, slot_of(to, holder_kind, causes), entry.body_len)
    entry.state = to
    entry.causes = causes
    entry.holder_kind = holder_kind
    entry.holder = holder
    entry.owner = owner
    if holder_kind != 0:
        if to != n.PUT_UNCONFIRMED:
            entry.flags |= n.FLAG_ACQUIRED
        if kind == 0:
            entry.held_since = position
    return position


def _note(core: Core, entry: Entry, to: i64, outcome: i64) -> None:
    """Remember what reports may be asked about; ``entry`` is about to become ``to``."""
    if outcome == n.OUTCOME_CONSUMED:
        core.reports.note(entry, n.FEEDBACK_COD)
    elif outcome in (n.OUTCOME_EXPIRED, n.OUTCOME_REDIRECTED):
        core.reports.note(entry, n.FEEDBACK_EXPIRATION)
    elif to == n.AVAILABLE and entry.place == 0:
        core.reports.note(entry, n.FEEDBACK_COA)


def _record(
    core: Core, entry: Entry, event: i64, to: i64, holder_kind: i64, holder: i64, causes: i64, detail: bytes
) -> i64:
    """Write the event, and count the delivery and the failure as the table has it. The holder is that of the
    record: who has it then or, if nobody does, who had it."""
    state, queue = entry.state, entry.queue
    cell = cell_of(state, entry.holder_kind, event)
    got = state == n.GET_UNCONFIRMED or state == n.BROWSE_GET_UNCONFIRMED
    sent: i64 = 1 if got and entry.held_since <= core.durability.through else 0
    counts = queue.limits.undo_counts if event == n.EVENT_UNDO else queue.limits.lost_link_counts
    flags = sent
    if state == n.DELAYED and to == n.AVAILABLE and entry.place == 0:
        flags |= n.FLAG_FIRST
    record = EntryEvent(event, state, to, holder_kind, OUTCOME[cell], causes, flags)
    delivery = _delta(DELIVERY[cell], sent, True)
    failure = _delta(FAILURE[cell], sent, counts)
    record.count(delivery, failure)
    entry.delivery_count += delivery
    entry.failure_count += failure
    if to == n.DELAYED:
        record.due_us = entry.due_us
    record.detail = detail
    return core.ledger.entry_event(entry.serial, queue.id, holder, record)


def acquire(core: Core, entry: Entry, holder: i64, owner: object) -> None:
    """The commonest step, by itself: an available entry goes to a consumer."""
    queue = entry.queue
    entry.held_since = core.ledger.entry_event(entry.serial, queue.id, holder, _ACQUIRE)
    queue.statistics.move(_AVAILABLE_SLOT, _ACQUIRED_SLOT, entry.body_len)
    entry.state = _ACQUIRED
    entry.holder_kind = n.CONSUMER
    entry.holder = holder
    entry.owner = owner
    entry.flags |= n.FLAG_ACQUIRED


def confirm(core: Core, entry: Entry) -> None:
    """The second commonest: a consumer accepts what it holds."""
    queue = entry.queue
    if entry.flags & n.FLAG_REPORTS != 0:
        core.reports.note(entry, n.FEEDBACK_COD)
    core.ledger.entry_event(entry.serial, queue.id, entry.holder, _CONFIRM)
    queue.statistics.end(_ACQUIRED_SLOT, _CONFIRMED_AS, entry.body_len)
    entry.state = _CONFIRMED
    entry.holder_kind = n.NO_HOLDER
    entry.holder = 0
    entry.owner = None


def lose(core: Core, entry: Entry) -> None:
    """``entry``, which is available now, was held while the broker started anew: its message was not stored
    and is gone."""
    core.ledger.entry_event(entry.serial, entry.queue.id, 0, _LOSE)
    entry.queue.statistics.end(_AVAILABLE_SLOT, _LOST, entry.body_len)
    entry.state = n.DELETED


def note_delete(core: Core, entry: Entry) -> None:
    """A held ``entry`` is to be deleted when its holder gives it back, unless that confirms it. Raises
    IllegalTransition where the table says otherwise."""
    state, kind, event = entry.state, entry.holder_kind, n.EVENT_DELETE
    if TO_STATE[cell_of(state, kind, event)] != STILL:
        raise IllegalTransition(f"entry {entry.serial} in state {state}: its deletion can't wait")
    record = EntryEvent(event, state, state, kind)
    core.ledger.entry_event(entry.serial, entry.queue.id, entry.holder, record)
    entry.noted = event


def _delta(rule: i64, sent: i64, counts_here: bool) -> i64:
    """What a `Count` rule adds."""
    if rule == n.COUNT_IF_SENT:
        return sent
    if rule == n.COUNT_ONE_MORE:
        return 1
    if rule == n.COUNT_IF_QUEUE_COUNTS and counts_here:
        return sent
    return 0
