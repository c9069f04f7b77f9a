"""Mode *consume* for Spark: micro-batches, and a batch read that only looks."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from postroom.ledger.format.expand import Rows
from postroom.ledger.reading.definitions import Definitions
from postroom.model.codes import Event, HolderKind
from postroom.spark.consume.offsets import offset_of
from postroom.spark.consume.options import ConsumeOptions
from postroom.spark.consume.planner import ConsumePlanner
from postroom.spark.consume.subscription import BrokerSubscription
from postroom.spark.data_source.worker import in_task, made_ahead
from postroom.spark.ledger_source.stream import SlicesPartition
from postroom.spark.messages.rows import Wanted
from postroom.spark.tap.stream import read_slices


def assigned_to(subscription: str) -> Wanted:
    """Which rows are assignments to the subscription of that name."""

    def wanted(rows: Rows, definitions: Definitions) -> npt.NDArray[np.bool_]:
        details = definitions.holder_details.items()
        own = [number for number, detail in details if detail.get("name") == subscription]
        found: npt.NDArray[np.bool_] = (
            (rows["event"] == Event.ACQUIRE)
            & (rows["holder_kind"] == HolderKind.SPARK_SUBSCRIPTION)
            & np.isin(rows["holder"], own)
        )
        return found

    return wanted


def broker_subscription(options: ConsumeOptions) -> BrokerSubscription:
    """The subscription that the options name."""
    return BrokerSubscription(options.broker, options.subscription, options.broker_timeout_s)


class ConsumeStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Ranges of assignments. Spark's ``commit`` is not believed: see `planner`."""

    def __init__(self, options: ConsumeOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._subscription: BrokerSubscription | None = None
        self._made: ConsumePlanner | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options, self._schema)

    @property
    def _planner(self) -> ConsumePlanner:
        """Made where it is used: its connection stays on the driver."""
        if self._made is None:
            self._subscription = broker_subscription(self._options)
            self._made = ConsumePlanner(self._options, self._subscription)
        return self._made

    def stop(self) -> None:
        """The query ends; what is assigned stays so."""
        if self._subscription is not None:
            self._subscription.close()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """A new checkpoint's id."""
        return self._planner.initial().to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """None: the subscription's window bounds a batch."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes from now on is not read any more."""
        self._planner.drain()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the batch that begins behind `start` ends."""
        return self._planner.next(offset_of(start)).to_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Even parts of the batch."""
        return [SlicesPartition(part) for part in self._planner.parts(offset_of(start), offset_of(end))]

    @in_task
    @made_ahead
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a slice."""
        wanted = assigned_to(self._options.subscription)
        yield from read_slices(partition, self._schema, self._options.tap, wanted)


class ConsumeBatchReader(DataSourceReader):
    """What is assigned and not confirmed now. Nothing is registered or confirmed."""

    def __init__(self, options: ConsumeOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """All of it."""
        with broker_subscription(self._options) as subscription:
            slices = ConsumePlanner(self._options, subscription).unconfirmed()
        return [SlicesPartition(slices)]

    @in_task
    @made_ahead
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows."""
        wanted = assigned_to(self._options.subscription)
        yield from read_slices(partition, self._schema, self._options.tap, wanted)
