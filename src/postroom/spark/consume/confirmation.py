"""Confirming a batch after its rows are safe somewhere: ``confirm=call``."""

from pyspark.sql import DataFrame

from postroom.spark.broker.options import Broker
from postroom.spark.consume.checkpoints import checkpoint_of
from postroom.spark.consume.errors import OffsetsUnreadable
from postroom.spark.consume.offsets import Offset, offset_of, offsets_of
from postroom.spark.consume.options import BROKER_TIMEOUT_S
from postroom.spark.consume.subscription import BrokerSubscription


def confirm_batch(batch: DataFrame, batch_id: int, broker: Broker, subscription: str, checkpoint: str) -> int:
    """See `foreach_batch.confirm`."""
    end = batch_end(checkpoint_of(batch, checkpoint), batch_id, subscription)
    with BrokerSubscription(broker, subscription, BROKER_TIMEOUT_S) as broker_subscription:
        return broker_subscription.confirm(end.checkpoint, end.ledger_id, end.position)


def batch_end(checkpoint: str, batch_id: int, subscription: str) -> Offset:
    """Where a batch ends of what the subscription was assigned. Raises ``OffsetsUnreadable``."""
    for offset in offsets_of(checkpoint, batch_id).values():
        if offset.get("subscription") == subscription:
            return offset_of(offset)
    raise OffsetsUnreadable(
        f"batch {batch_id} of checkpoint {checkpoint} has nothing of subscription {subscription}: is it the"
        " query's own name of the subscription?"
    )
