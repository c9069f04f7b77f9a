"""Real ledgers in several files for tests of where they are read, without a broker."""

import json
from pathlib import Path

import pyarrow as pa

from postroom.ledger.format.entry_records import EntryEvent
from postroom.ledger.format.records import RecordType
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.model.codes import Event, HolderKind, Outcome, State
from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.places.place import Place
from postroom.spark.places.slices import plan
from tests.ledger.entry_records import arrival_of

NOW_US = 1_790_000_000_000_000
BODY = b"a body that nobody may see" * 20
SMALL_FILES = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0)
FORGETFUL = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=0, carry_below=1.0)
"""Its history is dropped as soon as a checkpoint allows."""


class Writer:
    """Writes to a ledger in a folder: messages are put, and consumed but for every hundredth."""

    def __init__(self, folder: Path, options: LedgerOptions = SMALL_FILES, now_us: int = NOW_US) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.ledger = Ledger.open(folder, options, now_us, maintenance="manual")
        self.now_us = now_us
        self.alive: list[int] = []
        self._number = 0
        if self.ledger.builder.next_position <= 2:
            self._record(RecordType.QUEUE_DEFINED, 1, 0, {"name": "orders"})
            self._record(
                RecordType.PRODUCER_OPENED, 0, 7, {"name": "sender", "container": "shop", "user": "ann"}
            )

    def _record(self, kind: int, queue: int, holder: int, detail: dict[str, str]) -> None:
        self.ledger.builder.record(kind, 0, queue, holder, 0, 0, json.dumps(detail).encode())

    def write(self, messages: int, step_us: int = 1000) -> None:
        """So many messages, each with its block; then what maintenance there is."""
        for _ in range(messages):
            self._one()
            self.now_us += step_us
        self.settle()

    def _one(self) -> None:
        builder = self.ledger.builder
        builder.set_time(self.now_us)
        id = b"id-%06d" % self._number
        put = arrival_of(1, BODY, body_crc=0, producer=7, message_id=id, message_id_type=1)
        serial = builder.arrival(put)
        if self._number % 100:
            self._event(serial, Event.ACQUIRE, State.AVAILABLE, State.GET_UNCONFIRMED, 0)
            self._event(serial, Event.CONFIRM, State.GET_UNCONFIRMED, State.DELETED, Outcome.CONSUMED)
        else:
            self.alive.append(serial)
        self._number += 1
        self.ledger.submit()
        self.ledger.wait()

    def _event(self, serial: int, event: int, before: int, after: int, outcome: int) -> None:
        record = EntryEvent(event, before, after, HolderKind.CONSUMER, outcome)
        self.ledger.builder.entry_event(serial, 1, 9, record)

    def settle(self) -> None:
        """Seal, checkpoint, drop what may go; and say that all is durable."""
        while self.ledger.maintenance_step():
            pass
        self.ledger.mark_idle()
        self.ledger.wait()

    def close(self) -> None:
        self.ledger.close()


def rows_of(place: Place, first: int = 1, last: int = 1 << 62, records: int = 1 << 20) -> pa.Table:
    """The events of a range as a place gives them, in order."""
    snapshot = place.snapshot()
    batches = [batch for slice in plan(place, snapshot, first, last, records) for batch in read_events(slice)]
    return pa.Table.from_batches(batches).sort_by([("position", "ascending"), ("ordinal", "ascending")])
