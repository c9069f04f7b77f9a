"""The one place where an entry changes its state: by the table, into the ledger, into the counters."""

from typing import Final

from mypy_extensions import i64

from postroom.manager.core import Core
from postroom.manager.entry import Entry
from postroom.manager.statistics import CURRENT, UNACKNOWLEDGED, slot_of
from postroom.model import numbers as n
from postroom.model.cells import Count
from postroom.model.codes import Outcome
from postroom.model.tables import DELIVERY, FAILURE, OUTCOME, STILL, TO_READY, TO_STATE

_LOST: Final = int(Outcome.LOST)
_CONSUMED: Final = int(Outcome.CONSUMED)
_EXPIRED: Final = int(Outcome.EXPIRED)
_REDIRECTED: Final = int(Outcome.REDIRECTED)
_HOLDERS: Final = 11
_EVENTS: Final = 28

_IF_SENT: Final = 1
_ONE_MORE: Final = 2
_IF_QUEUE_SAYS: Final = 3

assert (_IF_SENT, _ONE_MORE, _IF_QUEUE_SAYS) == (Count.IF_SENT, Count.ONE_MORE, Count.IF_QUEUE_SAYS)


class IllegalTransition(Exception):
    """The queue manager asked for a move that the life cycle doesn't have: a defect, never a client's
    fault."""


def allowed(entry: Entry, event: i64) -> bool:
    """Whether the table has a move for ``event`` now."""
    return TO_STATE[(entry.state * _HOLDERS + entry.holder_kind) * _EVENTS + event] < STILL


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
    """Move ``entry`` by ``event`` and return the event's position.

    ``holder_kind``, ``holder`` and ``owner`` say who holds it afterwards, if that state is held. ``causes``
    are those left after the event; ``entry.due_us`` is written when it waits for a time. ``detail`` (JSON)
    goes to the ledger with it.
    """
    state = entry.state
    kind = entry.holder_kind
    cell = (state * _HOLDERS + kind) * _EVENTS + event
    to: i64 = TO_STATE[cell]
    if to >= STILL:
        raise IllegalTransition(
            f"entry {entry.serial} in state {state} held by kind {kind}: no move for {event}"
        )
    if to == TO_READY:
        to = n.DELAYED if causes != 0 else n.AVAILABLE
    outcome: i64 = OUTCOME[cell]
    got = state == n.GET_UNCONFIRMED or state == n.BROWSE_GET_UNCONFIRMED
    sent: i64 = 1 if got and entry.held_since <= core.durable_through else 0
    delivery = _delta(DELIVERY[cell], sent, True)
    queue = entry.queue
    counts = queue.undo_counts if event == n.EVENT_UNDO else queue.lost_link_counts
    failure = _delta(FAILURE[cell], sent, counts)
    held = to != n.DELAYED and to != n.AVAILABLE and to != n.DELETED
    if not held:
        holder_kind = kind
        holder = entry.holder
        owner = None
    if entry.flags & n.FLAG_REPORTS != 0:
        _note(core, entry, to, outcome)
    due_us = entry.due_us if to == n.DELAYED else 0
    flags = sent
    if state == n.DELAYED and to == n.AVAILABLE and entry.place == 0:
        flags |= n.FLAG_FIRST
    position = _write(
        core, entry, event, to, holder_kind, holder, outcome, causes, due_us, delivery, failure, flags, detail
    )
    before = slot_of(state, kind, entry.causes)
    if to == n.DELETED:
        queue.statistics.end(before, outcome, entry.body_len)
    else:
        after = slot_of(to, holder_kind if held else 0, causes)
        queue.statistics.move(before, after, entry.body_len)
    entry.state = to
    entry.causes = causes
    entry.holder_kind = holder_kind if held else 0
    entry.holder = holder if held else 0
    entry.owner = owner
    if held and to != n.PUT_UNCONFIRMED:
        entry.flags |= n.FLAG_ACQUIRED
    entry.delivery_count += delivery
    entry.failure_count += failure
    if held and kind == 0:
        entry.held_since = position
    return position


def _note(core: Core, entry: Entry, to: i64, outcome: i64) -> None:
    """Remember what reports may be asked about; ``entry`` is about to become ``to``."""
    if outcome == _CONSUMED:
        core.reports.note(entry, n.FEEDBACK_COD)
    elif outcome in (_EXPIRED, _REDIRECTED):
        core.reports.note(entry, n.FEEDBACK_EXPIRATION)
    elif to == n.AVAILABLE and entry.place == 0:
        core.reports.note(entry, n.FEEDBACK_COA)


def _write(
    core: Core,
    entry: Entry,
    event: i64,
    to: i64,
    holder_kind: i64,
    holder: i64,
    outcome: i64,
    causes: i64,
    due_us: i64,
    delivery: i64,
    failure: i64,
    flags: i64,
    detail: bytes,
) -> i64:
    serial, queue, state = entry.serial, entry.queue.id, entry.state
    if detail:
        return core.ledger.entry_event_detail(
            serial,
            queue,
            event,
            state,
            to,
            holder_kind,
            holder,
            outcome,
            causes,
            due_us,
            delivery,
            failure,
            flags,
            detail,
        )
    return core.ledger.entry_event(
        serial,
        queue,
        event,
        state,
        to,
        holder_kind,
        holder,
        outcome,
        causes,
        due_us,
        delivery,
        failure,
        flags,
    )


def acquire(core: Core, entry: Entry, holder: i64, owner: object) -> None:
    """The commonest step, by itself: an available entry goes to a consumer."""
    queue = entry.queue
    entry.held_since = core.ledger.entry_event(
        entry.serial,
        queue.id,
        n.EVENT_ACQUIRE,
        n.AVAILABLE,
        n.GET_UNCONFIRMED,
        n.CONSUMER,
        holder,
        0,
        0,
        0,
        0,
        0,
        0,
    )
    queue.statistics.move(CURRENT, UNACKNOWLEDGED, entry.body_len)
    entry.state = n.GET_UNCONFIRMED
    entry.holder_kind = n.CONSUMER
    entry.holder = holder
    entry.owner = owner
    entry.flags |= n.FLAG_ACQUIRED


def confirm(core: Core, entry: Entry) -> None:
    """The second commonest: a consumer accepts what it holds."""
    queue = entry.queue
    if entry.flags & n.FLAG_REPORTS != 0:
        core.reports.note(entry, n.FEEDBACK_COD)
    core.ledger.entry_event(
        entry.serial,
        queue.id,
        n.EVENT_CONFIRM,
        n.GET_UNCONFIRMED,
        n.DELETED,
        n.CONSUMER,
        entry.holder,
        1,
        0,
        0,
        0,
        0,
        n.FLAG_SENT,
    )
    queue.statistics.end(UNACKNOWLEDGED, 1, entry.body_len)
    entry.state = n.DELETED
    entry.holder_kind = 0
    entry.holder = 0
    entry.owner = None


def lose(core: Core, entry: Entry) -> None:
    """``entry``, which is available now, was held while the broker started anew: its message was not stored
    and is gone."""
    core.ledger.entry_event(
        entry.serial, entry.queue.id, n.EVENT_RESTART, n.AVAILABLE, n.DELETED, 0, 0, _LOST, 0, 0, 0, 0, 0
    )
    entry.queue.statistics.end(CURRENT, _LOST, entry.body_len)
    entry.state = n.DELETED


def note_delete(core: Core, entry: Entry) -> None:
    """A held ``entry`` is to be deleted when its holder gives it back, unless that confirms it. Raises
    IllegalTransition where the table says otherwise."""
    cell = (entry.state * _HOLDERS + entry.holder_kind) * _EVENTS + n.EVENT_DELETE
    if TO_STATE[cell] != STILL:
        raise IllegalTransition(f"entry {entry.serial} in state {entry.state}: its deletion can't wait")
    _write(core, entry, n.EVENT_DELETE, entry.state, entry.holder_kind, entry.holder, 0, 0, 0, 0, 0, 0, b"")
    entry.noted = n.EVENT_DELETE


def decide(entry: Entry, event: i64, causes: i64) -> None:
    """Move an entry that its transaction's decision record has told of: nothing more is written."""
    cell = (entry.state * _HOLDERS + entry.holder_kind) * _EVENTS + event
    to: i64 = TO_STATE[cell]
    if to >= STILL:
        raise IllegalTransition(f"entry {entry.serial} in state {entry.state}: no move for {event}")
    if to == TO_READY:
        to = n.DELAYED if causes != 0 else n.AVAILABLE
    before = slot_of(entry.state, entry.holder_kind, entry.causes)
    statistics = entry.queue.statistics
    if to == n.DELETED:
        statistics.end(before, OUTCOME[cell], entry.body_len)
    else:
        statistics.move(before, slot_of(to, 0, causes), entry.body_len)
    entry.state = to
    entry.causes = causes
    entry.holder_kind = 0
    entry.holder = 0
    entry.owner = None


def _delta(rule: i64, sent: i64, queue_says: bool) -> i64:
    """What a `Count` rule adds."""
    if rule == _IF_SENT:
        return sent
    if rule == _ONE_MORE:
        return 1
    if rule == _IF_QUEUE_SAYS and queue_says:
        return sent
    return 0
