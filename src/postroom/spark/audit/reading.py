"""The events of ledgers up to their cuts, as the source ``postroom`` reads them.

Its reader is planned here on the driver and not by Spark, which would start a Python process for each
question that it has about a source; and its rows are read by the processes that walk them afterwards.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from postroom.spark.audit.ledgers import AuditedLedger
from postroom.spark.audit.walk.columns import EVENT_COLUMNS
from postroom.spark.ledger_source.options import read_options
from postroom.spark.ledger_source.source import EVENTS_STRUCT, LedgerBatchReader

_STRUCT = StructType([EVENTS_STRUCT[name] for name in EVENT_COLUMNS])

Batches = Iterator[pa.RecordBatch]


def events_of(spark: SparkSession, ledgers: Sequence[AuditedLedger], token: str = "") -> DataFrame:
    """The events of ledgers up to their cuts, with the entries that are older than their history."""
    readers = [_reader(one, token) for one in ledgers]
    parts: list[tuple[LedgerBatchReader, InputPartition]] = [
        (reader, part) for reader in readers for part in reader.partitions()
    ]

    def read(numbers: Batches) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                reader, part = parts[number]
                yield from reader.read(part)

    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(read, _STRUCT)


def _reader(one: AuditedLedger, token: str) -> LedgerBatchReader:
    options = {
        "path": one.place.uri,
        "toPosition": str(max(one.second.durable_through, 1)),
        "carried": str(not one.is_whole).lower(),
    }
    return LedgerBatchReader(read_options(options | ({"token": token} if token else {})), _STRUCT)
