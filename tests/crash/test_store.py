"""What confirm ids and browse locks hold is held after a SIGKILL, and what was answered stays so."""

import pytest

from postroom.client import (
    Message,
    MessageFilter,
    MessageStore,
    NoMatchingMessageException,
    UniqueId,
)
from postroom.client.sync import Connection, ConnectionFactory
from postroom.model.entity_types import QUEUE_TYPE
from tests.clients.broker import BrokerProcess
from tests.sampling import WHOLE

ROUNDS = 3 if WHOLE else 1

pytestmark = pytest.mark.sockets


def connected(broker: BrokerProcess) -> tuple[Connection, MessageStore]:
    connection = ConnectionFactory(f"amqp://{broker.host}:{broker.port}").create_connection()
    return connection, connection.create_message_store("q")


def killed(broker: BrokerProcess, connection: Connection) -> tuple[Connection, MessageStore]:
    """Kill the broker as soon as it has answered, start it again, connect."""
    broker.kill()
    connection.close()
    broker.start()
    return connected(broker)


def bodies(store: MessageStore, filter: MessageFilter = MessageFilter()) -> list[object]:  # noqa: B008
    return [found.message.body for found in store.browse(filter) if found.message is not None]


def test_every_step_survives_a_kill(broker: BrokerProcess) -> None:
    connection, store = connected(broker)
    connection.create_management().create(QUEUE_TYPE, "q")
    for number in range(ROUNDS):
        uid = UniqueId("QM1", number)
        store.put(Message("x"), unique_id=uid, confirm_id=1)
        connection, store = killed(broker, connection)
        assert bodies(store) == []
        store.confirm_put(uid, 1)
        connection, store = killed(broker, connection)
        assert bodies(store) == ["x"]
        lock = store.browse_and_lock(confirm_id=2).lock_id
        connection, store = killed(broker, connection)
        assert (bodies(store), bodies(store, MessageFilter(lock_id=lock))) == ([], ["x"])
        store.get(MessageFilter(lock_id=lock, unique_id=uid), confirm_id=3)
        connection, store = killed(broker, connection)
        assert store.undo(3) == 1
        connection, store = killed(broker, connection)
        assert bodies(store, MessageFilter(lock_id=lock)) == ["x"]
        store.get(MessageFilter(lock_id=lock), confirm_id=3)
        store.confirm_get(uid, 3)
        connection, store = killed(broker, connection)
        with pytest.raises(NoMatchingMessageException):
            store.undo(2)
    connection.close()
