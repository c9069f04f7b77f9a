"""The events of ledgers up to their cuts, as the source ``postroom`` reads them.

Its reader is planned here on the driver and not by Spark, which would start a Python process for each
question that it has about a source; and its rows are read by the processes that walk them afterwards.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from postroom.spark.audit.ledgers import AuditedLedger
from postroom.spark.audit.walk.blocks import BLOCK_COLUMNS, Batches
from postroom.spark.audit.walk.packing import READ, Parted, packed
from postroom.spark.ledger_source.options import read_options
from postroom.spark.ledger_source.source import EVENTS_STRUCT, LedgerBatchReader, LedgerPartition


def of_ledgers(spark: SparkSession, ledgers: Sequence[AuditedLedger], token: str = "") -> Parted:
    """The events of ledgers up to their cuts, with the entries that are older than their history."""
    pieces = [
        (reader, piece)
        for reader in (_reader(one, token) for one in ledgers)
        for piece in reader.partitions()
        if isinstance(piece, LedgerPartition)
    ]

    def parted(parts: int) -> DataFrame:
        def cut(numbers: Batches) -> Batches:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    reader, piece = pieces[number]
                    yield from packed(reader.rows(piece, READ), parts)

        each = spark.range(0, len(pieces), 1, len(pieces))
        return each.mapInArrow(cut, BLOCK_COLUMNS).repartitionById(parts, "part")

    return parted


def _reader(one: AuditedLedger, token: str) -> LedgerBatchReader:
    options = {
        "path": one.place.uri,
        "toPosition": str(max(one.second.durable_through, 1)),
        "carried": str(not one.is_whole).lower(),
    }
    return LedgerBatchReader(read_options(options | ({"token": token} if token else {})), EVENTS_STRUCT)
