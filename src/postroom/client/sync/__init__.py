"""The client without asyncio: every name of :mod:`postroom.client.aio`, without ``await``.

Each connection has a thread of its own that serves it: heartbeats leave and messages come in while the
application is busy.
"""

from postroom.client.modes import AcknowledgeMode
from postroom.client.sync.connecting import Connection, ConnectionFactory, connect
from postroom.client.sync.consuming import MessageConsumer, QueueBrowser
from postroom.client.sync.context import JMSContext, JMSProducer
from postroom.client.sync.management import ManagementClient
from postroom.client.sync.messaging import Session, TransactedSession
from postroom.client.sync.producing import MessageProducer
from postroom.client.sync.requesting import Requestor
from postroom.client.sync.store import MessageListener, MessageStore
from postroom.client.sync.temporary import TemporaryDestination
from postroom.client.sync.transaction import Resource, Transaction
from postroom.client.sync.transaction_manager import TransactionManager
from postroom.client.sync.xa import XAResource, XASession

__all__ = [
    "AcknowledgeMode",
    "Connection",
    "ConnectionFactory",
    "JMSContext",
    "JMSProducer",
    "ManagementClient",
    "MessageConsumer",
    "MessageListener",
    "MessageProducer",
    "MessageStore",
    "QueueBrowser",
    "Requestor",
    "Resource",
    "Session",
    "TemporaryDestination",
    "TransactedSession",
    "Transaction",
    "TransactionManager",
    "XAResource",
    "XASession",
    "connect",
]
