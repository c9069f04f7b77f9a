"""What the audit said, at the head of the page, and its sums, at the foot."""

from html import escape
from typing import Final

from postroom.spark.audit.result import AuditResult, Verdict
from postroom.spark.report.html import MAX_ROWS, behind, first_of, section, table
from postroom.spark.report.svg import moment
from postroom.spark.report.timeline import words

SHOWN_VIOLATIONS: Final = 15
"""So many stand on the page; the others can be opened."""
SHOWN_LOST: Final = 20
"""So many of the messages that were lost on the way are named."""
MAX_POSITIONS: Final = 8


def verdict(audit: AuditResult | None) -> str:
    """The box that says whether every message is accounted for, at which cut."""
    if audit is None:
        how = "Run postroom audit --out FOLDER, and give that folder to postroom report --audit."
        return _box("warn", "Not audited.", [how])
    spans = ", ".join(
        f"{one.name} {one.first_position:,} to {one.position:,}" for one in audit.cuts[:MAX_ROWS]
    )
    checked = f"Positions {spans}: {audit.events:,} events, {audit.entries:,} entries."
    rows = [
        (o.name, o.ledger_id, o.first_position, o.position, o.epoch, moment(o.last_time_us or None))
        for o in audit.cuts[:MAX_ROWS]
    ]
    heads = ("queue manager", "ledger", "from", "through", "epoch", "time")
    shown = table(heads, rows, {2, 3, 4}, "What was audited: positions of each ledger")
    lines, cut = [checked, *_remarks(audit)], behind(shown, "The cut")
    if audit.verdict is Verdict.CLEAN:
        text = audit.accounted()
        return _box("good", f"✓ {text[0].upper()}{text[1:]}.", lines, cut)
    if audit.verdict is Verdict.VIOLATIONS:
        many = "s" if audit.violation_count != 1 else ""
        return _box("bad", f"✗ The audit found {audit.violation_count:,} violation{many}.", lines, cut)
    return _box("warn", "? Not provable.", lines, cut)


def _box(kind: str, title: str, lines: list[str], more: str = "") -> str:
    text = "".join(f"<p>{escape(line)}</p>" for line in lines if line)
    return f'<div class="verdict {kind}"><h2>{escape(title)}</h2>{text}{more}</div>'


def _remarks(audit: AuditResult) -> list[str]:
    """What is no violation and must be said."""
    lines = []
    if lost := sum(queue.outcomes.get("lost", 0) for queue in audit.managers):
        lines.append(f"{lost:,} not persistent, lost at a crash: as agreed with their producers.")
    if audit.lost:
        named = ", ".join(audit.lost[:SHOWN_LOST]) + ", …" * (len(audit.lost) > SHOWN_LOST)
        lines.append(f"Not persistent, lost on the way between queue managers: {named}.")
    for one in audit.unproven[:SHOWN_LOST]:
        about = f" ({one.count:,})" if one.count else ""
        lines.append(f"{audit.name_of(one.ledger_id)}: {one.what}{about} not proven: {one.why}.")
    return lines


def violations(audit: AuditResult | None) -> str:
    """Each breach that was found, by rule."""
    if audit is None or not audit.violations:
        return ""
    rows = []
    for one in audit.violations[:MAX_ROWS]:
        places = ", ".join(map(str, one.positions[:MAX_POSITIONS])) + ", …" * (
            len(one.positions) > MAX_POSITIONS
        )
        manager = audit.name_of(one.ledger_id)
        rows.append((one.rule, manager, one.queue or "", one.serial or "", places, one.detail))
    by_rule = ", ".join(f"{number:,} {rule}" for rule, number in audit.violation_counts.items() if number)
    heads = ("rule", "queue manager", "queue", "serial", "positions", "detail")
    first = table(heads, rows[:SHOWN_VIOLATIONS], {3}, f"The first of {audit.violation_count:,}")
    more = rows[SHOWN_VIOLATIONS:]
    rest = behind(table(heads, more, {3}, "Those that follow"), f"{len(more)} more") if more else ""
    return section("Violations", f"Breaches of a rule: {by_rule}.", first + rest)


def crossings(audit: AuditResult | None) -> str:
    """What channels took from one ledger to another."""
    if audit is None or not audit.crossings:
        return ""
    shown = [name for name in audit.crossings[0].verdicts if any(r.verdicts[name] for r in audit.crossings)]
    heads = ("from", "queue", "to", *shown, "violations")
    rows = [
        (
            *(audit.name_of(one.ledger_id), one.queue, audit.name_of(one.to_ledger_id)),
            *(one.verdicts[name] for name in shown),
            one.violations,
        )
        for one in audit.crossings[:MAX_ROWS]
    ]
    intro = "What channels took from one ledger to another. Persistent messages arrive once."
    numbers = table(heads, rows, set(range(3, len(heads))), first_of("crossings", len(audit.crossings)))
    return section("Between queue managers", intro, numbers)


def conservation(audit: AuditResult | None) -> str:
    """What arrived on each queue against what it holds and what has ended."""
    if audit is None or not audit.queues:
        return ""
    shown = [name for name in audit.queues[0].outcomes if any(q.outcomes[name] for q in audit.queues)]
    heads = ("queue manager", "queue", "verdict", "difference", "before", "arrived", "held", "in transit")
    rows = []
    for one in (*audit.managers, *audit.queues)[:MAX_ROWS]:
        queue = one.queue if one.queue_id is not None else "(all)"
        opening = "?" if one.opening is None else one.opening
        head = (audit.name_of(one.ledger_id), queue, one.verdict, one.difference, opening, one.arrivals)
        rows.append((*head, one.held, one.in_transit, *(one.outcomes[name] for name in shown)))
    intro = (
        "What there was before and what arrived is what is held and what has ended, by outcome:"
        " the difference must be 0."
    )
    names = (*heads, *map(words, shown))
    in_all = len(audit.managers) + len(audit.queues)
    caption = first_of("queue managers and queues", in_all)
    numbers = table(names, rows, set(range(3, len(names))), caption, "unbalanced")
    return section("Conservation", intro, numbers)
