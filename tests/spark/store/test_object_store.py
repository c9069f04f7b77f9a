"""Tables in an object store, over the wire: the commit log where an object can be created only if there is
none, and a plain refusal elsewhere."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import pyarrow.fs as pafs
import pytest

from postroom.spark.filesystems.exclusive_files import NoConditionalPut, create_only, replace
from postroom.spark.store import open_store
from postroom.spark.store.formats import detect_format
from postroom.spark.store.parquet import ParquetStore
from postroom.spark.store.protocol import TableConflict, TableError
from postroom.spark.store.table_store import TableStore
from tests.spark.store.small_tables import SMALL, append, at, compact, rows, serials, small_store

WRITERS = 4


@pytest.fixture
def root(bucket: str) -> str:
    """A folder of the store."""
    return f"{bucket}/{uuid4().hex}"


@pytest.fixture(params=["delta", "parquet"])
def store(root: str, request: pytest.FixtureRequest) -> TableStore:
    return small_store(root, request.param, checkpoint_commits=3)


def test_a_table_in_an_object_store(store: TableStore, root: str) -> None:
    for number in range(8):
        append(store, 1 + 2 * number, 2)
    again = pickle.loads(pickle.dumps(store))
    assert serials(again) == list(range(1, 17))
    assert compact(again, 1 << 20) == 8
    assert again.vacuum(0) == 8
    assert serials(type(store)(root, SMALL)) == list(range(1, 17))  # type: ignore[call-arg]


def test_an_older_version_is_read(store: TableStore) -> None:
    append(store, 1, 2)
    version = store.state().version
    append(store, 3, 2)
    files = store.snapshot(version).files
    assert [store.read(file, ["serial"])["serial"].to_pylist() for file in files] == [[1, 2]]


def test_the_second_of_two_writers_is_refused(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    append(store, 1, 1)
    other = pickle.loads(pickle.dumps(store))
    state = other.state()
    append(store, 2, 1)
    monkeypatch.setattr(other, "state", lambda: state)  # it looked before the first had committed
    monkeypatch.setattr(other, "_newest", lambda: other._known)
    with pytest.raises(TableConflict):
        other.commit([], [], at(2, state), "batch")


def test_of_writers_that_commit_at_once_one_is_taken(store: TableStore) -> None:
    append(store, 1, 1)
    together = Barrier(WRITERS)

    def commit(number: int) -> bool:
        mine = pickle.loads(pickle.dumps(store))
        state = mine.state()
        made = mine.write(rows(2, number + 1), "open", None, "ledger")
        together.wait()
        try:
            mine.commit([made], [], at(number + 2, state), "batch")
        except TableConflict:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        taken = list(pool.map(commit, range(WRITERS)))
    assert taken.count(True) == 1
    assert serials(store) == list(range(1, taken.index(True) + 3))


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


def test_an_empty_file_is_made(root: str) -> None:
    filesystem, path = pafs.FileSystem.from_uri(root)
    create_only(filesystem, f"{path}/a", b"")
    assert filesystem.get_file_info(f"{path}/a").size == 0


def test_a_bucket_that_is_not_there_is_an_error_of_its_own(bucket: str) -> None:
    filesystem, path = pafs.FileSystem.from_uri("s3://no-such-bucket/tables")
    with pytest.raises(OSError, match="no-such-bucket"):
        create_only(filesystem, f"{path}/a", b"one")


def test_a_file_system_without_conditional_creation_is_refused(root: str) -> None:
    filesystem = pafs._MockFileSystem()
    with pytest.raises(NoConditionalPut, match="only if there is none"):
        create_only(filesystem, "a", b"one")
    store = ParquetStore(root, SMALL)
    object.__setattr__(store._data, "filesystem", filesystem)
    with pytest.raises(TableError, match="tableFormat delta"):
        store.commit([], [], store.state(), "batch")


def test_an_address_that_means_nothing_is_refused() -> None:
    with pytest.raises(TableError, match="tables at nothing://here"):
        open_store("nothing://here", "entries", "parquet")
