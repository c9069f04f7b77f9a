"""The story of the demo, without Spark: it plays to its end, and the ledger says what the clients say."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from demo.broker import Broker
from demo.story import Story
from rich.console import Console

pytestmark = [pytest.mark.sockets, pytest.mark.peer]


def ledger_stats(data: Path) -> dict[str, dict[str, int]]:
    """Fates by queue, as ``postroom ledger stats`` counts them."""
    command = [sys.executable, "-m", "postroom.cli", "ledger", "stats", "--data", str(data), "--json"]
    told: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {
        queue["queue"]: {
            **queue["outcomes"],
            **({"held": held} if (held := sum(queue["states"].values())) else {}),
        }
        for queue in told["queues"]
    }


def test_the_story_ends_well(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data")
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
