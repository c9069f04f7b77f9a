"""The source: what it gives is what the ledger says, in whatever pieces, and what it refuses."""

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from postroom.ledger.format.block import Group
from postroom.model.codes import IdType
from postroom.spark.ledger_source.columns import COLUMNS, NEVER_NULL
from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.places.folder import FolderPlace
from postroom.spark.places.slices import plan
from tests.ledger.ledger_maker import CONSUMER, LEDGER_ID, START_US, E, LedgerMaker, O, S

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def _batch_rows(folder: Path, records: int = 1_000_000) -> list[dict[str, Any]]:
    """All rows as the tasks would give them, without Spark, by (position, ordinal)."""
    place = FolderPlace(folder)
    snapshot = place.snapshot()
    slices = plan(place, snapshot, 1, snapshot.durable_through, records)
    batches = [batch for slice in slices for batch in read_events(slice)]
    return sorted(
        pa.Table.from_batches(batches).to_pylist(), key=lambda row: (row["position"], row["ordinal"])
    )


def events_of(spark: SparkSession, folder: Path, **options: int) -> DataFrame:
    """The events table of a ledger's folder."""
    reader = spark.read.format("postroom").option("path", str(folder))
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def _ledger(folder: Path) -> Path:
    maker = LedgerMaker(folder)
    a, b = maker.queue("a"), maker.queue("b")
    maker.producer(5, "sender")
    maker.put(
        a,
        message_id=b"first",
        correlation_id=b"c" * 40,
        group_id=b"g",
        producer=5,
        priority=9,
        expiry_us=START_US + 5,
    )
    maker.put(
        maker.routing_set(a, b),
        durable=False,
        body=None,
        message_id=uuid.UUID(int=7).bytes,
        id_type=IdType.UUID,
    )
    maker.next_file()
    number = maker.put(b, message_id=b"\x01\x00", id_type=IdType.ULONG)
    maker.fail(number, b)
    maker.put(b, message_id=b"\xfe\x00", id_type=IdType.BINARY)
    maker.put(b, message_id=b"bad \xff utf-8")
    maker.next_file(new_epoch=True)
    maker.group(E.PURGE, [Group(b, S.AVAILABLE, S.DELETED, O.PURGED, 0, 0, 0, [(number, number)])])
    maker.finish()
    maker.seal(1)
    return folder


def test_every_column_says_what_the_ledger_says(tmp_path: Path) -> None:
    rows = _batch_rows(_ledger(tmp_path))
    first, twice, second, number, acquired, failed, binary, bad, purged = rows
    assert set(first) == {column.name for column in COLUMNS}
    assert (first["queue"], first["event"], first["from_state"], first["to_state"]) == (
        "a",
        "put",
        "start",
        "available",
    )
    assert (first["message_id"], first["correlation_id"], first["group_id"]) == ("first", "c" * 40, "g")
    assert (first["producer"], first["priority"], first["durable"], first["stored"]) == (
        "app/sender",
        9,
        True,
        True,
    )
    assert first["expiry"].timestamp() * 1e6 == START_US + 5
    assert (twice["queue"], twice["ordinal"], second["queue"], second["ordinal"]) == ("a", 0, "b", 1)
    assert twice["message_id"] == str(uuid.UUID(int=7))
    assert (twice["durable"], twice["stored"], twice["expiry"], twice["group_sequence"]) == (
        False,
        False,
        None,
        None,
    )
    assert (number["message_id"], binary["message_id"], bad["message_id"]) == (
        "256",
        "fe00",
        "bad \ufffd utf-8",
    )
    assert (acquired["holder_kind"], acquired["holder_id"], acquired["message_id"]) == (
        "consumer",
        CONSUMER,
        None,
    )
    assert (failed["delivery_delta"], failed["failure_delta"], failed["outcome"]) == (1, 1, None)
    assert (purged["epoch"], purged["outcome"], purged["serial"]) == (2, "purged", number["serial"])


@pytest.mark.parametrize("records", [1, 2, 3, 7])
def test_any_cut_into_slices_gives_the_same_rows(tmp_path: Path, records: int) -> None:
    folder = _ledger(tmp_path)
    assert _batch_rows(folder, records) == _batch_rows(folder)


def test_spark_finds_the_source_and_gives_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    folder = _ledger(tmp_path)
    table = events_of(spark, folder, partitionRecords=4)
    got = [row.asDict() for row in table.orderBy("position", "ordinal").collect()]
    expected = [
        {
            name: value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value
            for name, value in row.items()
        }
        for row in _batch_rows(folder)
    ]
    assert got == expected
    assert table.rdd.getNumPartitions() == 3  # 1 to 4, 5 to 8, 9 to 12; a file begins with 7
    assert table.schema["serial"].metadata["comment"].startswith("The message")
    assert {field.name for field in table.schema if not field.nullable} == NEVER_NULL


def test_columns_and_positions_can_be_chosen(spark: SparkSession, tmp_path: Path) -> None:
    folder = _ledger(tmp_path)
    reader = spark.read.format("postroom").schema("position long, message_id string")
    options = {"path": str(folder), "fromPosition": "5", "toPosition": "8"}
    rows = reader.options(**options).load().orderBy("position").collect()
    assert [tuple(row) for row in rows] == [(6, str(uuid.UUID(int=7)))] * 2 + [(7, "256"), (8, None)]


def test_several_ledgers_and_some_queues_in_one_read(spark: SparkSession, tmp_path: Path) -> None:
    one, other = _ledger(tmp_path / "one"), _other_ledger(tmp_path / "other")
    reader = spark.read.format("postroom").schema("ledger_id string, position long, queue string")
    rows = reader.option("queues", "b, c").load(json.dumps([str(one), str(other)])).collect()
    found = sorted((row["ledger_id"] == str(LEDGER_ID), row["queue"], row["position"]) for row in rows)
    assert found == [(False, "c", 2), *((True, "b", position) for position in (6, 7, 8, 9, 10, 11, 12))]


def _other_ledger(folder: Path) -> Path:
    maker = LedgerMaker(folder, uuid.UUID(int=11))
    maker.put(maker.queue("c"))
    return maker.finish()


def test_filters_let_it_read_less_and_hold_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    folder = _ledger(tmp_path)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        table = spark.read.format("postroom").options(pushdown="true", partitionRecords=1).load(str(folder))
        few = table.where("position > 5 and position <= 8 and queue = 'b'").select("position", "queue")
        assert [tuple(row) for row in few.orderBy("position").collect()] == [(6, "b"), (7, "b"), (8, "b")]
        assert few.rdd.getNumPartitions() == 3
        assert table.where("ledger_id = 'another'").count() == 0
        assert table.where("from_state = 'start'").count() == 6
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_folder_without_a_ledger_and_an_unknown_column_are_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(PySparkException, match="no ledger here"):
        events_of(spark, tmp_path).collect()
    for columns, message in (
        ("position long, colour string", "events have no columns colour; they have ledger_id, epoch"),
        ("position int", "column position is bigint, not int"),
        ("position long, outcome string not null", "column outcome can be null: leave NOT NULL away"),
    ):
        with pytest.raises(PySparkException, match=message):
            spark.read.format("postroom").schema(columns).load("x").collect()
