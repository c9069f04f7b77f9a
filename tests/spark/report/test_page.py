"""The report's page: complete, self-contained, bounded, readable; and it says what the audit says."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise

import pytest

from postroom.spark.audit.result import Unproven, Violation
from postroom.spark.report import html, style, svg
from postroom.spark.report.data import (
    LAYERS,
    ChannelSum,
    Depth,
    Dwell,
    Flow,
    Life,
    Phase,
    QueueSum,
    ReportData,
    Steps,
    Undelivered,
)
from postroom.spark.report.depth import depth_picture
from postroom.spark.report.over_time import BARS_A_DECADE, bar_end_us, bars
from postroom.spark.report.page import page, pictures
from postroom.spark.report.sankey import sankey
from tests.spark.report.audits import CLEAN, SPAN, T0, S

DEPTH = Depth(
    "orders",
    {"available": [0, 4, 9, 3, 2], "get_unconfirmed": [0, 0, 2, 1, 0], "paused": [0, 0, 0, 5, 5]},
    20,
    13,
    11,
)
LIFE = Life(
    "orders", 7, "order-7", T0, T0 + 9 * S, "consumed", 2,
    [
        Phase("available", T0, T0 + 4 * S),
        Phase("get_unconfirmed", T0 + 4 * S, T0 + 5 * S, "consumer billing"),
        Phase("delayed", T0 + 5 * S, T0 + 8 * S, "redelivery_delay"),
        Phase("get_unconfirmed", T0 + 8 * S, T0 + 9 * S),
    ],
)  # fmt: skip
DATA = ReportData(
    spans=[SPAN],
    first_us=T0,
    last_us=T0 + 300 * S,
    queues=[
        QueueSum("orders", 217, 10, {"consumed": 200, "dead_lettered": 5, "lost": 2}),
        QueueSum("orders<dead>", 5, 5, {}),
    ],
    flows=[
        Flow("app", "orders", "put", 217),
        Flow("orders", "consumed", "end", 200),
        Flow("orders", "held", "end", 10),
        Flow("orders", "lost", "end", 2),
        Flow("orders", "orders<dead>", "dead_letter", 5),
        Flow("orders<dead>", "orders", "move", 1),
        Flow("orders<dead>", "held", "end", 5),
    ],
    steps=Steps(T0, S, 5),
    depths=[DEPTH, replace(DEPTH, queue="orders<dead>")],
    dwells=[Dwell("orders", "available", {100: 90, 250: 9, 400: 1}, 55.0, 22_000.0, 8_900_000.0)],
    undelivered=[Undelivered("orders", "dead_lettered", "amqp:not-allowed", 5, 3, T0)],
    slowest=[LIFE],
    oldest=[replace(LIFE, message_id="", ended_us=None, outcome="")],
    channels=[
        ChannelSum(
            ledger="LONDON",
            channel="LONDON.PARIS",
            direction="sending",
            messages=1000,
            size_bytes=64_000,
            batches=20,
            backed_out=1,
            dropped=0,
            returned=2,
        )
    ],
    audit=CLEAN,
)


def _drawn(page_text: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(one) for one in re.findall(r"<svg.*?</svg>", page_text, re.DOTALL)]


def test_the_page_needs_nothing_beside_it_and_runs_no_script() -> None:
    text = page(DATA)
    assert not re.search(r"(src|href)=|@import|url\(|https?://|<script", text)
    assert len(_drawn(text)) == 6  # flow, outcomes, depth, one dwell time, slowest, oldest: all well-formed
    assert "prefers-color-scheme:dark" in text


def test_every_picture_has_a_name_and_its_numbers_behind_it() -> None:
    text = page(DATA)
    assert all(one.get("role") == "img" and one.get("aria-label") for one in _drawn(text))
    assert all(next(iter(one)).tag == "title" for one in _drawn(text))
    assert text.count("<summary>The numbers</summary>") == 6
    assert text.count("<table>") == text.count("<caption>") > 6
    assert "<html lang=en>" in text


def test_every_colour_that_is_used_is_defined() -> None:
    used = set(re.findall(r"var\(--(\w+)\)", page(DATA)))
    assert used <= set(style.LIGHT)
    assert set(style.LIGHT) == set(style.DARK)
    assert {*style.CATEGORY_COLORS.values(), *style.STATE_COLORS.values()} <= {*style.DRAWN_COLORS, "bad"}
    assert set(LAYERS) <= set(style.STATE_COLORS)


@pytest.mark.parametrize("theme", [style.LIGHT, style.DARK])
def test_text_and_pictures_stand_out_from_their_ground(theme: dict[str, str]) -> None:
    for ground in ("card", "page"):
        for name in style.TEXT_COLORS:
            assert _contrast(theme[name], theme[ground]) >= 4.5, name
    for name in style.DRAWN_COLORS:
        assert _contrast(theme[name], theme["card"]) >= 3, name
    for name in ("good", "bad", "warn"):
        assert _contrast(theme[name], theme[f"{name}bg"]) >= 4.5, name


def _contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_names_are_escaped() -> None:
    text = page(DATA)
    assert "orders<dead>" not in text
    assert "orders&lt;dead&gt;" in text


def test_the_verdict_is_the_audits_with_its_cut() -> None:
    text = page(DATA)
    assert "✓ Every persistent message is accounted for; of the others" in text
    assert "<td>/data/london" not in text
    assert "<td>LONDON</td>" in text and '<td class="n">900</td><td class="n">2</td>' in text
    assert "2 not persistent, lost at a crash" in text
    assert "lost on the way between queue managers: signal-7." in text
    assert "Between queue managers" in text and "in doubt" not in text
    assert "Conservation" in text


def test_violations_are_counted_and_shown() -> None:
    found = (Violation("second arrival", SPAN.ledger_id, 1, "orders", 7, (8, 9), "put"),)
    broken = replace(CLEAN, violations=found, violation_counts={"second arrival": 41})
    text = page(replace(DATA, audit=broken))
    assert "✗ The audit found 41 violations." in text
    assert "8, 9" in text and "41 second arrival" in text
    assert "✓" not in text


def test_what_is_not_proven_or_not_audited_is_never_clean() -> None:
    unproven = (Unproven(SPAN.ledger_id, "arrivals", "the history begins at 12", 3),)
    text = page(replace(DATA, audit=replace(CLEAN, unproven=unproven)))
    assert "? Not provable." in text and "the history begins at 12" in text
    assert "✓" not in text
    assert "Not audited" in page(replace(DATA, audit=None))
    assert "✓" not in page(replace(DATA, audit=None))


def test_tables_without_rows_have_a_page_too() -> None:
    empty = ReportData(spans=[], first_us=None, last_us=None, queues=[])
    assert "Where the messages went" in page(empty)
    assert pictures(empty) == {}


def test_the_page_stays_small_however_many_queues_there_are() -> None:
    names = [f"queue {number:05}" for number in range(5_000)]
    steps = Steps(T0, S, 240)
    depth = Depth("", {layer: list(range(240)) for layer in LAYERS}, 1, 1, 1)
    many = replace(
        DATA,
        queues=[QueueSum(name, 1, 1, {"consumed": 5}) for name in names],
        flows=[Flow("app" + name, name, "put", 3) for name in names],
        steps=steps,
        depths=[replace(depth, queue=name) for name in names],
        dwells=[replace(DATA.dwells[0], queue=name) for name in names],
        undelivered=[replace(DATA.undelivered[0], queue=name, reason="x" * 9_000) for name in names],
        slowest=[LIFE],
        channels=[replace(DATA.channels[0], channel=name) for name in names],
        audit=replace(
            CLEAN,
            queues=CLEAN.queues * 5_000,
            crossings=CLEAN.crossings * 5_000,
            lost=CLEAN.lost * 5_000,
            violation_counts={"r": 5_000},
            violations=(Violation("r", "l", 1, "q", 1, (1,) * 5_000, "d"),) * 5_000,
            unproven=(Unproven("l", "w", "y", 1),) * 5_000,
        ),
    )
    text = page(many)
    assert len(text) < 700_000
    assert text.count("<tr>") < 12 * html.MAX_ROWS


def test_pictures_stand_alone() -> None:
    for text in pictures(DATA).values():
        root = ElementTree.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "prefers-color-scheme:dark" in text


# --- parts ----------------------------------------------------------------------------------------


def test_the_flow_draws_every_band_and_merges_the_small_ones() -> None:
    many = [Flow(f"app {n}", f"queue {n}", "put", n + 1) for n in range(40)]
    many += [Flow(f"queue {n}", "consumed", "end", n + 1) for n in range(40)]
    titles = [title.text or "" for title in _drawn(sankey(many).inline())[0].iter("title")]
    assert [title for title in titles if title.endswith(": 820")] == ["consumed: 820"]
    assert sum("others" in title for title in titles) > 0
    assert len([title for title in titles if title.startswith("app") and "→" in title]) == 11


@pytest.mark.parametrize(
    "flows", [DATA.flows, [Flow("a", "b", "move", 1), Flow("b", "a", "move", 2), Flow("b", "b", "move", 1)]]
)
def test_flows_in_a_circle_end(flows: list[Flow]) -> None:
    assert _drawn(sankey(flows).inline())


def test_layers_of_a_depth_stand_on_one_another() -> None:
    drawn = _drawn(depth_picture([DEPTH], Steps(T0, S, 5)).inline())[0]
    areas = [path for path in drawn.iter("path") if path.get("class") == "area"]
    assert [title.text for path in areas for title in path] == [
        "orders: available", "orders: got, not confirmed", "orders: paused",
    ]  # fmt: skip
    tops = [min(map(float, re.findall(r"V([\d.]+)", path.get("d", "")))) for path in areas]
    assert tops == sorted(tops, reverse=True)


def test_bars_hold_every_entry_of_the_sketch() -> None:
    gamma = 1.02 / 0.98
    buckets = {bucket: bucket + 1 for bucket in range(0, 600, 7)}
    found = bars(buckets, gamma)
    assert sum(found.values()) == sum(buckets.values())
    for bucket in buckets:
        bar = next(iter(bars({bucket: 1}, gamma)))
        assert bar_end_us(bar - 1) < gamma**bucket * 1.0001
        assert gamma**bucket <= bar_end_us(bar) * 1.0001
    assert bar_end_us(BARS_A_DECADE) == pytest.approx(10)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0.5, "0.5 µs"),
        (500, "500 µs"),
        (1_000, "1 ms"),
        (1_500_000, "1.5 s"),
        (90e6, "1.5 min"),
        (7_200e6, "2 h"),
        (2e12, "23 d"),
    ],
)
def test_durations_for_people(us: float, text: str) -> None:
    assert svg.duration(us) == text


@pytest.mark.parametrize("top", [0, 1, 3, 7, 10, 99, 101, 12_345, 9_999_999])
def test_ticks_are_round_and_reach_the_top(top: int) -> None:
    marks = svg.ticks(top)
    assert marks[0] == 0
    assert marks[-1] >= top
    assert 2 <= len(marks) <= 7
    assert len({round(high - low, 6) for low, high in pairwise(marks)}) == 1
