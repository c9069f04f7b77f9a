"""The ledger as a stream: Spark reads each row once, over restarts, limits and several queue managers."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.ledger_source.stream import RangesDataSource
from postroom.spark.places.place import Slice
from tests.ledger.ledger_maker import LEDGER_ID, LedgerMaker
from tests.spark.session.batch_sink import Sink

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

OTHER_ID = UUID("0195f2a0-0000-7000-8000-00000000000b")


def _ledger(folder: Path, messages: int = 10, ledger_id: UUID = LEDGER_ID) -> LedgerMaker:
    maker = LedgerMaker(folder, ledger_id)
    maker.queue("q")
    _more(maker, messages)
    return maker


def _more(maker: LedgerMaker, messages: int) -> None:
    for _ in range(messages):
        maker.put(1)
        maker.commit()
    maker.marker()


def _stream(spark: SparkSession, *folders: Path, **options: str) -> DataFrame:
    reader = spark.readStream.format("postroom").schema("ledger_id string, position long, event string")
    return reader.options(**options).load(json.dumps([str(folder) for folder in folders]))


def test_each_row_comes_once_over_limits_and_new_epochs_and_a_lost_batch_comes_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    maker, sink = _ledger(tmp_path / "data"), Sink(tmp_path)
    query = sink.run(_stream(spark, tmp_path / "data", maxRows="6"))
    assert list(sink.batches.values()) == [[], list(range(2, 7)), list(range(7, 12))]
    latest = json.loads(query.recentProgress[-1]["sources"][0]["latestOffset"])
    assert latest[str(LEDGER_ID)]["position"] == 11
    maker.next_file(new_epoch=True)
    _more(maker, 5)
    maker.seal(1)
    sink.run(_stream(spark, tmp_path / "data"))
    assert sink.positions == [*range(2, 17)]
    sink.lose_last_commit()
    _more(maker, 5)
    sink.run(_stream(spark, tmp_path / "data"))
    assert sink.positions == [*range(2, 22)]


def test_a_ledger_joins_and_leaving_it_out_must_be_said(spark: SparkSession, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    sink = Sink(tmp_path)
    _ledger(a)
    sink.run(_stream(spark, a))
    _ledger(b, 3, OTHER_ID)
    sink.run(_stream(spark, a, b))
    assert sink.positions == sorted([*range(2, 12), 2, 3, 4])
    with pytest.raises(StreamingQueryException, match="onMissingLedger=drop"):
        sink.run(_stream(spark, a))


def test_a_restored_ledger_stops_the_query(spark: SparkSession, tmp_path: Path) -> None:
    folder, backup = tmp_path / "data", tmp_path / "backup"
    maker, sink = _ledger(folder), Sink(tmp_path)
    shutil.copytree(folder, backup)
    _more(maker, 5)
    sink.run(_stream(spark, folder))
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    with pytest.raises(StreamingQueryException, match="position 16 of epoch 1 was read, but the ledger ends"):
        sink.run(_stream(spark, folder))


def _read_slices(batches: Any) -> Any:
    """What a job does with the slices: here it only counts their rows."""
    import pyarrow as pa

    for batch in batches:
        pieces: list[Slice] = [pickle.loads(data) for data in batch.column("slice").to_pylist()]
        positions = [
            p for piece in pieces for rows in read_events(piece) for p in rows["position"].to_pylist()
        ]
        yield pa.record_batch({"position": pa.array(positions, pa.int64())})


def test_a_job_is_given_ranges_that_its_tasks_read_themselves(spark: SparkSession, tmp_path: Path) -> None:
    _ledger(tmp_path / "data")
    spark.dataSource.register(RangesDataSource)
    ranges = spark.readStream.format("postroom.ranges").option("partitionRecords", "4")
    read = ranges.load(str(tmp_path / "data")).mapInArrow(_read_slices, "position long")
    sink = Sink(tmp_path)
    sink.run(read)
    assert sink.positions == list(range(2, 12))
