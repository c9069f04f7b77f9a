"""The client: JMS in Python over AMQP 1.0, for this broker and others.

:mod:`postroom.client.aio` is the face for asyncio, :mod:`postroom.client.sync` the same without ``await``,
generated from it. This room is built on ``postroom.amqp``, the engine that the server uses, too; it may
import nothing else of the house. Sockets, threads and the clock are allowed here.
"""

from postroom.client.destinations import Destination, Queue, Topic
from postroom.client.exceptions import (
    ConnectionLostException,
    DuplicateMessageException,
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
    NoMatchingMessageException,
    ResourceAllocationException,
    TransactionRolledBackException,
)
from postroom.client.management import ManagementReply
from postroom.client.message import BodyKind, Message
from postroom.client.store import (
    BrowseLock,
    MessageEvent,
    MessageFilter,
    StoredMessage,
    UniqueId,
)
from postroom.client.sync import (
    AcknowledgeMode,
    Connection,
    ConnectionFactory,
    ManagementClient,
    MessageConsumer,
    MessageListener,
    MessageProducer,
    MessageStore,
    QueueBrowser,
    Session,
    TemporaryDestination,
)

__all__ = [
    "AcknowledgeMode",
    "BodyKind",
    "BrowseLock",
    "Connection",
    "ConnectionFactory",
    "ConnectionLostException",
    "Destination",
    "DuplicateMessageException",
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
    "MessageEvent",
    "MessageFilter",
    "MessageFormatException",
    "MessageListener",
    "MessageModifiedException",
    "MessageProducer",
    "MessageRejectedException",
    "MessageReleasedException",
    "MessageStore",
    "NoMatchingMessageException",
    "Queue",
    "QueueBrowser",
    "ResourceAllocationException",
    "Session",
    "StoredMessage",
    "TemporaryDestination",
    "Topic",
    "TransactionRolledBackException",
    "UniqueId",
]
