"""What the management node does: the operations of the AMQP Management draft (working draft 9) on this
broker's nouns.

One module a noun, each a class with the face of `noun.Noun`; `node` has the table of them and the operations
about all (QUERY and the GETs). Requests and answers here are plain values (`request`); `management_links`
carries them.
"""

from postroom.server.management.branches import BRANCH_TYPE
from postroom.server.management.brokers import BROKER_NAME, BROKER_TYPE
from postroom.server.management.channels import CHANNEL_TYPE
from postroom.server.management.connections import CONNECTION_TYPE
from postroom.server.management.dead_letter_handlers import DEAD_LETTER_HANDLER_TYPE
from postroom.server.management.leases import LEASE_TYPE
from postroom.server.management.ledgers import LEDGER_TYPE
from postroom.server.management.messages import MESSAGE_TYPE
from postroom.server.management.node import Management
from postroom.server.management.queues import QUEUE_TYPE
from postroom.server.management.quotas import QUOTA_TYPE
from postroom.server.management.remote_queues import REMOTE_QUEUE_TYPE
from postroom.server.management.request import Later, Request, Response
from postroom.server.management.sinks import SINK_TYPE
from postroom.server.management.spark_subscriptions import SPARK_SUBSCRIPTION_TYPE
from postroom.server.management.store_holders import STORE_HOLDER_TYPE
from postroom.server.management.topics import SUBSCRIPTION_TYPE, TOPIC_TYPE
from postroom.server.management.transactions import TRANSACTION_TYPE

__all__ = [
    "BRANCH_TYPE",
    "BROKER_NAME",
    "BROKER_TYPE",
    "CHANNEL_TYPE",
    "CONNECTION_TYPE",
    "DEAD_LETTER_HANDLER_TYPE",
    "LEASE_TYPE",
    "LEDGER_TYPE",
    "MESSAGE_TYPE",
    "QUEUE_TYPE",
    "QUOTA_TYPE",
    "REMOTE_QUEUE_TYPE",
    "SINK_TYPE",
    "SPARK_SUBSCRIPTION_TYPE",
    "STORE_HOLDER_TYPE",
    "SUBSCRIPTION_TYPE",
    "TOPIC_TYPE",
    "TRANSACTION_TYPE",
    "Later",
    "Management",
    "Request",
    "Response",
]
