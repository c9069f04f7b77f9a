"""The load clients: building them, running them, reading their reports."""

from __future__ import annotations

import functools
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.peers.broker import ROOT, Broker, find_installed
from tools.peers.nats_broker import NatsBroker
from tools.peers.ports import LOOPBACK

AMQP_CLIENT, NATS_CLIENT = "loadclient", "natsclient"
SHARED = ("options", "meter", "payload", "bodies", "report")
"""Sources of the one that the other has, too."""
PATIENCE_S = 30
COMPILE_OPTIONS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")


class LoadFailed(Exception):
    """The load client ended with an error, or with lost, doubled or foreign messages."""


@dataclass(frozen=True)
class Report:
    """What one run of the load client said."""

    sent: int
    accepted: int
    refused: int
    received: int
    missing: int
    duplicates: int
    foreign: int
    out_of_order: int
    seconds: float
    rate: float
    arrival_rate: float
    """Messages a second from the first that was received to the last."""
    cpu_seconds: float
    latency_us: dict[str, float]
    transactions: int
    transaction_rate: float
    error: str | None


@functools.cache
def build(client: str = AMQP_CLIENT) -> Path:
    """Compiles the load client where its sources are newer than it, and returns its path."""
    binary = ROOT / "build" / client
    sources = sorted((ROOT / "bench" / client).glob("*.[ch]"))
    if client == NATS_CLIENT:
        sources += [ROOT / f"bench/{AMQP_CLIENT}/{name}.{kind}" for name in SHARED for kind in "ch"]
    if binary.exists() and binary.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return binary
    header, library = _library(client)
    binary.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", *COMPILE_OPTIONS, f"-I{header.parents[1]}", "-o", str(binary)]
    command += [str(source) for source in sources if source.suffix == ".c"]
    command += [str(library), f"-Wl,-rpath,{library.parent}", "-Wl,--disable-new-dtags", "-lm"]
    subprocess.run(command, check=True)
    return binary


def _library(client: str) -> tuple[Path, Path]:
    """A header of the protocol's library, and the library."""
    if client == NATS_CLIENT:
        return find_installed("usr/include/nats/nats.h"), find_installed(
            "usr/lib/*-linux-gnu/libnats.so.[0-9]*"
        )
    return (
        find_installed("usr/include/proton/engine.h"),
        find_installed("usr/lib/*-linux-gnu/libqpid-proton-core.so.[0-9]*"),
    )


def command_line(broker: Broker, mode: str, queue: str, **options: object) -> list[str]:
    """The load client's command; `options` are its long options with underscores (True for a flag)."""
    client = NATS_CLIENT if isinstance(broker, NatsBroker) else AMQP_CLIENT
    command = [str(build(client)), mode, "--host", LOOPBACK, "--port", str(broker.port)]
    command += ["--send-address", broker.send_address(queue)]
    command += ["--receive-address", broker.receive_address(queue), "--patience", str(PATIENCE_S)]
    for name, value in options.items():
        command.append("--" + name.replace("_", "-"))
        if value is not True:
            command.append(str(value))
    return command


def read_report(output: str, errors: str) -> Report:
    """Reads a report; raises LoadFailed when the run wasn't clean."""
    try:
        fields = json.loads(output)
    except ValueError:
        raise LoadFailed(f"the load client said {output!r} and {errors!r}") from None
    report = Report(**{name: fields[name] for name in Report.__dataclass_fields__})
    if report.error or report.refused or report.missing or report.duplicates or report.foreign:
        raise LoadFailed(f"{fields['mode']}: {output.strip()}")
    return report


def run(broker: Broker, mode: str, queue: str, **options: object) -> Report:
    """Runs the load client to its end."""
    done = subprocess.run(command_line(broker, mode, queue, **options), capture_output=True, text=True)
    try:
        return read_report(done.stdout, done.stderr)
    except LoadFailed as failed:
        raise LoadFailed(f"{broker.name}: {failed}; its log ends:\n{broker.log_tail(5)}") from None


def start(broker: Broker, mode: str, queue: str, **options: object) -> subprocess.Popen[str]:
    """Starts the load client in the background; give its output to `read_report` after `communicate`."""
    command = command_line(broker, mode, queue, **options)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
