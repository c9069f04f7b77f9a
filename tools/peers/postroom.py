"""Our own broker as a real process: `postroom serve`, compiled or interpreted."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from tools.peers.broker import ROOT, Broker
from tools.peers.ports import LOOPBACK

RECEIVERS_CREATE = """
[auto_create]
consumers = true
"""
"""As other brokers do: whoever comes first, sender or receiver, makes the queue."""
COMPILED, INTERPRETED = ROOT / "build/compiled", ROOT / "src"


class Postroom(Broker):
    """`postroom serve` with its defaults, a loopback port and a data folder; receivers make queues.

    `source` is the folder that Python imports postroom from; `module` may name another module with the same
    command line (a test's mutant).
    """

    name = "Postroom"

    def __init__(self, folder: Path, source: Path = COMPILED, module: str = "postroom.cli") -> None:
        super().__init__(folder)
        self.source = source.resolve()
        self.module = module
        self.extra_paths: list[Path] = []
        self.configuration = RECEIVERS_CREATE
        """Text of a configuration file."""

    @property
    def data(self) -> Path:
        """The ledger's folder."""
        return self.folder / "data"

    def subscription_address(self, topic: str, client: str, name: str) -> str:
        return f"{topic}::{client}/{name}"

    def command(self) -> list[str]:
        command = [sys.executable, "-m", self.module, "serve", "--config", str(self.folder / "postroom.toml")]
        return [*command, "--listen", f"{LOOPBACK}:{self.port}", "--data", str(self.data)]

    def prepare(self) -> None:
        (self.folder / "postroom.toml").write_text(self.configuration)

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": ":".join(str(path) for path in (self.source, *self.extra_paths))}

    def version(self) -> str:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        return f"{project['version']} (Python {sys.version.split()[0]})"

    def settings(self) -> dict[str, str]:
        kind = "interpreted" if self.source == INTERPRETED else "compiled"
        return {"build": kind}
