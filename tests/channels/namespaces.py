"""Machines of their own, as far as the network is concerned: network namespaces with lines between them that
go down as cables do, without a word to anybody.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

from tests.channels.managers import QueueManager

PORT = 5672
_numbers = itertools.count(1)


def run(*words: str) -> None:
    """``ip`` with these words. Raises CalledProcessError."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


def why_not() -> str:
    """Why there can be no namespaces here; "" if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"postroom-{os.getpid()}-try"
    try:
        run("netns", "add", name)
        run("netns", "del", name)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no network namespaces here: {error}"
    return ""


class Namespace:
    """One of them, reached from this one at ``host``."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.name = f"postroom-{os.getpid()}-{self.number}"
        self.host = f"10.213.{self.number}.2"
        outside = f"pr{os.getpid() % 10_000}o{self.number}"
        run("netns", "add", self.name)
        run("link", "add", outside, "type", "veth", "peer", "name", "out", "netns", self.name)
        run("addr", "add", f"10.213.{self.number}.1/30", "dev", outside)
        run("link", "set", outside, "up")
        run("-n", self.name, "addr", "add", f"{self.host}/30", "dev", "out")
        for device in ("lo", "out"):
            run("-n", self.name, "link", "set", device, "up")

    def remove(self) -> None:
        """With everything in it."""
        run("netns", "del", self.name)


class Cable:
    """A line from one namespace to another."""

    def __init__(self, here: Namespace, there: Namespace) -> None:
        self.here = here
        self.device = f"to{there.number}"
        back = f"to{here.number}"
        net = f"10.213.{100 + here.number * 10 + there.number}"
        self.there_host = f"{net}.2"
        run(
            "-n",
            here.name,
            "link",
            "add",
            self.device,
            "type",
            "veth",
            "peer",
            "name",
            back,
            "netns",
            there.name,
        )
        for space, device, host in ((here, self.device, 1), (there, back, 2)):
            run("-n", space.name, "addr", "add", f"{net}.{host}/30", "dev", device)
            run("-n", space.name, "link", "set", device, "up")

    def pull(self) -> None:
        """Nothing gets through, and nobody is told."""
        run("-n", self.here.name, "link", "set", self.device, "down")

    def plug(self) -> None:
        """It is as it was."""
        run("-n", self.here.name, "link", "set", self.device, "up")


class Machine(QueueManager):
    """A queue manager in a namespace of its own."""

    def __init__(self, folder: Path, name: str, space: Namespace) -> None:
        super().__init__(folder, name)
        self.prefix = ["ip", "netns", "exec", space.name]
        self.host = space.host
        self.port = PORT

    def _where_to_listen(self) -> list[str]:
        file = self._files.with_suffix(".toml")
        file.write_text(self._text.format(address=f"0.0.0.0:{PORT}"))
        return ["--config", str(file)]
