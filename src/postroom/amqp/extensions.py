"""Names on the wire that clients and broker both say and AMQP's core leaves open: capabilities, filters,
properties of links and connections, annotations.

Where Apache Qpid has a name for it, it is that; ``x-opt-`` marks annotations and properties of applications.
"""

from typing import Final

from postroom.amqp.encoding.types import Symbol

MANAGEMENT_ADDRESS: Final = "$management"
"""The management node (AMQP Management, working draft 9)."""

# Of connections.
SOLE_CONNECTION: Final = "sole-connection-for-container"
"""Capability: a container id belongs to one connection (AMQP Sole Connection Detection, section 2)."""
ESTABLISHMENT_FAILED: Final = "amqp:connection-establishment-failed"
"""Property of an open that a close will follow."""

# Of sources and targets.
QUEUE_CAPABILITY: Final = "queue"
TOPIC_CAPABILITY: Final = "topic"
TEMPORARY_QUEUE_CAPABILITY: Final = "temporary-queue"
TEMPORARY_TOPIC_CAPABILITY: Final = "temporary-topic"
SHARED_CAPABILITY: Final = "shared"
GLOBAL_CAPABILITY: Final = "global"
CREATE_CAPABILITY: Final = "create-on-demand"
"""Of a source: make the queue if it isn't there. The name is that of Apache Qpid's C++ broker and client."""
LIFETIME_POLICY: Final = "lifetime-policy"
"""Of dynamic nodes (part 3, section 3.5.9)."""
SELECTOR_DESCRIPTOR: Final = Symbol("apache.org:selector-filter:string")
NO_LOCAL_DESCRIPTOR: Final = Symbol("apache.org:no-local-filter:list")
REJECTED_OUTCOME: Final = "amqp:rejected:list"

# Of coordinators.
LOCAL_TRANSACTIONS: Final = "amqp:local-transactions"
DISTRIBUTED_TRANSACTIONS: Final = "amqp:distributed-transactions"
XA_CODE: Final = "xa-code"
"""In the info of an error, and in the body of an answer: X/Open's code."""

# Properties of links.
SEND_TIMEOUT_PROPERTY: Final = "x-opt-send-timeout"
"""How long a send waits for room, in ms; 0 not at all."""
EXCLUSIVE_PROPERTY: Final = Symbol("exclusive")
"""Boolean: nobody else may consume from the queue while this link does."""
XA_PROPERTY: Final = Symbol("x-opt-xa")
"""Boolean: what it receives is for XA branches of its session."""

# Annotations.
REDELIVERY_DELAY: Final = Symbol("x-opt-redelivery-delay")
"""Of a consumer's link (property) or of one outcome ``modified`` (annotation), in ms: how long what it fails
at waits. In an outcome it is not kept as an annotation of the message."""
DESTINATION_TYPE: Final = Symbol("x-opt-jms-dest")
"""What kind of destination `to` is, a number as Qpid JMS has it."""
FAILURE_COUNT: Final = Symbol("x-opt-failure-count")
"""Delivery annotation: how many of the earlier deliveries somebody failed at, where that isn't all of them:
those that a broken connection brought back are none."""
