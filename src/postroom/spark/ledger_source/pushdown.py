"""Filters that Spark hands to the source, as far as they let it read less."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What the filters leave; None: everything."""

    first: int | None = None
    last: int | None = None
    queue_names: frozenset[str] | None = None
    ledger_ids: frozenset[str] | None = None

    def excludes(self, ledger_id: str) -> bool:
        """Whether no row of a ledger is wanted."""
        return self.ledger_ids is not None and ledger_id not in self.ledger_ids

    def bounds(self, first: int, last: int) -> tuple[int, int]:
        """The part of a range of positions that is wanted."""
        return (
            first if self.first is None else max(first, self.first),
            last if self.last is None else min(last, self.last),
        )

    def queues(self, others: frozenset[str] | None) -> frozenset[str] | None:
        """The names of queues that are wanted here and by `others`."""
        if self.queue_names is None or others is None:
            return self.queue_names if others is None else others
        return self.queue_names & others


NOTHING_PUSHED: Final = Pushed()


def push(filters: Iterable[Filter]) -> Pushed:
    """What filters leave that must all hold; those that say nothing about where to read leave everything."""
    pushed = NOTHING_PUSHED
    for one in filters:
        attribute, value = getattr(one, "attribute", None), getattr(one, "value", None)
        if attribute == ("position",) and isinstance(value, int):
            pushed = _position(pushed, one, value)
        elif attribute in (("queue",), ("ledger_id",)) and isinstance(one, EqualTo | In):
            values = frozenset([one.value] if isinstance(one, EqualTo) else one.value)
            pushed = _names(pushed, attribute, values)
    return pushed


def _position(pushed: Pushed, one: Filter, value: int) -> Pushed:
    lows = {EqualTo: value, GreaterThan: value + 1, GreaterThanOrEqual: value}
    highs = {EqualTo: value, LessThan: value - 1, LessThanOrEqual: value}
    low, high = lows.get(type(one)), highs.get(type(one))
    if low is not None:
        pushed = replace(pushed, first=low if pushed.first is None else max(low, pushed.first))
    if high is not None:
        pushed = replace(pushed, last=high if pushed.last is None else min(high, pushed.last))
    return pushed


def _names(pushed: Pushed, attribute: tuple[str, ...], values: frozenset[Any]) -> Pushed:
    if attribute == ("queue",):
        known = pushed.queue_names
        return replace(pushed, queue_names=values if known is None else known & values)
    known = pushed.ledger_ids
    return replace(pushed, ledger_ids=values if known is None else known & values)
