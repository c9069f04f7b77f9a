"""Options and queues that are none are refused, with the nearest; topics with how to read them."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from postroom.ledger.format.records import RecordType
from postroom.spark.consume.options import read_consume_options
from postroom.spark.data_source.errors import SourceOptionError
from postroom.spark.ledger_source.options import read_options
from postroom.spark.ledger_source.ranges import Limit, Planner
from postroom.spark.ledger_source.source import LedgerBatchReader
from postroom.spark.sink.errors import SinkOptionError
from postroom.spark.sink.options import read_batch_options, read_stream_options
from postroom.spark.store.source import TableOptionError, table_options
from postroom.spark.tap.options import read_tap_options
from tests.ledger.ledger_maker import LedgerMaker


@pytest.mark.parametrize(
    ("read", "error", "option", "hint"),
    [
        (read_options, SourceOptionError, "quues", 'did you mean "queues"'),
        (read_options, SourceOptionError, "startingOffsets", 'did you mean "startingPosition"'),
        (read_options, SourceOptionError, "checkBodies", "there are path, paths, token"),
        (read_options, SourceOptionError, "x", "the source postroom has no option"),
        (read_tap_options, SourceOptionError, "checkBody", 'did you mean "checkBodies"'),
        (read_tap_options, SourceOptionError, "subscription", "is of mode=consume, and mode is tap"),
        (read_consume_options, SourceOptionError, "subscripton", 'did you mean "subscription"'),
        (read_stream_options, SinkOptionError, "acceptDuplicate", 'did you mean "acceptDuplicates"'),
        (read_batch_options, SinkOptionError, "quue", 'did you mean "queue"'),
        (table_options, TableOptionError, "tabel", 'did you mean "table"'),
        (table_options, TableOptionError, "format", 'did you mean "tableFormat"'),
    ],
)
def test_an_option_that_is_none(read: object, error: type[Exception], option: str, hint: str) -> None:
    with pytest.raises(error, match=hint) as refused:
        read({"path": "/x", option: "secret"})  # type: ignore[operator]
    assert "secret" not in str(refused.value)


def test_a_table_that_is_none() -> None:
    with pytest.raises(TableOptionError, match="no table entires; did you mean entries"):
        table_options({"path": "/x", "table": "entires"})


def test_what_spark_adds_is_let_through() -> None:
    assert read_options({"path": "x", "checkpointLocation": "/c", "queryName": "q"}).uris == ("x",)


# --- queues ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Queues, a deleted one, and a topic with subscriptions; the newest file has no record of them."""
    maker = LedgerMaker(tmp_path / "ledger")
    orders, gone = maker.queue("orders"), maker.queue("gone")
    maker.queue("news", kind="topic")
    maker.queue("empty", kind="topic")
    maker.queue("client:a", kind="subscription", topic="news")
    maker.queue("client:b, c", kind="subscription", topic="news")
    maker.put(gone)
    maker.builder.record(RecordType.QUEUE_DELETED, 0, gone, 0, 0, 0, b"")
    maker.next_file()
    maker.seal(1)
    maker.put(orders)
    return maker.finish()


UNKNOWN = [
    ("order", "no ledger here knows 'order'; did you mean 'orders'"),
    ("orders, zzz", "knows 'zzz'; there are 'client:a'"),
    ("news", r"'news' is a topic.*name those: \[\"client:a\", \"client:b, c\"\]"),
    ("empty", "'empty' is a topic.*It has none: make a durable one"),
]


@pytest.mark.parametrize(("queues", "why"), UNKNOWN)
def test_a_queue_that_is_none(folder: Path, queues: str, why: str) -> None:
    options = read_options({"path": str(folder), "queues": queues})
    with pytest.raises(SourceOptionError, match=why):
        LedgerBatchReader(options, None).partitions()  # type: ignore[arg-type]
    with pytest.raises(SourceOptionError, match=why):
        Planner(options).next({}, Limit())
    with pytest.raises(SourceOptionError, match=why):
        Planner(options).begin()


def test_queues_that_are_known(folder: Path, tmp_path: Path) -> None:
    other = LedgerMaker(tmp_path / "other", UUID(int=7))
    other.queue("elsewhere")
    paths = json.dumps([str(folder), str(other.finish())])
    for queues in ("orders", "gone", '["client:b, c", "elsewhere"]'):
        Planner(read_options({"path": paths, "queues": queues})).next({}, Limit())


def test_a_stream_goes_on_without_its_queue(folder: Path) -> None:
    begun = Planner(read_options({"path": str(folder)})).next({}, Limit())
    Planner(read_options({"path": str(folder), "queues": "long gone"})).next(begun, Limit())
