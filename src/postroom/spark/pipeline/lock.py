"""One pipeline writes a set of tables at a time; the second is told who does.

On a local disk that is a lock of the operating system, which ends with its process, however it ends.
Elsewhere it is a lease that is renewed while the pipeline runs. Neither is what keeps the tables right: a
commit never replaces another's, so a writer that slipped through fails with ``TableConflict`` and has changed
nothing.
"""

import fcntl
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from postroom.spark.pipeline.errors import LeaseLost, PipelineError, PipelineInUse
from postroom.spark.pipeline.options import LEASE_HEARTBEAT_S, LEASE_PAUSE_S, LEASE_TIMEOUT_S
from postroom.spark.pipeline.root import Root

LOCK_FILE: Final = "lock"
LEASE_FILE: Final = "lease.json"


log = logging.getLogger(__name__)


class Hold:
    """The tables are ours, until they aren't."""

    def __init__(self) -> None:
        self.lost: PipelineError | None = None
        """Why they are no longer."""

    def check(self) -> None:
        """Raises what was the end of it."""
        if self.lost is not None:
            raise self.lost


@contextmanager
def held(root: Root) -> Iterator[Hold]:
    """Hold the tables while the body runs; who runs for long asks the `Hold` now and then. Raises
    ``PipelineInUse`` with who holds them, ``LeaseLost``, ``OSError``."""
    with _file_lock(root.uri, root.local) if root.local is not None else _lease(root) as hold:
        yield hold
        hold.check()


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
        return _owner(root.local / LOCK_FILE)
    return None


def _me() -> str:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return f"process {os.getpid()} on {socket.gethostname()}, since {now}"


# --- local ----------------------------------------------------------------------------------------


@contextmanager
def _file_lock(uri: str, folder: Path) -> Iterator[Hold]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_FILE
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PipelineInUse(uri, _owner(path)) from error
        file.truncate(0)
        file.write(_me())
        file.flush()
        yield Hold()


def _owner(path: Path) -> str:
    return path.read_text() or "a process that has just begun"


# --- elsewhere ------------------------------------------------------------------------------------


@contextmanager
def _lease(root: Root) -> Iterator[Hold]:
    """Write our lease, wait a moment, and see that it is still ours: of two that came at once one goes."""
    found = _live_holder(_read_lease(root), time.time())
    if found is not None:
        raise PipelineInUse(root.uri, found)
    lease = Lease(root, time.monotonic)
    lease.write()
    time.sleep(LEASE_PAUSE_S)
    lease.check_ours()
    try:
        with _beating(lease):
            yield lease
    finally:
        if lease.lost is None:
            root.delete(LEASE_FILE)


class Lease(Hold):
    """A small file that says who writes, and since when it is known."""

    def __init__(self, root: Root, clock: Callable[[], float]) -> None:
        """`clock` in seconds."""
        super().__init__()
        self._root: Final = root
        self._clock: Final = clock
        self._mine: Final = {"id": uuid4().hex, "holder": _me()}
        self._written_s = clock()

    def write(self) -> None:
        """Say that we are there. Raises ``OSError``."""
        at_s = self._clock()  # before: others count from a time that may be earlier than our request's end
        self._root.write(LEASE_FILE, json.dumps({**self._mine, "time_s": time.time()}))
        self._written_s = at_s

    def check_ours(self) -> None:
        """Raises ``PipelineInUse`` if another has written its own, ``OSError``."""
        there = _read_lease(self._root)
        if there.get("id") != self._mine["id"]:
            raise PipelineInUse(self._root.uri, str(there.get("holder", "nobody: its lease was deleted")))

    def beat(self) -> None:
        """Renew it. A failure is logged, and tried again at the next beat; once the lease may count as void
        for others, it is lost."""
        try:
            self.check_ours()
            self.write()
        except PipelineInUse as error:
            self._lose(error)
        except Exception as error:
            log.warning("%s: the lease could not be renewed: %s", self._root.uri, error)
            if self._clock() - self._written_s > LEASE_TIMEOUT_S - LEASE_HEARTBEAT_S:
                self._lose(LeaseLost(self._root.uri, str(error)))

    def _lose(self, why: PipelineError) -> None:
        log.error("%s", why)
        self.lost = why


@contextmanager
def _beating(lease: Lease) -> Iterator[None]:
    ended = threading.Event()

    def run() -> None:
        while lease.lost is None and not ended.wait(LEASE_HEARTBEAT_S):
            lease.beat()

    thread = threading.Thread(target=run, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _read_lease(root: Root) -> dict[str, object]:
    try:
        text = root.read(LEASE_FILE)
        return {} if text is None else dict(json.loads(text))
    except (ValueError, TypeError) as error:
        raise PipelineError(
            f"{root.uri}: the lease {LEASE_FILE} can't be read ({error}): delete it if no pipeline writes"
            " these tables"
        ) from error


def _live_holder(lease: dict[str, object], now_s: float) -> str | None:
    time_s = lease.get("time_s")
    if not isinstance(time_s, (int, float)) or now_s - time_s > LEASE_TIMEOUT_S:
        return None
    return str(lease.get("holder"))
