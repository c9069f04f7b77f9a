"""Pausing as clients meet it: Proton's and our own, the switches turned over the management node."""

from collections.abc import Iterator

import pytest
from proton import Delivery, Message, Timeout
from proton.reactor import Copy, LinkOption
from proton.utils import BlockingConnection, BlockingReceiver, SendException

from postroom.amqp.encoding.types import Symbol
from postroom.client.exceptions import IllegalStateException
from postroom.client.sync import ConnectionFactory
from postroom.server.configuration.config import QueueConfig, StartupConfig
from tests.server.harness import BrokerThread, make_config
from tests.server.management_peer import QUEUE, Manager

pytestmark = pytest.mark.sockets

SHORT_S = 0.2
"""A receive that is to find nothing: what it waits is no part of what is tested."""


def fail(receiver: BlockingReceiver) -> None:
    """Give the delivery back as modified(delivery-failed); `BlockingReceiver` can't say that by itself."""
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.local.failed = True
    delivery.update(Delivery.MODIFIED)
    delivery.settle()


def test_a_send_to_a_queue_with_production_paused_is_rejected(
    manager: Manager, broker: BrokerThread, queue: str
) -> None:
    manager.request("CREATE", type=QUEUE, name=queue)
    sender = manager.connection.create_sender(queue)
    shown = manager.request("PAUSE", type=QUEUE, name=queue, switch="production").body
    assert (shown["production_paused"], shown["production_state"]) == (True, "Production-Paused")
    with pytest.raises(SendException):
        sender.send(Message(body="refused", durable=True))
    with ConnectionFactory(broker.url).create_connection() as ours:
        producer = ours.create_session().create_producer(queue)
        with pytest.raises(IllegalStateException, match="production is paused"):
            producer.send("refused, too")
    manager.request("RESUME", type=QUEUE, name=queue, switch="production")
    sender.send(Message(body="taken", durable=True))
    assert manager.request("READ", type=QUEUE, name=queue).body["messages_received"] == 1


def test_a_receiver_of_a_queue_with_consumption_paused_finds_nothing_and_a_browser_all(
    manager: Manager, queue: str
) -> None:
    manager.connection.create_sender(queue).send(Message(body="waits", durable=True))
    manager.request("PAUSE", type=QUEUE, name=queue, switch="consumption")
    receiver = manager.connection.create_receiver(queue, name="takes", credit=1)
    with pytest.raises(Timeout):
        receiver.receive(timeout=SHORT_S)
    browser = manager.connection.create_receiver(queue, name="looks", credit=1, options=Copy())
    assert browser.receive(timeout=15).body == "waits"
    manager.request("RESUME", type=QUEUE, name=queue, switch="consumption")
    assert receiver.receive(timeout=15).body == "waits"
    receiver.accept()


def test_what_comes_back_while_insertion_is_paused_is_pending_until_it_is_resumed(
    manager: Manager, queue: str
) -> None:
    manager.connection.create_sender(queue).send(Message(body="comes back", durable=True))
    receiver = manager.connection.create_receiver(queue, name="takes", credit=1)
    receiver.receive(timeout=15)
    manager.request("PAUSE", type=QUEUE, name=queue, switch="insertion")
    fail(receiver)
    receiver.close()
    counts = manager.request("READ", type=QUEUE, name=queue).body
    assert (counts["messages_current"], counts["messages_paused"]) == (0, 1)
    manager.request("RESUME", type=QUEUE, name=queue, switch="insertion")
    again = manager.connection.create_receiver(queue, name="again", credit=1).receive(timeout=15)
    assert (again.body, again.delivery_count) == ("comes back", 1)


@pytest.mark.parametrize("switch", ["everything", ""])
def test_a_request_that_names_no_switch_is_refused(manager: Manager, queue: str, switch: str) -> None:
    manager.request("CREATE", type=QUEUE, name=queue)
    answer = manager.request("PAUSE", type=QUEUE, name=queue, switch=switch)
    assert answer.properties["statusCode"] == 400
    assert "production, insertion, consumption" in answer.properties["statusDescription"]


@pytest.fixture(scope="module")
def paused_broker() -> Iterator[BrokerThread]:
    queues = [QueueConfig(name="quiet"), QueueConfig(name="open", production_paused_at_startup="false")]
    with BrokerThread(make_config(startup=StartupConfig(production_paused=True), queue=queues)) as running:
        yield running


def test_the_configuration_says_what_queues_start_with(paused_broker: BrokerThread) -> None:
    connection = BlockingConnection(paused_broker.url, timeout=15)
    try:
        with pytest.raises(SendException):
            connection.create_sender("quiet").send(Message(body="x"))
        connection.create_sender("open").send(Message(body="x"))
    finally:
        connection.close()


class RedeliveryDelay(LinkOption):
    """Link property: how long what this receiver fails at waits."""

    def __init__(self, delay: object) -> None:
        self.delay = delay

    def apply(self, link: object) -> None:
        link.properties = {Symbol("x-opt-redelivery-delay"): self.delay}  # type: ignore[attr-defined]


def test_a_consumer_says_how_long_what_it_fails_at_waits(manager: Manager, queue: str) -> None:
    manager.connection.create_sender(queue).send(Message(body="fails", durable=True))
    receiver = manager.connection.create_receiver(queue, credit=1, options=RedeliveryDelay(3_600_000))
    receiver.receive(timeout=15)
    fail(receiver)
    receiver.close()
    assert manager.request("READ", type=QUEUE, name=queue).body["messages_redelivery_delay"] == 1


@pytest.mark.parametrize("delay", ["soon", -5, True])
def test_a_redelivery_delay_that_is_no_time_refuses_the_attach(
    manager: Manager, queue: str, delay: object
) -> None:
    with pytest.raises(Exception, match="x-opt-redelivery-delay"):
        manager.connection.create_receiver(queue, credit=1, options=RedeliveryDelay(delay))
