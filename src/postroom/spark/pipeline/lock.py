"""One pipeline writes a set of tables at a time; the second is told who does.

On a local disk that is a lock of the operating system, which ends with its process, however it ends.
Elsewhere it is a lease that is renewed while the pipeline runs. Neither is what keeps the tables right: a
commit never replaces another's, so a writer that slipped through fails with ``TableConflict`` and has changed
nothing.
"""

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from postroom.spark.pipeline.errors import PipelineInUse
from postroom.spark.pipeline.options import LEASE_HEARTBEAT_S, LEASE_TIMEOUT_S
from postroom.spark.pipeline.root import Root

LOCK_FILE: Final = "lock"
LEASE_FILE: Final = "lease.json"


@contextmanager
def held(root: Root) -> Iterator[None]:
    """Hold the tables while the body runs. Raises ``PipelineInUse`` with who holds them; ``OSError``."""
    with _file_lock(root.uri, root.local) if root.local is not None else _lease(root):
        yield


def holder(root: Root) -> str | None:
    """Who writes the tables now; None if nobody does."""
    if root.local is None:
        return _live_holder(_read_lease(root), time.time())
    try:
        with (root.local / LOCK_FILE).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return _told(root.local / LOCK_FILE)
    return None


def _me() -> str:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return f"process {os.getpid()} on {socket.gethostname()}, since {now}"


# --- local ----------------------------------------------------------------------------------------


@contextmanager
def _file_lock(uri: str, folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_FILE
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PipelineInUse(uri, _told(path)) from error
        file.truncate(0)
        file.write(_me())
        file.flush()
        yield


def _told(path: Path) -> str:
    return path.read_text() or "a process that has just begun"


# --- elsewhere ------------------------------------------------------------------------------------


@contextmanager
def _lease(root: Root, pause_s: float = 1.0) -> Iterator[None]:
    """Write our lease, wait a moment, and see that it is still ours: of two that came at once one goes."""
    found = _live_holder(_read_lease(root), time.time())
    if found is not None:
        raise PipelineInUse(root.uri, found)
    mine = {"id": uuid4().hex, "holder": _me()}
    _renew(root, mine)
    time.sleep(pause_s)
    now_there = _read_lease(root)
    if now_there.get("id") != mine["id"]:
        raise PipelineInUse(root.uri, str(now_there.get("holder")))
    try:
        with _beating(lambda: _renew(root, mine)):
            yield
    finally:
        root.delete(LEASE_FILE)


@contextmanager
def _beating(beat: Callable[[], None]) -> Iterator[None]:
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(LEASE_HEARTBEAT_S):
            beat()

    thread = threading.Thread(target=run, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _renew(root: Root, lease: dict[str, str]) -> None:
    root.write(LEASE_FILE, json.dumps({**lease, "time_s": time.time()}))


def _read_lease(root: Root) -> dict[str, object]:
    text = root.read(LEASE_FILE)
    return {} if text is None else dict(json.loads(text))


def _live_holder(lease: dict[str, object], now_s: float) -> str | None:
    time_s = lease.get("time_s")
    if not isinstance(time_s, (int, float)) or now_s - time_s > LEASE_TIMEOUT_S:
        return None
    return str(lease.get("holder"))
