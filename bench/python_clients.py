"""Python clients side by side: messages a second, and what each takes of its own process.

``uv run --with aio-pika --with azure-servicebus python -m bench.python_clients`` with
PYTHONPATH=build/compiled. Ours, Qpid Proton's and the stack of Azure Service Bus' client at one Postroom;
aio-pika at a quorum queue of RabbitMQ, nats-py at a stream of one NATS server that syncs always: each with
the server that it is for. Durable messages of 1 KB, 1,000 under way, each accepted; in turns. A client whose
library isn't here is left out, and named.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tools.peers.broker import ROOT
from tools.peers.nats import NatsCluster
from tools.peers.postroom import COMPILED, Postroom
from tools.peers.rabbitmq import RabbitMQ

from bench.command import add_arguments, print_report, scratch
from bench.progress import show_progress
from bench.python_client_loads import ONE, RECEIVE, SEND

OF_POSTROOM, OF_RABBITMQ, OF_NATS = "Postroom", "RabbitMQ", "NATS"
CLIENTS: Final = {
    "postroom-blocking": (OF_POSTROOM, "postroom"),
    "postroom-asyncio": (OF_POSTROOM, "postroom"),
    "proton": (OF_POSTROOM, "proton"),
    "azure": (OF_POSTROOM, "azure.servicebus"),
    "aio-pika": (OF_RABBITMQ, "aio_pika"),
    "nats-py": (OF_NATS, "nats"),
}
"""The server of each, and its library."""
LIMIT_S: Final = 600.0


def is_here(library: str) -> bool:
    """Whether it is installed."""
    try:
        return importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:  # of a package whose parent is missing, too
        return False


@contextmanager
def ports(folder: Path, servers: set[str]) -> Iterator[dict[str, int]]:
    """Where each of these servers takes its clients."""
    found = {}
    with ExitStack() as stack:
        found[OF_POSTROOM] = stack.enter_context(Postroom(folder / "postroom")).port
        if OF_NATS in servers:
            nats = stack.enter_context(NatsCluster(folder / "nats", size=1))
            found[OF_NATS] = nats.nodes[0].client_port
        if OF_RABBITMQ in servers:
            found[OF_RABBITMQ] = stack.enter_context(RabbitMQ(folder / "rabbitmq")).port
        yield found


def run(client: str, load: str, port: int, messages: int) -> tuple[float, float]:
    """Messages a second, and microseconds of the client's processor time for each."""
    command = [sys.executable, "-m", "bench.python_client_loads", client, load, str(port), str(messages)]
    paths = os.pathsep.join([str(COMPILED), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode:
        sys.exit(f"{client}, {load}: {done.stderr.strip().splitlines()[-1]}")
    figures = json.loads(done.stdout)
    return messages / figures["seconds"], figures["cpu_s"] / messages * 1e6


def main() -> None:
    command = argparse.ArgumentParser(description=__doc__)
    command.add_argument("--rounds", type=int, default=5)
    command.add_argument("--messages", type=int, default=30_000, help="of each run with many under way")
    command.add_argument("--single", type=int, default=2_000, help="of each run with one under way")
    add_arguments(command)
    given = command.parse_args()
    clients = {name: server for name, (server, library) in CLIENTS.items() if is_here(library)}
    for name in CLIENTS.keys() - clients.keys():
        show_progress(f"{name} is left out: its library isn't installed")
    rates: dict[str, list[float]] = defaultdict(list)
    cpu_us: dict[str, list[float]] = defaultdict(list)
    with scratch(given.folder) as folder, ports(folder, set(clients.values())) as port_of:
        for number in range(given.rounds):
            for name, server in clients.items():
                show_progress(f"round {number + 1} of {given.rounds}: {name}")
                sizes = {ONE: given.single, SEND: given.messages, RECEIVE: given.single + given.messages}
                for load, messages in sizes.items():
                    rate, own_us = run(name, load, port_of[server], messages)
                    rates[f"{name} {load}"].append(rate)
                    cpu_us[f"{name} {load}"].append(own_us)
    report = {f"{key}, messages/s": statistics.median(values) for key, values in rates.items()}
    report |= {f"{key}, µs": statistics.median(values) for key, values in cpu_us.items()}
    print_report(report, given.json, 1)


if __name__ == "__main__":
    main()
