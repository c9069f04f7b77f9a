"""The configurations in ``deploy/kubernetes``, tried: NATS with its password, members with theirs, TLS and
users, as processes on this machine, where names and ports are others.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from tools.peers.nats import PROGRAM
from tools.peers.ports import free_port

from postroom.cli import main
from postroom.client import ConnectionFactory, Message
from postroom.client.connection.connector import TlsOptions
from tests.certificates import sign
from tests.clients.broker import BrokerProcess
from tests.clients.driver import ROOT

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(400)]  # NATS takes up to 10 s to elect a leader
KUBERNETES = ROOT / "deploy" / "kubernetes"
NODES = 3
WAIT_S = 60.0
PASSWORD = "p5f0c"


def placed(text: str, replacements: dict[str, str]) -> str:
    """The text with each of these, which must be there."""
    for old, new in replacements.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


@contextmanager
def nodes(folder: Path) -> Iterator[list[tuple[int, int]]]:
    """The NATS nodes; ports of clients and of monitoring."""
    ports = [(free_port(), free_port(), free_port()) for _ in range(NODES)]
    with ExitStack() as stack:
        for number, (client, monitoring, cluster) in enumerate(ports):
            own = {"0.0.0.0:4222": client, "0.0.0.0:8222": monitoring, "0.0.0.0:6222": cluster}
            replacements = {name: f"127.0.0.1:{port}" for name, port in own.items()}
            replacements |= {
                f"postroom-nats-{other}.postroom-nats:6222": f"127.0.0.1:{ports[other][2]}"
                for other in range(NODES)
            }
            replacements['"/data"'] = f'"{folder / str(number)}"'
            file = folder / f"{number}.conf"
            file.write_text(placed((KUBERNETES / "nats.conf").read_text(), replacements))
            environment = {**os.environ, "POD_NAME": f"postroom-nats-{number}", "NATS_PASSWORD": PASSWORD}
            command = [str(PROGRAM), "--config", str(file), "--log", str(file.with_suffix(".log"))]
            process = subprocess.Popen(command, env=environment)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield [(client, monitoring) for client, monitoring, _ in ports]


class Pod(BrokerProcess):
    """A member with the configuration as it is, but for places."""

    def __init__(self, folder: Path, name: str, ports: list[tuple[int, int]]) -> None:
        self.local_port = free_port()
        replacements = {"MEMBER": name, "0.0.0.0:5671": "{address}"}
        replacements |= {"127.0.0.1:5672": f"127.0.0.1:{self.local_port}"}
        replacements |= {"0.0.0.0:8161": f"127.0.0.1:{free_port()}"}
        replacements |= {"/etc/postroom/tls/tls.crt": str(folder / "cert.pem")}
        replacements |= {"/etc/postroom/tls/tls.key": str(folder / "key.pem")}
        replacements |= {"/etc/postroom/nats/password": str(folder / "password")}
        for number, (client, monitoring) in enumerate(ports):
            replacements[f"postroom-nats-{number}.postroom-nats:4222"] = f"127.0.0.1:{client}"
            replacements[f"postroom-nats-{number}.postroom-nats:8222"] = f"127.0.0.1:{monitoring}"
        super().__init__(folder / name, placed((KUBERNETES / "postroom.toml").read_text(), replacements))

    @property
    def local_url(self) -> str:
        """For commands in the pod."""
        return f"amqp://127.0.0.1:{self.local_port}"


def test_members_and_nats_of_kubernetes(tmp_path: Path) -> None:
    """A user is made in the pod, as the page says; clients sign in over TLS, and go on at another member."""
    made = sign(tmp_path, address="127.0.0.1")
    made.key.chmod(0o600)
    (tmp_path / "password").write_text(PASSWORD)
    (tmp_path / "password").chmod(0o600)
    with nodes(tmp_path) as ports, ExitStack() as stack:
        members = [Pod(tmp_path, f"postroom-{number}", ports) for number in range(2)]
        for member in members:
            stack.callback(member.kill)
        first, second = members
        first.start()
        second.launch()
        command = ["user", "add", "root", "--role", "administrator", "--stdin", "--url", first.local_url]
        added = CliRunner().invoke(main, command, input="secret\n")
        assert added.exit_code == 0, added.output
        urls = ",".join(f"amqps://root:secret@127.0.0.1:{member.port}" for member in members)
        factory = ConnectionFactory(f"failover:({urls})", tls=TlsOptions(ca_file=str(made.certificate)))
        with factory.create_connection() as connection:
            session = connection.create_session()
            producer = session.create_producer("orders")
            producer.send(Message("before"))
            first.kill()
            producer.send(Message("after"))
            consumer = session.create_consumer("orders")
            found = [consumer.receive(WAIT_S), consumer.receive(WAIT_S)]
            assert [message and message.body for message in found] == ["before", "after"]
        second.stop()
