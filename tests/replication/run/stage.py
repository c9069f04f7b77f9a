"""Three members on three nodes of an engine, each member's way to each node through a relay; who keeps them
up.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final

from tools.peers.kafka import KafkaCluster
from tools.peers.nats import NatsCluster
from tools.peers.ports import free_ports

from postroom.server.exits import Exit
from tests.clients.broker import BrokerProcess
from tests.replication.run.namespaces import Namespaces
from tests.replication.run.relay import Relays

Ways = Relays | Namespaces

NAMES: Final = "abc"
NATS, KAFKA = "nats", "kafka"
NODES: Final = {NATS: ("n0", "n1", "n2"), KAFKA: ("k1", "k2", "k3")}
"""As the clusters name them."""
NODE_COUNT: Final = 3
POLL_S: Final = 0.05
PATIENCE_S: Final = 180.0
"""For anything that a member, a node or a client has to come to."""
CONNECT_S: Final = 1.0
STOP_AFTER_MS: Final = {NATS: 15_000, KAFKA: 30_000}
SOONER: Final = "broker.session.timeout.ms=4000\nreplica.lag.time.max.ms=6000\n"
"""Kafka does without a node that is gone, or doesn't keep up, earlier than by its defaults (9 and 30 s)."""
CONFIG: Final = """
[[listen]]
address = "{{address}}"
anonymous = true
[ledger]
journal_file_bytes = 1048576
[replication]
servers = {servers}
monitoring = {monitoring}
member = "{member}"
heartbeat_ms = 300
stop_after_ms = {stop_after_ms}
claim_after_ms = 1500
[queue_defaults]
redelivery_delay_ms = 0
redelivery_limit = -1
[[queue]]
name = "plain"
duplicate_window = 100000
[[queue]]
name = "source"
[[queue]]
name = "moved"
[[queue]]
name = "branches"
[[queue]]
name = "stored"
"""


def _on_nats(folder: Path) -> tuple[NatsCluster, Relays]:
    cluster = NatsCluster(folder / "nats", NODE_COUNT)
    return cluster, Relays({name: [node.client_port for node in cluster.nodes] for name in NAMES})


def _on_kafka(folder: Path) -> tuple[KafkaCluster, Relays]:
    """Kafka tells clients where its nodes are: each member has a listener of its own at each of them, which
    tells it the relay."""
    found = free_ports(len(NAMES) * NODE_COUNT)
    ports = {name: found[at :: len(NAMES)] for at, name in enumerate(NAMES)}
    relays = Relays(ports)
    doors = {f"OF_{name.upper()}": list(zip(ports[name], relays.ports(name), strict=True)) for name in NAMES}
    return KafkaCluster(folder / "kafka", NODE_COUNT, doors=doors, settings=SOONER), relays


def _in_namespaces(folder: Path, engine: str, places: Namespaces) -> NatsCluster | KafkaCluster:
    hosts = [places.host(node) for node in NODES[engine]]
    commands = [places.command(node) for node in NODES[engine]]
    if engine == NATS:
        return NatsCluster(folder / "nats", NODE_COUNT, hosts, commands)
    return KafkaCluster(folder / "kafka", NODE_COUNT, settings=SOONER, hosts=hosts, prefixes=commands)


class Failed(Exception):
    """The run can't go on: something ended that should not, or did not happen."""


class MemberProcess(BrokerProcess):
    """One member."""

    def __init__(self, folder: Path, name: str, config: str, place: Namespaces | None) -> None:
        super().__init__(folder / name, config)
        self.member: Final = name
        # By way of another process, so that it has something to say when its own files may not grow.
        self.prefix = ["bash", "-c", 'exec "$@" 2> >(exec cat >> "$0")', str(folder / f"{name}.log")]
        if place is not None:
            self.host = place.host(name)
            self.prefix = [*place.command(name), *self.prefix]
        self.is_held = False
        """Not to be started when it has ended."""
        self.is_paused = False
        self.expected: set[int] = set()
        """Exit codes beside that of who is not active any longer."""

    def launch(self) -> None:
        """Start it; it follows, or claims."""
        self.is_held = False
        super().launch()

    def kill(self) -> None:
        """SIGKILL; it stays down until it is launched."""
        self.is_held = True
        super().kill()
        self.is_paused = False

    def pause(self) -> None:
        """SIGSTOP."""
        self.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def wake(self) -> None:
        """SIGCONT."""
        self.send_signal(signal.SIGCONT)
        self.is_paused = False

    def exit_code(self) -> int | None:
        """If it has ended by itself since it was looked at last."""
        if self._process is None or self._process.poll() is None:
            return None
        assert self._process.stdout is not None
        self._process.stdout.close()
        code, self._process = self._process.returncode, None
        return code

    def listens(self) -> bool:
        """Whether it takes clients: the active member alone does."""
        if self._process is None or self.is_paused:
            return False
        try:
            with socket.create_connection((self.host, self.port), CONNECT_S):
                return True
        except OSError:
            return False

    def write_stacks(self) -> None:
        """SIGABRT; it logs where each of its threads was, and stays down."""
        if self._process is not None:
            self.is_held = True
            self._end(signal.SIGABRT)

    def limit_files(self, most_bytes: int) -> None:
        """No file of its gets longer, as on a disk that is full."""
        assert self._process is not None
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))


class Stage:
    """Everything that runs beside the clients. Who ends because it is not active any longer is started again,
    as a supervisor does.
    """

    def __init__(
        self, folder: Path, problems: list[str], engine: str = NATS, in_namespaces: bool = False
    ) -> None:
        """`in_namespaces`: with a place of its own for each, which takes root; else with relays."""
        self.folder: Final = folder
        self.problems: Final = problems
        self.namespaces: Final = Namespaces(NAMES, NODES[engine]) if in_namespaces else None
        self.exits: Final[Counter[str]] = Counter()
        """How members ended by themselves."""
        self.members: Final = []
        self.cluster: Final[NatsCluster | KafkaCluster]
        self.ways: Final[Ways]
        if self.namespaces is not None:
            self.cluster, self.ways = _in_namespaces(folder, engine, self.namespaces), self.namespaces
            servers = dict.fromkeys(NAMES, self.cluster.urls)
        else:
            self.cluster, self.ways = _on_nats(folder) if engine == NATS else _on_kafka(folder)
            servers = {
                name: [f"{engine}://127.0.0.1:{port}" for port in self.ways.ports(name)] for name in NAMES
            }
        for name in NAMES:
            values = {"servers": servers[name], "monitoring": self.cluster.monitoring, "member": name}
            config = CONFIG.format(stop_after_ms=STOP_AFTER_MS[engine], **values)
            self.members.append(MemberProcess(folder, name, config, self.namespaces))

    @property
    def urls(self) -> list[str]:
        """Where clients find the members."""
        return [member.url for member in self.members]

    def __enter__(self) -> Stage:
        os.environ["PYTHONFAULTHANDLER"] = "1"  # for `write_stacks`
        with ExitStack() as stack:
            stack.enter_context(self.ways)
            stack.enter_context(self.cluster)
            for member in self.members:
                stack.callback(member.kill)
                member.launch()
            self.active()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # --- waiting

    def wait(self, condition: Callable[[], bool], what: str, poll_s: float = POLL_S) -> None:
        """Until it is so, looking every `poll_s`, while members are kept up. Raises Failed after
        `PATIENCE_S`, or when a client or a member has failed."""
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            self.keep_up()
            if self.problems:
                raise Failed(f"while waiting for {what}")
            if time.monotonic() > end_s:
                raise Failed(f"{what} did not come in {PATIENCE_S:.0f} s")
            time.sleep(poll_s)

    def write_stacks(self) -> None:
        """End all members in a way that has them log where each of their threads was."""
        for member in self.members:
            member.write_stacks()

    def keep_up(self) -> None:
        """Start again who has ended, if that was in order."""
        for member in self.members:
            code = member.exit_code()
            if code is None:
                continue
            self.exits[f"{member.member} {code}"] += 1
            if code != Exit.NOT_ACTIVE and code not in member.expected:
                self.problems.append(
                    f"member {member.member} ended with exit code {code}: {member.log_text[-3000:]}"
                )
            elif not member.is_held:
                member.launch()

    def active(self, *but: MemberProcess) -> MemberProcess:
        """The one that takes clients, once there is one; none of `but`."""
        found: list[MemberProcess] = []

        def is_there() -> bool:
            found[:] = [each for each in self.members if each not in but and each.listens()]
            return bool(found)

        self.wait(is_there, f"a member that is active, not one of {[each.member for each in but]}")
        return found[0]

    def ended(self, member: MemberProcess, *codes: int) -> None:
        """Wait until it has ended by itself, with one of these exit codes."""
        member.is_held, before = True, self.exits.copy()
        member.expected = set(codes)

        def has_ended() -> bool:
            self.keep_up()
            return any(
                self.exits[f"{member.member} {code}"] > before[f"{member.member} {code}"] for code in codes
            )

        self.wait(has_ended, f"the end of {member.member} with exit code {codes}")
