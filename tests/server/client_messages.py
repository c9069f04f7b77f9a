"""Messages that our own client sends and takes, and how many lie on a queue."""

from postroom.client import ConnectionFactory, Message, Topic
from tests.server.harness import BrokerThread


def depth(broker: BrokerThread, queue: str) -> int:
    return broker.call(lambda broker: int(broker.manager.queues[queue].statistics.depth))


def send(broker: BrokerThread, queue: str | Topic, *messages: Message) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        producer = connection.create_session().create_producer(queue)
        for message in messages:
            producer.send(message)


def taken(broker: BrokerThread, queue: str, selector: str | None = None) -> Message:
    with ConnectionFactory(broker.url).create_connection() as connection:
        message = connection.create_session().create_consumer(queue, selector=selector).receive(5)
        assert message is not None
        return message


def nodes(broker: BrokerThread) -> list[str]:
    return broker.call(lambda running: sorted([*running.manager.queues, *running.manager.topics]))
