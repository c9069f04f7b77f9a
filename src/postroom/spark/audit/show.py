"""An audit's result for people: the sums, what went between queue managers, what is wrong, the verdict."""

from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.table import Table

from postroom.spark.audit.result import AuditResult, QueueSums, Violation, folded
from postroom.spark.audit.rules import CROSSING_VERDICTS
from postroom.spark.ledger_source.state_names import OUTCOMES

SHOWN_QUEUES: Final = 50
SHOWN_VIOLATIONS: Final = 20
SHOWN_LOST: Final = 50
SHOWN_REFUSED: Final = 20
WITHOUT_TERMINAL: Final = 1 << 16
"""Columns of the page where there is no terminal to ask: enough for every row."""


def show(result: AuditResult, console: Console | None = None, every: bool = False) -> None:
    """Print it; ``every``: each dynamic queue of clients by itself."""
    out = console or Console()
    if console is None and not out.is_terminal:
        out = Console(width=WITHOUT_TERMINAL)
    out.print(_sums(result, list(result.queues) if every else folded(result.queues)))
    if result.crossings:
        out.print(_crossings(result))
    if result.lost:
        shown = ", ".join(result.lost[:SHOWN_LOST]) + ", …" * (len(result.lost) > SHOWN_LOST)
        out.print(f"Lost on the way, not persistent ({result.lost_on_the_way:,}): {shown}", highlight=False)
    for line in _lines(result):
        out.print(line, highlight=False)
    out.print(result.sentence(), highlight=False)


def _lines(result: AuditResult) -> Iterable[str]:
    if result.duplicates:
        verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(result.duplicates.items()))
        yield f"Message ids that came again: {verdicts}"
    for refused in result.refused[:SHOWN_REFUSED]:
        what = f"{refused.address or '(other addresses)'} from {refused.sender or '(others)'}"
        yield f"Refused, the sender wanted no answer: {refused.messages:,} to {what}: {refused.condition}"
    for one in result.covered:
        bodies = f"{one.bodies_checked:,} bodies read" if one.bodies_checked else "bodies not read"
        where = f"{one.files} files, {one.size_bytes:,} bytes"
        yield f"Covered: {result.name_of(one.ledger_id)}: {where}, CRCs of all records compared, {bodies}"
    for table in result.tables:
        done = "summed" if table.table == "events" else "folded anew"
        where = f"version {table.version:,}, {table.files:,} files, {table.size_bytes:,} bytes"
        yield f"Table {table.table}: {where}, {table.rows:,} rows {done}"
    for violation in result.violations[:SHOWN_VIOLATIONS]:
        yield f"violation: {_violation(result, violation)}"
    for gap in result.unproven:
        about = f" ({gap.count:,} messages)" if gap.count else ""
        yield f"not proven: {result.name_of(gap.ledger_id)}: {gap.what}{about}: {gap.why}"


def _violation(result: AuditResult, violation: Violation) -> str:
    place = violation.queue or "-"
    if len(result.cuts) > 1:
        place = f"{result.name_of(violation.ledger_id)}: {place}"
    positions = ", ".join(map(str, violation.positions)) or "-"
    entry = f"{place}/{violation.serial or '-'}"
    return f"{violation.rule}: {entry} at position {positions}: {violation.detail}"


def _sums(result: AuditResult, queues: list[QueueSums]) -> Table:
    """Every queue's sums, or those of the largest, and each queue manager's."""
    shown = sorted(queues, key=lambda one: (one.difference == 0, -one.arrivals))[:SHOWN_QUEUES]
    ended = [name for name in OUTCOMES if any(one.outcomes.get(name) for one in result.managers)]
    title = "audit" if len(shown) == len(queues) else f"audit ({len(shown)} of {len(queues)} queues)"
    heads = ("queue", "opening", "arrived", "held", "in transit", *ended, "difference", "verdict")
    table = _table(heads, title)
    for one in sorted(shown, key=lambda one: (one.ledger_id, one.queue)):
        table.add_row(*_row(one, _name(result, one), ended))
    table.add_section()
    for one in result.managers:
        table.add_row(*_row(one, f"{result.name_of(one.ledger_id)}: all", ended))
    return table


def _name(result: AuditResult, one: QueueSums) -> str:
    return f"{result.name_of(one.ledger_id)}: {one.queue}" if len(result.cuts) > 1 else one.queue


def _row(one: QueueSums, name: str, ended: list[str]) -> tuple[str, ...]:
    opening = "?" if one.opening is None else f"{one.opening:,}"
    numbers = (
        one.arrivals,
        one.held,
        one.in_transit,
        *(one.outcomes[each] for each in ended),
        one.difference,
    )
    return (name, opening, *(f"{number:,}" for number in numbers), one.verdict)


def _crossings(result: AuditResult) -> Table:
    """What went from ledger to ledger."""
    rows = result.crossings
    verdicts = [name for name in CROSSING_VERDICTS if any(row.verdicts[name] for row in rows)]
    table = _table(("from", "queue", "to", *verdicts, "violations"), "channels")
    for row in rows:
        counts = (*(row.verdicts[name] for name in verdicts), row.violations)
        where = (result.name_of(row.ledger_id), row.queue, result.name_of(row.to_ledger_id))
        table.add_row(*where, *(f"{number:,}" for number in counts))
    return table


def _table(heads: Iterable[str], title: str) -> Table:
    """No name is cut: one that is too long for the terminal goes on in the next line."""
    table = Table(title=title, title_justify="left")
    for head in heads:
        table.add_column(head, overflow="fold")
    return table
