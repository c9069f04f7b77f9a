"""A ledger had elsewhere as it is at one moment: beside its writer, over a stream that may break, into a
folder whose process may die at any step."""

import io
import os
import resource
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from postroom.ledger.copying import frozen as frozen_module
from postroom.ledger.copying import placing
from postroom.ledger.copying.archive import CopyBroken, archive_bytes, archive_pieces, unpack
from postroom.ledger.copying.frozen import NeverQuiet, freeze
from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.reader import NoLedger
from postroom.ledger.storage.disk import Disk
from postroom.ledger.verification.integrity import check
from tests.ledger.workload import START_US, Workload, assert_bodies, assert_recovered

SMALL = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=0)


def work_on(ledger: Ledger, work: Workload, steps: int) -> None:
    for step in range(steps):
        work.step()
        if step % 10 == 0:
            ledger.flush()
    ledger.flush()


@pytest.fixture
def written(tmp_path: Path) -> Iterator[tuple[Ledger, Workload]]:
    """A ledger of several files that is still written, and a file beside it."""
    ledger = Ledger.open(tmp_path / "from", SMALL, START_US)
    work = Workload(ledger.builder, Random(1))
    work.define()
    work_on(ledger, work, 400)
    (tmp_path / "from" / "beside").write_text("kept")
    yield ledger, work
    ledger.close()


def archive_of(folder: Path) -> bytes:
    with closing(freeze(folder, ("beside", "not there"))) as found:
        data = b"".join(read() for read in archive_pieces(found))
        assert len(data) == archive_bytes(found)
        return data


def test_a_copy_is_the_ledger_of_its_moment(tmp_path: Path, written: tuple[Ledger, Workload]) -> None:
    """What comes while it is read isn't in it; what goes by retention or compaction is."""
    ledger, work = written
    snapshot, found = work.snapshot(), freeze(tmp_path / "from", ("beside",))
    names = {file.name for file in found.files}
    work_on(ledger, work, 1500)
    assert not names <= {each.name for each in (tmp_path / "from").iterdir()}, "nothing has gone"
    data = b"".join(read() for read in archive_pieces(found))
    found.close()
    (tmp_path / "to").mkdir()
    unpack(io.BytesIO(data), tmp_path / "to", ("beside",))
    assert {each.name for each in (tmp_path / "to").iterdir()} == names
    assert (tmp_path / "to" / "beside").read_text() == "kept"
    assert (tmp_path / "to" / "beside").stat().st_mode & 0o077 == 0
    covered = check(tmp_path / "to")
    assert covered.last_position < ledger.durable_through
    copied = Ledger.open(tmp_path / "to", SMALL, START_US)
    assert_recovered(copied.recovered, snapshot)
    assert_bodies(copied, snapshot)
    copied.close()


def test_a_copy_that_breaks_off_is_told(tmp_path: Path, written: tuple[Ledger, Workload]) -> None:
    """Wherever it does, between files and within one."""
    data = archive_of(tmp_path / "from")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        whole = list(archive)
    cuts = [0, 100, *(info.offset for info in whole), *(info.offset_data + 1 for info in whole)]
    for number, cut in enumerate(cuts):
        into = tmp_path / str(number)
        into.mkdir()
        with pytest.raises(CopyBroken, match=r"breaks off"):
            unpack(io.BytesIO(data[:cut]), into, ("beside",))


@pytest.mark.parametrize("name", ["../lock", "lock", "/etc/passwd", "copy.whole", "other"])
def test_other_files_are_not_written(tmp_path: Path, name: str) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    (tmp_path / "to").mkdir()
    with pytest.raises(CopyBroken, match="is no file of a ledger"):
        unpack(io.BytesIO(out.getvalue()), tmp_path / "to", ("beside",))
    assert list((tmp_path / "to").iterdir()) == []


def test_links_are_not_made(tmp_path: Path) -> None:
    out, info = io.BytesIO(), tarfile.TarInfo("00000001.journal")
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(info)
    with pytest.raises(CopyBroken, match="is no file of a ledger"):
        unpack(io.BytesIO(out.getvalue()), tmp_path, ())


def test_what_is_no_ledger_can_not_be_had(tmp_path: Path, written: tuple[Ledger, Workload]) -> None:
    with pytest.raises(NoLedger):
        freeze(tmp_path)
    (tmp_path / "damaged").mkdir()
    unpack(io.BytesIO(archive_of(tmp_path / "from")), tmp_path / "damaged", ("beside",))
    superblock = tmp_path / "damaged" / "superblock"
    superblock.write_bytes(bytes(superblock.stat().st_size))
    with pytest.raises(LedgerCorrupt):
        freeze(tmp_path / "damaged")


def test_what_is_beside_is_no_newer_than_the_ledger(
    tmp_path: Path, written: tuple[Ledger, Workload], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member's place in the log: the ledger has everything up to there."""
    real = frozen_module.QuietMark.of

    def of(disk: Disk) -> frozen_module.QuietMark:
        (tmp_path / "from" / "beside").write_text("newer")
        return real(disk)

    monkeypatch.setattr(frozen_module.QuietMark, "of", of)
    with closing(freeze(tmp_path / "from", ("beside",))) as found:
        assert [file.read_at(0, 100) for file in found.files if file.name == "beside"] == [b"kept"]


def test_a_folder_that_is_never_quiet_is_told(
    tmp_path: Path, written: tuple[Ledger, Workload], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_file, count = os.open, 0

    def open_and_add(path: Any, *more: Any, **named: Any) -> int:
        nonlocal count
        count += 1
        os.close(open_file(tmp_path / "from" / f"{count:08}.acts.tmp", os.O_CREAT | os.O_WRONLY))
        return open_file(path, *more, **named)

    monkeypatch.setattr(os, "open", open_and_add)
    with pytest.raises(NeverQuiet, match="try again"):
        freeze(tmp_path / "from")
    monkeypatch.undo()
    for each in (tmp_path / "from").glob("*.acts.tmp"):  # others are the background work's
        each.unlink()


def test_more_files_may_be_open_than_usual(
    tmp_path: Path, written: tuple[Ledger, Workload], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10, limits[1]))
    monkeypatch.setattr(resource, "setrlimit", lambda _, values: set_to.append(values))
    with closing(freeze(tmp_path / "from")) as found:
        soft, hard = set_to[-1]
        assert soft > len(found.files)
        assert hard == limits[1]


def test_a_start_goes_on_with_what_a_copy_has_left(tmp_path: Path, written: tuple[Ledger, Workload]) -> None:
    """Of whoever starts: an empty folder would become another ledger."""
    folder, snapshot = tmp_path / "to", written[1].snapshot()
    folder.mkdir()
    unpack(io.BytesIO(archive_of(tmp_path / "from")), placing.begin(folder), ("beside",))
    (folder / placing.PARTIAL).rename(folder / placing.WHOLE)
    copied = Ledger.open(folder, SMALL, START_US)
    assert_recovered(copied.recovered, snapshot)
    copied.close()


class Died(Exception):
    pass


STEPS = ("rename", "unlink", "rmdir")


def test_a_copy_takes_the_place_of_a_ledger_whole_or_not_at_all(
    tmp_path: Path, written: tuple[Ledger, Workload], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies before each of its steps in turn; after the next start the folder has the old ledger
    or the new one, and what dies again while it goes on is gone on with."""
    old = Ledger.open(tmp_path / "old", SMALL, START_US)
    work_on(old, Workload(old.builder, Random(2)), 0)
    old.close()
    (tmp_path / "old" / "mine").write_text("mine")
    data, ids = archive_of(tmp_path / "from"), []
    left = 0
    for step in STEPS:
        real = getattr(Path, step)

        def counted(self: Path, *more: Any, real: Any = real) -> Any:
            nonlocal left
            if left == 0:
                raise Died
            left -= 1
            return real(self, *more)

        monkeypatch.setattr(Path, step, counted)
    for steps in range(200):
        folder = tmp_path / f"at{steps}"
        shutil.copytree(tmp_path / "old", folder)
        unpack(io.BytesIO(data), placing.begin(folder), ("beside",))
        left = steps
        try:
            placing.place(folder)
            is_over = True
        except Died:
            is_over = False
            left = steps // 2
            try:
                placing.finish(folder)
            except Died:
                left = 1_000
                placing.finish(folder)
        left = -1
        ids.append(check(folder).ledger_id)
        assert not any(each.is_dir() for each in folder.iterdir())
        assert (folder / "mine").read_text() == "mine"
        if is_over:
            break
    assert is_over
    own, copied = check(tmp_path / "old").ledger_id, check(tmp_path / "from").ledger_id
    assert set(ids) == {own, copied}
    assert ids == sorted(ids, key=lambda id: id == copied), "a ledger came back"
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert {each.name for each in folder.iterdir()} == {*archive.getnames(), "mine", "lock"}
