"""What the audit said, at the head of the page."""

from html import escape

from postroom.spark.report.data import Verdict
from postroom.spark.report.html import MAX_ROWS, section, table


def verdict(told: Verdict | None) -> str:
    """The box that says whether every message is accounted for, at which cut."""
    if told is None:
        words = "Run postroom audit --out FOLDER, and give that folder to postroom report --audit."
        return _box("warn", "Not audited.", [words])
    lines = [_cut(told), _checked(told), *told.remarks]
    if told.status == "clean":
        return _box("good", "✓ Every message is accounted for.", lines)
    if told.status == "violations":
        many = "s" if told.violation_count != 1 else ""
        return _box("bad", f"✗ The audit found {told.violation_count:,} violation{many}.", lines)
    return _box("warn", "? Not provable.", lines)


def _box(kind: str, title: str, lines: list[str]) -> str:
    said = "".join(f"<p>{escape(line)}</p>" for line in lines if line)
    return f'<div class="verdict {kind}"><h2>{escape(title)}</h2>{said}</div>'


def _cut(told: Verdict) -> str:
    places = ", ".join(f"{one.name} at position {one.position:,} of epoch {one.epoch}" for one in told.cut)
    return f"The cut: {places}." if places else ""


def _checked(told: Verdict) -> str:
    counts = ", ".join(f"{number:,} {name}" for name, number in told.checked.items())
    return f"Checked: {counts}." if counts else ""


def violations(told: Verdict | None) -> str:
    """Each breach that was found, by rule."""
    if told is None or not told.violations:
        return ""
    shown = told.violations[:MAX_ROWS]
    rows = [(v.rule, v.queue, v.serial or "", v.position or "", v.detail) for v in shown]
    caption = (
        f"The first {len(shown)} of {told.violation_count:,}" if told.violation_count > len(shown) else "All"
    )
    heads = ("rule", "queue", "serial", "position", "detail")
    return section("Violations", "Each breach of a rule.", table(heads, rows, {2, 3}, caption))
