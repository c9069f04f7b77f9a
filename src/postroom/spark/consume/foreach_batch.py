"""What a function given to foreachBatch calls: `confirm` after its own durable write, or `append_once`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from postroom.spark.consume.offsets import Appended as Appended

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from postroom.client import TlsOptions


def confirm(
    batch: "DataFrame",
    batch_id: int,
    *,
    broker: str,
    subscription: str,
    checkpoint: str = "",
    tls: "TlsOptions | None" = None,
) -> int:
    """Take the messages of a batch from the queue: call it in foreachBatch, after its rows are safe.

    What is confirmed is the end of the batch's range in the checkpoint's offsets. `broker` is an AMQP URL,
    `tls` says whom to trust there, if not whom the system trusts.
    `checkpoint` is the query's checkpointLocation, needed where Spark doesn't tell it (Spark Connect). Asking
    again changes nothing. Returns how many messages this ended. Raises ``CheckpointReplaced``,
    ``SubscriptionEnded``, ``BrokerUnreachable``, ``OffsetsUnreadable``.
    """
    from postroom.spark.broker.options import Broker
    from postroom.spark.consume.confirmation import confirm_batch

    return confirm_batch(batch, batch_id, Broker(broker, tls), subscription, checkpoint)


def append_once(
    batch: "DataFrame",
    batch_id: int,
    table_uri: str,
    app: str,
    *,
    columns: Sequence[str] | None = None,
    partition_by: Sequence[str] = (),
    checkpoint: str = "",
) -> Appended:
    """Append a batch to a Delta table, each row once, whatever was lost of the checkpoint: for foreachBatch.

    One commit has the rows and the position that they reach to, as the version of the application transaction
    ``app/<ledger id>``; rows at or below the position that the table has are left out. So `batch` must have
    the columns ``ledger_id`` and ``position`` as the source gave them. `columns`: those to write (default:
    all). `partition_by`: of a table that is made by this call. `checkpoint`: as for `confirm`. Of a tap over
    several ledgers each has a transaction of its own. Raises ``AppendRefused``, ``PositionGap``,
    ``OffsetsUnreadable``.
    """
    from postroom.spark.consume.append import append_batch

    return append_batch(batch, batch_id, table_uri, app, columns, partition_by, checkpoint)
