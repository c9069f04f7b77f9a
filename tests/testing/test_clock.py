"""Time stands still for the broker until the test moves it; then what falls due happens, in its order."""

from datetime import timedelta

import pytest
from proton import Delivery, Message, symbol, ulong
from proton.utils import BlockingConnection

from postroom.client import AcknowledgeMode, ConnectionFactory, TextMessage
from postroom.model.entity_types import LEASE_TYPE
from postroom.testing import Broker

pytestmark = pytest.mark.sockets


def delayed(text: str, seconds: int) -> Message:
    return Message(
        body=text,
        id=text,
        durable=True,
        annotations={symbol("x-opt-delivery-delay"): ulong(seconds * 1000)},
    )


def test_the_clock_stands_still_until_it_is_moved(postroom_broker: Broker) -> None:
    before = postroom_broker.now
    assert postroom_broker.now == before
    postroom_broker.advance(days=1, hours=2, minutes=3, seconds=0.5)
    assert postroom_broker.now - before == timedelta(days=1, hours=2, minutes=3, seconds=0.5)
    assert before.utcoffset() == timedelta(0)


def test_a_message_expires_at_its_time_and_not_before(
    postroom_broker: Broker, proton: BlockingConnection
) -> None:
    queue = postroom_broker.create_queue("orders")
    sent_at = postroom_broker.now
    proton.create_sender("orders").send(Message(body="old", id="m-1", durable=True, ttl=3600))
    postroom_broker.advance(minutes=59)
    assert (queue.current, queue.expired) == (1, 0)
    postroom_broker.advance(minutes=1)
    assert (queue.current, queue.expired) == (0, 1)
    expiry = postroom_broker.history("m-1")[-1]
    assert (expiry.event, expiry.outcome, expiry.time) == ("expire", "expired", sent_at + timedelta(hours=1))


def test_messages_are_born_one_after_another_each_at_its_time(
    postroom_broker: Broker, proton: BlockingConnection
) -> None:
    queue = postroom_broker.create_queue("orders")
    sent_at = postroom_broker.now
    sender = proton.create_sender("orders")
    for text, seconds in (("late", 7200), ("early", 60)):
        sender.send(delayed(text, seconds))
    assert (queue.current, queue.pending) == (0, 2)
    assert [message.due for message in queue.messages] == [
        sent_at + timedelta(hours=2),
        sent_at + timedelta(minutes=1),
    ]
    postroom_broker.advance(days=1)
    assert [message.body for message in queue.messages] == ["early", "late"]
    assert postroom_broker.history("early")[-1].time - sent_at == timedelta(minutes=1)
    assert postroom_broker.history("late")[-1].time - sent_at == timedelta(hours=2)


def test_what_is_born_and_expires_in_one_advance_is_both(
    postroom_broker: Broker, proton: BlockingConnection
) -> None:
    queue = postroom_broker.create_queue(
        "orders", max_ttl_ms=3_600_000, expiration_policy="redirect", expiry_queue="expired"
    )
    proton.create_sender("orders").send(delayed("m-1", 60))
    postroom_broker.advance(days=1)
    assert (queue.depth, queue.statistics["messages_redirected"]) == (0, 1)
    events = [event.event for event in postroom_broker.history("m-1")]
    assert events == ["put", "due", "redirect", "redirect"]
    assert [message.body for message in postroom_broker.queue("expired").messages] == ["m-1"]


def test_a_redelivery_delay_ends_by_advance(postroom_broker: Broker, proton: BlockingConnection) -> None:
    queue = postroom_broker.create_queue("orders", redelivery_delay_ms=30_000)
    proton.create_sender("orders").send(Message(body="poison", id="m-1", durable=True))
    receiver = proton.create_receiver("orders", credit=1)
    receiver.receive()
    receiver.fetcher.unsettled[0].local.failed = True
    receiver.settle(Delivery.MODIFIED)
    receiver.close()
    assert queue.statistics["messages_redelivery_delay"] == 1
    postroom_broker.advance(seconds=29)
    assert (queue.current, queue.pending) == (0, 1)
    postroom_broker.advance(seconds=1)
    (message,) = queue.messages
    assert (queue.current, message.failure_count, message.delivery_count) == (1, 1, 1)


def test_a_lease_of_a_ledger_reader_ends_by_advance(postroom_broker: Broker) -> None:
    with ConnectionFactory(postroom_broker.url).create_connection() as connection:
        node = connection.create_management()
        node.create(LEASE_TYPE, "lake", {"owner": "test", "duration_s": 3600, "position": 1})
        postroom_broker.advance(minutes=59)
        assert node.read(LEASE_TYPE, "lake")["state"] == "in force"
        postroom_broker.advance(minutes=2)
        assert node.read(LEASE_TYPE, "lake")["state"] == "broken"


def test_an_open_transaction_times_out_by_advance(postroom_broker: Broker) -> None:
    queue = postroom_broker.create_queue("orders")
    with ConnectionFactory(postroom_broker.url).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
        session.create_producer("orders").send(TextMessage("in doubt"))
        queue.wait_for(uncommitted_put=1)
        postroom_broker.advance(hours=1)
        assert (queue.depth, queue.statistics["messages_rolled_back"]) == (0, 1)


def test_a_running_clock_needs_nobody(postroom_broker_factory: type[Broker]) -> None:
    broker = postroom_broker_factory(clock="running")
    queue = broker.create_queue("orders")
    proton = BlockingConnection(broker.url, timeout=20)
    proton.create_sender("orders").send(Message(body="short-lived", durable=True, ttl=0.05))
    queue.wait_for(expired=1)
    broker.advance(hours=1)
    proton.close()


def test_a_send_that_finds_no_room_is_refused_though_no_time_passes(
    postroom_broker: Broker, proton: BlockingConnection
) -> None:
    postroom_broker.create_queue("orders", max_messages=1)
    sender = proton.create_sender("orders")
    sender.send(Message(body="one", durable=True))
    delivery = sender.link.send(Message(body="two", durable=True))
    proton.wait(lambda: delivery.settled or delivery.remote_state)
    assert delivery.remote_state == Delivery.REJECTED
    assert delivery.remote.condition.name == "amqp:resource-limit-exceeded"


@pytest.mark.parametrize(
    "wrong",
    [{"seconds": -1}, {"hours": 1, "minutes": -61}, {"days": 40_000}, {"seconds": float("nan")}],
    ids=["back", "back-in-sum", "too-far", "not-a-number"],
)
def test_the_clock_goes_forward_only(postroom_broker: Broker, wrong: dict[str, float]) -> None:
    before = postroom_broker.now
    with pytest.raises(ValueError):
        postroom_broker.advance(**wrong)
    assert postroom_broker.now == before
