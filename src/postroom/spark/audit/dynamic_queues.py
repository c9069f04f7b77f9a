"""Dynamic queues of clients, such as those for replies, told together: often they outnumber all others."""

from collections.abc import Iterable
from dataclasses import replace

from postroom.model.names import DYNAMIC_PREFIX
from postroom.spark.audit.result import QueueSums


def folded(queues: Iterable[QueueSums]) -> list[QueueSums]:
    """The sums of dynamic queues as one of each ledger and verdict; one that doesn't balance stays alone."""
    kept: list[QueueSums] = []
    together: dict[tuple[str, str], list[QueueSums]] = {}
    for one in queues:
        if one.queue.startswith(DYNAMIC_PREFIX) and one.difference == 0:
            together.setdefault((one.ledger_id, one.verdict), []).append(one)
        else:
            kept.append(one)
    return [*kept, *(_sum(each) for each in together.values())]


def _sum(queues: list[QueueSums]) -> QueueSums:
    first = queues[0]
    if len(queues) == 1:
        return first
    openings = [one.opening for one in queues if one.opening is not None]
    return replace(
        first,
        queue=f"{len(queues):,} dynamic queues",
        opening=sum(openings) if len(openings) == len(queues) else None,
        arrivals=sum(one.arrivals for one in queues),
        held=sum(one.held for one in queues),
        in_transit=sum(one.in_transit for one in queues),
        outcomes={name: sum(one.outcomes.get(name, 0) for one in queues) for name in first.outcomes},
        available=sum(one.available for one in queues),
        delayed=sum(one.delayed for one in queues),
        unconfirmed=sum(one.unconfirmed for one in queues),
    )
