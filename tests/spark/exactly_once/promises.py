"""The table of docs/explanation/exactly-once.md: what each source and sink does in each failure, played."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.spark.played_queries import QUEUE, SUBSCRIPTION, Appending, Played, Station

EXACT: Final = "exact"
DUPLICATES: Final = "duplicates"
LOSS: Final = "loss"

PAGE: Final = Path(__file__).parents[3] / "docs" / "explanation" / "exactly-once.md"

FAILURES: Final = (
    "before the sink's commit",
    "after the sink's commit",
    "before Spark's commit log",
    "broker restarts",
    "newest entry lost",
    "all of it lost",
)
"""The columns of the table, as the page has them."""


@dataclass(frozen=True)
class Play:
    """A query over what a broker has, some failure, and what the sink has in the end."""

    station: Station
    query: Played
    sink: Appending

    def fail(self, failure: str) -> str:
        """What comes of it: `EXACT`, `DUPLICATES` or `LOSS`."""
        self.station.send(5)
        assert self.query.run()
        self.station.send(5)
        _FAILURES[failure](self)
        self.station.send(5)
        assert self.query.run()
        return self.outcome()

    def outcome(self) -> str:
        has, sent = Counter(self.sink.has()), set(self.station.sent)
        assert set(has) <= sent
        if set(has) < sent:
            return LOSS
        return DUPLICATES if max(has.values()) > 1 else EXACT

    def die_at(self, point: str) -> None:
        self.query.dies = point
        assert not self.query.run(), f"{point} was never reached"

    def restart_broker(self) -> None:
        self.query.meanwhile["after-read"] = self.station.restart
        assert self.query.run()

    def lose_newest(self) -> None:
        self.die_at("before-next-plan")
        self.query.lose_last()

    def lose_all(self) -> None:
        self.die_at("before-next-plan")
        self.query.lose_checkpoint()


_FAILURES: Final[dict[str, Callable[[Play], None]]] = {
    "before the sink's commit": lambda play: play.die_at("after-read"),
    "after the sink's commit": lambda play: play.die_at("after-table-commit"),
    "before Spark's commit log": lambda play: play.die_at("before-spark-commit-log"),
    "broker restarts": Play.restart_broker,
    "newest entry lost": Play.lose_newest,
    "all of it lost": Play.lose_all,
}


def tap(station: Station, sink: Appending, checkpoint: Path) -> Play:
    """Beside the consumers."""
    options = {"path": str(station.folder), "queues": QUEUE}
    return Play(station, Played(options, sink, checkpoint), sink)


def consume(station: Station, sink: Appending, checkpoint: Path, confirm: str) -> Play:
    """As a Spark subscription."""
    options = {
        "path": str(station.folder),
        "mode": "consume",
        "broker": station.url,
        "subscription": SUBSCRIPTION,
        "confirm": confirm,
        "onNewCheckpoint": "confirmed",
        "pollMs": "1",
    }
    return Play(station, Played(options, sink, checkpoint), sink)


def promised(source: str, sink: str) -> dict[str, str]:
    """What the page promises in a row, by failure."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[:2] == [source, sink]:
            return dict(zip(FAILURES, (cell.strip("*") for cell in cells[2:]), strict=True))
    raise AssertionError(f"the page has no row for {source}, {sink}")
