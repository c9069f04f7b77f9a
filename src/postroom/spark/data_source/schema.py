"""Columns as Spark's type, and what a read asks for of them with ``.schema(...)``."""

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from postroom.spark.data_source.errors import SourceOptionError


def struct_of(columns: Iterable[tuple[str, pa.DataType, str]], never_null: frozenset[str]) -> StructType:
    """Columns of these names, types and comments. Those that are never null are NOT NULL: Spark's code then
    doesn't look for nulls in them."""
    struct = StructType()
    for name, kind, comment in columns:
        spark_type = from_arrow_type(kind, prefer_timestamp_ntz=False)
        struct.add(StructField(name, spark_type, name not in never_null, {"comment": comment}))
    return struct


def check_requested(requested: StructType, own: StructType, what: str) -> None:
    """Whether each column asked for is one of the own, of its type, and NOT NULL only where that is so.

    `what` has them. Raises ``SourceOptionError``.
    """
    unknown = [name for name in requested.names if name not in own.names]
    if unknown:
        wrong, there = ", ".join(unknown), ", ".join(own.names)
        raise SourceOptionError(f"{what} have no columns {wrong}; they have {there}")
    for field in requested.fields:
        mine = own[field.name]
        requested_type, wanted = field.dataType.simpleString(), mine.dataType.simpleString()
        if requested_type != wanted:
            raise SourceOptionError(
                f"column {field.name} is {wanted}, not {requested_type}: cast it after reading"
            )
        if mine.nullable and not field.nullable:
            raise SourceOptionError(f"column {field.name} can be null: leave NOT NULL away")
