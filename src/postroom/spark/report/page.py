"""The report's page: one HTML file that needs nothing beside it, readable in light and dark, and aloud."""

from collections.abc import Sequence
from html import escape
from typing import Final

from postroom.spark.report import html, svg
from postroom.spark.report.data import CATEGORIES, CATEGORY_OF_OUTCOME, QueueSum, ReportData
from postroom.spark.report.depth import depth_picture
from postroom.spark.report.html import picture, section, table
from postroom.spark.report.over_time import MAX_DEPTHS, depth, waiting
from postroom.spark.report.sankey import MOVE_CATEGORY, sankey
from postroom.spark.report.single import channels, slowest, undelivered
from postroom.spark.report.style import CATEGORY_COLORS, STYLE
from postroom.spark.report.svg import moment
from postroom.spark.report.timeline import words
from postroom.spark.report.verdict import conservation, crossings, verdict, violations

MAX_BARS: Final = 20
"""So many queues have a bar of outcomes."""
MAX_FLOW_ROWS: Final = 60
TILES: Final = ("consumed", "held", "dead-lettered", "expired", "lost")
"""What is told in large figures."""


def page(data: ReportData) -> str:
    """The whole report as HTML."""
    sections = (
        _head(data),
        verdict(data.audit),
        violations(data.audit),
        _tiles(data.queues),
        _flow(data),
        _outcomes(data.queues),
        depth(data),
        waiting(data),
        undelivered(data.undelivered, data.remarks.get("undelivered", "")),
        slowest(data),
        channels(data.channels),
        crossings(data.audit),
        conservation(data.audit),
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<title>Postroom report</title><style>{STYLE}</style><main>{''.join(sections)}"
        "<footer>Made by <code>postroom report</code> from the tables of the ledger. Times are UTC.</footer>"
        "</main></html>"
    )


def pictures(data: ReportData) -> dict[str, str]:
    """The large pictures as SVG files of their own, by name."""
    found: dict[str, str] = {}
    if data.flows:
        found["flow"] = sankey(data.flows).alone()
    if data.depths and data.steps:
        found["depth"] = depth_picture(data.depths[:MAX_DEPTHS], data.steps, has_legend=True).alone()
    return found


def _head(data: ReportData) -> str:
    span = f"{moment(data.first_us)} to {moment(data.last_us)} UTC"
    ledgers = "<br>".join(
        f"{escape(one.name)}: ledger {escape(one.ledger_id)}, through position {one.position:,}"
        for one in data.spans
    )
    return f"<h1>Where the messages went</h1><p>{ledgers}<br>{span}</p>"


def _tiles(queues: Sequence[QueueSum]) -> str:
    sums = [queue.by_category() for queue in queues]
    tiles = [
        ("arrived", sum(queue.arrivals for queue in queues)),
        *((category, sum(parts[category] for parts in sums)) for category in TILES),
    ]
    drawn = (f"<li class=tile><b>{number:,}</b><span>{escape(name)}</span></li>" for name, number in tiles)
    return f"<ul class=tiles>{''.join(drawn)}</ul>"


# --- what went where ------------------------------------------------------------------------------


def _flow(data: ReportData) -> str:
    if not data.flows:
        return ""
    rows = sorted(data.flows, key=lambda flow: -flow.entries)
    numbers = table(
        ("from", "to", "how", "entries"),
        [(r.source, words(r.target), words(r.kind), r.entries) for r in rows[:MAX_FLOW_ROWS]],
        {3},
        f"The {min(len(rows), MAX_FLOW_ROWS)} widest of {len(rows)} flows",
    )
    ends = {flow.target for flow in data.flows if flow.kind == "end"}
    moves = {
        MOVE_CATEGORY.get(flow.kind, "moved on") for flow in data.flows if flow.kind not in ("end", "put")
    }
    categories = moves | {CATEGORY_OF_OUTCOME[outcome] for outcome in ends}
    used = [name for name in CATEGORIES if name in categories]
    legend = svg.legend([(name, CATEGORY_COLORS[name]) for name in used] + [("put", "flow")])
    intro = "From who put them, through the queues and channels, to what became of them."
    return section("Flow", intro, legend + picture(sankey(data.flows), numbers), data.remarks.get("flow", ""))


def _outcomes(queues: Sequence[QueueSum]) -> str:
    sums = sorted(((queue, queue.by_category()) for queue in queues), key=lambda one: -sum(one[1].values()))
    if not sums:
        return ""
    shown = [category for category in CATEGORIES if any(parts[category] for _, parts in sums)]
    rows = [
        (queue.queue, [(name, CATEGORY_COLORS[name], parts[name]) for name in shown])
        for queue, parts in sums[:MAX_BARS]
    ]
    drawn = svg.stacked_bars(rows, "What became of each queue's entries")
    legend = svg.legend([(name, CATEGORY_COLORS[name]) for name in shown])
    outcomes = sorted({name for queue in queues for name, number in queue.outcomes.items() if number})
    numbers = table(
        ("queue", "arrived", "held", *map(words, outcomes)),
        [
            (q.queue, q.arrivals, q.held, *(q.outcomes.get(name, 0) for name in outcomes))
            for q, _ in sums[: html.MAX_ROWS]
        ],
        set(range(1, 3 + len(outcomes))),
        html.first_of("queues", len(sums)),
    )
    rest = (
        f"The {len(sums) - MAX_BARS} queues where least arrived have no bar." if len(sums) > MAX_BARS else ""
    )
    return section(
        "Outcomes by queue",
        "What became of everything that arrived on each queue.",
        legend + picture(drawn, numbers),
        rest,
    )
