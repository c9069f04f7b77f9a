"""The fold by Spark, made from the merges, gives the rows of our own fold."""

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.fold import partials, shown
from postroom.spark.tables.views import fold_frame, levels_sql, pending_sql, quantile_sql
from tests.spark.event_ranges import cut, every_position, table
from tests.spark.folded_tables import FOLDED, lived

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_spark_folds_as_we_do(spark: SparkSession) -> None:
    events = lived(Random(11))
    for definition in FOLDED:
        made = [partials(definition, piece) for piece in cut(events, every_position(events)[::2])]
        rows = spark.createDataFrame(pa.concat_tables(made).combine_chunks())  # empty chunks confuse it
        found = fold_frame(definition, rows).toArrow()
        keys = [(name, "ascending") for name in definition.key]
        found, expected = (
            found.cast(definition.schema).sort_by(keys),
            shown(definition, table(definition, events)).sort_by(keys),
        )
        differing = [
            name for name in found.column_names if not found.column(name).equals(expected.column(name))
        ]
        assert differing == [], definition.name


def test_spark_answers_the_same_questions(spark: SparkSession) -> None:
    events = lived(Random(12))
    for name, sql in (("destinations", levels_sql), ("entries", pending_sql), ("dwell_times", _median)):
        source = DEFINITIONS[name]
        rows = table(source, events if source.source == "events" else table(DEFINITIONS["entries"], events))
        rows = spark.createDataFrame(rows)
        answer: Any = spark.sql(sql("{rows}"), rows=rows)
        assert answer.count() >= 0 and "ledger_id" in answer.columns


def _median(dwell_times: str) -> str:
    return quantile_sql(dwell_times, 0.5)
