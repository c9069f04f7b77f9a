"""Rows and their position in one commit of a Delta table, whatever was lost of Spark's checkpoint."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StructType

from postroom.spark.consume import append
from postroom.spark.consume.errors import AppendRefused, OffsetsUnreadable, PositionGap
from postroom.spark.consume.files import split
from postroom.spark.consume.foreach_batch import Appended, append_once
from postroom.spark.consume.table import epoch_mark
from tests.ledger.ledger_maker import LEDGER_ID, LedgerMaker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

OTHER_ID = UUID("0195f2a0-0000-7000-8000-00000000000b")
A, B = str(LEDGER_ID), str(OTHER_ID)
COLUMNS = "ledger_id string, position long, time timestamp"
EVEN = "position % 2 = 0"
EPOCH_ID = (b"e" * 16).hex()


class Crash(Exception):
    """The driver dies here."""


class Lake:
    """Batches of two ledgers, appended to a table, and the offsets that Spark would have written of them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.checkpoint = folder / "checkpoint"
        self.table = str(folder / "table")
        self.batches: list[dict[str, int]] = []
        """Where each batch ends, by ledger."""

    def ends(self, **ends: int) -> int:
        """Another batch is in the offset log; returns its number."""
        self.batches.append({{"a": A, "b": B}[name]: position for name, position in ends.items()})
        self._write(len(self.batches) - 1, json.dumps(_offset(self.batches[-1])))
        return len(self.batches) - 1

    def _write(self, batch_id: int, *lines: str) -> None:
        folder = self.checkpoint / "offsets"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(batch_id)).write_text("\n".join(["v1", "{}", *lines]))

    def rows_of(self, batch_id: int) -> DataFrame:
        """Positions behind the end of the batch before."""
        before = self.batches[batch_id - 1] if batch_id else self.batches[0]
        rows = [
            (ledger_id, position, datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=position))
            for ledger_id, end in self.batches[batch_id].items()
            for position in range(before.get(ledger_id, end) + 1, end + 1)
        ]
        return self.spark.createDataFrame(rows, COLUMNS).repartition(2)

    def append(self, batch_id: int, rows: DataFrame | None = None, **options: Any) -> Appended:
        rows = self.rows_of(batch_id) if rows is None else rows
        return append_once(rows, batch_id, self.table, "lake", checkpoint=str(self.checkpoint), **options)

    def batch(self, **ends: int) -> Appended:
        """A batch that goes well."""
        return self.append(self.ends(**ends))

    def lose(self, batches: int) -> None:
        """So many of the newest entries of the offset log are gone."""
        for _ in range(batches):
            self.batches.pop()
            (self.checkpoint / "offsets" / str(len(self.batches))).unlink()

    def lose_checkpoint(self) -> None:
        self.lose(len(self.batches))

    def has(self, first: int, last: int, ledger: str = A) -> bool:
        """Whether the rows of the ledger are these positions, each once."""
        record = DeltaTable(self.table).to_pyarrow_table(columns=["ledger_id", "position"]).to_pylist()
        found = sorted(row["position"] for row in record if row["ledger_id"] == ledger)
        return found == list(range(first, last + 1))


def _offset(ends: dict[str, int]) -> dict[str, object]:
    return {ledger: {"epoch": 1, "epoch_id": EPOCH_ID, "position": end} for ledger, end in ends.items()}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """Nothing was read yet: the first batch has said where it begins."""
    lake = Lake(spark, tmp_path)
    assert lake.batch(a=1) == Appended(1, 0, {A: 1})
    return lake


def test_a_batch_is_in_the_table_with_its_position(lake: Lake) -> None:
    assert lake.batch(a=5) == Appended(2, 4, {A: 5})
    assert lake.batch(a=5) == Appended(2, 0, {A: 5}), "nothing new: no commit"
    assert lake.has(2, 5)
    table = DeltaTable(lake.table)
    assert (table.version(), table.transaction_version(f"lake/{A}")) == (2, 5)
    assert table.transaction_version(f"lake/{A}/epoch") == epoch_mark(EPOCH_ID)


def test_a_batch_that_comes_again_longer_adds_what_is_new(lake: Lake) -> None:
    lake.batch(a=5)
    lake.lose(1)
    assert lake.batch(a=9) == Appended(3, 4, {A: 9})
    assert lake.has(2, 9)


def test_a_checkpoint_that_is_lost_begins_with_batch_0_again(lake: Lake) -> None:
    lake.batch(a=5)
    lake.batch(a=9)
    lake.lose_checkpoint()
    lake.batch(a=0)
    assert lake.batch(a=7).rows == 0
    assert lake.batch(a=12).rows == 3
    assert lake.has(2, 12)


def test_a_checkpoint_that_begins_behind_the_table_is_refused(lake: Lake) -> None:
    lake.batch(a=5)
    lake.lose_checkpoint()
    with pytest.raises(PositionGap, match=r"up to position 5 .* batch 0 begins behind position 9"):
        lake.batch(a=9)
    lake.lose_checkpoint()
    assert lake.batch(a=5) == Appended(2, 0, {A: 5})


def test_a_batch_that_was_left_out_is_missed_by_the_next(lake: Lake) -> None:
    lake.ends(a=5)
    with pytest.raises(PositionGap, match="Call append_once for every batch, empty ones too"):
        lake.batch(a=9)


def test_a_first_batch_that_was_left_out_is_none_that_is_missed(lake: Lake, tmp_path: Path) -> None:
    lake.table = str(tmp_path / "other")
    assert lake.batch(a=5).rows == 4
    lake.table = str(tmp_path / "third")
    with pytest.raises(PositionGap, match="has nothing of ledger"):
        lake.batch(a=9)


def test_several_ledgers_have_a_position_each_and_one_commit(lake: Lake) -> None:
    lake.batch(a=5, b=0)
    record = lake.batch(a=8, b=3)
    assert (record.rows, record.positions) == (6, {A: 8, B: 3})
    lake.lose_checkpoint()
    lake.batch(a=0, b=3)
    assert lake.batch(a=9, b=6).rows == 4
    assert lake.has(2, 9) and lake.has(1, 6, B)


@pytest.mark.parametrize("after", [False, True], ids=["before-table-commit", "after-table-commit"])
def test_the_driver_dies_beside_the_commit(lake: Lake, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = append._commit

    def dies(*args: Any) -> bool:
        if after:
            commit(*args)
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(append, "_commit", dies)
        lake.batch(a=5)
    assert lake.append(1).rows == (0 if after else 4)
    assert lake.has(2, 5)


def test_another_writer_of_the_table_comes_first(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.batch(a=5)
    commit, written, tries, writes = append._commit, append.write_files, [], []

    def contended(target: Any, table: Any, files: Any, due: Any) -> bool:
        tries.append(table.version())
        if len(tries) == 1:
            DeltaTable(lake.table).delete("position = 3")
        return commit(target, table, files, due)

    monkeypatch.setattr(append, "_commit", contended)
    monkeypatch.setattr(append, "write_files", lambda *args: writes.append(1) or written(*args))
    assert lake.batch(a=9) == Appended(4, 4, {A: 9})
    assert (tries, len(writes)) == ([2, 3], 1), "the files are still good"
    assert not lake.has(2, 9) and DeltaTable(lake.table).to_pyarrow_table().num_rows == 7


def test_a_second_driver_with_the_same_batch_adds_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, tries = append._commit, []

    def overtaken(target: Any, table: Any, files: Any, due: Any) -> bool:
        tries.append(1)
        other = append.open_table(lake.table)
        assert other is not None and commit(target, other, files, due)
        return commit(target, table, files, due)

    monkeypatch.setattr(append, "_commit", overtaken)
    assert lake.batch(a=5).rows == 0
    assert lake.has(2, 5) and len(tries) == 1


def test_rows_may_be_changed_and_columns_chosen(lake: Lake, tmp_path: Path) -> None:
    lake.table = str(tmp_path / "other")
    batch_id = lake.ends(a=5)
    lake.spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        rows = lake.rows_of(batch_id).withColumn("day", F.to_date("time")).withColumn("even", F.expr(EVEN))
        lake.append(batch_id, rows, columns=["position", "time", "day", "even"], partition_by=["day", "even"])
    finally:
        lake.spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = DeltaTable(lake.table)
    assert table.metadata().partition_columns == ["day", "even"]
    listed = sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: int(row["position"]))
    assert [(row["position"], row["even"]) for row in listed] == [
        (2, True),
        (3, False),
        (4, True),
        (5, False),
    ]
    assert listed[0]["time"] == datetime(2026, 3, 1, 0, 0, 2, tzinfo=UTC)
    assert {row["day"] for row in listed} == {date(2026, 2, 28)}, "as the session's time zone has it"
    paths = [uri.removeprefix(lake.table) for uri in table.file_uris()]
    assert {path.rpartition("/")[0] for path in paths} == {
        "/day=2026-02-28/even=true",
        "/day=2026-02-28/even=false",
    }


def test_an_existing_table_keeps_its_columns_and_what_does_not_fit_is_refused(
    lake: Lake, tmp_path: Path
) -> None:
    lake.table = str(tmp_path / "other")
    table = DeltaTable.create(lake.table, _schema(f"{COLUMNS}, more string"))
    assert lake.batch(a=5).rows == 4
    assert DeltaTable(lake.table).to_pyarrow_table()["more"].null_count == 4
    batch_id = lake.ends(a=6)
    rows = lake.rows_of(batch_id)

    def refused(message: str, changed: DataFrame, **options: Any) -> None:
        with pytest.raises(AppendRefused, match=message):
            lake.append(batch_id, changed, **options)

    refused("has no column other: add it", rows.withColumn("other", F.lit(1)))
    refused("column more of table .* is string, of the batch int", rows.withColumn("more", F.lit(1)))
    refused("the batch has no columns ledger_id", rows.drop("ledger_id"))
    refused(
        "partition_by names time, which columns= leaves out",
        rows,
        columns=["position"],
        partition_by=["time"],
    )
    table.update_incremental()
    table.alter.add_constraint({"positive": "position > 0"})
    refused("has delta.constraints.positive", rows)


def _schema(text: str) -> Any:
    return Schema.from_json(StructType.fromDDL(text).json())


def test_outside_a_query_the_checkpoint_must_be_said(lake: Lake) -> None:
    with pytest.raises(OffsetsUnreadable, match="give the query's checkpointLocation"):
        append_once(lake.rows_of(0), 0, lake.table, "lake")
    with pytest.raises(OffsetsUnreadable, match="has no offsets of batch 1:"):
        lake.append(1, lake.rows_of(0))


def test_offsets_of_other_sources_are_passed_over_and_none_is_refused(lake: Lake) -> None:
    lake._write(1, '{"topic":{"0":5}}', "-", "17", json.dumps(_offset({A: 5})))
    lake.batches.append({A: 5})
    lake._write(0, '{"topic":{"0":1}}', "-", "-", json.dumps(_offset({A: 1})))
    assert lake.append(1).rows == 4
    lake._write(2, '{"topic":{"0":5}}', "-", "17", "-")
    with pytest.raises(AppendRefused, match="reads no ledger"):
        lake.append(2, lake.rows_of(1))
    lake._write(1, json.dumps(_offset({A: 5})), json.dumps(_offset({A: 3})))
    with pytest.raises(OffsetsUnreadable, match=f"two sources of this query read ledger {A}"):
        lake.append(1)
    lake._write(1)
    with pytest.raises(OffsetsUnreadable, match="is cut off"):
        lake.append(1)


def test_a_query_says_itself_where_its_checkpoint_is(spark: SparkSession, tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "ledger")
    maker.queue("q")
    for _ in range(10):
        maker.put(1)
        maker.commit()
    maker.marker()
    lake, record = Lake(spark, tmp_path), []
    reader = spark.readStream.format("postroom").schema("ledger_id string, position long")
    stream = reader.option("maxRows", "8").load(str(maker.folder)).writeStream
    query = (
        stream.foreachBatch(lambda rows, number: record.append(append_once(rows, number, lake.table, "lake")))
        .option("checkpointLocation", f"file://{lake.checkpoint}")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [each.rows for each in record] == [0, 7, 3]
    assert lake.has(2, 11)


def test_rows_are_split_by_the_values_of_their_places() -> None:
    rows = pa.table({"n": [1, 2, 3, 4], "k": ["a", None, "a", "b c"]})
    found = {place["k"]: part["n"].to_pylist() for place, part in split(rows, ["k"])}
    assert found == {"a": [1, 3], None: [2], "b c": [4]}
    assert list(split(rows.slice(0, 0), ["k"])) == []
