"""Several queue managers, the lines between them and their clients, under one scheduler and one clock.

Everything that a process or the network does in its own time is a step: a frame arrives, a turn ends, a block
is synced, a body is read, a connection is opened, a client acts. A fault may come before any of them: a line
is cut, or the power of a machine fails. Afterwards everything heals, and the oracles judge.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from postroom.amqp.frames.sasl import ANONYMOUS
from postroom.manager.kernel.options import QueueDefinition
from postroom.server.channels.outbound_connection import Outward
from tests.simulation.channels.audit import Audit
from tests.simulation.channels.clients import Client, Producer, Taker, Task
from tests.simulation.channels.line import Line
from tests.simulation.channels.node import Node
from tests.simulation.channels.oracle import Oracle, Seen
from tests.simulation.oracle import Broken

START_US = 1_800_000_000_000_000
MOST_STEPS = 60_000
PATIENCE_US = 4 * 3600 * 1_000_000
"""So long everything may take to heal, by the virtual clock."""
JUMPS_TO_LATE = 3
STEPS_OF_GRACE = 60
MOMENTS_US = (100, 1_000, 20_000, 1_000_000)
Step = tuple[str, Callable[[], None]]


@dataclass
class Scenario:
    """What a world is made of."""

    nodes: dict[str, dict[str, object]]
    """Settings of each queue manager, as in a configuration file."""
    tasks: list[tuple[str, str, int, bool]]
    """Producers: where, to which address, how many messages, and whether they are to be returned."""
    expected: dict[str, Seen] = field(default_factory=dict)
    """Where the messages to an address must end."""
    takers: list[Seen] = field(default_factory=list)
    """Queues that somebody empties all along."""
    first_sequence: int = 0
    """The number with which sending channels begin, if not with 1."""
    persistent: list[str] = field(default_factory=list)
    """Addresses to which all messages are persistent."""
    late_queues: list[Seen] = field(default_factory=list)
    """Queues that somebody makes when everything has waited for them for a while."""


class World:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self.random = Random(seed)
        self.oracle = Oracle()
        self.now_us = START_US
        self.nodes = {
            name: Node(name, settings, self.random, self.now_us) for name, settings in scenario.nodes.items()
        }
        for node in self.nodes.values() if scenario.first_sequence else ():
            node.begin_sequences(scenario.first_sequence, self.now_us)
        self.lines: list[Line] = []
        self.tasks = {
            f"p{number}": (at, Task(address, count, self.random, returns))
            for number, (at, address, count, returns) in enumerate(scenario.tasks)
        }
        self.clients: list[Client] = []
        self.clients_made = 0
        self.steps_taken = 0
        self.jumps = 0
        self.faults = 0
        self.trace: list[str] = []
        """What has happened, for whoever looks for a fault."""

    # Steps.

    def steps(self) -> list[Step]:
        """Everything that could happen now."""
        found: list[Step] = []
        for node in self.nodes.values():
            found += node.steps(self.now_us)
            for outward in node.take_wanted():
                self._connect(node, outward)
        self.lines = [line for line in self.lines if line.alive]
        for line in self.lines:
            found += line.steps(self.now_us)
        self._connect_clients()
        found += [(f"{client.name} acts", client.act) for client in self.clients if client.can_act()]
        return found

    def take(self, step: Step) -> None:
        name, deed = step
        self.trace.append(name)
        self.steps_taken += 1
        if self.steps_taken > MOST_STEPS:
            raise Broken(f"no rest after {MOST_STEPS} steps; the last were {self.trace[-12:]}")
        deed()

    def _connect(self, node: Node, outward: Outward) -> None:
        """A connection that a channel wants is opened."""
        partner = self.nodes[outward.host]
        here = node.broker.connect_outward(outward, partner.name, self.now_us, self.now_us)
        there = partner.broker.connect(node.name, [ANONYMOUS], self.now_us, self.now_us)
        node.turn_wanted = True
        if here is None or there is None:
            outward.fail("refused", False, self.now_us)
            return
        self.lines.append(Line((node.name, partner.name), here, there, self._notify))

    def _connect_clients(self) -> None:
        self.clients = [client for client in self.clients if not client.over]
        busy = {client.name for client in self.clients}
        for name, (at, task) in self.tasks.items():
            if task.left and name not in busy:
                self.enter(Producer(self, name, at, task))
        for number, (at, queue) in enumerate(self.scenario.takers):
            if f"t{number}" not in busy:
                self.enter(Taker(self, f"t{number}", at, queue))

    def enter(self, client: Client) -> None:
        """A client connects."""
        binding = self.nodes[client.at].broker.connect(client.name, [ANONYMOUS], self.now_us, self.now_us)
        if binding is None:
            return  # it is stopping
        self.clients.append(client)
        self.lines.append(Line((client.name, client.at), client, binding, self._notify))

    def _notify(self, name: str) -> None:
        if name in self.nodes:
            self.nodes[name].turn_wanted = True

    # Faults.

    def channel_lines(self) -> list[Line]:
        """Connections between queue managers."""
        return [line for line in self.lines if line.alive and set(line.names) <= set(self.nodes)]

    def cut(self, lines: Iterable[Line]) -> None:
        """The connections break, and what is under way on them is lost."""
        self.faults += 1
        for line in list(lines):
            self.trace.append(f"CUT {line.names}")
            line.cut(self.now_us)

    def crash(self, name: str) -> None:
        """The power of a machine fails."""
        self.faults += 1
        self.trace.append(f"CRASH {name}")
        for line in self.lines:
            if line.alive and name in line.names:
                line.cut(self.now_us, name)
        self.nodes[name].crash(self.now_us)

    def restart(self, name: str) -> None:
        """A queue manager ends in good order, as far as it gets in its grace, and begins again."""
        self.faults += 1
        self.trace.append(f"STOP {name}")
        node = self.nodes[name]
        node.stop(self.now_us)
        for number in range(STEPS_OF_GRACE):
            steps = self.steps()
            if steps:
                self.take(steps[number % len(steps)])
        self.crash(name)

    # The course of time.

    def pass_time(self) -> None:
        """A moment goes by, whatever else there is to do."""
        self._set_time(self.now_us + self.random.choice(MOMENTS_US))

    def jump(self) -> None:
        """Nothing can happen now: the clock goes on to the next moment at which something is due."""
        self.jumps += 1
        if self.jumps > JUMPS_TO_LATE:
            self._make_late_queues()
        due = [deadline for node in self.nodes.values() if (deadline := node.next_deadline_us())]
        self._set_time(max(self.now_us + 1000, min(due, default=self.now_us + 1_000_000)))

    def _make_late_queues(self) -> None:
        for name, queue in self.scenario.late_queues:
            manager = self.nodes[name].manager
            if queue not in manager.queues:
                manager.create_queue(QueueDefinition(name=queue), self.now_us)

    def _set_time(self, now_us: int) -> None:
        self.now_us = now_us
        for node in self.nodes.values():
            node.on_time(now_us)

    def unrest(self) -> list[str]:
        """What is still to be done."""
        found = [f"{name} has {task.left} to put" for name, (_, task) in self.tasks.items() if task.left]
        for node in self.nodes.values():
            for queue in node.manager.queues.values():
                if queue.definition.usage == "transmission" and queue.statistics.depth:
                    found.append(f"{queue.statistics.depth} wait on {queue.name} of {node.name}")
        return found

    def settle(self) -> None:
        """Without any more faults: everything that can happen happens, until all is at rest."""
        turn = 0
        end_us = self.now_us + PATIENCE_US
        while True:
            steps = self.steps()
            if steps:
                turn += 1
                self.take(steps[turn % len(steps)])
            elif not self.unrest():
                return
            elif self.now_us < end_us:
                self.jump()
            else:
                raise Broken(f"no rest after all that time: {self.unrest()}; {self.trace[-12:]}")

    # The end.

    def finish(self) -> None:
        """Let everything heal, take what is there, and judge."""
        self.settle()
        for client in self.clients:
            client.over = True
        self.scenario.takers.clear()
        self.settle()
        lost = self.audit()
        for name, node in self.nodes.items():
            for queue in sorted(node.manager.queues):
                if node.manager.queues[queue].definition.usage == "normal" and not queue.startswith("$"):
                    self.enter(Taker(self, f"last-{name}-{queue}", name, queue))
        self.settle()
        self.oracle.final(self.scenario.expected, lost, self.faults == 0)

    def audit(self) -> set[int]:
        """What the ledgers say must come out even; the ids of messages that they name as lost."""
        audit = Audit({name: node.disk for name, node in self.nodes.items()})
        audit.check()
        return audit.lost()
