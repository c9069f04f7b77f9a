"""Conservation: what was held when the history began and what has arrived since is what is held now and what
has ended, for each queue, each subscription and each queue manager. Pure.

The opening is that of a checkpoint's totals: what had arrived until then, less what had ended, less what the
history says happened between its beginning and the checkpoint. Three comparisons, each of which fails by
itself: events against entries, the checkpoint's opening against the older entries that there is a trace of,
and the checkpoint's counts against the events that it covers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from postroom.spark.audit.result import COUNTED, QueueSums, Violation
from postroom.spark.ledger_source.checkpoint_totals import CheckpointTotals
from postroom.spark.ledger_source.state_names import OUTCOMES

DELETED_QUEUES: Final = 0
"""In a checkpoint's totals the queue that sums those which were deleted before."""
DELETED_NAME: Final = "(deleted queues)"

NOTHING: Final = (0,) * len(OUTCOMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """What was counted of one queue or subscription; ``early``: up to the checkpoint that it opens from."""

    ledger_id: str
    queue_id: int
    queue: str
    arrivals: int = 0
    ended: tuple[int, ...] = NOTHING
    early_arrivals: int = 0
    early_ended: tuple[int, ...] = NOTHING
    early_events: int = 0
    held: int = 0
    available: int = 0
    delayed: int = 0
    unconfirmed: int = 0
    in_transit: int = 0
    seen: int = 0
    """Entries older than the history of which there is a trace, held or ended since."""


@dataclass(slots=True)
class Balance:
    """The sums of one ledger, and what is wrong with them."""

    manager: QueueSums
    queues: list[QueueSums]
    violations: list[Violation] = field(default_factory=list)


def balance(
    ledger_id: str, is_whole: bool, checkpoint: CheckpointTotals | None, counts: Iterable[QueueCounts]
) -> Balance:
    """The sums of a ledger. `is_whole`: its history begins at its beginning; else it opens from `checkpoint`,
    and without that nothing is proven."""
    queues = sorted([*counts], key=lambda one: one.queue_id)
    if checkpoint is not None and not is_whole:
        # queues that the checkpoint says held something, and of which nothing is seen
        missing = sorted(checkpoint.totals.keys() - {DELETED_QUEUES, *(one.queue_id for one in queues)})
        queues += [
            QueueCounts(ledger_id=ledger_id, queue_id=queue, queue=f"#{queue}")
            for queue in missing
            if _held(checkpoint, queue)
        ]
    openings = {one.queue_id: _opening(one, is_whole, checkpoint) for one in queues}
    rows = [_sums(one, openings[one.queue_id]) for one in queues]
    found = Balance(_manager(ledger_id, rows, _whole_opening(is_whole, checkpoint, queues)), rows)
    for one, row in zip(queues, rows, strict=True):
        found.violations += _of_queue(one, row)
    if checkpoint is not None:
        found.violations += _of_checkpoint(ledger_id, is_whole, checkpoint, queues)
    if found.manager.difference:
        found.violations.append(_violation("unbalanced manager", found.manager, _detail(found.manager)))
    return found


def _opening(one: QueueCounts, is_whole: bool, checkpoint: CheckpointTotals | None) -> int | None:
    """What the queue held before the history; of one that was deleted before the checkpoint, which has only
    the sum of those, what there is a trace of."""
    if is_whole:
        return 0
    if checkpoint is None:
        return None
    if one.queue_id in checkpoint.totals:
        return _held(checkpoint, one.queue_id) - _early_change(one)
    return one.seen if one.early_events else 0


def _whole_opening(
    is_whole: bool, checkpoint: CheckpointTotals | None, queues: list[QueueCounts]
) -> int | None:
    if is_whole:
        return 0
    if checkpoint is None:
        return None
    return sum(_held(checkpoint, queue) for queue in checkpoint.totals) - sum(map(_early_change, queues))


def _held(checkpoint: CheckpointTotals, queue_id: int) -> int:
    arrived, ended = checkpoint.totals[queue_id]
    return arrived - sum(ended)


def _early_change(one: QueueCounts) -> int:
    return one.early_arrivals - sum(one.early_ended)


def _sums(one: QueueCounts, opening: int | None) -> QueueSums:
    before = one.seen if opening is None else opening
    difference = before + one.arrivals - one.held - sum(one.ended)
    outcomes = dict(zip(OUTCOMES, one.ended, strict=True))
    return QueueSums(
        ledger_id=one.ledger_id,
        queue_id=one.queue_id,
        queue=one.queue,
        opening=opening,
        outcomes=outcomes,
        difference=difference,
        verdict=_verdict(difference, opening, outcomes["lost"]),
        **{name: getattr(one, name) for name in COUNTED},
    )


def _manager(ledger_id: str, rows: list[QueueSums], opening: int | None) -> QueueSums:
    outcomes = {name: sum(row.outcomes[name] for row in rows) for name in OUTCOMES}
    difference = sum(row.difference for row in rows)
    if opening is not None:
        difference += opening - sum(row.opening or 0 for row in rows)
    return QueueSums(
        ledger_id=ledger_id,
        queue_id=None,
        queue="",
        opening=opening,
        outcomes=outcomes,
        difference=difference,
        verdict=_verdict(difference, opening, outcomes["lost"]),
        **{name: sum(getattr(row, name) for row in rows) for name in COUNTED},
    )


def _verdict(difference: int, opening: int | None, lost: int) -> str:
    if difference:
        return "unbalanced"
    if opening is None:
        return "not proven"
    return f"balanced; {lost} not persistent, lost at a crash" if lost else "balanced"


# --- what is wrong --------------------------------------------------------------------------------


def _of_queue(one: QueueCounts, row: QueueSums) -> list[Violation]:
    found = []
    if one.seen + one.arrivals != one.held + sum(one.ended):
        found.append(_violation("unbalanced queue", row, _detail(row)))
    if row.opening is not None and row.opening != one.seen:
        detail = f"held before the history: {row.opening} by the checkpoint, {one.seen} with a trace"
        found.append(_violation("opening differs", row, detail))
    return found


def _of_checkpoint(
    ledger_id: str, is_whole: bool, checkpoint: CheckpointTotals, queues: list[QueueCounts]
) -> list[Violation]:
    """Where the checkpoint counts otherwise than the events up to its position: of a whole history the two
    are equal, of another the checkpoint has no less."""
    found = []
    named = {one.queue_id: one.queue for one in queues}
    for queue_id, (arrivals, ended) in sorted(_early(checkpoint, queues).items()):
        checkpoint_arrivals, checkpoint_ended = checkpoint.totals.get(queue_id, (0, NOTHING))
        off = [
            f"{name}: {by_checkpoint} by the checkpoint, {seen} by the events"
            for name, by_checkpoint, seen in (
                ("arrivals", checkpoint_arrivals, arrivals),
                *zip(OUTCOMES, checkpoint_ended, ended, strict=True),
            )
            if by_checkpoint < seen or (is_whole and by_checkpoint != seen)
        ]
        if off:
            name = named.get(queue_id, DELETED_NAME if queue_id == DELETED_QUEUES else f"#{queue_id}")
            where = (ledger_id, queue_id, name, None, (checkpoint.position,))
            found.append(Violation("checkpoint differs", *where, "; ".join(off)))
    return found


def _early(checkpoint: CheckpointTotals, queues: list[QueueCounts]) -> dict[int, tuple[int, tuple[int, ...]]]:
    """Per queue of the totals, what the events up to the checkpoint say."""
    found: dict[int, tuple[int, tuple[int, ...]]] = dict.fromkeys(checkpoint.totals, (0, NOTHING))
    for one in queues:
        if not one.early_events:
            continue
        queue = one.queue_id if one.queue_id in checkpoint.totals else DELETED_QUEUES
        arrivals, ended = found.get(queue, (0, NOTHING))
        together = tuple(a + b for a, b in zip(ended, one.early_ended, strict=True))
        found[queue] = (arrivals + one.early_arrivals, together)
    return found


def _violation(rule: str, row: QueueSums, detail: str) -> Violation:
    return Violation(rule, row.ledger_id, row.queue_id, row.queue, None, (), detail)


def _detail(row: QueueSums) -> str:
    ended = sum(row.outcomes.values())
    return (
        f"opening {row.opening if row.opening is not None else 'unknown'}, arrivals {row.arrivals}, "
        f"held {row.held}, ended {ended}, difference {row.difference}"
    )
