"""Several queue managers with channels between them, in one order of events and in virtual time.

The nodes and lines are those of the simulation, where everything comes in a random order; here whatever can
happen happens at once, so that a test says what it waits for.
"""

from random import Random

from postroom.amqp.frames.sasl import ANONYMOUS
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Header, Message, Properties, Value
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.effects import PRESETTLED, Sink
from postroom.server.channels.outbound_connection import Outward
from postroom.server.channels.supervised_channel import Supervised
from postroom.server.connection.binding import ConnectionBinding
from postroom.server.connection.broker import Broker
from tests.simulation.channels.line import Line
from tests.simulation.channels.node import Node

US_PER_S = 1_000_000
BEGIN_US = 1_800_000_000 * US_PER_S
MOST_STEPS = 100_000
NO_ROUTE = "no route to host"


class Station(Node):
    """One queue manager; nobody starts its requesters for it."""

    def start_requesters(self, now_us: int) -> None:
        pass


class Stations:
    """Queue managers by name; ``amqp://B:1`` leads to the one that is called B."""

    def __init__(self, **settings: dict[str, object]) -> None:
        self.now_us = BEGIN_US
        self.nodes = {
            name: Station(name, options, Random(1), self.now_us) for name, options in settings.items()
        }
        self.lines: list[Line] = []
        self.dialled: list[str] = []
        self.token_roles: tuple[str, ...] = ()
        """Of whoever calls from now on, as if a token had them."""
        """Addresses that were dialled, in order."""
        self.unreachable: set[str] = set()
        self.failure: tuple[str, bool] = (NO_ROUTE, False)
        """Why those can't be reached, and whether that lasts."""
        self.frozen: set[str] = set()
        """Queue managers that take in what comes, and get no turn."""
        self._producers: dict[Broker, Producer] = {}
        self.settle()

    # What is there.

    def broker(self, name: str) -> Broker:
        return self.nodes[name].broker

    def channel(self, name: str, channel: str = "A.B") -> Supervised:
        return self.broker(name).channels.find(channel)

    def state(self, name: str, channel: str = "A.B") -> str:
        return self.channel(name, channel).state.name

    def states(self, channel: str = "A.B") -> tuple[str, ...]:
        """Of that channel at all queue managers, in their order."""
        return tuple(self.state(name, channel) for name in self.nodes)

    def depth(self, name: str, queue: str) -> int:
        return int(self.nodes[name].manager.queues[queue].statistics.depth)

    # What happens.

    def settle(self) -> None:
        """Everything that can happen without time passing."""
        for _ in range(MOST_STEPS):
            if not self._step():
                return
        raise AssertionError("it never comes to rest")

    def _step(self) -> bool:
        steps = []
        for node in self.nodes.values():
            if node.name in self.frozen:
                continue
            for outward in node.take_wanted():
                self._dial(node, outward)
            steps += node.steps(self.now_us)[:1]
        for line in list(self.lines):
            steps += line.steps(self.now_us)[:1]
        for _, deed in steps[:1]:
            deed()
        self.lines = [line for line in self.lines if line.alive]
        return bool(steps)

    def _dial(self, node: Node, outward: Outward) -> None:
        name = outward.host
        node.turn_wanted = True
        self.dialled.append(outward.address)
        if name in self.unreachable or name not in self.nodes:
            outward.fail(*self.failure, self.now_us)
            return
        here = node.broker.connect_outward(outward, name, self.now_us, self.now_us)
        there = self.broker(name).connect(node.name, [ANONYMOUS], self.now_us, self.now_us)
        assert here is not None and there is not None
        there.roles = self.token_roles
        self.lines.append(Line((node.name, name), here, there, self._notify))

    def _notify(self, name: str) -> None:
        self.nodes[name].turn_wanted = True

    def pass_s(self, seconds: float) -> None:
        """Let time pass, as fast as there is something due."""
        self.settle()
        until_us = self.now_us + int(seconds * US_PER_S)
        while True:
            dues = [due for node in self.nodes.values() if (due := node.next_deadline_us())]
            due_us = min(dues, default=until_us + 1)
            if due_us > until_us:
                break
            self.now_us = max(self.now_us, due_us)
            for node in self.nodes.values():
                node.on_time(self.now_us)
            self.settle()
        self.now_us = until_us
        for node in self.nodes.values():
            node.on_time(self.now_us)
        self.settle()

    def cut(self, *unaware: str) -> None:
        """Every line breaks; who is ``unaware`` doesn't hear of it."""
        for line in self.lines:
            line.cut(self.now_us, *unaware)
        self.lines.clear()
        self.settle()

    def restart(self, name: str) -> None:
        """Its power fails and comes back."""
        for line in list(self.lines):
            if name in line.names:
                line.cut(self.now_us, name)
        self.lines = [line for line in self.lines if line.alive]
        self.nodes[name].crash(self.now_us)
        self.settle()

    def put(
        self, name: str, address: str, *texts: str, durable: bool = True, user_id: bytes | None = None
    ) -> None:
        """Messages are put at ``name``, to a queue there or elsewhere; ``user_id`` stands in them."""
        manager = self.nodes[name].manager
        broker = self.broker(name)
        if broker not in self._producers:
            self._producers[broker] = manager.open_producer("test", "test", "anonymous")
        for text in texts:
            header, properties = Header(durable=durable), Properties(user_id=user_id)
            payload = Message(header=header, properties=properties, body=Value(text)).encode()
            head = scan_head(payload)
            leads = manager.names.destination(address)
            body = manager.names.sent_to(leads, payload[head.bare_offset :])
            manager.put(self._producers[broker], leads.queue, head, body, Sink(), PRESETTLED, self.now_us)
        self.nodes[name].turn_wanted = True
        self.settle()

    def bindings(self, name: str) -> list[ConnectionBinding]:
        """Connections that this queue manager has."""
        return list(self.broker(name).connections)
