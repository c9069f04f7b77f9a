"""The report's page: complete, self-contained, and it says what the audit says."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from postroom.spark.frames import OUTCOMES
from postroom.spark.report import svg
from postroom.spark.report.data import (
    CrossingSum,
    DepthPoint,
    DwellBucket,
    Flow,
    LedgerSpan,
    QueueSum,
    ReportData,
    Undelivered,
    Violation,
)
from postroom.spark.report.page import page
from postroom.spark.report.sankey import sankey

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def _queue(name: str, held: int = 0, **outcomes: int) -> QueueSum:
    ended = dict.fromkeys(OUTCOMES, 0) | outcomes
    return QueueSum(name, held + sum(outcomes.values()), 0, held, ended, 0, "balanced")


DATA = ReportData(
    ledgers=[LedgerSpan("data", "id", 1, 900)],
    first_time=T0,
    last_time=T0 + timedelta(minutes=5),
    events=900,
    entries=300,
    step_s=5,
    queues=[_queue("orders", 10, consumed=200, dead_lettered=5, lost=2), _queue("orders<dead>", 5)],
    flows=[
        Flow("app", "orders", "put", 217),
        Flow("orders", "consumed", "end", 200),
        Flow("orders", "held", "end", 10),
        Flow("orders", "orders<dead>", "dead_letter", 5),
        Flow("orders<dead>", "orders", "move", 1),
        Flow("orders<dead>", "held", "end", 5),
    ],
    depth=[DepthPoint("orders", T0 + timedelta(seconds=5 * n), 3, 1, 2 * n) for n in range(9)],
    dwell=[DwellBucket("orders", 0, 90), DwellBucket("orders", 5, 9), DwellBucket("orders", 12, 1)],
    undelivered=[Undelivered("orders", "dead_lettered", "amqp:not-allowed", 5, 3, T0, T0)],
    violations=[],
    violation_count=0,
    crossings=[],
    lost=[],
)


def _pictures(html: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(picture) for picture in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]


def test_the_page_needs_nothing_beside_it() -> None:
    html = page(DATA)
    assert not re.search(r"(src|href)=|@import|url\(|https?://", html)
    assert len(_pictures(html)) == 4  # flow, outcomes, depth, one histogram; all well-formed
    assert "prefers-color-scheme:dark" in html


def test_every_colour_that_is_used_is_defined() -> None:
    html = page(DATA)
    assert set(re.findall(r"var\(--(\w+)\)", html)) <= set(re.findall(r"--(\w+):", html))


def test_names_are_escaped() -> None:
    html = page(DATA)
    assert "orders<dead>" not in html
    assert "orders&lt;dead&gt;" in html


def test_the_verdict_is_the_audits() -> None:
    assert "✓ Every message is accounted for." in page(DATA)
    assert "2 not persistent, lost at a crash" in page(DATA)
    broken = replace(
        DATA, violations=[Violation("second arrival", "orders", 7, 8, "put")], violation_count=41
    )
    assert "✗ The audit found 41 violations." in page(broken)
    assert "second arrival" in page(broken)
    assert "amqp:not-allowed" in page(DATA)


def test_an_empty_ledger_has_a_page_too() -> None:
    empty = replace(
        DATA,
        first_time=None,
        last_time=None,
        events=0,
        queues=[],
        flows=[],
        depth=[],
        dwell=[],
        undelivered=[],
    )
    assert "Where the messages went" in page(empty)


def test_the_flow_draws_every_band_and_merges_the_small_ones() -> None:
    many = [Flow(f"app {n}", f"queue {n}", "put", n + 1) for n in range(40)]
    many += [Flow(f"queue {n}", "consumed", "end", n + 1) for n in range(40)]
    titles = [title.text or "" for title in _pictures(sankey(many))[0].iter("title")]
    into = [title for title in titles if title.endswith(": 820")]
    assert into == ["consumed: 820"]
    assert sum("others" in title for title in titles) > 0
    puts = [title for title in titles if title.startswith("app") and "→" in title]
    assert len(puts) == 11


@pytest.mark.parametrize(
    "flows", [DATA.flows, [Flow("a", "b", "move", 1), Flow("b", "a", "move", 2), Flow("b", "b", "move", 1)]]
)
def test_flows_in_a_circle_end(flows: list[Flow]) -> None:
    assert _pictures(sankey(flows))


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0.5, "0.5 ms"),
        (1, "1 ms"),
        (1024, "1 s"),
        (1500, "1.5 s"),
        (90_000, "1.5 min"),
        (7_200_000, "2 h"),
        (2e9, "23 d"),
    ],
)
def test_durations_for_people(ms: float, text: str) -> None:
    assert svg.duration_ms(ms) == text


@pytest.mark.parametrize("top", [0, 1, 3, 7, 10, 99, 101, 12_345, 9_999_999])
def test_ticks_are_round_and_reach_the_top(top: int) -> None:
    marks = svg.ticks(top)
    assert marks[0] == 0
    assert marks[-1] >= top
    assert 2 <= len(marks) <= 7


def test_what_crossed_between_ledgers_is_shown_with_the_lost_by_name() -> None:
    sums = CrossingSum("london", "PARIS", "paris", {"arrived": 12, "lost": 1, "in doubt": 0}, 0)
    html = page(replace(DATA, crossings=[sums], lost=["signal-7"]))
    assert "Between queue managers" in html
    assert "Lost on the way, not persistent: signal-7." in html
    assert "in doubt" not in html
    assert "Between queue managers" not in page(DATA)
