"""A connection that works on beside one that breaks the rules."""

from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.options import ConnectionOptions
from postroom.amqp.frames.outcomes import ACCEPTED
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.frames.sasl import ANONYMOUS
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.frames.transfers import SENDER
from postroom.amqp.message.sections import Data, Header, Message, Properties
from postroom.server.connection.broker import Broker

NOW_US = 1_700_000_000_000_000


MESSAGE = Message(
    header=Header(durable=True, priority=5, ttl=1000),
    properties=Properties(message_id="m", to="mangled", reply_to="mangled"),
    application_properties={"operation": "QUERY", "type": "postroom.queue"},
    body=Data([b"body"]),
).encode()


def attach(handle: int, name: str, role: bool, **ends: object) -> Attach:
    return Attach(
        name=name,
        handle=handle,
        role=role,
        initial_delivery_count=0 if role == SENDER else None,
        **ends,  # type: ignore[arg-type]
    )


class Neighbour:
    """A client that behaves, on the same broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        options = ConnectionOptions(server=False, container_id="neighbour", sasl_mechanisms=[])
        self.engine = Connection(options, 0)
        binding = broker.connect("neighbour", [ANONYMOUS], 0, NOW_US)
        assert binding is not None
        self.binding = binding
        self.engine.open()
        self.link = self.engine.begin().attach_sender("s", Source(), Target(address="neighbour"))
        self.number = 0
        self.talk()

    def talk(self) -> None:
        for _ in range(6):
            self.binding.receive(self.engine.data_to_send(), 0, NOW_US)
            settle(self.broker)
            self.engine.receive_data(self.binding.data_to_send(), 0)

    def is_served(self) -> bool:
        self.number += 1
        delivery = self.link.send(MESSAGE, self.number.to_bytes(4, "big"), False)
        self.talk()
        return delivery.settled and delivery.state == ACCEPTED


def settle(broker: Broker) -> None:
    """Let the broker's turns run until nothing is left to be done."""
    broker.end_turn(NOW_US)
    while broker.ledger.in_flight:
        broker.completed(NOW_US)
    broker.fetches.clear()
