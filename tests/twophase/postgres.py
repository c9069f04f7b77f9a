"""A real PostgreSQL server for the tests: its own cluster in a folder of its own, on a Unix socket."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

START_S = 30.0
POLL_S = 0.01
BINARIES = Path("/usr/lib/postgresql")
"""Where Debian has them, a folder for each version."""
UNPRIVILEGED = ("postgres", "nobody")
"""Who runs it when the tests run as root, which PostgreSQL refuses."""
SETTINGS = {
    "listen_addresses": "",
    "max_prepared_transactions": "20",
    "max_connections": "30",
    "recovery_init_sync_method": "syncfs",  # after a crash, one call and not one a file
}


def binary(name: str) -> str:
    """The newest server's command ``name``."""
    found = sorted(BINARIES.glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    where = str(found[-1]) if found else shutil.which(name)
    if where is None:
        raise RuntimeError(f"PostgreSQL's {name} is missing; install it with: tools/setup.sh peers")
    return where


def unprivileged() -> dict[str, Any]:
    """Arguments of Popen by which root gives up its rights; none for others."""
    if os.getuid() != 0:
        return {}
    for name in UNPRIVILEGED:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise RuntimeError(f"nobody to run PostgreSQL as: root can't, and there is none of {UNPRIVILEGED}")


class PostgreSQL:
    """A server, started, killed, started again on the same data. Syncs as it does by default."""

    def __init__(self, **settings: str) -> None:
        self._settings = SETTINGS | settings
        self._rights = unprivileged()
        self.folder = Path(tempfile.mkdtemp(prefix="postroom-pg-"))
        if self._rights:
            os.chown(self.folder, self._rights["user"], self._rights["group"])
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "--auth=trust", "--username=postgres", "--no-sync", "--no-instructions")

    def _run(self, command: str, *arguments: str) -> None:
        subprocess.run(
            [binary(command), "--pgdata", str(self.folder / "data"), *arguments],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self._rights,
        )

    @property
    def dsn(self) -> str:
        """How psycopg reaches it."""
        return f"host={self.folder} user=postgres dbname=postgres"

    def start(self) -> None:
        """Start it and wait until it answers."""
        arguments = ["-D", str(self.folder / "data"), "-k", str(self.folder)]
        for name, value in self._settings.items():
            arguments += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [binary("postgres"), *arguments], stderr=log, stdout=log, cwd=self.folder, **self._rights
            )
        end = time.monotonic() + START_S
        while not self._answers():
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL doesn't start: {(self.folder / 'log').read_text()[-4000:]}")
            time.sleep(POLL_S)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.dsn).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """Immediate shutdown: no checkpoint, nobody is told; the next start recovers from its log."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """Fast shutdown, in good order."""
        self._end(signal.SIGINT)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(START_S)
            self._process = None

    @property
    def is_running(self) -> bool:
        """Whether it was started, and not ended from here."""
        return self._process is not None

    def kill_backends(self) -> None:
        """End the server's process behind every connection but this one's, in the middle of what it does."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )

    def restart_after_kill(self) -> None:
        """Crash and come back."""
        self.kill()
        self.start()

    def execute(self, query: str) -> list[tuple[Any, ...]]:
        """Run a statement by itself; its rows."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description is not None else []

    def __enter__(self) -> PostgreSQL:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
