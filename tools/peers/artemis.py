"""Apache Artemis with a synced journal, bound to loopback, with the anycast queues asked for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tools.peers.broker import DEBIAN_ROOT, TOOLS, Broker, BrokerFailed
from tools.peers.ports import LOOPBACK

JOURNAL_KINDS = ("ASYNCIO", "NIO", "MAPPED")
ANY_DISK = {"max-disk-usage": "-1"}
"""By default Artemis blocks every sender, without a word to it, while the disk is more than 90 % full,
whoever filled it."""


class Artemis(Broker):
    """The distribution's own instance template (`artemis create`), which also tunes the journal to the disk.

    `journal` is one of JOURNAL_KINDS; all write with journal-datasync. `acceptor` replaces parts of the
    acceptor's address, `xml` elements of ``broker.xml`` (the "best settings" runs).
    """

    name = "Artemis"

    def __init__(
        self,
        folder: Path,
        journal: str = "ASYNCIO",
        acceptor: dict[str, str] | None = None,
        xml: dict[str, str] | None = None,
        java_memory: str = "2G",
        queues: tuple[str, ...] = ("bench",),
        create: tuple[str, ...] = (),
    ) -> None:
        """`create`: further options of `artemis create`."""
        super().__init__(folder)
        self.create = create
        self.journal = journal
        self.acceptor = acceptor or {}
        self.xml = {**ANY_DISK, **(xml or {})}
        self.java_memory = java_memory
        self.queues = queues
        homes = sorted((TOOLS / "artemis").glob("apache-artemis-*"))
        if not homes:
            raise BrokerFailed("Artemis is not installed; run: tools/peers/install.sh artemis")
        self.home = homes[-1]
        self.instance = folder / "instance"

    def add_queues(self, names: list[str]) -> None:
        self.queues = (*self.queues, *names)

    def subscription_address(self, topic: str, client: str, name: str) -> str:
        return f"{topic}::{client}.{name}"

    def version(self) -> str:
        java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
        return f"{self.home.name.removeprefix('apache-artemis-')} (Java {java.split(chr(34))[1]})"

    def settings(self) -> dict[str, str]:
        return {
            "journal-type": self.journal,
            "journal-datasync": "true",
            "journal-buffer-timeout": self._element("journal-buffer-timeout") + " ns",
            "Xmx": self.java_memory,
            **self.acceptor,
            **self.xml,
        }

    def environment(self) -> dict[str, str]:
        libraries = [str(path) for path in DEBIAN_ROOT.glob("lib/*-linux-gnu")]
        libraries += [str(path) for path in DEBIAN_ROOT.glob("usr/lib/*-linux-gnu")]
        return {"LD_LIBRARY_PATH": ":".join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")])}

    def command(self) -> list[str]:
        return [str(self.instance / "bin/artemis"), "run"]

    @property
    def _configuration(self) -> Path:
        return self.instance / "etc/broker.xml"

    def _element(self, name: str) -> str:
        if not self._configuration.exists():
            return "?"
        return self._configuration.read_text().split(f"<{name}>")[1].split("<")[0]

    def prepare(self) -> None:
        if self.instance.exists():
            return
        journal = {"ASYNCIO": "--aio", "NIO": "--nio", "MAPPED": "--mapped"}[self.journal]
        create = [
            str(self.home / "bin/artemis"),
            "create",
            "--silent",
            "--host",
            LOOPBACK,
            "--no-web",
            journal,
        ]
        create += ["--queues", ",".join(f"{queue}:anycast" for queue in self.queues)]
        create += ["--default-port", str(self.port), "--java-memory", self.java_memory]
        create += [f"--no-{protocol}-acceptor" for protocol in ("amqp", "mqtt", "stomp", "hornetq")]
        create += ["--allow-anonymous", "--user", "bench", "--password", "bench", *self.create]
        create.append(str(self.instance))
        done = subprocess.run(
            create, capture_output=True, text=True, env={**os.environ, **self.environment()}
        )
        if done.returncode != 0:
            raise BrokerFailed(f"artemis create failed:\n{done.stdout}\n{done.stderr}")
        self._apply_settings()

    def _apply_settings(self) -> None:
        text = self._configuration.read_text()
        for key, value in self.acceptor.items():
            before, _, after = text.partition(f"{key}=")
            text = before + f"{key}={value}" + after[len(after.split(";")[0].split("<")[0]) :]
        for key, value in self.xml.items():
            before, found, after = text.partition(f"<{key}>")
            if not found:
                raise BrokerFailed(f"{self._configuration} has no element <{key}>")
            text = before + f"<{key}>{value}" + after[after.index("<") :]
        self._configuration.write_text(text)
