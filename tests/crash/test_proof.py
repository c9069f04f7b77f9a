"""The proof itself, on traces written by hand: it accepts what is in order and names what isn't."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Data, Described, ulong

from tests.crash.proof import Promise, marker, promises
from tests.crash.strace_log import UnreadableTrace, read_calls
from tests.crash.wire import ACCEPTED, DISPOSITION, TRANSFER

SOCKET = "9<TCP:[127.0.0.1:5672->127.0.0.1:40000]>"
JOURNAL = "/data/1.journal"
OTHER = "/data/2.journal"


def escaped(data: bytes) -> str:
    """As strace -xx prints it."""
    return "".join(f"\\x{byte:02x}" for byte in data)


def on_file(name: str) -> str:
    """A descriptor as strace -yy -xx prints it."""
    return f"7<{escaped(name.encode())}>"


def frame(code: int, fields: list[Any], payload: bytes = b"") -> bytes:
    """An AMQP frame on channel 0."""
    data = Data()
    data.put_py_described(Described(ulong(code), fields))
    body = data.encode() + payload
    return (len(body) + 8).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body


def read(data: bytes) -> str:
    return f'100 read({SOCKET}, "{escaped(data)}", 65536) = {len(data)}'


def answer(data: bytes) -> str:
    return f'100 write({SOCKET}, "{escaped(data)}", {len(data)}) = {len(data)}'


def write(data: bytes, file: str = JOURNAL) -> str:
    vector = f'[{{iov_base="{escaped(data)}", iov_len={len(data)}}}], 1, 4096'
    return f"101 pwritev({on_file(file)}, {vector}) = {len(data)}"


def sync(file: str = JOURNAL) -> str:
    return f"101 fdatasync({on_file(file)}) = 0"


SENT = read(b"AMQP\x00\x01\x00\x00" + frame(TRANSFER, [0, 0], b"xx" + marker(1)))
STORED = write(b"header" + marker(1))
ACCEPT = answer(frame(DISPOSITION, [True, 0, 0, True, Described(ulong(ACCEPTED), [])]))
DELIVERY = answer(frame(TRANSFER, [0, 5], marker(1)))
CONFIRM = read(frame(DISPOSITION, [True, 5, 5, False, Described(ulong(ACCEPTED), [])]))
ANSWER = answer(frame(DISPOSITION, [False, 5, 5, True, Described(ulong(ACCEPTED), [])]))


def judged(*lines: str) -> list[Promise]:
    return promises(read_calls(lines), "/data")


@pytest.mark.parametrize(
    "lines",
    [
        (SENT, STORED, sync(), ACCEPT),
        (SENT, STORED, sync(), DELIVERY),
        (SENT, STORED, sync(), DELIVERY, CONFIRM, write(b"event"), sync(), ANSWER),
    ],
)
def test_disk_first_is_kept(lines: tuple[str, ...]) -> None:
    made = judged(*lines)
    assert made
    assert all(promise.kept for promise in made)


@pytest.mark.parametrize(
    "lines",
    [
        (SENT, ACCEPT, STORED, sync()),
        (SENT, STORED, ACCEPT, sync()),
        (SENT, STORED, ACCEPT),
        (SENT, sync(), STORED, ACCEPT),
        (SENT, STORED, sync(OTHER), ACCEPT),
        (SENT, write(b"something else"), sync(), ACCEPT),
        (STORED, DELIVERY, sync()),
    ],
)
def test_socket_first_is_broken(lines: tuple[str, ...]) -> None:
    assert [promise.kept for promise in judged(*lines)] == [False]


def test_an_answer_before_the_confirm_is_on_disk_is_broken() -> None:
    early = judged(STORED, sync(), DELIVERY, CONFIRM, ANSWER, write(b"event"), sync())
    assert [(promise.kind, promise.kept) for promise in early] == [("delivery", True), ("answer", False)]


def test_connections_are_told_apart() -> None:
    sent = b"AMQP\x00\x01\x00\x00" + frame(TRANSFER, [0, 0], b"xx" + marker(1))
    halves = [read(sent[:20]), read(sent[20:])]
    elsewhere = [line.replace("40000", "40001") for line in halves]
    mixed = [halves[0], elsewhere[0], halves[1], elsewhere[1]]
    both = [ACCEPT, ACCEPT.replace("40000", "40001")]
    assert [promise.kept for promise in judged(*mixed, STORED, sync(), *both)] == [True, True]


def test_a_sync_that_began_before_the_write_ended_does_not_count() -> None:
    begun, ended = STORED.rsplit("]", 1)[0] + "], 1, 4096 <unfinished ...>", "101 <... pwritev resumed>) = 21"
    overlapping = sync().replace("101", "102")
    assert [promise.kept for promise in judged(SENT, begun, overlapping, ended, ACCEPT)] == [False]
    assert [promise.kept for promise in judged(SENT, begun, ended, overlapping, ACCEPT)] == [True]


def test_an_answer_written_while_the_sync_still_runs_is_broken() -> None:
    begun, ended = sync().split(")")[0] + " <unfinished ...>", "101 <... fdatasync resumed>) = 0"
    assert [promise.kept for promise in judged(SENT, STORED, begun, ACCEPT, ended)] == [False]


def test_what_the_tracer_left_in_the_middle_of_counts_as_said_but_not_as_synced() -> None:
    left = ACCEPT.rpartition(")")[0] + " <detached ...>"
    assert [promise.kept for promise in judged(SENT, STORED, sync(), left)] == [True]
    unsynced = sync().rpartition(")")[0] + " <detached ...>"
    assert [promise.kept for promise in judged(SENT, STORED, unsynced, left)] == [False]


@pytest.mark.parametrize("line", ["nonsense", "100 what is this", STORED.replace('", iov', '"..., iov')])
def test_a_trace_that_can_not_be_read_proves_nothing(line: str) -> None:
    with pytest.raises(UnreadableTrace):
        judged(line)
