"""Message groups and units of order over the wire, with Qpid Proton."""

import pytest
from proton import Message, symbol
from proton.utils import BlockingConnection

from postroom.manager.kernel.options import QueueDefinition
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets


def make(broker: BrokerThread, definition: QueueDefinition) -> None:
    broker.turn(lambda b, now_us: b.manager.create_queue(definition, now_us))


def test_the_first_of_a_group_is_marked_and_its_consumer_gets_the_rest(
    broker: BrokerThread, connection: BlockingConnection, queue: str
) -> None:
    make(broker, QueueDefinition(name=queue, group_buckets=64))
    sender = connection.create_sender(queue)
    owner = connection.create_receiver(queue, name="owner", credit=10)
    for number in range(3):
        sender.send(Message(body=number, durable=True, group_id="g"))
    got = [owner.receive(timeout=15) for _ in range(3)]
    assert [message.body for message in got] == [0, 1, 2]
    assert [(message.annotations or {}).get(symbol("x-opt-group-first")) for message in got] == [
        True,
        None,
        None,
    ]


@pytest.mark.parametrize("way", ["property", "annotation"])
def test_a_unit_of_order_comes_one_by_one(
    broker: BrokerThread, connection: BlockingConnection, request: pytest.FixtureRequest, way: str
) -> None:
    queue = str(request.node.name)
    make(broker, QueueDefinition(name=queue, unit_of_order=True))
    sender = connection.create_sender(queue)
    for number in range(3):
        message = Message(body=number, durable=True, priority=number)
        if way == "property":
            message.properties = {"JMS_BEA_UnitOfOrder": "u"}
        else:
            message.annotations = {symbol("x-opt-unit-of-order"): "u"}
        sender.send(message)
    receiver = connection.create_receiver(queue, credit=10)
    for number in range(3):
        assert receiver.receive(timeout=15).body == number
        broker.wait_until(lambda b: int(b.manager.queues[queue].statistics.unacknowledged) == 1)
        receiver.accept()
