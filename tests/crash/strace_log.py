"""Reads what ``strace -f -yy -xx`` has written: which bytes went where, and in which order.

The order of lines is the order in which strace saw calls begin and end. A call that another thread interrupts
has two lines (``<unfinished …>`` and ``resumed``); it begins at the first and ends at the second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

TRACED = (
    "read,recvfrom,recvmsg,readv,write,writev,pwrite64,pwritev,pwritev2,sendto,sendmsg,"
    "fdatasync,fsync,mmap,openat"
)
LONGEST_STRING = 8 << 20
OPTIONS = ["-f", "-yy", "-xx", "-s", str(LONGEST_STRING), "-e", f"trace={TRACED}", "-e", "signal=none"]

READS = {"read", "recvfrom", "recvmsg", "readv"}
WRITES = {"write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg"}
SYNCS = {"fdatasync", "fsync"}

_LINE = re.compile(r"^(\d+)\s+(.*)$")
_RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>(.*)$")
_CALL = re.compile(r"^(\w+)\((.*)\)\s+= (-?\d+|\?)")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_DESCRIPTOR = re.compile(r"^\d+<((?:->|[^>])*)>")
_UNFINISHED = " <unfinished ...>"
_DETACHED = " <detached ...>"
_ALL = 1 << 30


class UnreadableTrace(Exception):
    """The trace holds a line that this reader doesn't understand; a proof that skips lines proves nothing."""


@dataclass(frozen=True)
class Call:
    """One finished system call."""

    name: str
    file: str
    """What the descriptor stands for: a path, or ``TCP:[here->there]``."""
    data: bytes
    """The bytes read or written, as many as the call has moved."""
    result: int
    began: int
    """Line numbers of the trace: a call that ended on a line below another's beginning ended before it."""
    ended: int

    @property
    def is_socket(self) -> bool:
        """Whether the descriptor is a TCP connection."""
        return self.file.startswith("TCP")


def read_calls(lines: Iterable[str]) -> Iterator[Call]:
    """The finished calls of a trace in the order of their ends."""
    begun: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        split = _LINE.match(line.rstrip("\n"))
        if split is None:
            raise UnreadableTrace(f"line {number}: {line[:200]!r}")
        thread, text = split[1], split[2]
        start = number
        resumed = _RESUMED.match(text)
        if resumed:
            start, head = begun.pop(thread)
            text = head + resumed[2]
        elif text.endswith(_UNFINISHED):
            begun[thread] = (number, text.removesuffix(_UNFINISHED))
            continue
        if text.startswith(("+++", "---")):
            continue
        if text.endswith(_DETACHED):
            text = _as_if_over(text.removesuffix(_DETACHED))
        yield _call(text, start, number)


def _as_if_over(text: str) -> str:
    """A call in the middle of which the tracer left: what it wrote counts as said, a sync as not done."""
    done = "?" if text.partition("(")[0] in SYNCS else _ALL
    return f"{text}) = {done}"


def _call(text: str, began: int, ended: int) -> Call:
    found = _CALL.match(text)
    if found is None:
        raise UnreadableTrace(f"line {ended}: {text[:200]!r}")
    name, arguments = found[1], found[2]
    result = -1 if found[3] == "?" else int(found[3])
    strings = list(_STRING.finditer(arguments))
    if any(string[2] for string in strings):
        raise UnreadableTrace(f"line {ended}: strace has cut a string off")
    data = b"".join(_bytes_of(string[1]) for string in strings)
    descriptor = _DESCRIPTOR.match(arguments)
    return Call(
        name, _readable(descriptor[1]) if descriptor else "", data[: max(result, 0)], result, began, ended
    )


def _bytes_of(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _readable(file: str) -> str:
    return _bytes_of(file).decode() if file.startswith("\\x") else file
