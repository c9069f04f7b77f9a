"""The ledgers that a run reads: looks at them, and how far a position is behind a look."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.places.place import Seen, Snapshot, snapshots_of
from postroom.spark.places.slices import plan
from postroom.spark.places.uris import Places

NEAR_RECORDS: Final = 1000
"""The time of a position is that of the newest event among so many records up to it."""


@dataclass(frozen=True, slots=True)
class Lag:
    """What a table lacks of a ledger."""

    events: int
    """Records."""
    seconds: float
    """How much newer the ledger's newest record is than the table's; 0 if it has all."""
    size_bytes: int
    """What reading the rest costs, about."""


def snapshots_at(uris: Iterable[str], token: str) -> dict[str, Seen]:
    """By ledger id. Raises ``LedgerError``, ``OSError``."""
    return snapshots_of(Places(uris, token).now())


def check_all(uris: Iterable[str], token: str) -> None:
    """Whether the ledgers are whole. Raises ``LedgerError``, ``OSError``."""
    for place in Places(uris, token).now():
        place.check()


def lag_of(snapshot: Snapshot, position: int, time_us: int) -> Lag:
    """How far a table that reaches `position`, recorded at `time_us`, is behind."""
    missing = max(0, snapshot.durable_through - position)
    if not missing:
        return Lag(0, 0.0, 0)
    behind_us = snapshot.last_time_us - (time_us or snapshot.segments[0].first_time_us)
    size_bytes = 0
    for segment in snapshot.segments:
        left = segment.last_position - max(position, segment.first_position - 1)
        if left > 0:
            size_bytes += segment.records_bytes * left // segment.record_count
    return Lag(missing, max(0.0, behind_us / 1e6), size_bytes)


def time_at(seen: Seen, position: int) -> int:
    """When the record at a position was written, µs since 1970; 0 where that can't be told."""
    if position < seen.snapshot.first_position:
        return 0
    first = max(seen.snapshot.first_position, position - NEAR_RECORDS)
    slices = plan(seen.place, seen.snapshot, first, position, NEAR_RECORDS)
    schema = pa.schema([pa.field("time", pa.timestamp("us", tz="UTC"))])
    batches = (batch for slice in slices for batch in read_events(slice, schema))
    newest = (pc.max(batch.column(0)).cast(pa.int64()).as_py() for batch in batches)
    return max((time for time in newest if time is not None), default=0)
