"""The pipeline that runs beside the demo's traffic: ``postroom pipeline run --continuous``, a process of its
own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from demo.narrator import Narrator
from postroom.spark.places.uris import place_of
from postroom.spark.store import open_store

BATCH = re.compile(r"^positions .*")
PATIENCE_S = 180.0
STOP_S = 30.0
POLL_S = 0.2
INTERVAL_MS = 2_000
"""How often it looks for new records: each look that finds some costs half a second of a core, which the
other processes of the demo need more."""
ENVIRONMENT = {"PYTHONWARNINGS": "ignore"}


class Pipeline:
    """Reads the ledgers of running brokers into tables, as they grow."""

    def __init__(self, ledgers: list[str], token: str, tables: Path, narrator: Narrator) -> None:
        """``ledgers``: folders and URLs; ``token`` opens those."""
        self.tables = tables
        self._ledgers = ledgers
        self._token = token
        self._teller = narrator
        self._log = tables.with_name("pipeline.log")
        self._batches: list[str] = []
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it; what it says goes to a log, and is told when asked for."""
        command = [sys.executable, "-m", "postroom.cli", "pipeline", "run", "--continuous"]
        command += ["--interval-ms", str(INTERVAL_MS)]
        command += ["--tables", str(self.tables)]
        for ledger in self._ledgers:
            command += ["--data", ledger]
        environment = {**os.environ, **ENVIRONMENT, "POSTROOM_TOKEN": self._token}
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        threading.Thread(target=self._listen, name="pipeline", daemon=True).start()

    def _listen(self) -> None:
        assert self._process is not None and self._process.stderr is not None
        with self._log.open("w", buffering=1) as log:
            for line in self._process.stderr:
                log.write(line)
                if BATCH.match(line):
                    self._batches.append(line.strip())

    def show_progress(self) -> None:
        """Its last batch, and what it lacks."""
        last = self._batches[-1] if self._batches else "Spark is starting"
        self._teller.console.print(f"  [cyan]pipeline[/] {last}", highlight=False)

    def catch_up(self) -> None:
        """Wait until the tables have what is durable now; the ledgers may grow on."""
        snapshots = [place_of(ledger, self._token).snapshot() for ledger in self._ledgers]
        wanted = {each.ledger_id: each.durable_through for each in snapshots}
        end = time.monotonic() + PATIENCE_S
        while any(self._positions().get(ledger, 0) < position for ledger, position in wanted.items()):
            if self._process is None or self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the pipeline doesn't get on; see {self._log}")
            time.sleep(POLL_S)

    def _positions(self) -> Mapping[str, int]:
        """Of the table that is committed last."""
        state = open_store(str(self.tables), "channels").state()
        return {ledger: at.position for ledger, at in state.positions.items()}

    def stop(self) -> None:
        """As systemd would: it ends after the batch at hand."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._process = None
