"""Who is measured with copies: each as one broker, whose other nodes are processes beside it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tools.peers import Artemis, BrokerFailed, Postroom, RabbitMQ
from tools.peers.broker import POLL_S, START_LIMIT_S
from tools.peers.kafka import KafkaCluster
from tools.peers.nats import NatsCluster
from tools.peers.rabbitmq import QUORUM, QueueArguments

from bench.contenders import Contender, Row
from bench.search import DEFAULTS, Settings, best_settings, how_many_tried

Engine = NatsCluster | KafkaCluster
NODES = 3
IN_FLIGHT = 8000
"""Messages that a client may have under way with us; by default 2,000."""
LIMITS = f"[limits]\nlink_credit = {IN_FLIGHT}\ndeliveries_ahead = {IN_FLIGHT}\n\n"
IN_SYNC = "AMQ221024"
"""Artemis' number for a backup that has everything."""


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    """Raises BrokerFailed, with `what`, where that isn't so in time."""
    end_s = time.monotonic() + START_LIMIT_S
    while not is_so():
        if time.monotonic() > end_s:
            raise BrokerFailed(f"{what}: not within {START_LIMIT_S:.0f} s")
        time.sleep(POLL_S)


def member(folder: Path, name: str, engine: Engine) -> Postroom:
    """A member of the queue manager whose log is there; not started yet."""
    made = Postroom(folder)
    made.configuration += LIMITS + replication(name, engine)
    return made


def replication(name: str, engine: Engine) -> str:
    """That part of a member's configuration."""
    return (
        f"[replication]\nservers = {json.dumps(engine.urls)}\nmember = {json.dumps(name)}\n"
        f"monitoring = {json.dumps(engine.monitoring)}\n"
    )


class ReplicatedPostroom(Postroom):
    """The active one of two members, with the log on three nodes that sync what they acknowledge."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        super().__init__(folder)
        self.engine = engine
        self.configuration += LIMITS + replication("a", self.engine)
        self.follower = member(folder / "follower", "b", self.engine)
        self._beside = ExitStack()

    def start(self, wait: bool = True) -> None:
        """With the engine before, and the follower behind."""
        with ExitStack() as beside:
            beside.enter_context(self.engine)
            super().start(wait)
            self.follower.start(wait=False)
            beside.callback(self.follower.kill)
            wait_until("a second member that follows", lambda: "following" in self.follower.log_tail())
            self._beside = beside.pop_all()

    def _finish(self) -> None:
        super()._finish()
        self._beside.close()

    def settings(self) -> dict[str, str]:
        synced = "sync_interval: always" if isinstance(self.engine, NatsCluster) else "flush.messages=1"
        return {"members": "2", "nodes": f"{NODES}, {synced}", "credit": str(IN_FLIGHT)}


class _Joining(RabbitMQ):
    """A node that joins another's cluster at its first start."""

    def __init__(self, folder: Path, first: RabbitMQ, node: str) -> None:
        backend = first.config | {
            "cluster_formation.peer_discovery_backend": "classic_config",
            "cluster_formation.classic_config.nodes.1": first.environment()["RABBITMQ_NODENAME"],
        }
        super().__init__(folder, backend, None, first.advanced, first.erlang_options)
        self.queues = {}
        self._first, self._node = first, node

    def environment(self) -> dict[str, str]:
        shared = {name: self._first.environment()[name] for name in ("HOME", "ERL_EPMD_PORT")}
        return {**super().environment(), **shared, "RABBITMQ_NODENAME": self._node}

    def helpers(self) -> list[subprocess.Popen[bytes]]:
        """The first node's port mapper serves all."""
        return []


class RabbitMQCluster(RabbitMQ):
    """Three nodes, and quorum queues with a replica on each; clients are at the first."""

    def __init__(self, folder: Path, names: tuple[str, ...], settings: Settings = DEFAULTS) -> None:
        super().__init__(folder, settings.config, None, settings.advanced, settings.erlang)
        self._arguments: dict[str, QueueArguments] = {
            name: {"x-queue-type": QUORUM, "x-quorum-initial-group-size": NODES} for name in names
        }
        self._others = [
            _Joining(folder / f"node{at}", self, f"bench{at}@localhost") for at in range(1, NODES)
        ]

    def start(self, wait: bool = True) -> None:
        """Queues are made when all nodes are there: their replicas are placed then."""
        self.queues = {}
        super().start(wait)
        for each in self._others:
            each.start()
        wait_until("three nodes of RabbitMQ", self._are_together)
        self.queues = self._arguments
        definitions = self.folder / "queues.json"
        definitions.write_text(json.dumps(self._definitions()))
        self.control("import_definitions", str(definitions))

    def _are_together(self) -> bool:
        status = json.loads(self.control("cluster_status", "--formatter", "json"))
        return len(status["running_nodes"]) == NODES

    def _finish(self) -> None:
        for each in self._others:
            each.kill()
        super()._finish()


class ArtemisPair(Artemis):
    """A live broker and its replica, which has acknowledged what is confirmed to clients."""

    def __init__(self, folder: Path, queues: tuple[str, ...]) -> None:
        super().__init__(folder, queues=queues)
        self.backup = Artemis(folder / "backup", queues=queues)
        cluster = ("--clustered", "--replicated", "--cluster-user", "bench", "--cluster-password", "bench")
        others = ((self, self.backup, ()), (self.backup, self, ("--backup",)))
        for one, other, more in others:
            one.create = (*cluster, "--static-cluster", f"tcp://127.0.0.1:{other.port}", *more)

    def start(self, wait: bool = True) -> None:
        """Returns when the replica has everything."""
        super().start(wait)
        self.backup.start(wait=False)
        wait_until("Artemis' replica", lambda: IN_SYNC in self.backup.log_tail(200))

    def _finish(self) -> None:
        self.backup.kill()
        super()._finish()

    def settings(self) -> dict[str, str]:
        return {**super().settings(), "ha-policy": "replication, one backup"}


CONTENDERS = [
    Contender(
        "postroom-nats",
        lambda folder: ReplicatedPostroom(folder, NatsCluster(folder / "nats", NODES)),
        [Row("Postroom on NATS", "bench", "beside")],
    ),
    Contender(
        "postroom-kafka",
        lambda folder: ReplicatedPostroom(folder, KafkaCluster(folder / "kafka", NODES)),
        [Row("Postroom on Kafka", "bench", "beside")],
    ),
    Contender(
        "rabbitmq-cluster",
        lambda folder: RabbitMQCluster(folder, ("bench", "beside")),
        [Row("RabbitMQ quorum, 3 nodes", "bench", "beside")],
    ),
    Contender(
        "rabbitmq-cluster-tuned",
        lambda folder: RabbitMQCluster(folder, ("bench", "beside"), best_settings(QUORUM)),
        [Row(f"RabbitMQ quorum, 3 nodes, best of {how_many_tried(QUORUM)}", "bench", "beside")],
    ),
    Contender(
        "artemis-pair",
        lambda folder: ArtemisPair(folder, ("bench", "beside")),
        [Row("Artemis with a replica", "bench", "beside")],
    ),
]
