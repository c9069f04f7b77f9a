"""The client: JMS in Python over AMQP 1.0, for this broker and others.

:mod:`postroom.client.aio` is the face for asyncio, :mod:`postroom.client.sync` the same without ``await``,
generated from it. This room is built on ``postroom.amqp``, the engine that the server uses, too; it may
import nothing else of the house. Sockets, threads and the clock are allowed here.
"""

from postroom.client.exceptions import (
    ConnectionLostException,
    IllegalStateException,
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    JMSSecurityException,
    JMSTimeoutException,
    ManagementException,
    MessageFormatException,
    MessageModifiedException,
    MessageRejectedException,
    MessageReleasedException,
    ResourceAllocationException,
    TransactionRolledBackException,
)
from postroom.client.management import ManagementReply
from postroom.client.message import BodyKind, Message
from postroom.client.sync import (
    AcknowledgeMode,
    Connection,
    ConnectionFactory,
    ManagementClient,
    MessageConsumer,
    MessageProducer,
    QueueBrowser,
    Session,
)

__all__ = [
    "AcknowledgeMode",
    "BodyKind",
    "Connection",
    "ConnectionFactory",
    "ConnectionLostException",
    "IllegalStateException",
    "InvalidClientIDException",
    "InvalidDestinationException",
    "InvalidSelectorException",
    "JMSException",
    "JMSSecurityException",
    "JMSTimeoutException",
    "ManagementClient",
    "ManagementException",
    "ManagementReply",
    "Message",
    "MessageConsumer",
    "MessageFormatException",
    "MessageModifiedException",
    "MessageProducer",
    "MessageRejectedException",
    "MessageReleasedException",
    "QueueBrowser",
    "ResourceAllocationException",
    "Session",
    "TransactionRolledBackException",
]
