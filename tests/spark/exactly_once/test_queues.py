"""What the documentation's table says of the sink for queues: a log is read, its rows are sent."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from postroom.server.configuration.listening import ListenConfig
from postroom.spark.sink.errors import BatchReplaced, QueryReplaced
from tests.server.harness import BrokerThread, make_config
from tests.spark.exactly_once.promises import DUPLICATES, EXACT, FAILURES, LOSS, promised
from tests.spark.played_queries import Died
from tests.spark.sink.sink_tasks import Query, bodies, numbered, received

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(300)]

STOPS = "stops"
QUEUE = "results"

ROWS: dict[str, dict[str, str]] = {
    "queue": {},
    "queue, `abovePosition`": {"abovePosition": "position"},
    "queue, `acceptDuplicates`": {"acceptDuplicates": "true"},
}


@dataclass
class Copying:
    """A query that sends a log of numbered rows to a queue; its source can be asked again for any range."""

    broker: BrokerThread
    folder: Path
    options: dict[str, str]
    log_end: int = 0
    checkpoints: int = 1
    runs: int = 0
    planned: int = 0
    """Batches in the offset log; each is planned to end where the log ends."""
    committed: int = 0
    """Batches in the commit log."""
    dies: str = ""

    def grow(self) -> None:
        self.log_end += 5

    def run(self) -> None:
        """One batch of what there is, after the one that isn't done."""
        self.runs += 1
        query = Query(
            self.broker.url,
            QUEUE,
            self.folder / str(self.checkpoints),
            run=f"run-{self.runs}",
            query=f"query-{self.checkpoints}",
            **self.options,
        )
        if self.committed < self.planned:
            self._batch(query)
        if self._end(self.planned - 1) < self.log_end:
            query.plan(self.planned, str(self.log_end))
            self.planned += 1
            self._batch(query)

    def _batch(self, query: Query) -> None:
        number = self.planned - 1
        rows = numbered(self._end(number - 1) + 1, self._end(number))
        half = len(rows) // 2
        wrote = [query.task(number, rows[:half]), query.task(number, rows[half:], 1, 1)]
        self._point("before the sink's commit")
        self._point("broker restarts")
        query.commit(number, *wrote)
        self._point("after the sink's commit")
        self._point("before Spark's commit log")
        self.committed = self.planned

    def _end(self, number: int) -> int:
        log = self.folder / str(self.checkpoints) / "offsets" / str(number)
        return int(log.read_text().splitlines()[-1]) if number >= 0 else 0

    def _point(self, name: str) -> None:
        if self.dies != name:
            return
        self.dies = ""
        if name == "broker restarts":
            restart(self.broker)
        else:
            raise Died(name)

    def fail(self, failure: str) -> None:
        if failure == "newest entry lost":
            self.run()
            self.planned = self.committed = self.planned - 1
        elif failure == "all of it lost":
            self.run()
            self.checkpoints, self.planned, self.committed = self.checkpoints + 1, 0, 0
        else:
            self.dies = failure
            try:
                self.run()
            except Died:
                assert failure != "broker restarts"
            assert not self.dies, "that point was never reached"


def restart(broker: BrokerThread) -> None:
    """The broker goes down and comes back, at the same port and with the same folder."""
    broker.__exit__(None, None, None)
    broker.__init__(broker.config, folder=broker._folder)  # type: ignore[misc]
    broker.__enter__()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    folder = tmp_path / "ledger"
    folder.mkdir()
    with BrokerThread(make_config((QUEUE,)), folder=folder) as first:
        port = first.port
    config = make_config((QUEUE,), listen=[ListenConfig(address=f"127.0.0.1:{port}")])
    with BrokerThread(config, folder=folder) as running:
        yield running


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("row", ROWS)
def test_each_cell_is_what_the_page_says(
    broker: BrokerThread, row: str, failure: str, tmp_path: Path
) -> None:
    query = Copying(broker, tmp_path / "checkpoints", ROWS[row])
    query.grow()
    query.run()
    query.grow()
    query.fail(failure)
    before = query.log_end
    query.grow()
    outcome = EXACT
    try:
        query.run()
    except (BatchReplaced, QueryReplaced):
        outcome, query.log_end = STOPS, before  # and what was there is there once
    has, sent = Counter(map(str, received(broker, QUEUE))), set(bodies(numbered(1, query.log_end)))
    assert set(has) <= sent
    if set(has) < sent:
        outcome = LOSS
    elif max(has.values()) > 1:
        outcome = DUPLICATES
    assert outcome == promised("any", row)[failure]
