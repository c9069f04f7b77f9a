"""Everything that can happen to the tables of a pipeline, made for every table: its rows, its files, its log,
the whole of it, and what is noted beside the tables."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from postroom.spark.store import open_store
from postroom.spark.store.protocol import OWN_FOLDER, DataFile
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables import DEFINITIONS
from tests.spark.damage.specimens import Specimen

NEW_VALUES = {"int": 1, "bool": True, "string": "x", "timestamp": datetime(2026, 11, 1, tzinfo=UTC)}
LOGS = {"delta": "_delta_log", "parquet": "_log"}
STATE_FILES = ("reached.json", "openings.json", "settings.json", "ledgers.json")


@dataclass(frozen=True)
class Damage:
    """One thing done to the tables under a root."""

    what: str
    """The table, or the file beside them."""
    how: str
    do: Callable[[Path], None]

    def __str__(self) -> str:
        return f"{self.what}: {self.how}"


def damages_of(specimen: Specimen) -> Iterator[Damage]:
    """Every damage of every table and of what is beside them."""
    for name in DEFINITIONS:
        if _largest(open_store(str(specimen.root), name)):  # Iceberg has no dwell times of so short a ledger
            yield from _to_rows(specimen, name)
            yield from _to_files(specimen, name)
        yield from _to_table(specimen, name)
        if specimen.format in LOGS:
            yield from _to_log(specimen, name)
            yield from _by_commits(name)
        if specimen.format == "delta":
            yield from _by_delta(name)
    yield from _beside(specimen)


# --- rows -----------------------------------------------------------------------------------------


def _to_rows(specimen: Specimen, name: str) -> Iterator[Damage]:
    """In a file that stays where it is."""
    for field in DEFINITIONS[name].fields:
        if field.name != "ledger_id":  # told by the path
            yield Damage(name, f"{field.name} of a row changed", _in_place(name, _changed(field.name)))
    yield Damage(name, "a row deleted", _in_place(name, lambda rows: rows.slice(1)))
    yield Damage(
        name, "a row doubled", _in_place(name, lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]))
    )


Change = Callable[[pa.Table], pa.Table]


def _in_place(name: str, change: Change) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        path = _file(root, name)
        with pq.ParquetFile(path) as file:
            rows = file.read()
        pq.write_table(change(rows), path, compression="zstd", store_schema=False)

    return do


def _changed(column: str) -> Change:
    """The first row that has a value there has another one; if none has, the first has one."""

    def change(rows: pa.Table) -> pa.Table:
        values = rows[column].to_pylist()
        at = next((at for at, value in enumerate(values) if value is not None), 0)
        values[at] = _another(values[at], rows.schema.field(column).type)
        place = rows.schema.get_field_index(column)
        return rows.set_column(place, column, pa.array(values, rows.schema.field(column).type))

    return change


def _another(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return next(new for name, new in NEW_VALUES.items() if str(kind).startswith(name))
    if isinstance(value, bool):
        return not value
    return value + (
        1 if isinstance(value, int) else "x" if isinstance(value, str) else timedelta(microseconds=1)
    )


# --- files ----------------------------------------------------------------------------------------


def _largest(store: TableStore) -> list[DataFile]:
    return sorted(store.files(), key=lambda file: (-file.rows, file.path))


def _file(root: Path, name: str) -> Path:
    """The file of a table with the most rows."""
    return root / name / _largest(open_store(str(root), name))[0].path


def _to_files(specimen: Specimen, name: str) -> Iterator[Damage]:
    yield Damage(name, "a file gone", lambda root: _file(root, name).unlink())
    yield Damage(name, "a file emptied", _at_bytes(name, lambda content: b""))
    yield Damage(name, "a file truncated", _at_bytes(name, lambda content: content[: len(content) // 2]))
    for part, place in (("at the head", 0.02), ("in the middle", 0.4), ("at the end", 0.9)):
        yield Damage(name, f"a bit of a file flipped {part}", _at_bytes(name, _flipped(place)))
    if len(_largest(open_store(str(specimen.root), name))) > 1:
        yield Damage(name, "two files swapped", _swapped(name))
    if open_store(str(specimen.other), name).files():
        yield Damage(name, "a file of another ledger's", _foreign(specimen, name))


def _at_bytes(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        path = _file(root, name)
        path.write_bytes(change(path.read_bytes()))

    return do


def _flipped(place: float) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        at = int(len(content) * place)
        return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]

    return change


def _swapped(name: str) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        one, two = (root / name / file.path for file in _largest(open_store(str(root), name))[:2])
        content = one.read_bytes()
        one.write_bytes(two.read_bytes())
        two.write_bytes(content)

    return do


def _foreign(specimen: Specimen, name: str) -> Callable[[Path], None]:
    return lambda root: (_file(root, name).write_bytes(_file(specimen.other, name).read_bytes()), None)[1]


# --- a table as a whole ---------------------------------------------------------------------------


def _to_table(specimen: Specimen, name: str) -> Iterator[Damage]:
    yield Damage(name, "gone", lambda root: shutil.rmtree(root / name))
    yield Damage(name, "an older copy of it", _put(name, specimen.older))
    yield Damage(name, "that of another ledger", _put(name, specimen.other))


def _put(name: str, source: Path) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        shutil.rmtree(root / name)
        shutil.copytree(source / name, root / name)

    return do


# --- its log --------------------------------------------------------------------------------------


def _to_log(specimen: Specimen, name: str) -> Iterator[Damage]:
    log = LOGS[specimen.format]
    yield Damage(name, "the newest commit gone", lambda root: _commits(root, name, log)[-1].unlink())
    yield Damage(
        name, "the newest commit truncated", _at_commit(name, log, lambda text: text[: len(text) // 2])
    )
    yield Damage(name, "the newest commit emptied", _at_commit(name, log, lambda text: ""))
    yield Damage(name, "its position in the newest commit changed", _at_commit(name, log, _positions_changed))
    less = _less_of_delta if specimen.format == "delta" else _less_of_parquet
    if any(less(path.read_text()) is not None for path in _commits(specimen.root, name, log)):
        yield Damage(name, "a file left out of a commit", _without_a_file(name, log, less))
    checkpoints = [path for path in (specimen.root / name / log).iterdir() if "checkpoint" in path.name]
    for path in sorted(checkpoints)[-2:]:
        place = path.relative_to(specimen.root)
        yield Damage(name, f"{_kind(path)} gone", lambda root, at=place: (root / at).unlink())
        yield Damage(name, f"{_kind(path)} truncated", lambda root, at=place: _truncate(root / at))
        yield Damage(name, f"a bit of {_kind(path)} flipped", lambda root, at=place: _flip(root / at))


def _kind(path: Path) -> str:
    return "the pointer to the checkpoint" if path.name == "_last_checkpoint" else "the checkpoint of its log"


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(path: Path) -> None:
    path.write_bytes(_flipped(0.5)(path.read_bytes()))


def _commits(root: Path, name: str, log: str) -> list[Path]:
    return sorted(path for path in (root / name / log).glob("*.json") if "checkpoint" not in path.name)


def _at_commit(name: str, log: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        path = _commits(root, name, log)[-1]
        path.write_text(change(path.read_text()))

    return do


def _positions_changed(text: str) -> str:
    """One more for each ledger, wherever it stands in the commit."""
    at = text.index("position")
    number = "".join(c for c in text[at + 10 : at + 24] if c.isdigit())
    return text.replace(f'"position":{number}', f'"position":{int(number) + 1}').replace(
        f'\\"position\\":{number}', f'\\"position\\":{int(number) + 1}'
    )


def _without_a_file(name: str, log: str, less: Callable[[str], str | None]) -> Callable[[Path], None]:
    """The newest commit with new files lacks one, and the checkpoints behind it are gone."""

    def do(root: Path) -> None:
        for path in reversed(_commits(root, name, log)):
            left = less(path.read_text())
            if left is not None:
                path.write_text(left)
                return
        raise AssertionError("no commit with files")

    return do


def _less_of_delta(text: str) -> str | None:
    lines = text.splitlines(keepends=True)
    adds = [line for line in lines if line.startswith('{"add"')]
    return "".join(line for line in lines if line != adds[0]) if adds else None


def _less_of_parquet(text: str) -> str | None:
    entry = json.loads(text)
    if not entry["add"]:
        return None
    return json.dumps(entry | {"add": entry["add"][1:]}, separators=(",", ":"))


# --- other programs -------------------------------------------------------------------------------


def _by_commits(name: str) -> Iterator[Damage]:
    """Through a commit of its own, which knows nothing of sums."""
    columns = [field.name for field in DEFINITIONS[name].fields if field.name not in DEFINITIONS[name].key]
    yield Damage(name, "a row changed by a commit", _committed(name, _changed(columns[0])))
    yield Damage(name, "a row deleted by a commit", _committed(name, lambda rows: rows.slice(1)))
    yield Damage(name, "a file taken out by a commit", _taken_out(name))
    double: Change = lambda rows: pa.concat_tables([rows, rows.slice(0, 1)])  # noqa: E731
    yield Damage(name, "a row doubled by a commit", _committed(name, double))


def _committed(name: str, change: Change) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        store = open_store(str(root), name)
        file = _largest(store)[0]
        rows = change(store.read(file))
        add = [store.write(rows, file.part, file.day, file.ledger_id)] if len(rows) else []
        store.commit(add, [file], store.state(), "change")

    return do


def _taken_out(name: str) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        store = open_store(str(root), name)
        store.commit([], _largest(store)[:1], store.state(), "lose")

    return do


def _by_delta(name: str) -> Iterator[Damage]:
    """As Spark or another tool would."""
    yield Damage(name, "rows deleted by Delta", lambda root: _deleted(root, name))
    yield Damage(name, "restored by Delta", lambda root: _restored(root, name))


def _deleted(root: Path, name: str) -> None:
    column = "position" if name == "events" else "last_position"
    DeltaTable(str(root / name)).delete(f"{column} % 5 = 0")


def _restored(root: Path, name: str) -> None:
    table = DeltaTable(str(root / name))
    table.restore(table.version() // 2)


# --- beside the tables ----------------------------------------------------------------------------


def _beside(specimen: Specimen) -> Iterator[Damage]:
    for name in STATE_FILES:
        yield Damage(name, "gone", lambda root, at=name: (root / OWN_FOLDER / at).unlink())
        yield Damage(name, "truncated", lambda root, at=name: _truncate(root / OWN_FOLDER / at))
        yield Damage(name, "a bit flipped", lambda root, at=name: _flip(root / OWN_FOLDER / at))
        for source, whose in ((specimen.older, "older"), (specimen.other, "another pipeline's")):
            path = source / OWN_FOLDER / name
            if path.exists():
                yield Damage(name, whose, lambda root, at=name, of=path: _copy(of, root / OWN_FOLDER / at))
    yield Damage("what is noted beside the tables", "gone", lambda root: shutil.rmtree(root / OWN_FOLDER))
    yield Damage(
        "all tables", "older, what is noted beside them is not", lambda root: _all_older(specimen, root)
    )
    yield Damage("the root", "an older copy of it", lambda root: _all(specimen.older, root))
    if specimen.format == "iceberg":
        older = specimen.older / "catalog.db"
        yield Damage("the catalog", "older", lambda root: _copy(older, root / "catalog.db"))
        yield Damage("the catalog", "gone", lambda root: (root / "catalog.db").unlink())
        yield Damage("the catalog", "truncated", lambda root: _truncate(root / "catalog.db"))


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


def _all_older(specimen: Specimen, root: Path) -> None:
    for name in DEFINITIONS:
        _put(name, specimen.older)(root)
    if specimen.format == "iceberg":
        _copy(specimen.older / "catalog.db", root / "catalog.db")


def _all(source: Path, root: Path) -> None:
    shutil.rmtree(root)
    shutil.copytree(source, root)
