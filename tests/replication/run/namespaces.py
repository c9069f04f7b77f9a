"""Each member and each node of the engine in a network namespace of its own, with a cable to one bridge. For
root.

Two of them are cut from each other by a wrong hardware address: what is sent goes nowhere, and nobody hears
of it. Clients, in the namespace that everything was started from, keep their ways to all.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Final

LOST: Final = "02:00:00:00:00:01"
"""Nobody's hardware address."""
NETWORK: Final = "10.231"
DEVICE: Final = "eth0"


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


class Namespaces:
    """The ways between members and nodes; see `Relays`, which need no root."""

    def __init__(self, members: str, nodes: Sequence[str]) -> None:
        self._members: Final = members
        self._nodes: Final = list(nodes)
        own = os.getpid()
        self._prefix: Final = f"pr{own}"
        self._network: Final = f"{NETWORK}.{own % 256}"
        self._stack: Final = ExitStack()

    def host(self, name: str) -> str:
        """The address of a member or node."""
        return f"{self._network}.{2 + [*self._members, *self._nodes].index(name)}"

    def command(self, name: str) -> list[str]:
        """What runs a command in its place."""
        return ["ip", "netns", "exec", f"{self._prefix}-{name}"]

    def __enter__(self) -> Namespaces:
        with self._stack:
            bridge = f"{self._prefix}-br"
            _ip("link", "add", bridge, "type", "bridge")
            self._stack.callback(_ip, "link", "del", bridge)
            _ip("addr", "add", f"{self._network}.1/24", "dev", bridge)
            _ip("link", "set", bridge, "up")
            for name in [*self._members, *self._nodes]:
                self._connect(name, bridge)
            self._kept = self._stack.pop_all()
        return self

    def _connect(self, name: str, bridge: str) -> None:
        place, cable = f"{self._prefix}-{name}", f"{self._prefix}{name}"
        _ip("netns", "add", place)
        self._stack.callback(_ip, "netns", "del", place)
        _ip("link", "add", cable, "type", "veth", "peer", "name", DEVICE, "netns", place)
        self._stack.callback(_ip, "link", "del", cable)
        _ip("link", "set", cable, "master", bridge, "up")
        _ip("-n", place, "addr", "add", f"{self.host(name)}/24", "dev", DEVICE)
        for device in (DEVICE, "lo"):
            _ip("-n", place, "link", "set", device, "up")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kept.close()

    # --- cuts

    def cut(self, member: str) -> None:
        """Between a member and all nodes."""
        for node in self._nodes:
            self._cut(member, node)

    def mend(self, member: str) -> None:
        """That again."""
        for node in self._nodes:
            self._mend(member, node)

    def cut_node(self, node: str) -> None:
        """Between a node and everybody but clients."""
        for other in self._others(node):
            self._cut(node, other)

    def mend_node(self, node: str) -> None:
        """That again."""
        for other in self._others(node):
            self._mend(node, other)

    def _others(self, node: str) -> list[str]:
        return [name for name in [*self._members, *self._nodes] if name != node]

    def _cut(self, one: str, other: str) -> None:
        for at, to in ((one, other), (other, one)):
            way = (self.host(to), "lladdr", LOST, "dev", DEVICE, "nud", "permanent")
            _ip("-n", f"{self._prefix}-{at}", "neigh", "replace", *way)

    def _mend(self, one: str, other: str) -> None:
        for at, to in ((one, other), (other, one)):
            _ip("-n", f"{self._prefix}-{at}", "neigh", "del", self.host(to), "dev", DEVICE)
