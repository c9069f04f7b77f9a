"""A ledger in an object store: what is uploaded, what is refused, and that it reads as the folder does."""

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from postroom.ledger.errors import LedgerCorrupt
from postroom.spark.export.upload import Upload, Uploaded, UploadRefused
from postroom.spark.filesystems import objects as objects_module
from postroom.spark.filesystems.objects import Objects
from postroom.spark.ledger_source.record_batches import read_opening
from postroom.spark.places.cache import CacheUnsafe, FileCache
from postroom.spark.places.folder import FolderPlace
from postroom.spark.places.manifest import StoreUnusable
from postroom.spark.places.store import StorePlace
from postroom.spark.places.uris import PlaceUnknown, place_of
from tests.spark.real_ledgers import BODY, FORGETFUL, Writer, rows_of


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def uploaded(folder: Path, store: Path | str) -> list[Uploaded]:
    return list(Upload(folder, str(store)).run())


def place(store: Path, tmp_path: Path) -> StorePlace:
    return StorePlace(str(store), cache=str(tmp_path / "cache"))


def test_the_store_reads_as_the_folder_up_to_what_is_sealed(
    folder: Path, store: Path, tmp_path: Path
) -> None:
    made = uploaded(folder, store)
    there, here = place(store, tmp_path), FolderPlace(folder)
    end = there.snapshot().durable_through
    assert len(made) > 3 and made[-1].last_position == end < here.snapshot().durable_through
    assert rows_of(there, records=97).equals(rows_of(here, last=end))
    assert [each.epoch_id for each in there.snapshot().epochs] == [
        each.epoch_id for each in here.snapshot().epochs
    ]


def test_no_body_is_uploaded(folder: Path, store: Path) -> None:
    uploaded(folder, store)
    files = [each for each in store.rglob("*") if each.is_file()]
    assert files and not any(BODY[:20] in each.read_bytes() for each in files)


def test_a_second_upload_adds_what_was_sealed_since_and_changes_nothing(folder: Path, store: Path) -> None:
    uploaded(folder, store)
    before = {each: each.read_bytes() for each in store.rglob("*") if each.is_file()}
    assert uploaded(folder, store) == []
    writer = Writer(folder)
    writer.write(200)
    more = uploaded(folder, store)
    writer.close()
    assert more
    assert all(each.read_bytes() == content for each, content in before.items())


def test_the_look_goes_on_with_what_is_added(folder: Path, store: Path, tmp_path: Path) -> None:
    uploaded(folder, store)
    there = place(store, tmp_path)
    first = there.snapshot()
    writer = Writer(folder)
    writer.write(200)
    uploaded(folder, store)
    writer.close()
    second = there.snapshot()
    assert second.durable_through > first.durable_through
    assert second.segments[: len(first.segments)] == first.segments


def test_an_upload_that_ended_anywhere_is_taken_up(folder: Path, store: Path, tmp_path: Path) -> None:
    """The store of an upload that was killed has objects without entries, and a manifest that is short."""
    uploaded(folder, store)
    whole = rows_of(place(store, tmp_path))
    entries = sorted(store.rglob("manifest/*.json"))
    for left in range(len(entries)):
        for entry in sorted(store.rglob("manifest/*.json"))[left:]:
            entry.unlink()
        uploaded(folder, store)
        assert rows_of(place(store, tmp_path)).equals(whole)


def test_a_damaged_file_is_not_uploaded(folder: Path, store: Path) -> None:
    sealed = sorted(folder.glob("*.events"))[1]
    content = bytearray(sealed.read_bytes())
    content[len(content) // 2] ^= 1
    sealed.write_bytes(content)
    with pytest.raises(LedgerCorrupt, match=sealed.name):
        uploaded(folder, store)
    assert not list(store.rglob(f"*{sealed.name}*"))


def test_another_content_under_a_name_is_left_alone(folder: Path, store: Path) -> None:
    uploaded(folder, store)
    (entry,) = store.rglob("manifest/00000002.events.json")
    (stored,) = store.rglob("00000002.events")
    entry.unlink()
    stored.write_bytes(stored.read_bytes() + b"x")
    for later in store.rglob("manifest/*.json"):
        if later.name > entry.name:
            later.unlink()
    with pytest.raises(UploadRefused, match="another content is there"):
        uploaded(folder, store)
    assert stored.read_bytes().endswith(b"x")


def test_a_restored_backup_that_ran_on_is_refused(folder: Path, store: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    shutil.copytree(folder, backup)
    for each in (folder, backup):
        writer = Writer(each)
        writer.write(150)
        writer.close()
    Writer(folder).close()
    uploaded(folder, store)
    Writer(backup).close()
    with pytest.raises(UploadRefused, match="restored"):
        uploaded(backup, store)
    assert uploaded(backup, tmp_path / "elsewhere")


def test_what_retention_dropped_before_it_was_uploaded_is_told(tmp_path: Path, store: Path) -> None:
    writer = Writer(tmp_path / "data", FORGETFUL)
    writer.write(150)
    uploaded(writer.folder, store)
    assert store.exists()
    for _ in range(4):
        writer.write(300)
    writer.close()
    with pytest.raises(UploadRefused, match="dropped by retention"):
        uploaded(writer.folder, store)


def test_a_history_that_begins_late_opens_as_in_the_folder(tmp_path: Path, store: Path) -> None:
    writer = Writer(tmp_path / "data", FORGETFUL)
    for _ in range(4):
        writer.write(300)
    writer.close()
    uploaded(writer.folder, store)
    there = place(store, tmp_path)
    snapshot = there.snapshot()
    assert snapshot.first_position > 1
    opening = read_opening(there, snapshot)
    assert opening is not None
    serials = sorted(opening.rows["serial"].to_pylist())
    assert serials == [serial for serial in writer.alive if serial < snapshot.first_position]
    assert set(opening.rows["message_id"].to_pylist()) == {f"id-{100 * n:06d}" for n in range(len(serials))}


def test_several_ledgers_in_one_store(folder: Path, store: Path, tmp_path: Path) -> None:
    other = Writer(tmp_path / "other")
    other.write(150)
    other.close()
    for each in (folder, other.folder):
        uploaded(each, store)
    with pytest.raises(StoreUnusable, match="several ledgers"):
        place(store, tmp_path).snapshot()
    for each in (folder, other.folder):
        ledger_id = FolderPlace(each).snapshot().ledger_id
        chosen = place_of(f"store:{store}#{ledger_id}", cache=str(tmp_path / "cache"))
        assert chosen.snapshot().ledger_id == ledger_id


@pytest.mark.parametrize("text", ["", "{", '{"version": 1}', "[]", "\x00"])
def test_an_entry_that_is_none_is_named(folder: Path, store: Path, tmp_path: Path, text: str) -> None:
    uploaded(folder, store)
    (entry,) = store.rglob("manifest/00000001.events.json")
    entry.write_text(text)
    with pytest.raises(StoreUnusable, match=r"00000001\.events\.json"):
        place(store, tmp_path).snapshot()


def test_an_entry_of_a_later_version_says_what_to_upgrade(folder: Path, store: Path, tmp_path: Path) -> None:
    uploaded(folder, store)
    (entry,) = store.rglob("manifest/00000001.events.json")
    entry.write_text(entry.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(StoreUnusable, match="upgrade the reader"):
        place(store, tmp_path).snapshot()


def test_a_hole_in_the_manifest_is_told(folder: Path, store: Path, tmp_path: Path) -> None:
    uploaded(folder, store)
    (entry,) = store.rglob("manifest/00000002.events.json")
    entry.unlink()
    with pytest.raises(StoreUnusable, match="does not follow"):
        place(store, tmp_path).snapshot()


def test_a_store_without_ledger_and_places_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="no ledger here"):
        place(tmp_path / "nothing", tmp_path).snapshot()
    for uri in ("ftp://host/x", "s3://bucket/x"):
        with pytest.raises(PlaceUnknown, match="store:"):
            place_of(uri)
    assert isinstance(place_of("store:/x"), StorePlace)


def test_a_damaged_object_is_not_read(folder: Path, store: Path, tmp_path: Path) -> None:
    uploaded(folder, store)
    (stored,) = store.rglob("00000001.events")
    content = bytearray(stored.read_bytes())
    content[-200] ^= 1
    stored.write_bytes(content)
    with pytest.raises(LedgerCorrupt):
        rows_of(place(store, tmp_path))
    assert not list((tmp_path / "cache").rglob("00000001.events"))


def test_a_place_is_pickled_without_what_it_remembers(folder: Path, store: Path, tmp_path: Path) -> None:
    uploaded(folder, store)
    there = place(store, tmp_path)
    there.snapshot()
    again = pickle.loads(pickle.dumps(there))
    assert again == there and again.snapshot() == there.snapshot()
    assert len(pickle.dumps(there)) < 500


def test_a_running_upload_follows_the_broker(folder: Path, store: Path) -> None:
    uploaded: list[Uploaded] = []
    stop = Event()
    writer = Writer(folder)

    def record(each: Uploaded) -> None:
        uploaded.append(each)
        if len(uploaded) == 3:
            writer.write(200)
        if each.last_position > 1000:
            stop.set()

    Upload(folder, str(store)).watch(stop, record, every_s=0.01)
    writer.close()
    assert uploaded[-1].last_position > 1000


def test_file_uris(folder: Path, store: Path, tmp_path: Path) -> None:
    uploaded(folder, f"file://{store}")
    assert rows_of(StorePlace(f"file://{store}", cache=str(tmp_path / "cache"))).equals(
        rows_of(place(store, tmp_path))
    )


def test_a_store_that_is_no_local_folder(
    folder: Path, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of object stores, where nothing can be linked: here over a folder."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    remote = SubTreeFileSystem(str(elsewhere), LocalFileSystem())
    opened = objects_module.open_filesystem
    monkeypatch.setattr(
        objects_module,
        "open_filesystem",
        lambda uri: (remote, "bucket") if uri == "s3://bucket" else opened(uri),
    )
    made = uploaded(folder, "s3://bucket")
    assert made and uploaded(folder, "s3://bucket") == []
    uploaded(folder, store)
    there = StorePlace("s3://bucket", cache=str(tmp_path / "cache-2"))
    assert rows_of(there).equals(rows_of(place(store, tmp_path)))
    (stored,) = elsewhere.rglob("00000002.events")
    stored.write_bytes(b"x")
    (entry,) = elsewhere.rglob("manifest/00000002.events.json")
    entry.unlink()
    for later in elsewhere.rglob("manifest/*.json"):
        if later.name > entry.name:
            later.unlink()
    with pytest.raises(UploadRefused, match="another content"):
        uploaded(folder, "s3://bucket")


# --- the cache -------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[FileCache]:
    yield FileCache(tmp_path / "cache", max_bytes=250)


def filled(cache: FileCache, key: str, content: bytes) -> bytes:
    return bytes(cache.get(key, lambda out: out.write(content) and None, lambda data: None))


def test_a_file_is_fetched_once(cache: FileCache) -> None:
    assert filled(cache, "a/x", b"first") == b"first"
    assert filled(cache, "a/x", b"second") == b"first"
    assert cache.holds("a/x") and not cache.holds("a/y")


def test_what_was_used_longest_ago_goes(cache: FileCache) -> None:
    import os

    for age, key in enumerate(("c", "b", "a")):
        filled(cache, key, b"x" * 80)
        os.utime(cache.folder / key, (1000 - age, 1000 - age))
    filled(cache, "d", b"x" * 80)
    assert [cache.holds(key) for key in "abcd"] == [False, True, True, True]
    filled(cache, "large", b"x" * 1000)
    assert [each.name for each in cache.folder.iterdir() if each.suffix != ".lock"] == ["large"]


def test_what_fails_its_check_is_not_kept(cache: FileCache) -> None:
    def refuse(data: memoryview) -> None:
        raise LedgerCorrupt("x", 0, "torn")

    with pytest.raises(LedgerCorrupt):
        cache.get("a", lambda out: out.write(b"x") and None, refuse)
    assert not cache.holds("a") and filled(cache, "a", b"good") == b"good"


def test_a_folder_where_others_may_write_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(CacheUnsafe, match="option cache"):
        filled(FileCache(tmp_path / "open"), "a", b"x")


def test_objects_are_made_once(tmp_path: Path) -> None:
    objects = Objects(str(tmp_path / "o"))
    assert objects.create("a/b", [b"one", b"two"])
    assert not objects.create("a/b", [b"three"])
    assert objects.read("a/b") == b"onetwo"
    assert objects.names("a") == ["b"] and objects.folders("") == ["a"] and objects.names("none") == []
