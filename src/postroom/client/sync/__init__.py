"""The client without asyncio: every name of :mod:`postroom.client.aio`, without ``await``.

Each connection has a thread of its own that serves it: heartbeats leave and messages come in while the
application is busy.
"""

from postroom.client.sessions.session_state import AcknowledgeMode
from postroom.client.sync.connection import Connection, TransactedSession
from postroom.client.sync.consumer import MessageConsumer, QueueBrowser
from postroom.client.sync.context import ConnectionFactory, JMSContext, JMSProducer, connect
from postroom.client.sync.management_client import ManagementClient
from postroom.client.sync.message_store import MessageListener, MessageStore
from postroom.client.sync.producer import MessageProducer
from postroom.client.sync.replies import Requestor, TemporaryDestination
from postroom.client.sync.session import Session
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
