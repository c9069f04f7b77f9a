"""How fast a ledger is read: .events files decoded to Arrow, in one process, with nothing else going on.

    python -m bench.reader_bench [--messages 1000000] [--rounds 5]

Writes a ledger of that many messages (random 36-byte ids; put, acquire, confirm: three events each), all in
one .events file, to a temporary folder, then decodes it through the same code as a Spark task: all columns,
ten columns, and the record arrays alone. The file is read once before, so that the page cache is warm. Prints
medians of the rounds, in events per second of processor time and of wall time.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.spark_workload import CONSUMER, ID_BYTES, QUEUES, Folder, Records, Source, pattern_of
from postroom.ledger.format.file_names import events_name
from postroom.ledger.format.layout import ARRIVAL_DTYPE, TRANSITION_DTYPE, Array
from postroom.ledger.format.records import ArrivalFlag, RecordType
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.reading.segments import open_segment
from postroom.ledger.verification.acceptance import accept
from postroom.model.codes import Event, HolderKind, IdType, Outcome, State
from postroom.spark.ledger_source.columns import EVENTS_SCHEMA
from postroom.spark.ledger_source.options import MOST_PARTITION_RECORDS
from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.places.folder import FolderPlace
from postroom.spark.places.slices import plan

TEN_COLUMNS = (
    "position",
    "ordinal",
    "serial",
    "queue_id",
    "time",
    "event",
    "from_state",
    "to_state",
    "outcome",
    "message_id",
)


def write_ledger(folder: Path, messages: int) -> int:
    """A ledger whose messages are all in one .events file; returns how many events these have."""
    rng = np.random.default_rng(7)
    names = rng.integers(ord("a"), ord("z"), messages * ID_BYTES, dtype=np.uint8)
    queues = (rng.integers(0, QUEUES, messages) + 1).astype(np.uint32)
    out, events = Folder(folder), 3 * messages
    defined = Source(pattern_of(events)).definitions()
    out.seal(defined)
    first = defined.last_position + 1
    arrivals, transitions = _arrivals(first, queues), _transitions(first, queues)
    out.seal(Records(first, arrivals, transitions, names.tobytes()))
    out.journal(Records(first + events, arrivals[:0], transitions[:0], b""))
    out.close()
    accept(folder)
    return events


def _arrivals(first: int, queues: Array) -> Array:
    numbers = np.arange(len(queues))
    arrivals = np.zeros(len(queues), ARRIVAL_DTYPE)
    arrivals["position"] = arrivals["body_serial"] = first + 3 * numbers
    arrivals["time_us"] = 1_790_000_000_000_000 + 3 * numbers
    arrivals["routing_set"] = queues
    arrivals["to_state"], arrivals["event"], arrivals["priority"] = State.AVAILABLE, Event.PUT, 4
    arrivals["flags"] = ArrivalFlag.DURABLE | ArrivalFlag.BODY_STORED
    arrivals["body_len"] = 1000
    arrivals["message_id_offset"], arrivals["message_id_len"] = numbers * ID_BYTES, ID_BYTES
    arrivals["message_id_type"] = IdType.STRING
    return arrivals


def _transitions(first: int, queues: Array) -> Array:
    numbers = np.repeat(np.arange(len(queues)), 2)
    second = np.arange(len(numbers)) % 2 == 1
    transitions = np.zeros(len(numbers), TRANSITION_DTYPE)
    transitions["position"] = first + 3 * numbers + 1 + second
    transitions["serial"] = first + 3 * numbers
    transitions["time_us"] = 1_790_000_000_000_000 + 3 * numbers + 1 + second
    transitions["queue"] = np.repeat(queues, 2)
    transitions["holder"], transitions["holder_kind"] = CONSUMER, HolderKind.CONSUMER
    transitions["type"] = RecordType.ENTRY_EVENT
    transitions["event"] = np.where(second, Event.CONFIRM, Event.ACQUIRE)
    transitions["from_state"] = np.where(second, State.GET_UNCONFIRMED, State.AVAILABLE)
    transitions["to_state"] = np.where(second, State.DELETED, State.GET_UNCONFIRMED)
    transitions["outcome"] = np.where(second, Outcome.CONSUMED, Outcome.NONE)
    return transitions


def decode(folder: Path, columns: tuple[str, ...]) -> int:
    """All rows as record batches of these columns; returns how many."""
    schema = pa.schema([EVENTS_SCHEMA.field(name) for name in columns])
    place = FolderPlace(folder)
    snapshot = place.snapshot()
    cut = plan(place, snapshot, 1, snapshot.durable_through, MOST_PARTITION_RECORDS)
    return sum(batch.num_rows for piece in cut for batch in read_events(piece, schema))


def touch(folder: Path) -> int:
    """The record arrays in chunks, one field of each looked at; returns how many records."""
    reader = LedgerReader(folder)
    records = 0
    for segment in reader.segments:
        for chunk in open_segment(folder, segment).chunks(segment.first_position, segment.last_position):
            records += chunk.record_count + 0 * int(chunk.transitions["position"].max(initial=0))
    return records


def measure(work: Callable[[], int], rounds: int) -> tuple[float, float]:
    """Median events per second of processor time and of wall time."""
    work()
    by_cpu, by_wall = [], []
    for _ in range(rounds):
        cpu, wall = time.process_time(), time.perf_counter()
        events = work()
        by_cpu.append(events / (time.process_time() - cpu))
        by_wall.append(events / (time.perf_counter() - wall))
    return statistics.median(by_cpu), statistics.median(by_wall)


def main() -> None:
    """Build, measure, print."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("--messages", type=int, default=1_000_000)
    command.add_argument("--rounds", type=int, default=5)
    command.add_argument("--quick", action="store_true", help="100,000 messages, 3 rounds")
    command.add_argument("--json", action="store_true", help="one flat JSON object as the last line")
    options = command.parse_args()
    messages, rounds = (100_000, 3) if options.quick else (options.messages, options.rounds)
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        events = write_ledger(folder, messages)
        size = (folder / events_name(2)).stat().st_size
        print(f"{events:,} events, {size:,} bytes, one process, median of {rounds}")
        print(f"{'decode .events to Arrow':<34}{'M events/s of CPU':>20}{'of wall time':>16}")
        measured: dict[str, int] = {"decode_events": events}
        for name, key, work in _works(folder):
            cpu, wall = measure(work, rounds)
            print(f"{name:<34}{cpu / 1e6:>20.1f}{wall / 1e6:>16.1f}", flush=True)
            measured[f"{key}_events_per_cpu_s"], measured[f"{key}_events_per_s"] = round(cpu), round(wall)
    if options.json:
        print(json.dumps(measured))


def _works(folder: Path) -> list[tuple[str, str, Callable[[], int]]]:
    """(name for people, name in JSON, what to do)."""
    every = tuple(EVENTS_SCHEMA.names)
    return [
        (f"all {len(every)} columns", "decode_all_columns", lambda: decode(folder, every)),
        (
            f"{len(TEN_COLUMNS)} columns with message id",
            "decode_ten_columns",
            lambda: decode(folder, TEN_COLUMNS),
        ),
        ("record arrays only", "record_arrays", lambda: touch(folder)),
    ]


if __name__ == "__main__":
    main()
