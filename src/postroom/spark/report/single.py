"""Sections about single messages: what was not delivered, the slowest ones; and about channels."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Final

from postroom.spark.report import html, svg
from postroom.spark.report.data import ChannelSum, Life, ReportData, Undelivered
from postroom.spark.report.html import picture, section, table
from postroom.spark.report.style import STATE_COLORS
from postroom.spark.report.svg import duration, moment
from postroom.spark.report.timeline import end_us, states_of, timeline_picture, words

MAX_PHASES: Final = 40
"""So many states of one message are listed; a message that is rolled back for ever has many."""


def undelivered(rows: Sequence[Undelivered], remark: str) -> str:
    """What ended otherwise than with a consumer, and why."""
    if not rows:
        intro = "Nothing failed, and everything that ended was delivered."
        return section("Not delivered", intro, "", remark)
    lines = [
        (o.queue, words(o.outcome), o.reason, o.entries, o.most_retries, moment(o.last_us))
        for o in rows[: html.MAX_ROWS]
    ]
    heads = ("queue", "outcome", "reason", "entries", "most retries", "last")
    shown = table(heads, lines, {3, 4}, html.first_of("reasons", len(rows)))
    return section("Not delivered", "What ended otherwise than with a consumer, and why.", shown, remark)


def slowest(data: ReportData) -> str:
    """The slowest messages, and those that wait longest, with their states."""
    now_us = data.last_us or 0
    parts = []
    for title, lives in (("Slowest to be consumed", data.slowest), ("Longest still there", data.oldest)):
        if lives:
            drawn = timeline_picture(lives, now_us, f"{title}: states over time")
            heads = ("queue", "message", "serial", "when", "how long", "state", "why")
            numbers = table(heads, _phases(lives, now_us), {2, 4}, "Each message and its states")
            parts.append(f"<h3 class=part>{title}</h3>{picture(drawn, numbers)}")
    if not parts:
        return ""
    states = states_of([*data.slowest, *data.oldest])
    legend = svg.legend([(words(state), STATE_COLORS[state]) for state in states])
    intro = "The states of single messages, each from when it was put."
    return section("Slowest messages", intro, legend + "".join(parts), data.remarks.get("slowest", ""))


def _phases(lives: Sequence[Life], now_us: int) -> Iterator[tuple[object, ...]]:
    for life in lives:
        took = duration(end_us(life, now_us) - life.arrival_us)
        ended = words(life.outcome or "still there")
        yield (life.queue, life.message_id, life.serial, moment(life.arrival_us), took, ended, "")
        for phase in life.phases[:MAX_PHASES]:
            begin = duration(phase.begin_us - life.arrival_us)
            stayed = duration(phase.end_us - phase.begin_us)
            yield ("", "", "", f"+ {begin}", stayed, words(phase.state), phase.why)


def channels(rows: Sequence[ChannelSum]) -> str:
    """What each end of each channel did."""
    if not rows:
        return ""
    lines = [astuple(one) for one in rows[: html.MAX_ROWS]]
    counts = ("messages", "bytes", "batches", "backed out", "dropped", "returned")
    heads = ("queue manager", "channel", "direction", *counts)
    shown = table(heads, lines, set(range(3, 9)), html.first_of("channels", len(rows)))
    return section("Channels", "What each end of each channel sent or received.", shown)
