"""How this process is, for `postroom status`: a local socket, of whose folder the broker is.

Whoever probes a follower finds no port open. A file would be stale when its writer is killed or paused, and
couldn't be written on a full disk; a socket is answered by who lives, and ends with the process. Its name is
in Linux' abstract namespace, made of the data folder's device and inode: so nothing of it is left in the
folder. Only the process' own user and root are answered. A thread of its own answers, while the ledger is
recovered as well; it says, too, how long ago the loop that serves clients ran last.
"""

import contextlib
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from postroom import __version__
from postroom.server.threads import TendedThread

STARTING: Final = "starting"
"""It opens its files, waits for the engine, or recovers."""
FOLLOWING: Final = "following"
COPYING: Final = "copying"
ACTIVE: Final = "active"
STALLED_S: Final = 30.0
"""A loop that hasn't run for so long serves nobody."""
TICK_S: Final = 1.0
"""So often it says that it runs, and a name that is taken is tried again."""
ANSWER_S: Final = 5.0
"""A process that doesn't answer for so long is taken for paused."""
MAX_BYTES: Final = 1 << 20
_CREDENTIALS: Final = struct.Struct("3i")

Report = Mapping[str, Any]


class NoStatus(Exception):
    """No broker answers for that folder; one line of text."""


class StatusDoor:
    """Answers for the broker of a folder, from `with` to its end."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self.report: Callable[[], Report] = lambda: {"state": STARTING}
        """What is said, called in another thread."""
        self.ticked_s: float | None = None
        """When the loop that serves clients ran last, by the monotonic clock."""
        self._ended: Final = threading.Event()
        self._listening: socket.socket | None = None
        self.thread: Final = TendedThread("postroom-status", self._serve)

    def __enter__(self) -> "StatusDoor":
        with contextlib.suppress(OSError):  # whoever opens the ledger says so
            self._folder.mkdir(parents=True, exist_ok=True)
        self._listening = self._bound()
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        listening = self._listening  # the thread may take it away meanwhile
        if listening is not None:
            with contextlib.suppress(OSError):  # ended already
                listening.shutdown(socket.SHUT_RDWR)  # wakes who waits for a caller
        self.thread.join()

    def tick(self) -> None:
        """The loop that serves clients runs."""
        self.ticked_s = time.monotonic()

    def _serve(self) -> None:
        while self._listening is None and not self._ended.wait(TICK_S):
            self._listening = self._bound()
        if self._listening is None:
            return
        try:
            while not self._ended.is_set():
                self._answer_next(self._listening)
        finally:
            self._listening.close()
            self._listening = None

    def _bound(self) -> socket.socket | None:
        """None: there is no such folder yet, or another process has it."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.bind(_name_of(self._folder))
            made.listen()
            return made
        except OSError:
            made.close()
            return None

    def _answer_next(self, listening: socket.socket) -> None:
        try:
            caller, _ = listening.accept()
        except OSError:  # of the end, or of too many open files
            self._ended.wait(TICK_S)
            return
        with caller:
            if _user_of(caller) not in (0, os.geteuid()):
                return
            caller.settimeout(TICK_S)
            try:
                caller.sendall(json.dumps(self.whole()).encode())
            except OSError:
                return  # it didn't wait

    def whole(self) -> dict[str, Any]:
        """What is answered now. In any thread."""
        found = {"pid": os.getpid(), "version": __version__, **self.report()}
        if self.ticked_s is not None:
            found["loop_s"] = round(time.monotonic() - self.ticked_s, 1)
        return found


def read_status(folder: Path) -> dict[str, Any]:
    """What the broker of a folder says of itself. Raises `NoStatus`."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(ANSWER_S)
            asking.connect(_name_of(folder))
            if _user_of(asking) not in (0, os.geteuid(), folder.stat().st_uid):
                raise NoStatus(f"{folder}: another user's process answers in its place")
            data = b""
            while piece := asking.recv(MAX_BYTES):
                data += piece
    except FileNotFoundError as error:
        raise NoStatus(f"{folder}: no such folder") from error
    except TimeoutError as error:
        raise NoStatus(f"{folder}: its broker doesn't answer within {ANSWER_S:.0f} s") from error
    except OSError as error:
        raise NoStatus(f"{folder}: no broker of it runs here ({error.strerror})") from error
    if not data:
        raise NoStatus(f"{folder}: its broker is another user's: run this as that one, or as root")
    found: dict[str, Any] = json.loads(data)
    return found


def why_unhealthy(found: Report) -> str:
    """ "": the process does what it should."""
    stalled_s = found.get("loop_s", 0.0)
    return f"its loop hasn't run for {stalled_s:.0f} s" if stalled_s > STALLED_S else ""


def why_not_ready(found: Report, most_behind_s: float) -> str:
    """ "": it is active, or would be soon with everything if the active one went now."""
    if found["state"] == ACTIVE:
        return why_unhealthy(found)
    if found["state"] != FOLLOWING:
        return f"it is {found['state']}"
    behind_s = found["behind_s"]
    return f"it is {behind_s:.0f} s behind the log's end" if behind_s > most_behind_s else ""


def _name_of(folder: Path) -> str:
    """Of the socket; FileNotFoundError without the folder."""
    found = folder.stat()
    return f"\0postroom-{found.st_dev}-{found.st_ino}"


def _user_of(peer: socket.socket) -> int:
    data = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(data)[1]
    return user
