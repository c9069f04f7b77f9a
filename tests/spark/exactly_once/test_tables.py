"""What the documentation's table says of `append_once`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from postroom.spark.consume.errors import CheckpointReplaced
from tests.spark.exactly_once.promises import EXACT, FAILURES, Play, consume, promised, tap
from tests.spark.played_queries import Station, Table

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.timeout(900)]

Made = Callable[[Station, Table, Path], Play]


def _by_table(one: Station, sink: Table, folder: Path) -> Play:
    return consume(one, sink, folder, f"table:{sink.uri}#lake")


def _by_call(one: Station, sink: Table, folder: Path) -> Play:
    sink.confirms = True
    return consume(one, sink, folder, "call")


ROWS: dict[tuple[str, str], Made] = {
    ("tap", "`append_once`"): tap,
    ("consume, `table:…`", "`append_once`"): _by_table,
    ("consume, `call`", "`append_once`"): _by_call,
}


def _play(row: tuple[str, str], spark: SparkSession, one: Station, folder: Path) -> Play:
    return ROWS[row](one, Table(one).at(spark, str(folder / "table")), folder / "checkpoint")


@pytest.mark.sample(8)
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_each_cell_is_what_the_page_says(
    spark: SparkSession, one: Station, row: tuple[str, str], failure: str, tmp_path: Path
) -> None:
    play = _play(row, spark, one, tmp_path)
    assert play.fail(failure) == promised(*row)[failure] == EXACT
    if row[0].startswith("consume"):
        assert (one.on_queue(), one.state()["held"]) == (0, 0)


def test_a_table_written_and_not_confirmed_rules_where_the_whole_checkpoint_is_lost(
    spark: SparkSession, one: Station, tmp_path: Path
) -> None:
    play = _play(("consume, `table:…`", "`append_once`"), spark, one, tmp_path)
    one.send(5)
    assert play.query.run()
    one.send(5)
    play.die_at("after-table-commit")
    assert one.state()["held"] == 5
    play.query.lose_checkpoint()
    one.send(5)
    fields: dict[str, Any] = dict(play.query.options)
    play.query.options = fields | {"onNewCheckpoint": "fail"}
    with pytest.raises(CheckpointReplaced):
        play.query.run()
    play.query.options = fields
    assert play.query.run()
    assert play.outcome() == EXACT and one.on_queue() == 0
