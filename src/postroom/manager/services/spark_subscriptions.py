"""Spark subscriptions as their queries and administrators speak to them: a part of the queue manager's face.

What is told about positions counts when it is durable, as with every answer.
"""

from typing import final

from mypy_extensions import i64

from postroom.manager import turn
from postroom.manager.kernel.core import Core
from postroom.manager.spark import subscription_verbs as spark_subscriptions
from postroom.manager.spark.assignment import write_open
from postroom.manager.spark.subscription import (
    SparkSubscription,
    SparkSubscriptionDefinition,
    spark_subscriptions_of,
)
from postroom.manager.spark.subscription_verbs import ON_NEW_CHECKPOINT_FAIL
from postroom.manager.turn import Command


@final
class SparkSubscriptionService:
    """The Spark subscriptions of one queue manager."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.all = spark_subscriptions_of(core).by_name
        """By name, those that have ended included."""

    def find(self, name: str) -> SparkSubscription:
        """The one of that name; raises SparkSubscriptionNotFound."""
        return spark_subscriptions.find(self._core, name)

    def create(
        self, definition: SparkSubscriptionDefinition, now_us: i64, user: str = ""
    ) -> SparkSubscription:
        """See `spark_subscriptions.create`; raises what that does."""
        self._core.begin(now_us)
        spark = spark_subscriptions.create(self._core, definition, user)
        return self._finished(spark)

    def update(self, definition: SparkSubscriptionDefinition, now_us: i64) -> SparkSubscription:
        """Give the one of that name another window or lease. Raises SparkSubscriptionNotFound,
        SubscriptionEnded, DefinitionInvalid."""
        self._core.begin(now_us)
        spark = spark_subscriptions.update(self._core, definition)
        return self._finished(spark)

    def delete(self, name: str, now_us: i64) -> int:
        """Forget it; returns how many entries go back. Raises SparkSubscriptionNotFound."""
        with Command(self._core, now_us):
            return spark_subscriptions.delete(self._core, name)

    def plan(
        self, name: str, checkpoint: str, now_us: i64, on_new_checkpoint: str = ON_NEW_CHECKPOINT_FAIL
    ) -> SparkSubscription:
        """Look how far it is. Raises SparkSubscriptionNotFound, SubscriptionEnded, RequestInvalid,
        CheckpointReplaced."""
        self._core.begin(now_us)
        spark = spark_subscriptions.plan(self._core, name, checkpoint, on_new_checkpoint)
        return self._finished(spark)

    def register(self, name: str, checkpoint: str, replaces: bool, now_us: i64) -> SparkSubscription:
        """Have the positions of that checkpoint count. Raises SparkSubscriptionNotFound, SubscriptionEnded,
        RequestInvalid, CheckpointReplaced."""
        self._core.begin(now_us)
        spark = spark_subscriptions.register(self._core, name, checkpoint, replaces)
        return self._finished(spark)

    def confirm(self, name: str, checkpoint: str, position: i64, now_us: i64) -> int:
        """Consume what was assigned at ``position`` or before; returns how many entries. Raises
        SparkSubscriptionNotFound, SubscriptionEnded, CheckpointReplaced, PositionRefused."""
        self._core.begin(now_us)
        count = spark_subscriptions.confirm(self._core, name, checkpoint, position)
        self._finished(spark_subscriptions.find(self._core, name))
        return count

    def let_history_go(self, reason: str, now_us: i64) -> None:
        """What is kept for those that have not read it is too much: end the one that is farthest behind.
        ``reason``: "bytes" or "space"."""
        with Command(self._core, now_us):
            spark_subscriptions.let_history_go(self._core, reason)

    def is_filling(self, spark: SparkSubscription) -> bool:
        """Whether it has room, and something waits that it may be about to be given."""
        return spark_subscriptions.is_filling(spark)

    def oldest_waiting(self, spark: SparkSubscription) -> int:
        """The place of what has been available on its queue the longest: the position of the event that made
        it so; 0 nothing is."""
        return spark_subscriptions.oldest_waiting(spark.queue)

    def _finished(self, spark: SparkSubscription) -> SparkSubscription:
        """The command is over; what it has assigned has its position."""
        turn.finish(self._core)
        write_open(self._core, spark)
        return spark
