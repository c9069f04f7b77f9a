"""A plan: a folder with what is to be done with each message, what is kept of those that are discarded, and
what became of it. Read and written with Arrow; needs no Spark.

- ``actions-….parquet``: the messages and their actions, in the order in which they are carried out
- ``discarded-….parquet``: the messages that are to be discarded, whole; written before the plan is
- ``rows-….parquet``: of a backfill, the messages to be sent; each file is one transaction
- ``plan.json``: which of these files belong to the plan; made last, and never changed
- ``results-….parquet``: what became of the actions, in the same order; each file is made when all in it is
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from postroom.spark.filesystems.objects import Objects
from postroom.spark.filesystems.uris import StoreUriInvalid
from postroom.spark.jobs.errors import CannotBeDone, JobError, OptionInvalid

FORMAT: Final = 1
MANIFEST: Final = "plan.json"
ACTIONS_FILE: Final = "actions"
DISCARDED_FILE: Final = "discarded"
ROWS_FILE: Final = "rows"
RESULTS_FILE: Final = "results"
SUFFIX: Final = ".parquet"

KEYS: Final = ("serial", "position", "ordinal", "delivery_count")
"""By which an action names its message."""

ACTIONS_SCHEMA: Final = pa.schema(
    [
        ("ledger_id", pa.string()),
        ("queue", pa.string()),
        ("position", pa.int64()),
        ("ordinal", pa.int32()),
        ("serial", pa.int64()),
        ("delivery_count", pa.int64()),
        ("action", pa.string()),
        ("to", pa.string()),
        ("rule", pa.string()),
    ]
)
RESULTS_SCHEMA: Final = pa.schema(
    [
        ("position", pa.int64()),
        ("ordinal", pa.int32()),
        ("serial", pa.int64()),
        ("action", pa.string()),
        ("to", pa.string()),
        ("rule", pa.string()),
        ("answer", pa.string()),
        ("why", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class PlanFile:
    """One of the files of a plan."""

    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class Count:
    """How many messages a rule has found, and what is done with them."""

    rule: str
    action: str
    to: str
    messages: int
    note: str = ""
    """Why nothing is done with them, where the rule says otherwise."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a plan is, and which files belong to it."""

    job: str
    kind: str
    """triage, deduplicate or backfill."""
    queue: str
    digest: str
    """Of what was asked for: a plan is carried on with only if that is the same."""
    created: str
    """RFC 3339."""
    ledger_id: str = ""
    """Of the queue's ledger; "" of a backfill."""
    position: int = 0
    """How far the ledger was looked at."""
    files: tuple[PlanFile, ...] = ()
    discarded: tuple[PlanFile, ...] = ()
    counts: tuple[Count, ...] = ()
    app: str = ""
    """Of a backfill: by what name the broker knows its transactions."""
    format: int = field(default=FORMAT)

    def rows(self) -> int:
        """Messages that something is done with."""
        return sum(file.rows for file in self.files)


def as_text(manifest: Manifest) -> str:
    """A manifest as JSON."""
    return json.dumps(asdict(manifest), indent=1, ensure_ascii=False)


def parse_manifest(text: bytes, where: str) -> Manifest:
    """The other way round. Raises ``CannotBeDone``."""
    try:
        fields = json.loads(text)
        if fields["format"] != FORMAT:
            raise CannotBeDone(
                f"{where}: a plan of format {fields['format']!r}; this version reads format {FORMAT}"
            )
        for name, kind in (("files", PlanFile), ("discarded", PlanFile), ("counts", Count)):
            fields[name] = tuple(kind(**each) for each in fields[name])
        return Manifest(**fields)
    except (ValueError, KeyError, TypeError) as error:
        raise CannotBeDone(f"{where} is no plan: {error!r}") from None


class Plan:
    """A plan's folder, here or in an object store."""

    def __init__(self, uri: str) -> None:
        """Raises ``OptionInvalid``, OSError."""
        try:
            self.objects: Final = Objects(uri)
        except StoreUriInvalid as error:
            raise OptionInvalid(str(error)) from None
        self.uri: Final = self.objects.uri

    def manifest(self) -> Manifest | None:
        """What it is; None while it isn't made. Raises ``CannotBeDone``, OSError."""
        try:
            return parse_manifest(self.objects.read(MANIFEST), f"{self.uri}/{MANIFEST}")
        except FileNotFoundError:
            return None

    def finish(self, manifest: Manifest) -> None:
        """All its files are there: from now on it is a plan. Raises ``JobError``, OSError."""
        if not self.objects.create(MANIFEST, [as_text(manifest).encode()]):
            raise JobError(f"{self.uri}: another run has made this plan meanwhile")

    def write(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Make a file of batches, durable when this returns; how many rows it has."""
        rows = 0

        def content(out: BinaryIO) -> None:
            nonlocal rows
            with pq.ParquetWriter(out, schema, compression="zstd") as writer:
                for batch in batches:
                    rows += batch.num_rows
                    writer.write_batch(batch)

        if not self.objects.create_by(name, content):
            raise JobError(f"{self.uri}/{name} is there already: another run works on this plan")
        return rows

    def read(self, name: str) -> pa.Table:
        """A whole file."""
        with self.objects.open(name) as file:
            return pq.read_table(file)

    def batches(self, files: Iterable[PlanFile], skip: int, rows: int) -> Iterator[pa.Table]:
        """The rows of files one after the other, so many at a time, without the first `skip`."""
        waiting: list[pa.RecordBatch] = []
        count = 0
        for batch in self._pieces(files, skip, rows):
            while count + batch.num_rows >= rows:
                first = batch.slice(0, rows - count)
                yield pa.Table.from_batches([*waiting, first])
                waiting, count, batch = [], 0, batch.slice(first.num_rows)
            if batch.num_rows:
                waiting.append(batch)
                count += batch.num_rows
        if waiting:
            yield pa.Table.from_batches(waiting)

    def _pieces(self, files: Iterable[PlanFile], skip: int, rows: int) -> Iterator[pa.RecordBatch]:
        for each in files:
            if skip >= each.rows:
                skip -= each.rows
                continue
            with self.objects.open(each.name) as file:
                for batch in pq.ParquetFile(file).iter_batches(rows):
                    kept = batch.slice(min(skip, batch.num_rows))
                    skip -= batch.num_rows - kept.num_rows
                    yield kept

    def results(self) -> "Results":
        """What became of its actions so far."""
        names = [name for name in self.objects.names("") if name.startswith(RESULTS_FILE)]
        found = Results(len(names))
        for name in names:
            found.add(self.read(name))
        return found


class Results:
    """What became of the first actions of a plan."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        """Files."""
        self.rows = 0
        self.counts: Counter[str] = Counter()
        """By answer."""
        self.reasons: Counter[str] = Counter()
        """Of what was refused."""

    def add(self, rows: pa.Table) -> None:
        """Count some more."""
        self.rows += rows.num_rows
        self.counts.update(_counted(rows, "answer"))
        self.reasons.update(_counted(rows, "why"))

    def not_done(self) -> int:
        """Messages that stay though something was to be done with them."""
        return self.counts["changed"] + self.counts["refused"]


def _counted(rows: pa.Table, name: str) -> dict[str, int]:
    counted: list[dict[str, Any]] = rows[name].value_counts().to_pylist()
    return {each["values"]: each["counts"] for each in counted if each["values"] is not None}


def file_name(kind: str, *numbers: int | str) -> str:
    """``actions-00003-….parquet``; numbers sort as they count."""
    texts = [f"{number:05d}" if isinstance(number, int) else number for number in numbers]
    return "-".join([kind, *texts]) + SUFFIX
