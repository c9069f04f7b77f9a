"""Messages with properties, and what their queue's selectors have been asked."""

from typing import Any

from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Data, Message, Properties, decode_message
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.effects import Delivery
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.queues.entry_lookup import locations
from postroom.manager.queues.queue import PRIORITIES, Queue
from postroom.manager.queues.units_of_order import PROPERTY
from tests.manager.world import TestSink, World


def put(
    world: World,
    queue: Queue,
    text: str,
    group: str | None = None,
    sequence: int | None = None,
    transaction: Transaction | None = None,
    head: dict[str, Any] | None = None,
    **properties: object,
) -> None:
    """A message with application properties, its text as body."""
    message = Message(application_properties=dict(properties), body=Data([text.encode()]))
    if group is not None:
        message.properties = Properties(group_id=group, group_sequence=sequence)
    payload = message.encode()
    scanned = scan_head(payload)
    scanned.durable = True
    for name, value in (head or {}).items():
        setattr(scanned, name, value)
    world.manager.put(
        world._producer,
        queue,
        scanned,
        payload[scanned.bare_offset :],
        TestSink(),
        1,
        world.now_us,
        transaction,
    )


def text_of(body: bytes) -> str:
    message = decode_message(body)
    assert isinstance(message.body, Data)
    return message.body.joined().decode()


def texts(bodies: list[bytes]) -> list[str]:
    return [text_of(body) for body in bodies]


def turn(world: World, ms: int = 0) -> list[str]:
    """One turn; what was delivered, as texts."""
    return texts(world.turn(ms))


def got(world: World, consumer: Consumer) -> list[str]:
    """Everything that was ever delivered to the consumer."""
    return [text_of(each.body) for each in deliveries_to(world, consumer)]


def deliveries_to(world: World, consumer: Consumer) -> list[Delivery]:
    return [each for each in world.delivered if each.consumer is consumer]


def judgements(queue: Queue) -> int:
    return sum(int(cursor.judgements) for cursor in queue.selectors.cursors.values())


def member(world: Any, queue: Queue, text: str, unit: str = "u", **more: Any) -> None:
    put(world, queue, text, **{PROPERTY: unit}, **more)


def available_entries(queue: Queue) -> list[Entry]:
    """What is available, in order."""
    return [
        location.entry
        for priority in reversed(range(PRIORITIES))
        for location in locations(queue, priority, -1, 0)
    ]
