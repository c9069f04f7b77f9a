"""What an application writes that uses the client: `test_typing` gives it to ``mypy --strict``."""

import asyncio
from pathlib import Path
from typing import assert_type

from postroom import client
from postroom.client import (
    AcknowledgeMode,
    ClientOptions,
    Connection,
    ConnectionFactory,
    ConnectionListener,
    DeliveryMode,
    HeuristicMixedException,
    InvalidDestinationException,
    JMSException,
    ManagementReply,
    MapMessage,
    Message,
    MessageConsumer,
    MessageFilter,
    PrefetchPolicy,
    Queue,
    RedeliveryPolicy,
    StoredMessage,
    TextMessage,
    TlsOptions,
    Topic,
    TransactionManager,
    TransactionStatus,
    UniqueId,
    XaFlag,
    Xid,
    aio,
    sync,
)


class Breaks(ConnectionListener):
    def on_interrupted(self, broker: str) -> None:
        print(broker)

    def on_failure(self, failure: JMSException) -> None:
        print(failure)


def configured() -> ConnectionFactory:
    options = ClientOptions(
        prefetch=PrefetchPolicy(queue=10),
        redelivery=RedeliveryPolicy(max_redeliveries=3),
        send_timeout_s=None,
    )
    return ConnectionFactory(
        "failover:(amqps://a,amqps://b)",
        client_id="shop",
        tls=TlsOptions(ca_file=Path("ca.pem")),
        listener=Breaks(),
        options=options,
    )


def sends_and_receives(connection: Connection) -> str | None:
    with connection.create_session(AcknowledgeMode.INDIVIDUAL) as session:
        producer = session.create_producer(Queue("orders"), send_timeout_ms=1000)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        producer.send(Message({"item": 1}, properties={"n": 1}, priority=9))
        producer.send(TextMessage("text"), priority=1)
        assert_type(producer.send_all(["a", b"b", MapMessage()]), int)
        consumer = session.create_consumer(Topic("prices"), selector="n > 1", prefetch=0)
        message = consumer.receive(timeout_s=1.5)
        assert_type(message, Message | None)
        if message is None:
            return None
        consumer.modify(message, failed=True)
        for each in session.create_browser("orders"):
            assert_type(each, Message)
        assert_type(session.create_requestor(Queue("ask")).request("?"), Message)
        return consumer.receive_body(str)


def listens(consumer: MessageConsumer) -> None:
    def on_message(message: Message) -> None:
        print(message.message_id, message.body, message.properties["n"])

    consumer.set_message_listener(on_message)


def administers(connection: Connection) -> int:
    management = connection.create_management()
    assert_type(management.query("postroom.queue", ["name"]), list[dict[str, object]])
    reply = management.request("HOLDERS", kind="postroom.queue", name="orders")
    assert_type(reply, ManagementReply)
    return reply.status_code


def stores(connection: Connection) -> None:
    store = connection.create_message_store("orders")
    unique_id = store.put("body", confirm_id=1)
    assert_type(unique_id, UniqueId)
    store.confirm_put(unique_id, 1)
    assert_type(store.browse_and_lock(MessageFilter(priority=4)).messages, list[StoredMessage])


def commits(connection: Connection) -> TransactionStatus | None:
    with TransactionManager("transactions") as manager, connection.create_xa_session() as session:
        assert_type(session.xa_resource.recover(XaFlag.TMSTARTRSCAN), list[Xid])
        try:
            with manager.transaction(session.xa_resource) as transaction:
                session.create_producer("orders").send("a")
            return transaction.status
        except HeuristicMixedException:
            return None


def short_form() -> None:
    with sync.ConnectionFactory().create_context() as context:
        context.create_producer().set_priority(9).set_property("n", 1).send(Queue("orders"), "body")
        try:
            context.create_consumer(Queue("orders")).receive(timeout_s=1)
        except InvalidDestinationException as error:
            print(error)


async def in_asyncio() -> object:
    async with (
        await aio.ConnectionFactory().create_connection() as connection,
        await connection.create_session() as session,
    ):
        assert_type(connection, aio.Connection)
        producer = await session.create_producer("orders")
        await producer.send(Message("body", ttl_ms=1000))
        consumer = await session.create_consumer("orders")
        message = await consumer.receive(timeout_s=1)
        assert_type(message, Message | None)
        return message.body if message is not None else None


if __name__ == "__main__":
    with configured().create_connection() as opened:
        print(sends_and_receives(opened), administers(opened), commits(opened), client.Session)
    print(asyncio.run(in_asyncio()))
