"""The stories of the demo, without Spark: they play to their end, and ledgers say what the clients say."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from demo.broker import Broker
from demo.line import Line
from demo.members import Members, TakeOver
from demo.partners import Partners, two
from demo.story import Story
from demo.tally import Tally
from rich.console import Console

pytestmark = [pytest.mark.sockets, pytest.mark.peer]


def ledger_stats(data: Path) -> dict[str, dict[str, int]]:
    """Fates by queue, as ``postroom ledger stats`` counts them."""
    command = [sys.executable, "-m", "postroom.cli", "ledger", "stats", "--data", str(data), "--json"]
    fields: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {
        queue["queue"]: {
            **queue["outcomes"],
            **({"held": held} if (held := sum(queue["states"].values())) else {}),
        }
        for queue in fields["queues"]
    }


def test_the_story_ends_well(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", "LONDON")
    broker.start()
    narration = io.StringIO()
    try:
        story = Story(broker, Console(file=narration, width=120))
        story.play()
    finally:
        broker.stop()
    stats = ledger_stats(broker.data)
    assert {queue: stats[queue] for queue in story.tally.fates} == {
        queue: story.tally.of(queue) for queue in story.tally.fates
    }
    assert "0 of the accepted are missing, 0 came twice" in narration.getvalue()


@pytest.mark.long
def test_the_second_chapter_ends_well(tmp_path: Path) -> None:
    line = Line()
    london, paris = two(tmp_path, line)
    narration = io.StringIO()
    try:
        partners = Partners(london, paris, line, Tally(), Console(file=narration, width=120))
        partners.play()
    finally:
        paris.stop()
        london.stop()
        line.close()
    stats = {**ledger_stats(london.data), **ledger_stats(paris.data)}
    for fates in stats.values():
        fates.pop("rolled_back", None)  # on the way in: never there for any client
    tally = partners.tally
    assert {queue: stats[queue] for queue in tally.fates} == {queue: tally.of(queue) for queue in tally.fates}
    assert partners.lost > 0
    assert "none of them twice" in narration.getvalue()


@pytest.mark.long
def test_the_fourth_chapter_ends_well(tmp_path: Path) -> None:
    """The active member is killed on the way: the ledger of who took over counts as the clients do."""
    members, tally, narration = Members(tmp_path), Tally(), io.StringIO()
    try:
        TakeOver(members, tally, Console(file=narration, width=120)).play()
    finally:
        members.stop()
    found = [ledger_stats(member.data) for member in members.all]
    assert {queue: tally.of(queue) for queue in tally.fates} in [
        {queue: stats[queue] for queue in tally.fates if queue in stats} for stats in found
    ]
    assert ", 0 of them twice" in narration.getvalue()
