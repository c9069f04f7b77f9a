"""Tables on file systems other than this machine's: the commit log where a file can be created only if there
is none, and a plain refusal elsewhere."""

import pickle
import uuid
from collections.abc import Iterator

import fsspec
import pyarrow.fs as pafs
import pytest

from postroom.spark.store import TableConflict, TableError, TableStore, detect_format, open_store
from postroom.spark.store.creating import create_only, replace
from postroom.spark.store.parquet import ParquetStore
from tests.tables.stores import SMALL, append, at, serials


@pytest.fixture
def root() -> Iterator[str]:
    """A folder of a file system in memory, by conditional creation as on an object store."""
    name = f"/{uuid.uuid4().hex}"
    yield f"fsspec+memory:/{name}"
    fsspec.filesystem("memory").rm(name, recursive=True)


@pytest.fixture
def store(root: str) -> TableStore:
    return ParquetStore(root, SMALL)


def test_a_table_on_an_object_store(store: TableStore, root: str) -> None:
    for number in range(8):
        append(store, 1 + 2 * number, 2)
    again = pickle.loads(pickle.dumps(store))
    assert serials(again) == list(range(1, 17))
    assert again.compact(1 << 20) == 8
    assert again.vacuum(0) == 8
    assert serials(ParquetStore(root, SMALL)) == list(range(1, 17))


def test_the_second_of_two_writers_is_refused(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    append(store, 1, 1)
    other = pickle.loads(pickle.dumps(store))
    state = other.state()
    append(store, 2, 1)
    monkeypatch.setattr(other, "state", lambda: state)  # it looked before the first had committed
    monkeypatch.setattr(other, "_newest", lambda: other._known)
    with pytest.raises(TableConflict):
        other.commit([], [], at(2, state), "batch")


def test_a_folder_tells_its_format(root: str) -> None:
    made = open_store(root, "entries", "parquet")
    made.commit([], [], made.state(), "batch")
    assert detect_format(root) == "parquet"


def test_a_file_is_made_once(root: str) -> None:
    filesystem, path = pafs.FileSystem.from_uri(root)
    create_only(filesystem, f"{path}/a", b"one")
    with pytest.raises(FileExistsError):
        create_only(filesystem, f"{path}/a", b"two")
    with filesystem.open_input_stream(f"{path}/a") as stream:
        assert stream.read() == b"one"
    replace(filesystem, f"{path}/a", b"three")
    with filesystem.open_input_stream(f"{path}/a") as stream:
        assert stream.read() == b"three"


def test_a_file_system_without_conditional_creation_is_refused() -> None:
    filesystem = pafs._MockFileSystem()
    with pytest.raises(TableError, match="tableFormat delta"):
        create_only(filesystem, "a", b"one")


def test_an_address_that_means_nothing_is_refused() -> None:
    with pytest.raises(TableError, match="tables at nothing://here"):
        open_store("nothing://here", "entries", "parquet")
