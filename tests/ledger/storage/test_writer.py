"""The commit threads, native and Python: the same face, the same outcomes."""

import errno
import os
import select
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from postroom.ledger.errors import LedgerFailed
from postroom.ledger.storage.disk import SYNC_PIECE_BYTES, Bytes, RealDisk, write_in_pieces
from postroom.ledger.storage.writer import (
    NativeWriter,
    ThreadWriter,
    Writer,
    native_available,
    request_prompt_wakeups,
)
from tests.ledger.inline_writer import InlineWriter
from tests.simulation.disk import SimDisk

KINDS = [ThreadWriter, NativeWriter]


@pytest.fixture(params=KINDS, ids=["thread", "native"])
def writer(request: pytest.FixtureRequest, disk: RealDisk) -> Iterator[Writer]:
    if request.param is NativeWriter and not native_available():
        pytest.skip("the C writer isn't built: this is the interpreted run")
    made = request.param(disk)
    yield made
    made.close()


@pytest.fixture
def disk(tmp_path: Path) -> RealDisk:
    return RealDisk(tmp_path)


def test_writes_all_parts_and_signals(writer: Writer, disk: RealDisk) -> None:
    file = disk.create("file")
    parts: list[Bytes] = [b"one", b"", bytearray(b"two"), memoryview(b"three")]
    assert not writer.over()
    writer.submit(file, 0, parts, sync_names=True)
    assert select.select([writer.completion_fd], [], [], 30)[0]
    assert writer.over() and writer.complete() and not writer.over()
    assert not select.select([writer.completion_fd], [], [], 0)[0]
    writer.submit(file, 11, [b"x" * 5_000_000], sync_names=False)
    writer.wait()
    assert file.read_at(0, 20) == b"onetwothreexxxxxxxxx"
    assert file.size_bytes() == 11 + 5_000_000


@pytest.mark.skipif(not native_available(), reason="the C writer isn't built: this is the interpreted run")
def test_the_commit_thread_has_a_name_in_the_system(disk: RealDisk) -> None:
    """Where one looks at processor time by thread."""
    writer = NativeWriter(disk)
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    writer.close()
    assert "ledger-writer" in names


def test_a_job_is_over_when_it_is_signalled_and_not_before(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal behind its time would tell of the next job."""
    reached, open_gate = threading.Event(), threading.Event()
    signal = os.eventfd_write

    def late(descriptor: int, value: int) -> None:
        reached.set()
        open_gate.wait()
        signal(descriptor, value)

    monkeypatch.setattr(os, "eventfd_write", late)
    writer = ThreadWriter(disk)
    writer.submit(disk.create("file"), 0, [b"one"], sync_names=False)
    reached.wait()
    assert not writer.complete()
    open_gate.set()
    writer.wait()
    assert not select.select([writer.completion_fd], [], [], 0)[0]
    writer.close()


def _nice_after_asking(before: int) -> tuple[int, int]:
    """The nice value and the policy of a thread that had ``before`` and asked to run soon."""
    seen: list[tuple[int, int]] = []

    def run() -> None:
        own = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, own, before)
        request_prompt_wakeups()
        seen.append((os.getpriority(os.PRIO_PROCESS, own), os.sched_getscheduler(own)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return seen[0]


def test_a_nice_value_that_was_chosen_stays() -> None:
    assert _nice_after_asking(3) == (3, os.SCHED_OTHER)


def test_who_has_the_usual_one_goes_first_where_that_is_allowed() -> None:
    nice, policy = _nice_after_asking(0)
    assert policy == os.SCHED_OTHER
    assert nice == (-10 if native_available() and _may_go_first() else 0)


def _may_go_first() -> bool:
    """Whether a thread of this process may have nice −10."""
    allowed: list[bool] = []

    def run() -> None:
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -10)
        except PermissionError:
            allowed.append(False)
        else:
            allowed.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return allowed[0]


def test_one_job_after_the_other(writer: Writer, disk: RealDisk) -> None:
    file = disk.create("file")
    for number in range(50):
        writer.submit(file, number, [b"%d" % (number % 10)], sync_names=False)
        writer.wait()
    assert file.read_at(0, 50) == b"0123456789" * 5


def test_a_failure_is_told_once_asked_and_not_retried(writer: Writer, disk: RealDisk) -> None:
    disk.create("file").write_at(0, [b"before"])
    read_only = disk.open("file")
    writer.submit(read_only, 0, [b"after"], sync_names=False)
    assert select.select([writer.completion_fd], [], [], 30)[0]
    with pytest.raises(LedgerFailed, match=f"errno {errno.EBADF}"):
        writer.complete()
    assert read_only.read_at(0, 9) == b"before"


def test_close_lets_the_job_end(writer: Writer, disk: RealDisk) -> None:
    file = disk.create("file")
    writer.submit(file, 0, [b"y" * 1_000_000], sync_names=False)
    writer.close()
    assert file.size_bytes() == 1_000_000
    writer.close()


def test_native_writer_refuses_misuse(disk: RealDisk) -> None:
    if not native_available():
        pytest.skip("the C writer isn't built: this is the interpreted run")
    writer = NativeWriter(disk)
    file = disk.create("file")
    with pytest.raises(RuntimeError):
        writer.wait()
    with pytest.raises(RuntimeError):
        writer.submit(file, 0, [b"x"] * 513, sync_names=False)
    with pytest.raises(TypeError):
        writer.submit(file, 0, ["text"], sync_names=False)  # type: ignore[list-item]
    writer.submit(file, 0, [b"x"], sync_names=False)
    with pytest.raises(RuntimeError):
        writer.submit(file, 0, [b"x"], sync_names=False)
    writer.wait()
    writer.close()


def test_inline_writer_works_when_asked(disk: RealDisk) -> None:
    writer = InlineWriter(disk)
    file = disk.create("file")
    writer.submit(file, 0, [b"abc"], sync_names=True)
    assert file.size_bytes() == 0
    assert writer.complete()
    assert file.read_at(0, 9) == b"abc"
    with pytest.raises(RuntimeError):
        writer.wait()


class ShortWrites:
    """A system that writes a few bytes at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = os.pwritev
        monkeypatch.setattr(os, "pwritev", self.write)

    def write(self, fd: int, buffers: Sequence[Bytes], offset: int) -> int:
        return self._real(fd, [memoryview(buffers[0])[:3]], offset)


def test_short_writes_are_continued(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.create("file")
    ShortWrites(monkeypatch)
    file.write_at(5, [b"abcdefgh", b"", b"ijk"])
    assert file.read_at(5, 20) == b"abcdefghijk"


@pytest.mark.parametrize("size", [3, 100_000, 300_000, 1 << 20, 2 << 20])
def test_what_was_set_aside_is_given_back_and_nothing_reads_differently(disk: RealDisk, size: int) -> None:
    file = disk.create("file")
    file.write_at(0, [b"abc"])
    file.reserve(3, 1 << 20)
    assert file.size_bytes() == 3
    file.extend(size)
    file.sync()
    disk.trim("file")
    assert (disk.folder / "file").stat().st_blocks * 512 <= 64 << 10
    assert file.read_at(0, size + 5) == b"abc" + bytes(size - 3)


@pytest.mark.parametrize("end", [1, 4096, 262_144, 262_145, 900_000])
def test_trim_keeps_what_is_not_zero(disk: RealDisk, end: int) -> None:
    file = disk.create("file")
    file.write_at(end - 1, [b"x"])
    file.extend(1 << 20)
    disk.trim("file")
    assert file.read_at(0, 1 << 20) == (bytes(end - 1) + b"x").ljust(1 << 20, b"\0")


def test_a_file_of_zeros_is_trimmed(disk: RealDisk) -> None:
    file = disk.create("file")
    file.write_at(0, [bytes(1 << 20)])
    disk.trim("file")
    assert (disk.folder / "file").stat().st_blocks == 0
    assert file.read_at(0, 2 << 20) == bytes(1 << 20)


@pytest.mark.parametrize("sizes", [[], [0], [3, 0, 5], [1 << 20], [(1 << 20) + 1, 7], [5 << 19, 3, 5 << 19]])
def test_a_file_in_pieces_is_whole_and_never_much_unsynced(sizes: list[int]) -> None:
    disk = SimDisk()
    file = disk.create("file")
    parts = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    most = 0
    write = file.write_at

    def watched(offset: int, written: Sequence[Bytes]) -> None:
        nonlocal most
        write(offset, written)
        most = max(most, sum(len(data) for _, data in file.unsynced))

    file.write_at = watched  # type: ignore[method-assign]
    write_in_pieces(file, parts)
    assert bytes(file.now) == bytes(file.platter) == b"".join(parts)
    assert not file.unsynced
    assert most < 2 * SYNC_PIECE_BYTES
