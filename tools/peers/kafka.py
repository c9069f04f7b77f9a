"""A cluster of Apache Kafka on loopback, from the jars that ``tools/peers/install.sh kafka`` fetches.

Each node is broker and controller (KRaft) in a process of its own, so that it can be killed, paused and
started again.
"""

import base64
import contextlib
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tools.peers.broker import TOOLS
from tools.peers.ports import LOOPBACK, free_ports

START_S = 120.0
POLL_S = 0.1
JARS = TOOLS / "kafka" / "jars"
HEAP = "-Xmx256m"
JAVA = [HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"]


@dataclass
class Security:
    """Of the clients' listeners: TLS, and who may sign in by SCRAM-SHA-512."""

    key_store: Path
    """PKCS #12 file with the nodes' certificate and key."""
    store_password: str
    user: str
    password: str
    client_authority: Path | None = None
    """PEM file with the authority of the clients' certificates, which they must show then."""
    deny: bool = False
    """Whether the user may do nothing that no access control list allows."""

    def lines(self, name: str) -> str:
        """Of the configuration of a listener with this name."""
        lines = self._lines(name)
        if self.client_authority is not None:
            prefix = f"listener.name.{name.lower()}.ssl"
            lines += f"{prefix}.client.auth=required\n{prefix}.truststore.type=PEM\n"
            lines += f"{prefix}.truststore.location={self.client_authority}\n"
        if self.deny:
            # Nodes among each other, and the library's clients behind them, are nobody by name.
            lines += "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
            lines += "super.users=User:ANONYMOUS\n"
        return lines

    def _lines(self, name: str) -> str:
        return (
            f"listener.security.protocol.map={name}:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            f"ssl.keystore.type=PKCS12\nssl.keystore.location={self.key_store}\n"
            f"ssl.keystore.password={self.store_password}\nssl.key.password={self.store_password}\n"
            f"sasl.enabled.mechanisms=SCRAM-SHA-512\n"
            f"listener.name.{name.lower()}.scram-sha-512.sasl.jaas.config="
            "org.apache.kafka.common.security.scram.ScramLoginModule required;\n"
        )


@dataclass
class Place:
    """Where a node runs."""

    ports: tuple[int, int, int]
    """Of clients, of the other brokers, of controllers."""
    host: str
    prefix: Sequence[str]
    """What runs the command."""


class KafkaNode:
    """One server."""

    def __init__(
        self,
        folder: Path,
        number: int,
        place: Place,
        voters: dict[int, str],
        security: Security | None,
        doors: Mapping[str, tuple[int, int]],
        settings: str,
    ) -> None:
        """`voters`: all controllers' addresses; `doors`: further listeners, each with its port and the one
        that it tells clients; `settings`: further lines of its configuration."""
        self.name = f"k{number}"
        host, (self.client_port, internal_port, controller_port) = place.host, place.ports
        self._host, self._prefix = host, place.prefix
        self._scheme = "kafka" if security is None else "kafka+tls"
        self._internal_port = internal_port
        self._file = folder / f"{self.name}.properties"
        self._log = folder / f"{self.name}.log"
        self._security = security
        quorum = ",".join(f"{each}@{address}" for each, address in voters.items())
        copies = min(3, len(voters))
        internal = f"INTERNAL://{host}:{internal_port}"
        clients = {"CLIENTS": (self.client_port, self.client_port), **doors}
        listening, advertised = (
            ",".join([*(f"{name}://{host}:{each[at]}" for name, each in clients.items()), internal])
            for at in (0, 1)
        )
        plain = ",".join(f"{name}:PLAINTEXT" for name in (*clients, "INTERNAL", "CONTROLLER"))
        protocols = (
            security.lines("CLIENTS") if security is not None else f"listener.security.protocol.map={plain}\n"
        )
        self._file.write_text(
            f"process.roles=broker,controller\nnode.id={number}\ncontroller.quorum.voters={quorum}\n"
            f"listeners={listening},CONTROLLER://{host}:{controller_port}\nadvertised.listeners={advertised}\n"
            f"controller.listener.names=CONTROLLER\ninter.broker.listener.name=INTERNAL\n{protocols}"
            f"log.dirs={folder / self.name}\noffsets.topic.replication.factor={copies}\n"
            "offsets.topic.num.partitions=1\n"
            f"transaction.state.log.replication.factor={copies}\nauto.create.topics.enable=false\n{settings}"
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For members."""
        return f"{self._scheme}://{self._host}:{self.client_port}"

    @property
    def internal_address(self) -> str:
        """Without TLS and sign-in."""
        return f"{self._host}:{self._internal_port}"

    def format(self, cluster: str) -> "subprocess.Popen[bytes]":
        """Begin to prepare its folder."""
        command = [
            "java",
            *JAVA,
            "kafka.tools.StorageTool",
            "format",
            f"--cluster-id={cluster}",
            "-c",
            str(self._file),
        ]
        if self._security is not None:
            user, password = self._security.user, self._security.password
            command += ["--add-scram", f"SCRAM-SHA-512=[name={user},password={password}]"]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def start(self) -> None:
        """Start the process."""
        with self._log.open("ab") as log:
            command = [*self._prefix, "java", *JAVA, "kafka.Kafka", str(self._file)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def signal(self, number: signal.Signals) -> None:
        """Such as SIGSTOP and SIGCONT."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def text_of_log(self) -> str:
        """What it has logged."""
        return self._log.read_text() if self._log.exists() else ""


class KafkaCluster:
    """So many servers that know each other."""

    def __init__(
        self,
        folder: Path,
        size: int = 3,
        security: Security | None = None,
        doors: Mapping[str, Sequence[tuple[int, int]]] | None = None,
        settings: str = "",
        hosts: Sequence[str] = (),
        prefixes: Sequence[Sequence[str]] = (),
    ) -> None:
        """`doors`: further listeners of each node by name, their ports and what they tell clients;
        `settings`: further lines of the nodes' configuration; `hosts`, `prefixes`: of each node its address,
        and what runs it, else all are on loopback."""
        hosts, prefixes = hosts or [LOOPBACK] * size, prefixes or [()] * size
        ports = free_ports(3 * size)
        voters = {at + 1: f"{hosts[at]}:{ports[2 * size + at]}" for at in range(size)}
        folder.mkdir(parents=True, exist_ok=True)
        self.nodes = [
            KafkaNode(
                folder,
                at + 1,
                Place((ports[at], ports[size + at], ports[2 * size + at]), hosts[at], prefixes[at]),
                voters,
                security,
                {name: of_nodes[at] for name, of_nodes in (doors or {}).items()},
                settings,
            )
            for at in range(size)
        ]

    @property
    def urls(self) -> list[str]:
        """For members."""
        return [node.url for node in self.nodes]

    @property
    def monitoring(self) -> list[str]:
        """URLs of all nodes' monitoring: there is none."""
        return []

    @property
    def addresses(self) -> str:
        """Of all nodes, without TLS and sign-in, for the library's clients."""
        return ",".join(node.internal_address for node in self.nodes)

    def wait(self) -> None:
        """Until all nodes take part, and have what the others have."""
        end_s = time.monotonic() + START_S
        admin = AdminClient({"bootstrap.servers": self.addresses, "log_level": 0})
        while True:
            with contextlib.suppress(KafkaException):
                if self._is_whole(admin):
                    return
            if time.monotonic() > end_s:
                texts = "\n".join(node.text_of_log()[-1000:] for node in self.nodes)
                raise RuntimeError(f"Kafka doesn't start: {texts}")
            time.sleep(POLL_S)

    def _is_whole(self, admin: AdminClient) -> bool:
        if len(admin.describe_cluster(request_timeout=5).result().nodes) < len(self.nodes):
            return False
        topics = admin.list_topics(timeout=5).topics.values()
        partitions = [partition for topic in topics for partition in topic.partitions.values()]
        return all(len(each.isrs) == len(each.replicas) and each.leader >= 0 for each in partitions)

    def __enter__(self) -> "KafkaCluster":
        if not JARS.exists():
            raise RuntimeError("Kafka is not installed; run: tools/peers/install.sh kafka")
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        formatting = [node.format(cluster) for node in self.nodes]
        codes = [each.wait() for each in formatting]
        if any(codes):
            texts = "\n".join(node.text_of_log()[-1000:] for node in self.nodes)
            raise RuntimeError(f"Kafka's folders can't be made: {texts}")
        for node in self.nodes:
            node.start()
        try:
            self.wait()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes:
            node.kill()
