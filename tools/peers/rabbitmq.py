"""RabbitMQ 4, bound to loopback, with a quorum queue and a classic durable queue.

Shovels move messages between its virtual hosts, or from one node to another (plugin rabbitmq_shovel).
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tools.peers.broker import TOOLS, Broker, BrokerFailed
from tools.peers.ports import LOOPBACK, free_port

LIBRARIES = TOOLS / "trixie/root/usr/lib"
ERLANG_ARGUMENTS = "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"
QUORUM, CLASSIC = "quorum", "classic"
SHOVEL = "rabbitmq_shovel"
VIRTUAL_HOSTS = ("/",)
CONTROL_LIMIT_S = 30.0
QueueArguments = dict[str, str | int]
QUEUES: dict[str, QueueArguments] = {
    QUORUM: {"x-queue-type": "quorum"},
    CLASSIC: {"x-queue-type": "classic"},
}


class RabbitMQ(Broker):
    """Debian 13's RabbitMQ, run by the libraries of that release. Queues are made from definitions at start.

    `config` adds lines to ``rabbitmq.conf``, `advanced` Erlang terms to the application's environment, and
    `erlang_options` options of the virtual machine (the "tuned" runs); `queues` maps names to the
    x-arguments of further queues, which each of the `virtual_hosts` has.
    """

    name = "RabbitMQ"

    def __init__(
        self,
        folder: Path,
        config: dict[str, str] | None = None,
        queues: dict[str, QueueArguments] | None = None,
        advanced: dict[str, str] | None = None,
        erlang_options: str = "",
        plugins: tuple[str, ...] = (),
        virtual_hosts: tuple[str, ...] = VIRTUAL_HOSTS,
    ) -> None:
        super().__init__(folder)
        self.config = config or {}
        self.queues = {**QUEUES, **(queues or {})}
        self.advanced = advanced or {}
        self.erlang_options = erlang_options
        self.plugins = plugins
        self.virtual_hosts = virtual_hosts
        homes = sorted(LIBRARIES.glob("rabbitmq/lib/rabbitmq_server-*"))
        if not homes:
            raise BrokerFailed("RabbitMQ is not installed; run: tools/peers/install.sh rabbitmq")
        self.home = homes[-1]
        self.erlang = LIBRARIES / "erlang"
        self.epmd_port, self.distribution_port = free_port(), free_port()

    def add_queues(self, names: list[str]) -> None:
        self.queues |= dict.fromkeys(names, QUEUES[QUORUM])

    def version(self) -> str:
        release = (self.erlang / "releases/RELEASES").read_text().split('"')[3]
        return f"{self.home.name.removeprefix('rabbitmq_server-')} (Erlang/OTP {release})"

    def settings(self) -> dict[str, str]:
        arguments = {
            f"{name} {key}": str(value)
            for name, pairs in self.queues.items()
            for key, value in pairs.items()
            if key != "x-queue-type"
        }
        machine = {"Erlang": self.erlang_options} if self.erlang_options else {}
        return {**self.config, **self.advanced, **arguments, **machine}

    def command(self) -> list[str]:
        return [str(self.home / "sbin/rabbitmq-server")]

    def environment(self) -> dict[str, str]:
        folder = self.folder
        return {
            "HOME": str(folder),  # where Erlang keeps its cookie
            "PATH": f"{self.erlang / 'bin'}:/usr/bin:/bin",
            "ERL_ROOTDIR": str(self.erlang),
            "ERL_EPMD_PORT": str(self.epmd_port),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_DIST_PORT": str(self.distribution_port),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{ERLANG_ARGUMENTS} {self.erlang_options}",
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
        }

    def prepare(self) -> None:
        config = {
            "listeners.tcp.1": f"{LOOPBACK}:{self.port}",
            "load_definitions": str(self.folder / "definitions.json"),
            "log.console": "true",
            "log.console.level": "warning",
            "log.file": "false",
            **self.config,
        }
        (self.folder / "rabbitmq.conf").write_text(
            "".join(f"{key} = {value}\n" for key, value in config.items())
        )
        terms = ", ".join(f"{{{key}, {value}}}" for key, value in self.advanced.items())
        (self.folder / "advanced.config").write_text(f"[{{rabbit, [{terms}]}}].\n")
        (self.folder / "enabled_plugins").write_text(f"[{','.join(self.plugins)}].\n")
        (self.folder / "definitions.json").write_text(json.dumps(self._definitions()))

    def _definitions(self) -> dict[str, object]:
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        return {
            "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
            "vhosts": [{"name": host} for host in self.virtual_hosts],
            "permissions": [{"user": "guest", "vhost": host, **everything} for host in self.virtual_hosts],
            "queues": [
                {"name": name, "vhost": host, "durable": True, "auto_delete": False, "arguments": arguments}
                for host in self.virtual_hosts
                for name, arguments in self.queues.items()
            ],
        }

    def control(self, *arguments: str) -> str:
        """Runs rabbitmqctl on the running node and returns what it printed; BrokerFailed if it fails."""
        done = subprocess.run(
            [str(self.home / "sbin/rabbitmqctl"), "--quiet", *arguments],
            cwd=self.folder,
            env={**os.environ, **self.environment()},
            capture_output=True,
            text=True,
            timeout=CONTROL_LIMIT_S,
        )
        if done.returncode != 0:
            raise BrokerFailed(f"rabbitmqctl {' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def helpers(self) -> list[subprocess.Popen[bytes]]:
        """Erlang's port mapper, ours and on loopback, not the daemon that Erlang would leave behind."""
        epmd = sorted(self.erlang.glob("erts-*/bin/epmd"))[-1]
        command = [str(epmd), "-address", LOOPBACK, "-port", str(self.epmd_port)]
        quiet, own = subprocess.DEVNULL, {**os.environ, **self.environment()}
        return [subprocess.Popen(command, cwd=self.folder, env=own, stdin=quiet, stdout=quiet, stderr=quiet)]

    def send_address(self, queue: str) -> str:
        return f"/queues/{queue}"

    def receive_address(self, queue: str) -> str:
        return f"/queues/{queue}"
