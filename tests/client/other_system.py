"""Uses the client on a system that isn't here: a program that takes away, before it imports the client, what
that system lacks, and then sends, receives and commits through a broker.

    python -m tests.client.other_system SYSTEM URL FOLDER
    python -m tests.client.other_system SYSTEM -- ARGUMENT...

The first says on standard output what it has done, as JSON; the second is the command `postroom ARGUMENT...`.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import fcntl
import functools
import importlib.abc
import importlib.machinery
import json
import os
import platform
import signal
import socket
import ssl
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

NOT_INSTALLED = (
    *("numpy", "starlette", "uvicorn", "wsproto", "uvloop", "prometheus_client", "isal", "msgspec", "rich"),
    *("pyarrow", "pandas", "pyspark"),
)
"""What only the broker or the command line needs, or has no wheel for every system."""

UNIX_MODULES = ("fcntl", "termios", "tty", "pty", "pwd", "grp", "resource", "syslog", "posix")
NO_WINDOWS_CALLS = (
    *(
        "fork",
        "getuid",
        "geteuid",
        "getgid",
        "fchmod",
        "fchown",
        "chown",
        "pread",
        "pwrite",
        "readv",
        "writev",
    ),
    *("preadv", "pwritev", "fdatasync", "sync", "eventfd", "eventfd_read", "eventfd_write", "statvfs"),
    *("fstatvfs", "posix_fallocate", "posix_fadvise", "sendfile", "mkfifo", "killpg", "setsid", "uname"),
    *("O_CLOEXEC", "O_DIRECTORY", "O_NONBLOCK", "O_DSYNC", "O_SYNC", "EFD_CLOEXEC", "EFD_NONBLOCK"),
)
NO_MAC_CALLS = (
    *("fdatasync", "eventfd", "eventfd_read", "eventfd_write", "posix_fallocate", "posix_fadvise"),
    *("sched_getaffinity", "sched_setaffinity", "EFD_CLOEXEC", "EFD_NONBLOCK", "memfd_create"),
)
NO_WINDOWS_SIGNALS = ("SIGKILL", "SIGHUP", "SIGUSR1", "SIGCHLD", "SIGALRM", "SIGQUIT")
NO_WINDOWS_SOCKETS = ("AF_UNIX", "SO_REUSEPORT", "SCM_RIGHTS")

F_FULLFSYNC = 51
O_BINARY = 0x8000
MOVE_FLAGS = 0x1 | 0x8
LK_NBLCK = 2


class Absent(importlib.abc.MetaPathFinder):
    """These modules aren't here."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = set(names)
        for name in list(sys.modules):
            if name.partition(".")[0] in self._names:
                del sys.modules[name]

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def take_away(module: types.ModuleType, names: Sequence[str]) -> None:
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


def refuse(*arguments: object, **named: object) -> None:
    raise NotImplementedError


def without_libraries() -> None:
    """Nothing is installed beside the client's own libraries."""
    sys.meta_path.insert(0, Absent(NOT_INSTALLED))


def on_a_mac(does_full_sync: bool) -> list[str]:
    """What a Mac lacks; returns the list of syncs, which grows."""
    syncs: list[str] = []
    real_sync = os.fsync

    def full_sync(fd: int, command: int, argument: int = 0) -> int:
        assert command == F_FULLFSYNC
        if not does_full_sync:
            raise OSError(errno.ENOTSUP, "Operation not supported")
        syncs.append("full")
        return 0

    def sync(fd: int) -> None:
        syncs.append("fsync")
        real_sync(fd)

    sys.meta_path.insert(0, Absent(NOT_INSTALLED))
    fake: Any = fcntl
    platform.system = lambda: "Darwin"
    fake.F_FULLFSYNC, fake.fcntl = F_FULLFSYNC, full_sync
    os.fsync = sync
    take_away(os, NO_MAC_CALLS)
    sys.platform = "darwin"
    return syncs


def on_windows() -> list[str]:
    """What Windows lacks, and the two parts of it that the client uses; returns the list of syncs."""
    syncs: list[str] = []
    real_open, real_sync, real_rename, flock = os.open, os.fsync, os.rename, fcntl.flock
    exclusive = fcntl.LOCK_EX | fcntl.LOCK_NB

    def open_(path: Any, flags: int, mode: int = 0o777, **named: Any) -> int:
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        assert flags & O_BINARY, f"{path} is opened as text"
        return real_open(path, flags, mode, **named)

    def locking(fd: int, mode: int, size: int) -> None:
        assert (mode, size) == (LK_NBLCK, 1)
        try:
            flock(fd, exclusive)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    def move(old: str, new: str, flags: int) -> int:
        assert flags == MOVE_FLAGS, "the move isn't durable"
        if {old, new} & open_files():
            return 0
        real_rename(old, new)
        syncs.append("move")
        return 1

    def replace(*arguments: object, **named: object) -> None:
        raise AssertionError("a file is renamed, and nobody waits until that is on the disk")

    def sync(fd: int) -> None:
        syncs.append("fsync")
        real_sync(fd)

    sys.meta_path.insert(0, Absent((*NOT_INSTALLED, *UNIX_MODULES)))
    platform.system = lambda: "Windows"
    console: Any = types.ModuleType("msvcrt")
    console.LK_NBLCK, console.locking = LK_NBLCK, locking
    sys.modules["msvcrt"] = console
    windows: Any = ctypes
    windows.WinDLL = lambda name, use_last_error: types.SimpleNamespace(MoveFileExW=move)
    windows.get_last_error = lambda: errno.EACCES
    windows.WinError = lambda code: PermissionError(code, "The file is in use")
    system: Any = os
    system.O_BINARY = O_BINARY
    os.open, os.fsync, os.rename, os.replace = open_, sync, replace, replace  # type: ignore[assignment]
    take_away(os, NO_WINDOWS_CALLS)
    take_away(signal, NO_WINDOWS_SIGNALS)
    pairs: Any = socket
    pairs.socketpair = functools.partial(socket.socketpair, socket.AF_UNIX)  # Windows makes them of others
    take_away(socket, NO_WINDOWS_SOCKETS)
    loop: Any = asyncio.SelectorEventLoop
    for name in ("add_reader", "add_writer", "add_signal_handler"):  # the proactor's loop has none of them
        setattr(loop, name, refuse)
    sys.platform = "win32"
    return syncs


def open_files() -> set[str]:
    """What this process has open."""
    return {str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()}


SYSTEMS: dict[str, Callable[[], object]] = {
    "bare": without_libraries,
    "mac": lambda: on_a_mac(does_full_sync=True),
    "mac-network-disk": lambda: on_a_mac(does_full_sync=False),
    "windows": on_windows,
}


def use_the_blocking_face(url: str) -> list[object]:
    from postroom.client import AcknowledgeMode, ConnectionFactory, Message

    got: list[object] = []
    with (
        ConnectionFactory(url).create_connection() as connection,
        connection.create_session(AcknowledgeMode.SESSION_TRANSACTED) as session,
    ):
        producer, consumer = session.create_producer("blocking"), session.create_consumer("blocking")
        producer.send(Message("hello", properties={"n": 1}))
        producer.send(b"\r\n\n\x1a")
        session.commit()
        got += [getattr(consumer.receive(timeout_s=30), "body", None) for _ in range(2)]
        session.commit()
    return got


async def use_the_asyncio_face(url: str) -> list[object]:
    from postroom.client.aio import ConnectionFactory

    async with (
        await ConnectionFactory(url).create_connection() as connection,
        await connection.create_session() as session,
    ):
        producer = await session.create_producer("asyncio")
        await producer.send_all(["a", "b"])
        consumer = await session.create_consumer("asyncio")
        return [getattr(await consumer.receive(timeout_s=30), "body", None) for _ in range(2)]


def use_two_phase_commit(url: str, folder: Path) -> dict[str, object]:
    """Two branches, decided in the log, which is then opened again; meanwhile nobody else gets it."""
    from postroom.client import ConnectionFactory, DecisionLogException, TransactionManager

    with (
        TransactionManager(folder) as manager,
        ConnectionFactory(url).create_connection() as one,
        ConnectionFactory(url).create_connection() as two,
        one.create_xa_session() as first,
        two.create_xa_session() as second,
    ):
        for body in ("first", "second"):
            with manager.transaction(first.xa_resource, second.xa_resource):
                first.create_producer("pairs").send(body)
                second.create_producer("pairs").send(body)
        try:
            TransactionManager(folder).open()
            refused = ""
        except DecisionLogException as error:
            refused = str(error)
    with TransactionManager(folder) as manager, ConnectionFactory(url).create_connection() as one:
        with one.create_xa_session() as first:
            recovered = len(manager.recover(first.xa_resource).committed)
        with one.create_session() as session:
            count = sum(1 for _ in session.create_browser("pairs"))
    return {"refused": refused, "recovered": recovered, "pairs": count}


def use_decision_log(folder: Path) -> list[int]:
    """Decisions outlive their manager; returns when they were decided."""
    from postroom.client.transactions.decision_log import DecisionLog
    from postroom.client.transactions.decision_records import BranchName, Decision

    for number in range(3):
        log = DecisionLog(folder)
        log.commit(Decision(bytes([number]), (BranchName(b"b", "rm"),), number)).result(30)
        log.close()
    log = DecisionLog(folder)
    decided = [each.decided_ms for each in log.decisions()]
    log.close()
    return decided


def main(system: str, url: str, folder: str) -> None:
    ssl.create_default_context()  # Python's own modules are as they are here
    syncs = SYSTEMS[system]()
    told = {
        "blocking": [str(each) for each in use_the_blocking_face(url)],
        "asyncio": asyncio.run(use_the_asyncio_face(url)),
        "two_phase": use_two_phase_commit(url, Path(folder) / "transactions"),
        "decided": use_decision_log(Path(folder) / "decisions"),
        "syncs": syncs,
        "loaded": sorted({name.partition(".")[0] for name in sys.modules}),
        "ours": sorted(name for name in sys.modules if name.startswith("postroom.")),
    }
    print(json.dumps(told))


def command(system: str, arguments: list[str]) -> None:
    import click  # which has modules of its own for Windows  # noqa: F401

    SYSTEMS[system]()
    from postroom.cli.main import main

    main(arguments, prog_name="postroom")


if __name__ == "__main__":
    if sys.argv[2] == "--":
        command(sys.argv[1], sys.argv[3:])
    main(*sys.argv[1:])
