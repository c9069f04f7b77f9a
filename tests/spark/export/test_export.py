"""Sealed files as Parquet: what other engines read is what the ledger says, whatever broke in between."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from postroom.spark.export import parquet as exporting
from postroom.spark.export.parquet import NOTES, Export, ExportOptions, ExportRefused
from postroom.spark.export.upload import Upload
from postroom.spark.filesystems.exclusive_files import TEMPORARY
from postroom.spark.ledger_source.columns import ACT, EVENTS_SCHEMA
from postroom.spark.places.folder import FolderPlace
from postroom.spark.places.place import Place
from postroom.spark.places.store import StorePlace
from postroom.spark.tables.policy import Policy
from tests.spark.real_ledgers import Writer, rows_of

DAY_US = 86_400_000_000
MIDNIGHT_US = 20_000 * DAY_US
PARQUET = "*/*/*.parquet"
KEY = b"a key of sixteen bytes or more"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Files of two epochs, over three days; one of them goes over midnight."""
    writer = Writer(tmp_path / "data", now_us=MIDNIGHT_US - 150_000)
    writer.write(300)
    writer.close()
    writer = Writer(tmp_path / "data", now_us=MIDNIGHT_US + DAY_US)
    writer.write(200)
    writer.close()
    return tmp_path / "data"


def out_of(tmp_path: Path) -> Path:
    return tmp_path / "out"


def exported(place: Place, out: Path, options: ExportOptions | None = None, jobs: int = 1) -> int:
    notes = Export(place, str(out), options or ExportOptions()).run(jobs)
    return sum(sum(note.files.values()) for note in notes)


def sealed_rows(ledger: Path) -> pa.Table:
    place = FolderPlace(ledger)
    last = max(each.last_position for each in place.snapshot().segments if each.is_sealed)
    return rows_of(place, last=last)


def read(out: Path) -> pa.Table:
    """All of an export by pyarrow alone, in order."""
    files = sorted(out.glob(PARQUET))
    tables = []
    for file in files:
        table = pq.ParquetFile(file).read()
        ledger_id = file.parent.name.removeprefix("ledger_id=")
        tables.append(table.add_column(0, "ledger_id", pa.array([ledger_id] * len(table), pa.string())))
    return pa.concat_tables(tables).sort_by([("position", "ascending"), ("ordinal", "ascending")])


def left_by_default(table: pa.Table) -> pa.Table:
    """What an export has unless more is asked for: who logged in is dropped, acts are no column of it."""
    table = table.drop_columns([ACT])
    at = table.schema.get_field_index("user")
    return table.set_column(at, table.schema.field(at), pa.nulls(len(table), pa.string()))


def test_what_is_exported_is_what_the_ledger_says(ledger: Path, tmp_path: Path) -> None:
    out = out_of(tmp_path)
    assert exported(FolderPlace(ledger), out) == len(sealed_rows(ledger))
    got = read(out)
    assert got.schema.equals(pa.schema([field for field in EVENTS_SCHEMA if field.name != ACT]))
    assert got.equals(left_by_default(sealed_rows(ledger)))


def test_rows_lie_in_the_folder_of_their_day(ledger: Path, tmp_path: Path) -> None:
    out = out_of(tmp_path)
    exported(FolderPlace(ledger), out)
    days = sorted(each.name.removeprefix("day=") for each in out.glob("day=*"))
    assert len(days) == 3
    for file in out.glob(PARQUET):
        times = pq.ParquetFile(file).read(["time"])["time"]
        day = datetime.fromisoformat(file.parts[-3].removeprefix("day=")).replace(tzinfo=UTC)
        assert {each.date() for each in times.to_pylist()} == {day.date()}
    over_midnight = {file.name for file in out.glob(f"day={days[0]}/*/*")} & {
        file.name for file in out.glob(f"day={days[1]}/*/*")
    }
    assert len(over_midnight) == 1


def test_duckdb_and_polars_read_it(ledger: Path, tmp_path: Path) -> None:
    out = out_of(tmp_path)
    exported(FolderPlace(ledger), out)
    expected = sealed_rows(ledger)
    counts = {each["values"]: each["counts"] for each in expected["event"].value_counts().to_pylist()}
    ledger_id = expected["ledger_id"][0].as_py()
    query = f"""select event, count(*), min(ledger_id), min(typeof(queue)), min(typeof("time"))
        from read_parquet('{out}/{PARQUET}', hive_partitioning = true) group by event"""
    with duckdb.connect() as connection:
        found = connection.sql(query).fetchall()
    assert {event: count for event, count, *_ in found} == counts
    # DuckDB tells UUIDs in folders' names by itself
    assert {(str(id), text, time) for _, _, id, text, time in found} == {
        (ledger_id, "VARCHAR", "TIMESTAMP WITH TIME ZONE")
    }
    frame = pl.scan_parquet(f"{out}/{PARQUET}", hive_partitioning=True)
    assert dict(frame.group_by("event").len().collect().iter_rows()) == counts
    assert frame.collect_schema()["queue"] == pl.String
    one_day = frame.filter(pl.col("day") == sorted(frame.select("day").unique().collect()["day"])[0])
    assert 0 < one_day.select(pl.len()).collect().item() < len(expected)


def test_a_second_run_adds_what_was_sealed_since_and_changes_nothing(ledger: Path, tmp_path: Path) -> None:
    out = out_of(tmp_path)
    exported(FolderPlace(ledger), out)
    before = {each: each.read_bytes() for each in out.rglob("*") if each.is_file()}
    assert exported(FolderPlace(ledger), out) == 0
    Writer(ledger, now_us=MIDNIGHT_US + 2 * DAY_US).close()
    writer = Writer(ledger, now_us=MIDNIGHT_US + 2 * DAY_US)
    writer.write(100)
    writer.close()
    assert exported(FolderPlace(ledger), out) > 0
    assert all(each.read_bytes() == content for each, content in before.items())
    assert read(out).equals(left_by_default(sealed_rows(ledger)))


def test_a_run_that_ended_anywhere_is_taken_up(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends before each of the objects that it would make."""
    place, out = FolderPlace(ledger), out_of(tmp_path)
    expected = left_by_default(sealed_rows(ledger))
    whole = exporting.Objects.create_by
    survived = 0
    while True:
        left = 2

        def dying(self: exporting.Objects, name: str, write: object) -> bool:
            nonlocal left
            left -= not self.exists(name)
            if left < 0:
                raise OSError("no more")
            return whole(self, name, write)  # type: ignore[arg-type]

        with monkeypatch.context() as patched:
            patched.setattr(exporting.Objects, "create_by", dying)
            try:
                exported(place, out)
                break
            except OSError:
                survived += 1
    assert survived > 3
    assert read(out).equals(expected)
    assert not list(out.rglob(f"*{TEMPORARY}"))


def test_several_processes(ledger: Path, tmp_path: Path) -> None:
    exported(FolderPlace(ledger), out_of(tmp_path), jobs=2)
    assert read(out_of(tmp_path)).equals(left_by_default(sealed_rows(ledger)))


def test_chosen_columns_in_their_order(ledger: Path, tmp_path: Path) -> None:
    out = out_of(tmp_path)
    columns = ("time", "position", "event", "ledger_id", "ordinal")
    exported(FolderPlace(ledger), out, ExportOptions(columns))
    file = next(iter(out.glob(PARQUET)))
    assert pq.ParquetFile(file).schema_arrow.names == ["time", "position", "event", "ordinal"]


@pytest.mark.parametrize("columns", [("nonsense",), ("ledger_id",), ()])
def test_columns_that_are_none(ledger: Path, tmp_path: Path, columns: tuple[str, ...]) -> None:
    with pytest.raises(ExportRefused):
        Export(FolderPlace(ledger), str(out_of(tmp_path)), ExportOptions(columns))
    assert not out_of(tmp_path).exists()


def test_personal_data_as_the_policy_says(ledger: Path, tmp_path: Path) -> None:
    policy = Policy({"message_id": "hash", "producer": "drop", "user": "keep"}, KEY)
    exported(FolderPlace(ledger), out_of(tmp_path), ExportOptions(policy=policy))
    got, expected = read(out_of(tmp_path)), sealed_rows(ledger)
    assert got["producer"].null_count == len(got)
    assert set(got["user"].drop_null().to_pylist()) == {"ann"}
    ids = expected["message_id"].to_pylist()
    assert got["message_id"].to_pylist() == [None if each is None else policy.hashed(each) for each in ids]
    everything = b"".join(each.read_bytes() for each in out_of(tmp_path).rglob("*") if each.is_file())
    assert KEY not in everything and b"id-000001" not in everything


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (ExportOptions(("position", "time")), ExportOptions(("position",)), "columns"),
        (ExportOptions(), ExportOptions(policy=Policy({"message_id": "drop"})), "personal"),
        (
            ExportOptions(policy=Policy({"message_id": "hash"}, KEY)),
            ExportOptions(policy=Policy({"message_id": "hash"}, KEY + b"!")),
            "key_mark",
        ),
    ],
)
def test_an_export_goes_on_as_it_began(
    ledger: Path, tmp_path: Path, first: ExportOptions, second: ExportOptions, named: str
) -> None:
    exported(FolderPlace(ledger), out_of(tmp_path), first)
    with pytest.raises(ExportRefused, match=named):
        exported(FolderPlace(ledger), out_of(tmp_path), second)


@pytest.mark.parametrize("name", ["settings.json", "*/*.json"])
def test_a_damaged_note_is_told(ledger: Path, tmp_path: Path, name: str) -> None:
    exported(FolderPlace(ledger), out_of(tmp_path))
    for note in (out_of(tmp_path) / NOTES).glob(name):
        note.write_bytes(note.read_bytes()[:-2])
    with pytest.raises(ExportRefused, match=r"json is damaged"):
        exported(FolderPlace(ledger), out_of(tmp_path))


def test_a_restored_backup_that_ran_on_is_refused(ledger: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    shutil.copytree(ledger, backup)
    for folder in (ledger, backup):
        for _ in range(2):
            writer = Writer(folder, now_us=MIDNIGHT_US + 2 * DAY_US)
            writer.write(5)
            writer.close()
    exported(FolderPlace(ledger), out_of(tmp_path))
    with pytest.raises(ExportRefused, match="restored"):
        exported(FolderPlace(backup), out_of(tmp_path))


def test_from_a_store_it_is_the_same(ledger: Path, tmp_path: Path) -> None:
    list(Upload(ledger, str(tmp_path / "store")).run())
    exported(StorePlace(str(tmp_path / "store"), cache=str(tmp_path / "cache")), out_of(tmp_path))
    assert read(out_of(tmp_path)).equals(left_by_default(sealed_rows(ledger)))


def test_two_ledgers_in_one_export(ledger: Path, tmp_path: Path) -> None:
    other = Writer(tmp_path / "other")
    other.write(150)
    other.close()
    for folder in (ledger, other.folder):
        exported(FolderPlace(folder), out_of(tmp_path))
    assert len({each.parent.name for each in out_of(tmp_path).glob(PARQUET)}) == 2
    assert len(list((out_of(tmp_path) / NOTES).iterdir())) == 3
    assert pc.count(read(out_of(tmp_path))["position"]).as_py() == len(sealed_rows(ledger)) + len(
        sealed_rows(other.folder)
    )
