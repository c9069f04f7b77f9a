"""The client for asyncio: every name of :mod:`postroom.client`, with ``await``."""

from postroom.client.aio.closable import Opening
from postroom.client.aio.connection import Connection, TransactedSession
from postroom.client.aio.consumer import MessageConsumer, QueueBrowser
from postroom.client.aio.context import ConnectionFactory, JMSContext, JMSProducer, connect
from postroom.client.aio.management_client import ManagementClient
from postroom.client.aio.message_store import MessageListener, MessageStore
from postroom.client.aio.producer import MessageProducer
from postroom.client.aio.replies import Requestor, TemporaryDestination
from postroom.client.aio.session import Session
from postroom.client.aio.transaction import Resource, Transaction
from postroom.client.aio.transaction_manager import TransactionManager
from postroom.client.aio.xa import XAResource, XASession
from postroom.client.sessions.session_state import AcknowledgeMode

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
    "Opening",
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
