"""The sink's promises, without Spark: what tasks send and drivers decide is there once, or not at all."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from postroom.client.exceptions import ConnectionLostException
from postroom.server.configuration.config import QueueConfig
from postroom.spark.messages.encode import RowInvalid
from postroom.spark.sink import branches, link
from postroom.spark.sink import commit as driver
from postroom.spark.sink.digest import Offsets
from postroom.spark.sink.errors import (
    BatchReplaced,
    BranchUnknown,
    CommitUnanswered,
    QueryReplaced,
    SinkError,
    SinkFenced,
)
from postroom.spark.sink.link import Begun, SinkLink
from postroom.spark.sink.options import read_batch_options
from postroom.spark.sink.task import TaskWrote, Writing, write
from tests.server.harness import BrokerThread, make_config
from tests.spark.sink.sink_tasks import Query, Rows, batches_of, bodies, numbered, received, shown

pytestmark = pytest.mark.sockets

SMALL = "small"
QUOTA = QueueConfig(name=SMALL, max_messages=5)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(make_config(queue=[QUOTA])) as running:
        yield running


def test_a_batch_is_there_when_it_is_committed_in_the_order_of_its_tasks(
    broker: BrokerThread, app: str, tmp_path: Path
) -> None:
    query = Query(broker.url, app, tmp_path)
    query.plan(0, "0")
    second = query.task(0, numbered(8, 20), partition=1, attempt=1)
    first = query.task(0, numbered(1, 7), partition=0, attempt=0)
    assert received(broker, app) == []
    assert query.commit(0, first, second) == "committed"
    assert received(broker, app) == bodies(numbered(1, 20))


def test_a_task_without_rows_says_nothing_and_a_batch_without_any_is_decided(
    broker: BrokerThread, app: str, tmp_path: Path
) -> None:
    query = Query(broker.url, app, tmp_path)
    assert query.task(0, []).branches == ()
    assert query.batch(0, [], []) == "committed"
    assert shown(broker, app)["batch_id"] == 0


def test_a_batch_that_is_decided_is_not_sent_again(broker: BrokerThread, app: str, tmp_path: Path) -> None:
    """Spark runs it again: its commit log doesn't have it."""
    rows = numbered(1, 5)
    assert Query(broker.url, app, tmp_path).batch(0, rows) == "committed"
    again = Query(broker.url, app, tmp_path, run="run-2")
    assert again.task(0, rows).messages == 0
    assert again.batch(0, rows) == "already"
    assert again.batch(1, numbered(6, 9)) == "committed"
    assert received(broker, app) == bodies(numbered(1, 9))


def test_attempts_that_have_lost_are_rolled_back_by_the_decision(
    broker: BrokerThread, app: str, tmp_path: Path
) -> None:
    """A failed attempt, and a speculated one that was slower: Spark tells the driver of neither."""
    query = Query(broker.url, app, tmp_path)
    query.task(0, numbered(1, 2), attempt=0)
    winner = query.task(0, numbered(1, 4), attempt=1)
    query.task(0, numbered(1, 4), attempt=2)
    assert shown(broker, app)["branches"] == 3
    query.plan(0, "0")
    query.commit(0, winner)
    assert shown(broker, app)["branches"] == 0
    assert received(broker, app) == bodies(numbered(1, 4))


def test_a_new_run_ends_the_earlier_ones(broker: BrokerThread, app: str, tmp_path: Path) -> None:
    old = Query(broker.url, app, tmp_path)
    old.plan(0, "0")
    slow = old.task(0, numbered(1, 3))
    new = Query(broker.url, app, tmp_path, run="run-2")
    new_wrote = new.task(0, numbered(1, 3))
    with pytest.raises(SinkFenced, match=r"a later run writes for app .* give each its own app"):
        old.commit(0, slow)
    with pytest.raises(SinkFenced):
        old.task(0, numbered(1, 3), attempt=1)
    assert new.commit(0, new_wrote) == "committed"
    assert received(broker, app) == bodies(numbered(1, 3))


def test_the_checkpoints_end_is_lost(broker: BrokerThread, app: str, tmp_path: Path) -> None:
    """Batch 1 is planned anew, with more: nothing of it is sent, and both offsets are told."""
    query = Query(broker.url, app, tmp_path)
    query.batch(0, numbered(1, 3))
    query.batch(1, numbered(4, 6), offsets='{"end": 6}')
    again = Query(broker.url, app, tmp_path, run="run-2")
    with pytest.raises(BatchReplaced, match=r'batch 1 of query query .* \{"end": 6\}.*acceptDuplicates'):
        again.batch(1, numbered(4, 9), offsets='{"end": 9}')
    assert received(broker, app) == bodies(numbered(1, 6))


def test_the_whole_checkpoint_is_lost(broker: BrokerThread, app: str, tmp_path: Path) -> None:
    """A new query id: refused before anything is sent; the recorded offsets are told."""
    Query(broker.url, app, tmp_path).batch(0, numbered(1, 3), offsets='{"end": 3}')
    other = Query(broker.url, app, tmp_path / "new", query="query-2", run="run-2")
    with pytest.raises(QueryReplaced, match=r"was written by query query up to batch 0.*\{\"end\": 3\}"):
        other.task(0, numbered(1, 9))
    with pytest.raises(QueryReplaced):
        other.batch(0, [])
    assert received(broker, app) == bodies(numbered(1, 3))


@pytest.mark.parametrize("lost", ["end", "all"])
def test_above_position_sends_each_row_once(
    broker: BrokerThread, app: str, tmp_path: Path, lost: str
) -> None:
    """Several tasks, whose rows are mixed; the log has grown meanwhile."""
    above = {"abovePosition": "position"}
    query = Query(broker.url, app, tmp_path, **above)
    query.batch(0, numbered(1, 5), numbered(6, 10))
    query.batch(1, numbered(16, 20), numbered(11, 15))
    if lost == "end":
        again = Query(broker.url, app, tmp_path, run="run-2", **above)
        again.batch(1, numbered(11, 17), numbered(18, 25), offsets="25")
        again.batch(2, numbered(26, 27))
    else:
        again = Query(broker.url, app, tmp_path / "new", query="query-2", run="run-2", **above)
        again.batch(0, numbered(1, 9), numbered(10, 25), offsets="25")
        again.batch(1, numbered(26, 27))
    assert shown(broker, app)["position"] == 27
    found = received(broker, app)
    assert sorted(map(str, found)) == sorted(bodies(numbered(1, 27)))


def test_above_position_with_rows_that_the_same_offsets_did_not_have(
    broker: BrokerThread, app: str, tmp_path: Path
) -> None:
    """The source isn't one that reads a range twice alike: said, for the rows would be lost silently."""
    query = Query(broker.url, app, tmp_path, abovePosition="position")
    query.batch(0, numbered(1, 3), offsets="same")
    with pytest.raises(SinkError, match="the same offsets had other rows"):
        query.batch(0, numbered(1, 4), offsets="same")


def test_above_position_needs_a_recorded_position(broker: BrokerThread, app: str, tmp_path: Path) -> None:
    Query(broker.url, app, tmp_path).batch(0, numbered(1, 3))
    other = Query(broker.url, app, tmp_path, query="q2", run="run-2", abovePosition="position")
    with pytest.raises(QueryReplaced, match="No position was recorded"):
        other.batch(0, numbered(1, 5))


def test_accept_duplicates(broker: BrokerThread, app: str, tmp_path: Path) -> None:
    Query(broker.url, app, tmp_path).batch(0, numbered(1, 3))
    told = {"acceptDuplicates": "true"}
    other = Query(broker.url, app, tmp_path / "new", query="query-2", run="run-2", **told)
    assert other.batch(0, numbered(1, 5), offsets="5") == "committed"
    assert other.batch(0, numbered(1, 5), offsets="5") == "already"
    assert received(broker, app) == bodies(numbered(1, 3) + numbered(1, 5))


def test_a_branch_that_is_gone_decides_nothing(broker: BrokerThread, app: str, tmp_path: Path) -> None:
    """Its lease has ended, or somebody has rolled it back: the batch is not written in part."""
    query = Query(broker.url, app, tmp_path)
    query.plan(0, "0")
    first, second = query.task(0, numbered(1, 2)), query.task(0, numbered(3, 4), 1, 1)
    broker.turn(lambda running, now_us: running.manager.sinks.rollback(app, second.branches[0], now_us))
    with pytest.raises(BranchUnknown, match="nothing of the batch is written"):
        query.commit(0, first, second)
    assert received(broker, app) == []


def test_a_batch_that_does_not_fit_a_quota_fails_at_once(
    broker: BrokerThread, app: str, tmp_path: Path
) -> None:
    query = Query(broker.url, app, tmp_path, queue=SMALL)
    with pytest.raises(SinkError, match=r"the batch doesn't fit.*small"):
        query.task(0, numbered(1, 50))
    assert shown(broker, app)["branches"] == 0, "what a failed attempt has sent is rolled back"
    assert query.batch(0, numbered(1, 5)) == "committed"
    assert received(broker, SMALL) == bodies(numbered(1, 5))


@pytest.mark.parametrize("bound", ["messages", "bytes"])
def test_a_task_opens_further_branches(
    broker: BrokerThread, app: str, tmp_path: Path, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"maxMessagesPerBranch": "4"} if bound == "messages" else {}
    if bound == "bytes":
        monkeypatch.setattr(branches, "MAX_BRANCH_BYTES", 4 * 60)
    query = Query(broker.url, app, tmp_path, **options)
    query.plan(0, "0")
    wrote = query.task(0, numbered(10, 30))
    assert len(wrote.branches) == (6 if bound == "messages" else 3)
    assert wrote.messages == 21
    query.commit(0, wrote)
    assert received(broker, app) == bodies(numbered(10, 30))


def test_a_failed_batch_is_rolled_back(broker: BrokerThread, app: str, tmp_path: Path) -> None:
    from postroom.spark.sink import commit

    query = Query(broker.url, app, tmp_path)
    wrote = query.task(0, numbered(1, 3))
    commit.roll_back(query.options, app, [wrote])
    assert shown(broker, app)["branches"] == 0


def test_a_row_without_meaning_fails_the_attempt_and_leaves_nothing(
    broker: BrokerThread, app: str, tmp_path: Path
) -> None:
    query = Query(broker.url, app, tmp_path)

    def rows() -> Iterator[pa.RecordBatch]:
        yield from batches_of(numbered(1, 9))
        yield pa.RecordBatch.from_pydict({"text": ["x"], "body_type": ["nonsense"]})

    with pytest.raises(RowInvalid, match="nonsense"):
        write(query.options, Writing(app, "query", "run-1", 0, 0, 0), rows())
    assert shown(broker, app)["branches"] == 0


def test_rows_name_their_queues(broker: BrokerThread, app: str, tmp_path: Path) -> None:
    query = Query(broker.url, app, tmp_path, queueColumn="where")
    wheres = [f"{app}-b", f"{app}-a", None, f"{app}-a", ""]
    batch = pa.RecordBatch.from_pydict({"where": wheres, "text": list("12345")})
    wrote = write(query.options, Writing(app, "query", "run-1", 0, 0, 0), iter([batch, batch]))
    query.plan(0, "0")
    query.commit(0, wrote)
    assert received(broker, f"{app}-a") == ["2", "4", "2", "4"]
    assert received(broker, f"{app}-b") == ["1", "1"]
    assert received(broker, app) == ["3", "5", "3", "5"]
    without = Query(broker.url, app, tmp_path, queueColumn="where", queue="")
    with pytest.raises(RowInvalid, match='row 2: its column where is empty, and there is no option "queue"'):
        write(without.options, Writing(app, "query", "run-1", 1, 0, 0), iter([batch]))


def test_a_position_that_is_missing_is_refused(broker: BrokerThread, app: str, tmp_path: Path) -> None:
    query = Query(broker.url, app, tmp_path, abovePosition="position")
    batch = pa.RecordBatch.from_pydict({"position": pa.array([1, None]), "text": ["a", "b"]})
    with pytest.raises(RowInvalid, match="column position, that of abovePosition, has a null"):
        write(query.options, Writing(app, "query", "run-1", 0, 0, 0), iter([batch]))


@pytest.mark.parametrize("url", ["amqp://127.0.0.1:1", "failover:(amqp://127.0.0.1:1)"])
def test_a_commit_without_an_answer_says_so(tmp_path: Path, url: str) -> None:
    query = Query(url, "app", tmp_path, brokerTimeoutS="1")
    query.plan(0, "0")
    with pytest.raises(CommitUnanswered, match="the query again, it asks, and sends nothing"):
        query.commit(0, query.task(0, []))


def test_large_messages_go_in_many_frames(broker: BrokerThread, app: str, tmp_path: Path) -> None:
    """Each larger than a frame; together more than a session's window."""
    large = [(number, f"{number}" * 400_000) for number in range(1, 8)]
    query = Query(broker.url, app, tmp_path)
    query.batch(0, large)
    assert received(broker, app) == bodies(large)


@pytest.mark.parametrize("dies", ["driver", "executor", "broker"])
@pytest.mark.parametrize(
    "point",
    [
        "before-branch-durable",
        "after-branch-durable",
        "before-decision",
        "after-decision",
        "before-spark-commit-log",
    ],
)
def test_kill_points(app: str, tmp_path: Path, point: str, dies: str) -> None:
    """Whoever dies there: the batch is there once, when it has been run again as Spark runs it.

    An executor that dies has its task run again in the same run; a driver that dies is another run; the
    broker finds in its ledger what it had.
    """
    folder = tmp_path / "ledger"
    folder.mkdir()
    rows, others = numbered(1, 6), numbered(7, 9)
    with BrokerThread(folder=folder) as broker:
        query = Query(broker.url, app, tmp_path)
        query.plan(0, "0")
        done = [query.task(0, others, 1, 1)]
        if point == "before-branch-durable":
            unsealed(broker, query, app)
        else:
            done.insert(0, query.task(0, rows))
        if point in ("after-decision", "before-spark-commit-log"):
            assert query.commit(0, *done) == "committed"
        if dies != "broker":
            again = Query(broker.url, app, tmp_path, run="run-2" if dies == "driver" else "run-1")
            run_again(again, point, dies, rows, others, done)
            assert received(broker, app) == bodies(rows + others)
    if dies == "broker":
        with BrokerThread(folder=folder) as broker:
            run_again(Query(broker.url, app, tmp_path), point, dies, rows, others, done)
            assert received(broker, app) == bodies(rows + others)


def unsealed(broker: BrokerThread, query: Query, app: str) -> None:
    """An attempt that dies when it has sent something and sealed nothing."""

    async def attempt() -> None:
        link = await SinkLink.open(query.options.broker, app, 20)
        told = {"query_id": "query", "run_id": "run-1", "batch_id": 0, "partition": 0, "attempt": 0}
        begun = await link.begin(told | {"digest": "", "above": False, "accept_duplicates": False})
        await link.send_all(app, [b"\x00Sw\xa1\x04lost"], begun.txn_id)
        await link.close()

    asyncio.run(attempt())
    assert shown(broker, app)["branches"] == 2


def run_again(query: Query, point: str, dies: str, rows: Rows, others: Rows, done: list[TaskWrote]) -> None:
    """What Spark does after the death: all tasks for another run, else the task that has no answer."""
    if dies == "driver" or point == "before-spark-commit-log":
        done = [query.task(0, rows, 0, 2), query.task(0, others, 1, 3)]
    elif point == "before-branch-durable" or (dies == "executor" and point == "after-branch-durable"):
        done = [query.task(0, rows, 0, 2), done[-1]]
    expected = "already" if point in ("after-decision", "before-spark-commit-log") else "committed"
    assert query.commit(0, *done) == expected


def test_a_version_below_the_last_is_not_written(broker: BrokerThread, app: str, tmp_path: Path) -> None:
    """Known by its number alone: nothing says that it is another one. With a digest it is refused."""
    said = {"broker": broker.url, "queue": app, "txnApp": app, "txnVersion": "0"}
    options = read_batch_options(said)

    def save(version: int, digest: str = "") -> str:
        wrote = write(options, Writing(app, "", f"run-{version}", version, 0, 0), batches_of(numbered(1, 2)))
        return driver.commit(options, app, version, Offsets(digest, ""), [wrote])

    assert [save(7), save(5)] == ["committed", "already"]
    with pytest.raises(BatchReplaced):
        save(6, "digest")
    assert received(broker, app) == bodies(numbered(1, 2))


class Flaky:
    """Stands for a connection: its first send breaks."""

    broken = False

    async def begin(self, _: object) -> Begun:
        return Begun(False, "branch", b"x", None, 100)

    async def send_all(self, *_: object) -> None:
        if not Flaky.broken:
            Flaky.broken = True
            raise ConnectionLostException("gone")

    async def seal(self, _: str) -> int:
        return 1

    async def roll_back(self, _: str) -> None: ...

    async def close(self) -> None: ...


def test_a_break_is_waited_for_from_the_last_thing_that_worked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task couldn't connect at first; that the rows then came slowly is no fault of the broker's."""
    now_s = [0.0]
    refusals = [ConnectionLostException("nobody listens")]

    async def connected(*_: object) -> Flaky:
        if refusals:
            raise refusals.pop()
        return Flaky()

    monkeypatch.setattr(link, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(SinkLink, "open", connected)
    options = Query("amqp://127.0.0.1:1", "app", tmp_path, brokerTimeoutS="60").options

    async def attempt() -> list[str]:
        sent = branches.Branches(options, "app", {})
        await sent.begin()
        now_s[0] = 3600.0
        await sent.write(branches.Share("app", [b"m"]))
        return await sent.finish()

    assert asyncio.run(attempt()) == ["branch"] and Flaky.broken


def test_a_branch_outlives_a_restart_of_the_broker(app: str, tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    folder.mkdir()
    with BrokerThread(folder=folder) as broker:
        query = Query(broker.url, app, tmp_path)
        query.plan(0, "0")
        wrote = query.task(0, numbered(1, 5))
    with BrokerThread(folder=folder) as broker:
        again = Query(broker.url, app, tmp_path)
        assert again.commit(0, wrote) == "committed"
        assert received(broker, app) == bodies(numbered(1, 5))
