"""Queue managers with channels between them: the real brokers, engines and ledgers, no sockets, a clock that
stands still until it is told.

Everything that one end says to the other goes through a `Wire`, piece by piece, so that a test can cut it
anywhere.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeVar

from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.events import TransferReceived
from postroom.amqp.engine.options import ConnectionOptions
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.frames.outcomes import ACCEPTED
from postroom.amqp.frames.sasl import ANONYMOUS
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.sections import Header, Message, Value, decode_message
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.manager.manager import QueueManager
from postroom.model.channel import ChannelDefinition
from postroom.model.channel_states import ChannelState
from postroom.server.assembly import define_queues, manager_options
from postroom.server.channels.instance import ChannelLink
from postroom.server.configuration.config import Config, QueueConfig
from postroom.server.connection.binding import ConnectionBinding
from postroom.server.connection.broker import Broker
from tests.originals import ORIGINALS
from tests.simulation.disk import SimDisk
from tests.simulation.world import SimWriter

E = TypeVar("E", bound=Event)
START_US = 1_800_000_000_000_000
US_PER_S = 1_000_000
MAX_STEP_US = 5 * US_PER_S
MAX_ROUNDS = 20_000


class Wire:
    """A connection between two bindings, or between a client and a binding."""

    def __init__(self, near: "End", far: "End") -> None:
        self.ends = (near, far)
        self.closed = False


class End:
    """One end of a wire: what it has to send, and what it has received."""

    def __init__(self, talker: ConnectionBinding | Connection, place: "Place | None") -> None:
        self.talker = talker
        self.place = place
        self.unsent = b""
        self.events: list[Event] = []

    def collect(self) -> None:
        self.unsent += self.talker.data_to_send()

    def hear(self, data: bytes, now_us: int) -> None:
        if isinstance(self.talker, ConnectionBinding):
            self.talker.receive(data, now_us, now_us)
        else:
            self.events += self.talker.receive_data(data, now_us)

    def lose(self, now_us: int) -> None:
        if isinstance(self.talker, ConnectionBinding):
            self.talker.lost(now_us)
        else:
            self.events += self.talker.connection_lost()

    @property
    def finished(self) -> bool:
        return self.talker.finished and not self.unsent


class Place:
    """One queue manager with its disk."""

    def __init__(self, world: "World", name: str, queues: tuple[QueueConfig, ...], **config: object) -> None:
        self.world = world
        self.name = name
        settings: dict[str, object] = {"container_id": name, "queue": list(queues), **ORIGINALS, **config}
        self.config = Config(**settings)  # type: ignore[arg-type]
        self.disk = SimDisk()
        self.boot()

    def boot(self) -> None:
        now_us = self.world.now_us
        self.ledger = Ledger.open(
            Path("simulated"),
            LedgerOptions(),
            now_us,
            disk=self.disk,
            writer=SimWriter(self.disk),
            maintenance="manual",
        )
        manager = QueueManager(manager_options(self.config), self.ledger.builder)
        manager.restore(self.ledger.recovered, now_us)
        define_queues(self.config, manager, now_us)
        self.names = 0
        self.broker = Broker(self.config, self.ledger, manager, self._new_name)
        self.broker.channels.restore(now_us)
        self.manager = manager

    def _new_name(self) -> str:
        self.names += 1
        return f"name-{self.names}"

    def crash(self) -> None:
        """The power fails, and comes back."""
        for wire in self.world.wires[:]:
            if any(end.place is self for end in wire.ends):
                self.world.cut(wire, besides=self)
        self.disk = self.disk.crash(Random(1))
        self.boot()

    def define(self, **settings: object) -> None:
        self.broker.channels.define(ChannelDefinition(**settings), self.world.now_us)  # type: ignore[arg-type]

    def start(self, channel: str) -> None:
        self.broker.channels.find(channel).start(self.world.now_us)

    def state(self, channel: str) -> ChannelState:
        return self.broker.channels.find(channel).state

    def reason(self, channel: str) -> str:
        return self.broker.channels.find(channel).reason

    def link(self, channel: str) -> ChannelLink:
        instance = self.broker.channels.find(channel).instance
        assert instance is not None and instance.link is not None
        return instance.link

    def turn(self) -> bool:
        """One turn, with all that it waits for; whether anything happened."""
        busy = False
        now_us = self.world.now_us
        self.broker.end_turn(now_us)
        if self.ledger.in_flight:
            self.broker.completed(now_us)
            busy = True
        for fetch in self.broker.fetches[:]:
            self.broker.fetches.remove(fetch)
            self.broker.fetched(fetch, self.ledger.read_bodies(fetch.wanted), now_us)
            busy = True
        return busy or self.broker.wants_turn

    def depth(self, queue: str) -> int:
        return int(self.manager.queues[queue].statistics.depth)


class World:
    """All places, and what is between them."""

    def __init__(self) -> None:
        self.now_us = START_US
        self.places: dict[str, Place] = {}
        self.wires: list[Wire] = []
        self.piece_bytes = 1 << 20
        self.carrying: Callable[[Wire], None] = lambda wire: None
        """Called before each piece that is carried between two places; cut then, it is lost."""

    def add(self, name: str, *queues: QueueConfig, **config: object) -> Place:
        place = self.places[name] = Place(self, name, queues, **config)
        return place

    def round(self) -> bool:
        """Everybody does what there is to do, once; whether there was anything."""
        busy = False
        for place in self.places.values():
            busy = place.turn() or busy
            while place.broker.channels.wanted:
                self._open(place)
                busy = True
        for wire in self.wires[:]:
            busy = self._carry(wire) or busy
        return busy

    def settle(self) -> None:
        """Until nothing more happens without time passing."""
        for _ in range(MAX_ROUNDS):
            if not self.round():
                return
        raise AssertionError("it never comes to rest")

    def pass_time(self, seconds: float) -> None:
        """In steps that are short enough for heartbeats."""
        left_us = int(seconds * US_PER_S)
        while left_us > 0:
            self._pass(min(left_us, MAX_STEP_US))
            left_us -= MAX_STEP_US

    def _pass(self, step_us: int) -> None:
        self.now_us += step_us
        for place in self.places.values():
            place.broker.on_time(self.now_us)
        for wire in self.wires[:]:
            for end in wire.ends:
                if isinstance(end.talker, ConnectionBinding):
                    end.talker.on_time(self.now_us, self.now_us)
        self.settle()

    def _open(self, place: Place) -> None:
        outward = place.broker.channels.wanted.pop(0)
        partner = self.places.get(outward.host)
        if partner is None:
            outward.fail("nobody listens there", False, self.now_us)
            return
        there = partner.broker.connect(place.name, [ANONYMOUS], self.now_us, self.now_us)
        here = place.broker.connect_outward(outward, partner.name, self.now_us, self.now_us)
        assert there is not None and here is not None
        self.wires.append(Wire(End(here, place), End(there, partner)))

    def _carry(self, wire: Wire) -> bool:
        busy = False
        for near, far in (wire.ends, wire.ends[::-1]):
            near.collect()
            if near.unsent and not wire.closed:
                piece, near.unsent = near.unsent[: self.piece_bytes], near.unsent[self.piece_bytes :]
                if wire.ends[0].place is not None:
                    self.carrying(wire)
                busy = True
                if not wire.closed:
                    far.hear(piece, self.now_us)
        if not wire.closed and any(end.finished for end in wire.ends):
            self.cut(wire)
        return busy

    def cut(self, wire: Wire, besides: Place | None = None) -> None:
        """The connection is gone; ``besides`` hears nothing of it."""
        wire.closed = True
        if wire in self.wires:
            self.wires.remove(wire)
            for end in wire.ends:
                if besides is None or end.place is not besides:
                    end.lose(self.now_us)

    def cut_all(self) -> None:
        """Every connection between two places."""
        for wire in self.wires[:]:
            if wire.ends[0].place is not None:
                self.cut(wire)


class Client:
    """A program that is connected to a place."""

    def __init__(self, place: Place, container_id: str = "client") -> None:
        self.world = place.world
        options = ConnectionOptions(
            server=False, container_id=container_id, hostname="x", sasl_mechanisms=[], idle_timeout_ms=0
        )
        self.engine = Connection(options, self.world.now_us)
        binding = place.broker.connect("client", [ANONYMOUS], self.world.now_us, self.world.now_us)
        assert binding is not None
        self.end = End(self.engine, None)
        self.world.wires.append(Wire(self.end, End(binding, place)))
        self.engine.open()
        self.session = self.engine.begin()
        self.links = 0

    def sender(self, address: str, **fields: object) -> SenderLink:
        self.links += 1
        link = self.session.attach_sender(
            f"link-{self.links}",
            Source(),
            Target(address=address),
            **fields,  # type: ignore[arg-type]
        )
        self.world.settle()
        return link

    def receiver(self, address: str, credit: int = 1000) -> ReceiverLink:
        self.links += 1
        link = self.session.attach_receiver(f"link-{self.links}", Source(address=address), Target())
        self.world.settle()
        if credit:
            link.flow(credit)
            self.world.settle()
        return link

    def put(self, address: str, *texts: str, durable: bool = True, ttl_ms: int | None = None) -> None:
        """Put messages with these bodies, and wait until they are stored."""
        link = self.sender(address)
        for number, text in enumerate(texts):
            message = Message(header=Header(durable=durable, ttl=ttl_ms), body=Value(text))
            link.send(message.encode(), number.to_bytes(4, "big"), False)
        self.world.settle()

    def get(self, queue: str) -> list[str]:
        """Everything that is on a queue, in order."""
        link = self.receiver(queue)
        texts: list[str] = []
        part = b""
        for event in self.events(TransferReceived):
            if event.link is link:
                part += event.payload
                if not event.more:
                    texts.append(text_of(part))
                    part = b""
                    link.settle(event.delivery_id, event.delivery_id, ACCEPTED)
        link.detach()
        self.world.settle()
        return texts

    def events(self, kind: type[E]) -> list[E]:
        return [event for event in self.end.events if isinstance(event, kind)]


def text_of(payload: bytes) -> str:
    """The body of a message that is one string."""
    body = decode_message(payload).body
    assert isinstance(body, Value)
    return str(body.value)
