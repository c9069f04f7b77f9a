"""A ledger in an object store, over the wire: uploads make each object once, and it reads as the folder
does."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from uuid import uuid4

import pytest

from postroom.spark.export.parquet import Export, ExportOptions
from postroom.spark.export.upload import Upload
from postroom.spark.filesystems.objects import Objects
from postroom.spark.places.folder import FolderPlace
from postroom.spark.places.uris import place_of
from tests.spark.real_ledgers import rows_of

AT_ONCE = 4


@pytest.fixture
def root(bucket: str) -> str:
    return f"{bucket}/{uuid4().hex}"


def test_an_uploaded_ledger_reads_as_the_folder_up_to_what_is_sealed(
    folder: Path, root: str, tmp_path: Path
) -> None:
    made = list(Upload(folder, root).run())
    assert list(Upload(folder, root).run()) == []
    there, here = place_of(f"store:{root}", cache=str(tmp_path / "cache")), FolderPlace(folder)
    end = there.look().durable_through
    assert len(made) > 3 and made[-1].last_position == end < here.look().durable_through
    assert rows_of(there, records=97).equals(rows_of(here, last=end))


def test_uploads_at_once_do_no_harm(folder: Path, root: str, tmp_path: Path) -> None:
    together = Barrier(AT_ONCE)

    def upload(_: int) -> list[str]:
        mine = Upload(folder, root)
        together.wait()
        return [each.name for each in mine.run()]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = [name for names in pool.map(upload, range(AT_ONCE)) for name in names]
    assert len(made) == len(set(made)) > 3
    there = place_of(f"store:{root}", cache=str(tmp_path / "cache"))
    assert there.look().durable_through > 0


def test_an_object_that_another_makes_meanwhile_is_left_alone(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = Objects(root)
    assert objects.create("a/b", [b"one", b"two"])
    monkeypatch.setattr(Objects, "exists", lambda self, name: False)  # it was asked before
    assert not objects.create("a/b", [b"three"])
    assert objects.read("a/b") == b"onetwo"
    assert objects.names("a") == ["b"] and objects.folders("") == ["a"] and objects.names("none") == []


def test_an_export_is_made_once(folder: Path, root: str) -> None:
    notes = Export(FolderPlace(folder), root, ExportOptions()).run()
    assert notes
    assert Export(FolderPlace(folder), root, ExportOptions()).run() == []
