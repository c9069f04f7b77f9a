"""The short form of JMS 2.0, JMSContext: the asyncio face.

.. code-block:: python

    async with await ConnectionFactory("amqp://127.0.0.1").create_context() as context:
        await context.create_producer().set_priority(7).send("orders", "one crate of apples")
        consumer = await context.create_consumer("orders")
        order = await consumer.receive_body(str, timeout_s=5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from postroom.client.aio.closable import Closable
from postroom.client.aio.consumer import MessageConsumer, QueueBrowser
from postroom.client.aio.producer import MessageProducer
from postroom.client.aio.session import Session
from postroom.client.aio.temporary_destinations import TemporaryDestination
from postroom.client.connection.metadata import ConnectionMetaData
from postroom.client.connection.options import RecoverMode
from postroom.client.destinations import Destination, Queue, Topic
from postroom.client.messages.message import Body, DeliveryMode, Message, as_message
from postroom.client.sessions.connection_state import ExceptionListener, FailureCallback, MessageCallback
from postroom.client.sessions.session_state import AcknowledgeMode

if TYPE_CHECKING:
    from postroom.client.aio.connection import Connection

__all__ = ["JMSContext", "JMSProducer"]

MAX_PRODUCERS: Final = 16
"""Links that a context keeps, one for each destination that it has sent to lately."""

JmsBody = Body | None
"""What :meth:`JMSProducer.send` sends: in JMS, no body is a body."""


class JMSContext(Closable):
    """A connection and one session on it. Made by :meth:`ConnectionFactory.create_context`; leaving
    ``async with`` closes it, and with the last of its connection the connection.
    """

    def __init__(self, connection: Connection, session: Session, siblings: set[JMSContext]) -> None:
        """``siblings``: the contexts that are open on this connection."""
        self._connection = connection
        self._session = session
        self._siblings = siblings
        self._producers: dict[Destination, MessageProducer] = {}
        """The one used last comes last."""
        siblings.add(self)

    async def create_context(
        self,
        acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO,
        *,
        recover: RecoverMode | None = None,
    ) -> JMSContext:
        """Another session on the same connection."""
        session = await self._connection.create_session(acknowledge_mode, recover=recover)
        return JMSContext(self._connection, session, self._siblings)

    @property
    def client_id(self) -> str:
        """The container id of this end."""
        return self._connection.client_id

    @property
    def session_mode(self) -> AcknowledgeMode:
        """The mode that it was created with."""
        return self._session.acknowledge_mode

    @property
    def is_transacted(self) -> bool:
        """Whether what it sends and receives is decided by ``commit`` and ``rollback``."""
        return self._session.is_transacted

    @property
    def is_connection_closed(self) -> bool:
        """True after the last context of the connection was closed, and when the connection has ended."""
        return self._connection.is_closed

    @property
    def metadata(self) -> ConnectionMetaData:
        """Versions of the client and the broker."""
        return self._connection.metadata

    async def start(self) -> None:
        """See :meth:`Connection.start`."""
        await self._connection.start()

    async def stop(self) -> None:
        """See :meth:`Connection.stop`."""
        await self._connection.stop()

    async def set_exception_listener(self, listener: ExceptionListener | None) -> None:
        """See :meth:`Connection.set_exception_listener`."""
        await self._connection.set_exception_listener(listener)

    def create_producer(self) -> JMSProducer:
        """A producer for any destination. It may be thrown away: all of a context share their links."""
        return JMSProducer(self)

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, no_local: bool = False
    ) -> MessageConsumer:
        """See :meth:`Session.create_consumer`."""
        return await self._session.create_consumer(destination, selector=selector, no_local=no_local)

    async def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, no_local: bool = False
    ) -> MessageConsumer:
        """See :meth:`Session.create_durable_consumer`."""
        return await self._session.create_durable_consumer(topic, name, selector=selector, no_local=no_local)

    async def create_shared_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """See :meth:`Session.create_shared_consumer`."""
        return await self._session.create_shared_consumer(topic, name, selector=selector)

    async def create_shared_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """See :meth:`Session.create_shared_durable_consumer`."""
        return await self._session.create_shared_durable_consumer(topic, name, selector=selector)

    async def create_browser(self, queue: str | Queue, selector: str | None = None) -> QueueBrowser:
        """See :meth:`Session.create_browser`."""
        return await self._session.create_browser(queue, selector=selector)

    async def create_temporary_queue(self) -> TemporaryDestination:
        """See :meth:`Session.create_temporary_queue`."""
        return await self._session.create_temporary_queue()

    async def create_temporary_topic(self) -> TemporaryDestination:
        """See :meth:`Session.create_temporary_topic`."""
        return await self._session.create_temporary_topic()

    async def unsubscribe(self, name: str) -> None:
        """See :meth:`Session.unsubscribe`."""
        await self._session.unsubscribe(name)

    async def acknowledge(self) -> None:
        """Accept everything that was received so far, in mode CLIENT; in other modes nothing happens."""
        if self._session.acknowledge_mode is AcknowledgeMode.CLIENT:
            await self._session.acknowledge()

    async def recover(self) -> None:
        """See :meth:`Session.recover`."""
        await self._session.recover()

    async def commit(self) -> None:
        """See :meth:`Session.commit`."""
        await self._session.commit()

    async def rollback(self) -> None:
        """See :meth:`Session.rollback`."""
        await self._session.rollback()

    async def close(self) -> None:
        """Close the session, and the connection when no other context is open on it."""
        self._siblings.discard(self)
        if self._siblings:
            await self._session.close()
        else:
            await self._connection.close()

    async def _producer(self, destination: Destination) -> MessageProducer:
        """The one for ``destination``: a link to it, so that the broker may make the queue."""
        producer = self._producers.pop(destination, None)
        if producer is None or producer.is_closed:
            producer = await self._session.create_producer(destination)
        self._producers[destination] = producer
        if len(self._producers) > MAX_PRODUCERS:
            await self._producers.pop(next(iter(self._producers))).close()
        return producer


class JMSProducer:
    """Sends to any destination; each ``set_…`` returns the producer, so that they make a chain. Made by
    :meth:`JMSContext.create_producer`.

    What is set counts for every message that is sent, whatever the message says.
    """

    def __init__(self, context: JMSContext) -> None:
        self._context = context
        self._options: dict[str, Any] = {}
        """Arguments of :meth:`MessageProducer.send`."""
        self._headers: dict[str, object] = {}
        self._properties: dict[str, object] = {}

    def set_delivery_mode(self, mode: DeliveryMode) -> Self:
        """PERSISTENT or NON_PERSISTENT."""
        self._options["delivery_mode"] = DeliveryMode(mode)
        return self

    def set_priority(self, priority: int) -> Self:
        """0 to 9."""
        self._options["priority"] = priority
        return self

    def set_time_to_live(self, ttl_ms: int) -> Self:
        """In milliseconds; 0: for ever."""
        self._options["ttl_ms"] = ttl_ms
        return self

    def set_delivery_delay(self, delay_ms: int) -> Self:
        """In milliseconds."""
        self._options["delivery_delay_ms"] = delay_ms
        return self

    def set_async(
        self, on_completion: MessageCallback | None, on_exception: FailureCallback | None = None
    ) -> Self:
        """``send`` doesn't wait for outcomes, which are told to these; both None: it does."""
        self._options |= {"on_completion": on_completion, "on_exception": on_exception}
        return self

    def set_property(self, name: str, value: object) -> Self:
        """A property of every message. Raises ValueError for a name, MessageFormatException for a value that
        no property has.
        """
        Message().set_object_property(name, value)
        self._properties[name] = value
        return self

    def clear_properties(self) -> Self:
        """None of those any more."""
        self._properties.clear()
        return self

    def set_jms_correlation_id(self, correlation_id: str | None) -> Self:
        """JMSCorrelationID of every message."""
        self._headers["jms_correlation_id"] = correlation_id
        return self

    def set_jms_reply_to(self, reply_to: Destination | None) -> Self:
        """JMSReplyTo of every message."""
        self._headers["reply_to"] = reply_to
        return self

    def set_jms_type(self, jms_type: str | None) -> Self:
        """JMSType of every message."""
        self._headers["subject"] = jms_type
        return self

    async def send(self, destination: Destination, body: JmsBody) -> Self:
        """Send a message, or the body of one: a str as TextMessage, bytes as BytesMessage, a mapping as
        MapMessage, None as a Message without a body. Raises as :meth:`MessageProducer.send`.
        """
        message = _message(body)
        for name, value in self._headers.items():
            setattr(message, name, value)
        for name, value in self._properties.items():
            message.set_object_property(name, value)
        producer = await self._context._producer(destination)
        await producer.send(message, **self._options)
        return self


def _message(body: JmsBody) -> Message:
    return Message() if body is None else as_message(body)
