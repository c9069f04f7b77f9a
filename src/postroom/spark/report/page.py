"""The report's page: one HTML file that needs nothing beside it, readable in light and dark."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Final

from postroom.spark.report import svg
from postroom.spark.report.data import (
    CATEGORIES,
    CrossingSum,
    DepthPoint,
    LedgerSpan,
    QueueSum,
    ReportData,
    Undelivered,
    Violation,
)
from postroom.spark.report.sankey import color_of, sankey
from postroom.spark.report.style import STYLE

MAX_LINES: Final = 6
"""So many queues get a line in the picture over time, those that held most."""
MAX_HISTOGRAMS: Final = 6


def page(data: ReportData) -> str:
    """The whole report as HTML."""
    sections = [
        _head(data),
        _verdict(data),
        _violations(data.violations, data.violation_count),
        _tiles(data),
        _flow(data),
        _outcomes(data),
        _depth(data),
        _waiting(data),
        _undelivered(data.undelivered),
        _crossings(data.crossings, data.lost),
        _conservation(data.queues),
    ]
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Postroom report</title><style>{STYLE}</style><main>{''.join(sections)}"
        "<footer>Made from the broker's ledger by postroom.spark.report.</footer></main></html>"
    )


def _section(title: str, words: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{escape(words)}</p>{content}</section>"


def _head(data: ReportData) -> str:
    span = f"{_time(data.first_time)} to {_time(data.last_time)} UTC"
    ledgers = "<br>".join(escape(_ledger(one, len(data.ledgers) > 1)) for one in data.ledgers)
    return f"<h1>Where the messages went</h1><p>{ledgers}<br>{span}</p>"


def _ledger(one: LedgerSpan, is_one_of_many: bool) -> str:
    name = f"{one.name}: " if is_one_of_many else ""
    return f"{name}Ledger {one.ledger_id}, positions {one.first_position:,} to {one.last_position:,}"


def _verdict(data: ReportData) -> str:
    cut = f"{data.entries:,} entries and {data.events:,} events checked."
    lost = sum(queue.outcomes.get("lost", 0) for queue in data.queues)
    if lost:
        cut += f" {lost:,} not persistent, lost at a crash: as agreed with their producers."
    older = sum(queue.older_than_history for queue in data.queues)
    if older:
        cut += f" {older:,} entries are older than the history: their arrival is not provable."
    if data.is_clean:
        return f"<div class='verdict good'><b>✓ Every message is accounted for.</b><p>{escape(cut)}</p></div>"
    what = f"✗ The audit found {data.violation_count:,} violation{'s' if data.violation_count > 1 else ''}."
    return f"<div class='verdict bad'><b>{what}</b><p>{escape(cut)}</p></div>"


def _tiles(data: ReportData) -> str:
    def total(category: str) -> int:
        return sum(queue.by_category()[category] for queue in data.queues)

    tiles = [
        ("arrived", sum(queue.arrivals for queue in data.queues)),
        ("consumed", total("consumed")),
        ("held now", total("held")),
        ("dead-lettered", total("dead-lettered")),
        ("expired", total("expired")),
    ]
    drawn = (f"<div class=tile><b>{number:,}</b><span>{escape(name)}</span></div>" for name, number in tiles)
    return f"<div class=tiles>{''.join(drawn)}</div>"


def _flow(data: ReportData) -> str:
    if not data.flows:
        return ""
    return _section(
        "Flow", "From who put them, through the queues, to what became of them.", sankey(data.flows)
    )


def _outcomes(data: ReportData) -> str:
    sums = sorted(
        ((queue, queue.by_category()) for queue in data.queues), key=lambda one: -sum(one[1].values())
    )
    shown = [category for category in CATEGORIES if any(parts[category] for _, parts in sums)]
    rows = [(queue.queue, [(name, color_of(name), parts[name]) for name in shown]) for queue, parts in sums]
    picture = svg.stacked_bars(rows, "What became of each queue's entries")
    key = svg.legend([(name, color_of(name)) for name in shown])
    return _section(
        "Outcomes by queue", "What became of everything that arrived on each queue.", key + picture
    )


def _depth(data: ReportData) -> str:
    series: dict[str, list[DepthPoint]] = defaultdict(list)
    for point in sorted(data.depth, key=lambda point: point.step):
        series[point.queue].append(point)
    if not series or data.first_time is None or data.last_time is None:
        return ""
    most = sorted(series, key=lambda name: -max(point.depth for point in series[name]))
    shown = [_line(name, series[name]) for name in most[:MAX_LINES]]
    key = svg.legend([(line.name, f"s{index % svg.SERIES_COUNT + 1}") for index, line in enumerate(shown)])
    rest = (
        f" The {len(most) - MAX_LINES} queues that held least are left out." if len(most) > MAX_LINES else ""
    )
    words = f"Entries held at the end of each step of {data.step_s} s.{rest}"
    picture = svg.lines(shown, data.first_time, data.last_time, "Entries held by queue over time")
    return _section("Depth over time", words, key + picture)


def _line(name: str, points: Sequence[DepthPoint]) -> svg.Line:
    before = points[0].depth - points[0].arrivals + points[0].ends
    return svg.Line(name, before, [(point.step, point.depth) for point in points])


def _waiting(data: ReportData) -> str:
    queues: dict[str, dict[int, int]] = defaultdict(dict)
    for bucket in data.dwell:
        queues[bucket.queue][bucket.bucket] = bucket.entries
    if not queues:
        return ""
    low = min(bucket.bucket for bucket in data.dwell)
    high = max(max(bucket.bucket for bucket in data.dwell), low + 7)
    most = sorted(queues, key=lambda name: -sum(queues[name].values()))[:MAX_HISTOGRAMS]
    drawn = "".join(_histogram(name, queues[name], low, high) for name in most)
    words = "From first available to consumed, in steps of a factor of two; all on one scale of time."
    return _section("How long consumed messages waited", words, f"<div class=multiples>{drawn}</div>")


def _histogram(name: str, buckets: dict[int, int], low: int, high: int) -> str:
    half, most = (svg.bucket_end_text(svg.percentile_bucket(buckets, share)) for share in (0.5, 0.99))
    words = f"{sum(buckets.values()):,} consumed; half within {half}, 99 % within {most}"
    picture = svg.histogram(buckets, low, high, "s1", f"Waiting times on {name}")
    return f"<div><h3>{escape(name)}</h3><p>{escape(words)}</p>{picture}</div>"


# --- tables -----------------------------------------------------------------------------------------


def _table(
    heads: Sequence[str], numbers: set[int], rows: Iterable[Sequence[object]], bad: set[str] | None = None
) -> str:
    def cell(index: int, value: object) -> str:
        is_bad = bad is not None and str(value) in bad
        kind = "n" if index in numbers else "wide" if len(str(value)) > 60 else ""
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        return f'<td class="{kind}{" bad" if is_bad else ""}">{escape(shown)}</td>'

    head = "".join(
        f"<th{' class=n' if i in numbers else ''}>{escape(name)}</th>" for i, name in enumerate(heads)
    )
    body = "".join(f"<tr>{''.join(cell(i, value) for i, value in enumerate(row))}</tr>" for row in rows)
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _undelivered(rows: Sequence[Undelivered]) -> str:
    if not rows:
        return _section("Not delivered", "Every message that ended was delivered to a consumer.", "")
    ordered = sorted(rows, key=lambda row: -row.entries)
    lines = (
        (
            r.queue,
            r.outcome.replace("_", " "),
            r.reason,
            r.entries,
            r.most_failures,
            _time(r.first),
            _time(r.last),
        )
        for r in ordered
    )
    heads = ("queue", "outcome", "reason", "entries", "most failures", "first", "last")
    return _section(
        "Not delivered", "What ended otherwise than with a consumer, and why.", _table(heads, {3, 4}, lines)
    )


def _crossings(rows: Sequence[CrossingSum], lost: Sequence[str]) -> str:
    if not rows:
        return ""
    shown = [name for name in rows[0].verdicts if any(row.verdicts[name] for row in rows)]
    heads = ("from", "queue", "to", *shown, "violations")
    lines = ((r.source, r.queue, r.target, *(r.verdicts[name] for name in shown), r.violations) for r in rows)
    words = "What channels took from one ledger to another. Persistent messages arrive once."
    if lost:
        words += f" Lost on the way, not persistent: {', '.join(lost)}."
    return _section("Between queue managers", words, _table(heads, set(range(3, len(heads))), lines))


def _conservation(queues: Sequence[QueueSum]) -> str:
    shown = (
        [name for name in queues[0].outcomes if any(queue.outcomes[name] for queue in queues)]
        if queues
        else []
    )
    heads = ("queue", "verdict", "difference", "arrived", "held", *(name.replace("_", " ") for name in shown))
    rows = (
        (
            q.queue,
            q.verdict,
            q.difference,
            q.arrivals + q.older_than_history,
            q.held,
            *(q.outcomes[o] for o in shown),
        )
        for q in sorted(queues, key=lambda queue: queue.queue)
    )
    words = (
        "What arrived on a queue is what it holds and what has ended, by outcome: the difference must be 0."
    )
    return _section("Conservation", words, _table(heads, set(range(2, len(heads))), rows, bad={"unbalanced"}))


def _violations(rows: Sequence[Violation], in_all: int) -> str:
    if not rows:
        return ""
    lines = ((r.rule, r.queue, r.serial or "", r.position or "", r.detail) for r in rows)
    words = (
        f"{in_all:,} in all; the first {len(rows):,} by rule."
        if in_all > len(rows)
        else "Each breach of a rule."
    )
    return _section(
        "Violations", words, _table(("rule", "queue", "serial", "position", "detail"), {2, 3}, lines)
    )


def _time(value: datetime | None) -> str:
    return value.strftime("%Y-%m-%d %H:%M:%S") if value else "–"
