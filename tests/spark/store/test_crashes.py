"""A crash at any point leaves the table at the old version or at the new one, and what it leaves behind is
harmless: commands in any order, each cut off at any of its steps, with what wasn't synced lost."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from postroom.spark.filesystems import exclusive_files
from postroom.spark.store import files
from postroom.spark.store.protocol import OPEN
from postroom.spark.store.table_store import TableStore
from tests.sampling import examples
from tests.spark.store.small_tables import DAY, LEDGER, append, compact, serials, small_store

MIB = 1 << 20
STEPS = 30
"""More steps than any command here has."""
CHECKPOINT_COMMITS = 3


class PowerCut(BaseException):
    """The machine stops here; nothing catches it."""


class Disk:
    """The operating system's calls that change something, up to the power cut."""

    def __init__(self, steps: int, kept: int) -> None:
        """`steps`: how many calls succeed; `kept`: bytes of an unsynced file that are on disk all the same;
        and whether an unsynced name is, if that is even."""
        self._steps = steps
        self._kept = kept
        self._linked: Path | None = None
        self._synced: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def step(self) -> bool:
        """Whether this call still succeeds."""
        self._steps -= 1
        return self._steps >= 0

    def fsync(self, number: int) -> None:
        if self.step():
            self._synced.add(os.readlink(f"/proc/self/fd/{number}"))  # noqa: PTH115
            return
        if os.path.isdir(f"/proc/self/fd/{number}"):  # noqa: PTH112
            if self._linked and self._kept % 2:
                self._linked.unlink()
        else:
            path = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115
            os.truncate(path, min(self._kept, os.fstat(number).st_size))
        raise PowerCut

    def link(self, source: Path, target: Path) -> None:
        if not self.step():
            raise PowerCut
        assert str(source.resolve()) in self._synced, "a name is given to what may be lost"
        os.link(source, target)
        self._linked = target

    def replace(self, source: Path, target: Path) -> None:
        if not self.step():
            raise PowerCut
        os.replace(source, target)  # noqa: PTH105

    def unlink(self, path: Path) -> None:
        if not self.step():
            raise PowerCut
        os.unlink(path)  # noqa: PTH108


@contextmanager
def cut_after(steps: int, kept: int) -> Iterator[None]:
    """The power fails after so many calls."""
    disk = Disk(steps, kept)
    delete = files.DataFiles.delete

    def delete_or_stop(self: files.DataFiles, path: str) -> None:
        if not disk.step():
            raise PowerCut
        delete(self, path)

    with (
        mock.patch.object(files, "os", disk),
        mock.patch.object(exclusive_files, "os", disk),
        mock.patch.object(files.DataFiles, "delete", delete_or_stop),
    ):
        yield


class Model:
    """What the table must hold: done rows and open rows, each one file's."""

    def __init__(self) -> None:
        self.last = 0
        self.open: list[int] = []


def _append(store: TableStore, model: Model) -> None:
    append(store, model.last + 1, 3, OPEN)


def _settle(store: TableStore, model: Model) -> None:
    was = store.files(OPEN)
    made = [store.write(store.read(file), "done", DAY, LEDGER) for file in was]
    store.commit(made, was, store.state(), "settle")


COMMANDS: dict[str, Callable[[TableStore, Model], object]] = {
    "append": _append,
    "settle": _settle,
    "compact": lambda store, _: compact(store, MIB),
    "vacuum": lambda store, _: store.vacuum(0),
    "checkpoint": lambda store, _: store.checkpoint(),
}

command = st.tuples(st.sampled_from(sorted(COMMANDS)), st.integers(0, STEPS), st.integers(0, 200))


@pytest.mark.parametrize("format", ["parquet", "delta"])
@settings(max_examples=examples(60), deadline=None)
@given(commands=st.lists(command, min_size=1, max_size=14))
@example(commands=[*[("append", STEPS, 0)] * 4, ("vacuum", 0, 1)])
def test_a_crash_leaves_the_old_version_or_the_new_one(
    format: str, commands: list[tuple[str, int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _run(Path(folder), format, commands)


def _run(folder: Path, format: str, commands: list[tuple[str, int, int]]) -> None:
    store, model = small_store(folder, format, checkpoint_commits=CHECKPOINT_COMMITS), Model()
    append(store, 1, 3)
    model.last = 3
    for name, steps, kept in commands:
        before = store.state()
        try:
            with cut_after(steps, kept):
                COMMANDS[name](store, model)
        except PowerCut:
            store = small_store(folder, format, checkpoint_commits=CHECKPOINT_COMMITS)
        state = store.state()
        assert state.version >= before.version
        assert serials(store) == list(range(1, state.positions[LEDGER].position + 1))
        assert state.positions[LEDGER].position in (model.last, model.last + 3 * (name == "append"))
        model.last = state.positions[LEDGER].position
    _strays_go(store)
    append(store, model.last + 1, 1)
    assert serials(small_store(folder, format)) == list(range(1, model.last + 2))


def _strays_go(store: TableStore) -> None:
    store.vacuum(0)
    there = {str(path.relative_to(store.uri)) for path in Path(store.uri, "data").rglob("*.parquet")}
    assert there == {file.path for file in store.files()}


def test_a_file_that_a_commit_names_is_on_disk(tmp_path: Path) -> None:
    """Cut off after each of its steps in turn, until it succeeds."""
    append(small_store(tmp_path, "parquet"), 1, 3)
    for steps in range(STEPS):
        with suppress(PowerCut), cut_after(steps, 0):
            append(small_store(tmp_path, "parquet"), 4, 3)
        store = small_store(tmp_path, "parquet")
        for file in store.files():
            assert store.read(file).num_rows == file.rows
        if len(store.files()) == 2:
            break
    assert steps > 2


def test_create_only_makes_a_file_once(tmp_path: Path) -> None:
    filesystem, root = files.open_root(str(tmp_path))
    exclusive_files.create_only(filesystem, f"{root}/new/a.json", b"one")
    with pytest.raises(FileExistsError):
        exclusive_files.create_only(filesystem, f"{root}/new/a.json", b"two")
    assert Path(root, "new/a.json").read_bytes() == b"one"
    assert len(list(Path(root, "new").iterdir())) == 1
