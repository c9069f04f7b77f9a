"""Topics, subscriptions and temporary destinations, against a real broker."""

from collections.abc import Callable, Iterator

import pytest

from postroom.client import (
    Connection,
    ConnectionFactory,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    Message,
    MessageConsumer,
    Queue,
    ResourceAllocationException,
    Topic,
)
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets

Connect = Callable[..., Connection]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


@pytest.fixture
def connect(broker: BrokerThread) -> Iterator[Connect]:
    """Opens connections that end with the test."""
    opened: list[Connection] = []

    def open_one(client_id: str | None = None) -> Connection:
        opened.append(ConnectionFactory(broker.url, client_id=client_id).create_connection())
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> Topic:
    return Topic(f"client.{request.node.name}")


def publish(connection: Connection, topic: Topic, *bodies: str, **properties: object) -> None:
    producer = connection.create_session().create_producer(topic)
    assert producer.destination == topic
    for body in bodies:
        producer.send(Message(body, properties=dict(properties)))
    producer.close()


def received(consumer: MessageConsumer) -> list[object]:
    found = []
    while (message := consumer.receive_no_wait()) is not None:
        found.append(message.body)
    return found


def test_subscribers_and_a_pattern(connect: Connect, topic: Topic) -> None:
    connection = connect()
    session = connection.create_session()
    first = session.create_consumer(topic)
    second = session.create_consumer(Topic("client.*"), selector="colour = 'red'")
    publish(connection, topic, "1", colour="red")
    publish(connection, topic, "2", colour="blue")
    assert received(first) == ["1", "2"]
    assert received(second) == ["1"]


def test_a_durable_subscription(connect: Connect, topic: Topic) -> None:
    client_id = f"id-{topic.name}"
    connection = connect(client_id)
    connection.create_session().create_durable_consumer(topic, "sub").close()
    publish(connection, topic, "kept")
    connection.close()
    connection = connect(client_id)
    session = connection.create_session()
    consumer = session.create_durable_consumer(topic, "sub")
    assert received(consumer) == ["kept"]
    with pytest.raises(ResourceAllocationException, match="in use"):
        _use_with_another_selector(connect, topic)
    consumer.close()
    session.unsubscribe("sub")
    with pytest.raises(InvalidDestinationException, match="no durable subscription"):
        session.unsubscribe("sub")


def _use_with_another_selector(connect: Connect, topic: Topic) -> None:
    connect().create_session().create_shared_durable_consumer(topic, "shared")
    connect().create_session().create_shared_durable_consumer(topic, "shared", selector="a = 1")


def test_a_durable_subscription_needs_a_client_id(connect: Connect, topic: Topic) -> None:
    session = connect().create_session()
    with pytest.raises(IllegalStateException, match="client id"):
        session.create_durable_consumer(topic, "sub")
    with pytest.raises(JMSException, match="name"):
        session.create_shared_consumer(topic, "a|b")


@pytest.mark.parametrize("client_id", [None, "own"])
def test_shared_subscriptions(connect: Connect, topic: Topic, client_id: str | None) -> None:
    connection = connect(client_id)
    session = connection.create_session()
    shared = [session.create_shared_consumer(topic, "s", prefetch=1) for _ in range(2)]
    durable = session.create_shared_durable_consumer(topic.name, "s")
    publish(connection, topic, "a", "b", "c", "d")
    found = [received(consumer) for consumer in shared]
    assert sorted(body for bodies in found for body in bodies) == ["a", "b", "c", "d"]  # type: ignore[type-var]
    durable.close()
    again = session.create_shared_durable_consumer(topic, "s")
    assert received(again) == ["a", "b", "c", "d"]
    again.close()
    session.unsubscribe("s")


def test_no_local(connect: Connect, topic: Topic) -> None:
    mine = connect("me")
    consumer = mine.create_session().create_consumer(topic, no_local=True)
    publish(mine, topic, "mine")
    publish(connect(), topic, "theirs")
    assert received(consumer) == ["theirs"]


def test_a_bad_selector(connect: Connect, topic: Topic) -> None:
    with pytest.raises(InvalidSelectorException):
        connect().create_session().create_consumer(topic, selector="a = ")


def test_messages_that_name_their_topic(connect: Connect, topic: Topic) -> None:
    connection = connect()
    session = connection.create_session()
    relay = session.create_producer()
    relay.send("makes it", destination=topic)
    consumer = session.create_consumer(topic)
    relay.send("published", destination=topic)
    message = consumer.receive(10)
    assert message is not None and message.body == "published"
    assert message.annotations["x-opt-jms-dest"] == 1
    with pytest.raises(InvalidDestinationException):
        relay.send("nowhere", destination=Queue("client.no-such-queue"))
    with pytest.raises(InvalidDestinationException, match="topic's"):
        session.create_consumer(Queue(topic.name))


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_request_and_reply(connect: Connect, topic: Topic, kind: str) -> None:
    client, server = connect(), connect()
    session, serving = client.create_session(), server.create_session()
    replies = getattr(session, f"create_temporary_{kind}")()
    reader = session.create_consumer(replies.destination)
    requests = serving.create_consumer(topic)
    asking = session.create_producer(topic)
    asking.send(Message("question", reply_to=replies.destination, correlation_id="1"))
    question = requests.receive(10)
    assert question is not None and question.reply_to == replies.destination
    serving.create_producer().send(Message("answer", correlation_id="1"), destination=question.reply_to)
    answer = reader.receive(10)
    assert answer is not None and (answer.body, answer.correlation_id) == ("answer", "1")
    with pytest.raises(JMSException, match="only the connection that made it"):
        serving.create_consumer(replies.destination)
    with pytest.raises(IllegalStateException, match="close them first"):
        replies.delete()
    reader.close()
    replies.delete()
    assert replies.is_deleted
    with pytest.raises(InvalidDestinationException):
        serving.create_producer(replies.destination)


def test_a_temporary_queue_outlives_its_session(connect: Connect) -> None:
    connection = connect()
    session = connection.create_session()
    temporary = session.create_temporary_queue()
    session.close()
    other = connection.create_session()
    other.create_producer(temporary.destination).send("still there")
    assert received(other.create_consumer(temporary.destination)) == ["still there"]
