"""What requests to the management node say as ``type``: a name for each kind of thing it looks after."""

from typing import Final

BRANCH_TYPE: Final = "postroom.xa-branch"
BROKER_TYPE: Final = "postroom.broker"
CHANNEL_TYPE: Final = "postroom.channel"
CONNECTION_TYPE: Final = "postroom.connection"
DEAD_LETTER_HANDLER_TYPE: Final = "postroom.dead-letter-handler"
LEASE_TYPE: Final = "postroom.lease"
LEDGER_TYPE: Final = "postroom.ledger"
MESSAGE_TYPE: Final = "postroom.message"
QUEUE_TYPE: Final = "postroom.queue"
QUOTA_TYPE: Final = "postroom.quota"
REMOTE_QUEUE_TYPE: Final = "postroom.remote-queue"
SINK_TYPE: Final = "postroom.sink"
SPARK_SUBSCRIPTION_TYPE: Final = "postroom.spark-subscription"
STORE_HOLDER_TYPE: Final = "postroom.store-holder"
SUBSCRIPTION_TYPE: Final = "postroom.subscription"
TOPIC_TYPE: Final = "postroom.topic"
TRANSACTION_TYPE: Final = "postroom.transaction"

BROKER_NAME: Final = "broker"
"""The one thing of `BROKER_TYPE`."""
