"""What the management node has answered holds after a SIGKILL: queues and quotas made and deleted, messages
purged."""

import pytest

from postroom.client import Message
from postroom.client.sync import Connection, ConnectionFactory
from postroom.model.entity_types import QUEUE_TYPE, QUOTA_TYPE
from tests.clients.broker import BrokerProcess
from tests.sampling import WHOLE

KILLS = 5 if WHOLE else 2
MESSAGES = 40

pytestmark = pytest.mark.sockets


def connected(broker: BrokerProcess) -> Connection:
    return ConnectionFactory(f"amqp://{broker.host}:{broker.port}").create_connection()


def killed_once_answered(broker: BrokerProcess, operation: str, queue: str) -> None:
    """Ask the management node, and kill the broker as soon as it has answered."""
    with connected(broker) as connection:
        connection.create_management().request(operation, kind=QUEUE_TYPE, name=queue)
        broker.kill()
    broker.start()


def fill(broker: BrokerProcess, queue: str) -> None:
    with connected(broker) as connection:
        producer = connection.create_session().create_producer(queue)
        producer.send_all([Message(f"{queue} {number}") for number in range(MESSAGES)])


def queues(broker: BrokerProcess) -> dict[str, int]:
    """Messages held, by queue."""
    with connected(broker) as connection:
        rows = connection.create_management().query(QUEUE_TYPE)
        return {str(row["name"]): int(str(row["messages_current"])) for row in rows}


def test_what_was_purged_stays_away(broker: BrokerProcess) -> None:
    for _ in range(KILLS):
        fill(broker, "purged")
        killed_once_answered(broker, "PURGE", "purged")
        assert queues(broker)["purged"] == 0


def test_a_deleted_queue_stays_away_and_its_neighbour_stays(broker: BrokerProcess) -> None:
    fill(broker, "neighbour")
    for _ in range(KILLS):
        fill(broker, "deleted")
        killed_once_answered(broker, "DELETE", "deleted")
        held = queues(broker)
        assert "deleted" not in held
        assert held["neighbour"] == MESSAGES


def test_a_created_queue_is_there(broker: BrokerProcess) -> None:
    for number in range(KILLS):
        killed_once_answered(broker, "CREATE", f"created-{number}")
        assert f"created-{number}" in queues(broker)


def test_a_quota_is_there_as_it_was_changed_last_with_what_is_used_of_it(broker: BrokerProcess) -> None:
    with connected(broker) as connection:
        management = connection.create_management()
        management.create(QUOTA_TYPE, "room", {"messages_maximum": 1})
        management.create(QUEUE_TYPE, "limited", {"quota": "room"})
    for number in range(1, KILLS + 1):
        with connected(broker) as connection:
            connection.create_management().update(QUOTA_TYPE, "room", {"messages_maximum": number})
            connection.create_session().create_producer("limited").send("one more")
            broker.kill()
        broker.start()
        with connected(broker) as connection:
            quota = connection.create_management().read(QUOTA_TYPE, "room")
        assert (quota["messages_maximum"], quota["messages_used"], quota["destinations"]) == (
            number,
            number,
            1,
        )
