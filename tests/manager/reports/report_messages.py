"""Messages that ask for reports, and reports as their receivers read them."""

from typing import Any

from postroom.amqp.encoding.types import Int, Symbol, UInt
from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Data, Header, Message, Properties, Value, decode_message
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.queues.queue import Queue
from tests.manager.world import TestSink, World

TEXT = "a message of more than a hundred bytes: " + "0123456789" * 12
BODY = Value(TEXT)


def asking(
    report: int = 0,
    *,
    reply_to: str | None = "replies",
    message_id: Any = "ID:original",
    correlation_id: Any = None,
    body: Data | Value = BODY,
    durable: bool = True,
    priority: int = 4,
    ttl: int | None = None,
    annotations: dict[object, object] | None = None,
    **properties: object,
) -> bytes:
    """A message whose annotation asks for reports; ``properties`` are those of the application."""
    told: dict[object, object] = {Symbol("x-opt-report"): UInt(report)} if report else {}
    return Message(
        header=Header(durable=durable, priority=priority, ttl=ttl),
        message_annotations=told | (annotations or {}),
        properties=Properties(message_id=message_id, correlation_id=correlation_id, reply_to=reply_to),
        application_properties={
            name: Int(value) if isinstance(value, int) else value for name, value in properties.items()
        },
        body=body,
    ).encode()


def put(
    world: World, queue: Queue, payload: bytes, transaction: Transaction | None = None
) -> tuple[str, str] | None:
    """Put a message; the refusal, if it is refused."""
    sink = TestSink()
    head = scan_head(payload)
    token = world.new_token()
    body = payload[head.bare_offset :]
    world.manager.put(world._producer, queue, head, body, sink, token, world.now_us, transaction)
    world.turn()
    return sink.rejected[0][1:] if sink.rejected else None


class Report:
    """A message as whoever receives it sees it."""

    def __init__(self, sections: bytes, annotations: dict[str, object] | None) -> None:
        self.fields = MessageFields(4, False, 0, sections, annotations)
        self.message = decode_message(sections)

    def __getitem__(self, name: str) -> object:
        return self.fields.application_property(name)

    @property
    def feedback(self) -> object:
        return self["JMS_IBM_Feedback"]

    @property
    def correlation_id(self) -> object:
        return self.fields.property_at(5)

    @property
    def message_id(self) -> object:
        return self.fields.property_at(0)

    @property
    def data(self) -> bytes:
        assert isinstance(self.message.body, Data)
        return self.message.body.joined()


def on(world: World, name: str = "replies") -> list[Report]:
    """What lies on a queue, taken from it."""
    taker: Consumer = world.consumer(world.manager.queue(name), 100, presettled=True)
    before = len(world.delivered)
    world.turn()
    found = world.delivered[before:]
    world.close(taker)
    return [Report(delivery.body, delivery.annotations) for delivery in found]
