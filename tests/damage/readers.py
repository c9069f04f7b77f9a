"""Whoever takes a ledger for whole: what each says of a folder, or what it gives."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

from postroom.cli.ledger.ledger import EXIT_DAMAGED, ledger
from postroom.ledger.errors import LedgerCorrupt, LedgerError
from postroom.ledger.ledger import Ledger
from postroom.ledger.reading.body_reader import BodyState, check_bodies
from postroom.ledger.reading.message_image import decode_messages
from postroom.ledger.reading.reader import LedgerReader
from postroom.server.http.ledger_view import LedgerView
from postroom.spark.audit.ledgers import inspect_ledgers
from postroom.spark.export.parquet import Export, ExportOptions
from postroom.spark.places.uris import place_of
from tests.damage.excuses import Excuse
from tests.damage.specimens import OPTIONS, Specimen
from tests.ledger.workload import START_US, assert_recovered, stored_bodies
from tests.spark.local_pipeline import read_all, rows_of
from tests.spark.real_ledgers import rows_of as events_of

REPORTED_WHEN_READ = "damaged bodies are reported when they are read"
Given = Any
"""What a reader gives of a ledger that it takes: the same of the same ledger."""


class Refused(Exception):
    """A reader's refusal: file name, byte and reason, as all of them say it."""


def _words(error: LedgerError) -> Refused:
    if isinstance(error, LedgerCorrupt):
        return Refused(f"{Path(error.file).name}: byte {error.offset}: {error.reason}")
    return Refused(str(error))


def serve(folder: Path, specimen: Specimen) -> Given:
    """The broker's start: the state that it recovers is the one that was, and every live body is there."""
    running = Ledger.open(folder, OPTIONS, START_US, maintenance="manual")
    assert_recovered(running.recovered, specimen.snapshot)
    return _bodies(running, specimen)


def _bodies(running: Ledger, specimen: Specimen) -> str:
    places, bodies = stored_bodies(specimen.snapshot)
    for read, body in zip(running.read_bodies(places), bodies, strict=True):
        if isinstance(read, LedgerCorrupt):
            return REPORTED_WHEN_READ
        assert read == body
    return "all bodies"


def verify(folder: Path, specimen: Specimen) -> Given:
    """`postroom ledger verify`, bodies not read."""
    return _verified(folder)


def verify_bodies(folder: Path, specimen: Specimen) -> Given:
    """The same, every body read."""
    return _verified(folder, "--bodies")


def _verified(folder: Path, *options: str) -> Given:
    result = CliRunner().invoke(ledger, ["verify", "--data", str(folder), "--json", *options])
    output = json.loads(result.stdout)
    errors = [each for each in output["findings"] if each["severity"] == "error"]
    assert (result.exit_code == EXIT_DAMAGED) == bool(errors) == (not output["is_whole"])
    if errors:
        raise Refused(f"{errors[0]['where']}: {errors[0]['what']}")
    warnings = sum(each["severity"] == "warning" for each in output["findings"])
    return (
        warnings,
        output["records"],
        output["bodies_checked"],
        output["first_position"],
        output["durable_through"],
    )


def audit(folder: Path, specimen: Specimen) -> Given:
    """`postroom audit --data`: what it reads where it refuses nothing. The same events and the same opening
    have the same verdict."""
    (one,) = inspect_ledgers([str(folder)])
    assert one.checkpoint is not None
    events = events_of(one.place, one.second.first_position, one.second.durable_through)
    cut = replace(one.cut, name="", uri="")
    return cut, one.checkpoint.totals, one.checkpoint.position, events.to_pylist()


def pipeline(folder: Path, specimen: Specimen) -> Given:
    """The pipeline's tables."""
    with tempfile.TemporaryDirectory() as tables:
        read_all(Path(tables), folder, records=5000, only=("entries",))
        return rows_of(tables, "entries")


def export(folder: Path, specimen: Specimen) -> Given:
    """`postroom ledger export`: the notes of the sealed files."""
    with tempfile.TemporaryDirectory() as out:
        return Export(place_of(str(folder)), out, ExportOptions()).run()


def http(folder: Path, specimen: Specimen) -> Given:
    """What the broker shows over HTTP of a folder that is damaged while it runs: the look, all records and
    all messages. Its own start refuses as `serve` does."""
    ledger_view = LedgerView(folder, lambda: specimen_end(specimen))
    shown = ledger_view.current()
    at, parts = shown.segments[0].first_position, []
    while at <= shown.durable_through:
        last, some = ledger_view.records(at, shown.durable_through, 1 << 20)
        parts.append(b"".join(bytes(part) for part in some))
        at = last + 1
    serials = np.array(sorted({serial for serial, _ in specimen.snapshot.entries}), np.uint64)
    data = b"".join(bytes(part) for part in ledger_view.messages(serials, True, 1 << 30))
    return parts, [(str(one["segments"]), one["durable_through"]) for one in [shown.as_json()]], _read(data)


def _read(data: bytes) -> list[bytes | None]:
    """The messages of an answer, as its reader checks them; None where one can't be had."""
    found = check_bodies(decode_messages(data, "answer"))
    spans = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    bodies = [bytes(found.bodies[start:end]) for start, end in spans]
    missing = (found.states != BodyState.PRESENT) | np.isin(np.arange(len(bodies)), list(found.errors))
    return [None if gone else body for gone, body in zip(missing.tolist(), bodies, strict=True)]


def specimen_end(specimen: Specimen) -> int:
    """How far the broker knows its ledger to be durable."""
    return LedgerReader(specimen.folder).durable_through


READERS: dict[str, Callable[[Path, Specimen], Given]] = {
    "serve": serve,
    "verify": verify,
    "verify --bodies": verify_bodies,
    "audit": audit,
    "pipeline": pipeline,
    "export": export,
    "http": http,
}


def given_by(reader: str, folder: Path, specimen: Specimen) -> Given:
    """What it gives. Raises ``Refused``."""
    try:
        return READERS[reader](folder, specimen)
    except LedgerError as error:
        raise _words(error) from error


def is_as_good(reader: str, excuse: Excuse, given: Given, control: Given) -> bool:
    """Whether what a reader gives in spite of a damage is what it gives without, but for what the excuse
    says."""
    if reader.startswith("verify"):
        warns = excuse is Excuse.TWIN or excuse is Excuse.SPARE
        return bool(given[1:] == control[1:] and (warns or given[0] == control[0]))
    if reader == "serve":
        return given == control or (given == REPORTED_WHEN_READ and excuse is Excuse.UNREAD)
    if reader == "http":
        bodies = zip(given[2], control[2], strict=True)
        return bool(given[:2] == control[:2] and all(body in (None, known) for body, known in bodies))
    if reader == "audit" and excuse is Excuse.SPARE:
        return bool(given[-1] == control[-1])
    if reader == "pipeline" and excuse is Excuse.SPARE:
        return _states(given).items() >= _states(control).items()
    return bool(given == control)


def _states(entries: Given) -> dict[tuple[int, int], tuple[object, ...]]:
    """Of each entry what became of it."""
    facts = ("state", "outcome", "holder_id", "delivery_count", "failure_count", "message_id", "ended_time")
    return {(row["serial"], row["queue_id"]): tuple(row[fact] for fact in facts) for row in entries}
