"""Confirming a batch after its rows are safe somewhere (``confirm=call``): which query it is of, and where it
ends."""

from typing import Any, Final

from pyspark.sql import DataFrame

from postroom.spark.broker.options import Broker
from postroom.spark.consume.errors import OffsetsUnreadable
from postroom.spark.consume.offsets import Offset, offset_of, offsets_of
from postroom.spark.consume.options import BROKER_TIMEOUT_S
from postroom.spark.consume.subscription import BrokerSubscription

_QUERY_ID: Final = "sql.streaming.queryId"


def confirm_batch(batch: DataFrame, batch_id: int, broker: Broker, subscription: str, checkpoint: str) -> int:
    """See `foreach_batch.confirm`."""
    end = batch_end(checkpoint_of(batch, checkpoint), batch_id, subscription)
    with BrokerSubscription(broker, subscription, BROKER_TIMEOUT_S) as asked:
        return asked.confirm(end.checkpoint, end.ledger_id, end.position)


def batch_end(checkpoint: str, batch_id: int, subscription: str) -> Offset:
    """Where a batch ends of what the subscription was assigned. Raises ``OffsetsUnreadable``."""
    for said in offsets_of(checkpoint, batch_id).values():
        if said.get("subscription") == subscription:
            return offset_of(said)
    raise OffsetsUnreadable(
        f"batch {batch_id} of checkpoint {checkpoint} has nothing of subscription {subscription}: is it the"
        " query's own name of the subscription?"
    )


def checkpoint_of(batch: DataFrame, said: str) -> str:
    """What the caller said, else what Spark says. Raises ``OffsetsUnreadable``."""
    if said:
        return said
    session: Any = batch.sparkSession
    try:
        query_id = session.sparkContext.getLocalProperty(_QUERY_ID)
        running = (
            session._jsparkSession.sharedState().activeStreamingQueries()
        )  # the batch's session is a copy
        query = running.get(session._jvm.java.util.UUID.fromString(query_id))
        return str(query.resolvedCheckpointRoot())
    except Exception as error:  # of Spark Connect, of Py4J, and of a DataFrame that is no batch's
        raise OffsetsUnreadable(
            "Spark doesn't tell which query this is: call it in foreachBatch, and give the query's"
            f" checkpointLocation as checkpoint= ({type(error).__name__}: {error})"
        ) from error
