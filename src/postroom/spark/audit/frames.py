"""What the driver knows, as DataFrames: given to Spark as columns, so that no Python process passes rows."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from postroom.spark.audit.result import Violation
from postroom.spark.audit.rows import COLUMNS, SCHEMA


def frame(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: str) -> DataFrame:
    """Few rows with the columns of a schema in Spark's words."""
    struct = StructType.fromDDL(schema)
    assert isinstance(struct, StructType)
    arrow = to_arrow_schema(struct, timezone="UTC")
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(arrow)]
    made: DataFrame = spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow), struct)
    return made


def violation_frame(spark: SparkSession, rows: Sequence[Violation]) -> DataFrame:
    """Violations that were found on the driver, as the others are."""
    return frame(spark, [[getattr(row, name) for name in COLUMNS] for row in rows], SCHEMA)
