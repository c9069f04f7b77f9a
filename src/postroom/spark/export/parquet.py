"""Sealed files as Parquet, for readers that know nothing of ledgers: `postroom ledger export`.

    OUT/day=2026-01-31/ledger_id=<UUID>/00000012-<epoch id>.parquet
    OUT/_export/<UUID>/00000012.json

One Parquet file for each sealed file and day, made whole or not at all, then a note that the sealed file is
done. What is there is never made again or changed, so an export can be stopped anywhere and run again.
Columns and what becomes of personal data are the same in all of it.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from typing import BinaryIO, Final, TypeVar
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from postroom.ledger.errors import LedgerError
from postroom.ledger.reading.segments import Segment
from postroom.spark.data_source.portions import portions
from postroom.spark.filesystems.objects import Objects
from postroom.spark.ledger_source.columns import ACT, COLUMN_BY_NAME, COLUMNS
from postroom.spark.ledger_source.names import TEXT_CODES
from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.places.place import Place, Slice
from postroom.spark.store.files import parquet_writer
from postroom.spark.tables.policy import Policy, apply

EXPORT_VERSION: Final = 1
NOTES: Final = "_export"
SETTINGS_NAME: Final = f"{NOTES}/settings.json"
Noted = TypeVar("Noted", bound=Struct)
PARTITION: Final = "ledger_id"
"""A column that is in the folders' names, and so not in the files."""
GROUP_ROWS: Final = 1 << 20
"""Rows of a row group, about."""
DAY_US: Final = 86_400_000_000

FEW_TEXTS: Final = frozenset(
    {
        *("ledger_id", "record", "queue", "event", "from_state", "to_state", "outcome", "causes"),
        *("holder_kind", "holder", "container", "user", "producer", "channel", "origin_ledger_id", "luwid"),
    }
)
"""Columns of few different texts, which are written as codes."""


class ExportRefused(LedgerError):
    """The folder has an export that this one doesn't go on with."""


class Settings(Struct, frozen=True):
    """What is the same in all files of an export."""

    version: int
    columns: list[str]
    personal: dict[str, str]
    """What becomes of each column that may tell of persons."""
    key_mark: str
    """By which the key of the hashes is known again."""


class Note(Struct, frozen=True):
    """A sealed file that is done."""

    number: int
    epoch: int
    epoch_id: str
    first_position: int
    last_position: int
    files: dict[str, int]
    """Rows by name of the Parquet file."""


@dataclass(frozen=True)
class ExportOptions:
    """What is exported, and how."""

    columns: tuple[str, ...] = tuple(column.name for column in COLUMNS if column.name != ACT)
    """By default those that every version had, so that an export goes on after an upgrade."""
    policy: Policy = field(default_factory=Policy)

    def settings(self) -> Settings:
        columns = list(self.columns)
        personal = {name: str(action) for name, action in self.policy.actions.items() if name in columns}
        return Settings(EXPORT_VERSION, columns, personal, self.policy.key_mark)

    def schema(self) -> pa.Schema:
        """Of the events as they are read."""
        unknown = [name for name in self.columns if name not in COLUMN_BY_NAME]
        if unknown:
            raise ExportRefused(f"no such column of events: {', '.join(unknown)}")
        names = [name for name in self.columns if name != PARTITION]
        if not names:
            raise ExportRefused("no columns to export")
        return pa.schema(
            [(name, TEXT_CODES if name in FEW_TEXTS else COLUMN_BY_NAME[name].type) for name in names]
        )


class Export:
    """A ledger and the folder or URI that it is exported to."""

    def __init__(self, place: Place, out: str, options: ExportOptions) -> None:
        """Raises ``ExportRefused`` for options that aren't those of what is there."""
        self._place: Final = place
        self._out: Final = out
        self._options: Final = options
        self._objects: Final = Objects(out)
        options.schema()
        self._check_settings()

    def run(self, jobs: int = 1, progress: Callable[[int, int], None] | None = None) -> list[Note]:
        """Export what is sealed and not done; the notes of what was made, oldest first.

        `jobs` processes work side by side. Raises ``ExportRefused`` where another history was exported,
        ``LedgerError``, OSError.
        """
        wanted = self._wanted()
        made = []
        for done, note in enumerate(self._notes(wanted, jobs), 1):
            made.append(note)
            if progress is not None:
                progress(done, len(wanted))
        return made

    def _wanted(self) -> list[Segment]:
        """The sealed files that aren't done, oldest first."""
        self._place.check()
        snapshot = self._place.snapshot()
        done = set(self._objects.names(f"{NOTES}/{snapshot.ledger_id}"))
        sealed = [each for each in snapshot.segments if each.is_sealed and each.record_count]
        for segment in sealed:
            if _note_name(segment) in done:
                self._check_same(segment, snapshot.ledger_id)
        return [each for each in sealed if _note_name(each) not in done]

    def _notes(self, segments: Sequence[Segment], jobs: int) -> Iterator[Note]:
        work = [(self._place, self._out, self._options, segment) for segment in segments]
        if jobs == 1 or len(work) < 2:
            yield from map(export_segment, work)
            return
        with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
            yield from pool.map(export_segment, work)

    def _check_settings(self) -> None:
        settings = self._options.settings()
        text = msgspec.json.format(msgspec.json.encode(settings), indent=2)
        if self._objects.create(SETTINGS_NAME, [text]):
            return
        there = self._noted(SETTINGS_NAME, Settings)
        if there.version > EXPORT_VERSION:
            what = f"made by a later version ({there.version}; this is {EXPORT_VERSION}): upgrade postroom"
            raise ExportRefused(f"{self._out}: {what}")
        for name in Settings.__struct_fields__:
            before, now = getattr(there, name), getattr(settings, name)
            if before != now:
                raise ExportRefused(
                    f"{self._out}: was made with {name} {before}, not {now}: give the same, or another folder"
                )

    def _noted(self, name: str, kind: type[Noted]) -> Noted:
        try:
            return msgspec.json.decode(self._objects.read(name), type=kind)
        except msgspec.DecodeError as error:
            raise ExportRefused(
                f"{self._out}/{name} is damaged ({error}): restore it, or export to another folder"
            ) from error

    def _check_same(self, segment: Segment, ledger_id: str) -> None:
        name = f"{NOTES}/{ledger_id}/{_note_name(segment)}"
        note = self._noted(name, Note)
        if (note.epoch_id, note.last_position) != (segment.epoch_id.hex(), segment.last_position):
            raise ExportRefused(
                f"{self._out}: {segment.name} was exported from epoch {note.epoch} ({note.epoch_id}), and is"
                f" of epoch {segment.epoch} ({segment.epoch_id.hex()}) in {self._place.uri}: one was restored"
                " from a backup and ran on; export it to another folder"
            )


def _note_name(segment: Segment) -> str:
    return f"{segment.number:08d}.json"


Work = tuple[Place, str, ExportOptions, Segment]


def export_segment(work: Work) -> Note:
    """One sealed file: its Parquet files, then its note."""
    place, out, options, segment = work
    objects = Objects(out)
    ledger_id = str(UUID(bytes=segment.ledger_id))
    files = {}
    for day, slice in _days(place, segment):
        name = f"day={day}/ledger_id={ledger_id}/{segment.number:08d}-{segment.epoch_id.hex()[:12]}.parquet"
        writing = _Writing(slice, options)
        if not objects.create_by(name, writing.write):
            with objects.open(name) as file:
                writing.rows = pq.ParquetFile(file).metadata.num_rows
        files[name] = writing.rows
    where = (segment.number, segment.epoch, segment.epoch_id.hex())
    note = Note(*where, segment.first_position, segment.last_position, files)
    text = msgspec.json.format(msgspec.json.encode(note), indent=2)
    objects.create(f"{NOTES}/{ledger_id}/{_note_name(segment)}", [text])
    return note


class _Writing:
    """One Parquet file."""

    def __init__(self, slice: Slice, options: ExportOptions) -> None:
        self.rows = 0
        self._slice: Final = slice
        self._policy: Final = options.policy
        self._schema: Final = options.schema()

    def write(self, out: BinaryIO) -> None:
        writer: pq.ParquetWriter | None = None
        for table in self._groups():
            writer = writer or parquet_writer(out, table.schema)
            writer.write_table(table, row_group_size=max(1, len(table)))
            self.rows += len(table)
        (writer or parquet_writer(out, self._schema)).close()

    def _groups(self) -> Iterator[pa.Table]:
        """The rows in tables of about `GROUP_ROWS`, as the policy wants them."""
        found = read_events(self._slice, self._schema, in_kinds=True)
        for batches in portions(found, len, GROUP_ROWS):
            yield apply(self._policy, pa.Table.from_batches(batches))


def _days(place: Place, segment: Segment) -> Iterator[tuple[str, Slice]]:
    """The UTC days of a file, and the positions of each: times never go back."""
    starts = _first_of_days(place, segment)
    ends = [position - 1 for position, _ in starts[1:]] + [segment.last_position]
    for (first, day), last in zip(starts, ends, strict=True):
        name = datetime.fromtimestamp(day * DAY_US // 1_000_000, UTC).date().isoformat()
        yield name, Slice(place, segment, first, last)


def _first_of_days(place: Place, segment: Segment) -> list[tuple[int, int]]:
    """(position of the first record, day since 1970) of each day of a file."""
    day = segment.last_time_us // DAY_US
    if segment.first_time_us // DAY_US == day:
        return [(segment.first_position, day)]
    found: list[tuple[int, int]] = []
    for chunk, _ in place.read(Slice(place, segment, segment.first_position, segment.last_position)):
        records = (chunk.arrivals, chunk.transitions)
        positions = np.concatenate([each["position"] for each in records])
        order = np.argsort(positions)
        days = (np.concatenate([each["time_us"] for each in records]) // DAY_US)[order]
        for at in [0, *(np.flatnonzero(np.diff(days)) + 1).tolist()]:
            if not found or int(days[at]) > found[-1][1]:
                found.append((int(positions[order[at]]), int(days[at])))
    return found
