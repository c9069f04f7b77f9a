"""Ledgers whose oldest history is gone."""

from pathlib import Path

from postroom.ledger.format.entry_records import EntryEvent
from postroom.ledger.format.records import RecordType
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.model.codes import Event, HolderKind, Outcome, State
from tests.ledger.entry_records import arrival_of

NOW_US = 1_790_000_000_000_000


SMALL = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=0, carry_below=1.0)


BODY = b"b" * 500


def put(ledger: Ledger, message_id: bytes) -> int:
    arrival = arrival_of(1, BODY, body_crc=0, message_id=message_id, message_id_type=1)
    return ledger.builder.arrival(arrival)


def commit(ledger: Ledger) -> None:
    ledger.submit()
    ledger.wait()


def event(
    ledger: Ledger, serial: int, event: int, before: int, after: int, outcome: int, counts: int
) -> None:
    record = EntryEvent(event, before, after, HolderKind.CONSUMER, outcome)
    record.count(counts, counts)
    ledger.builder.entry_event(serial, 1, 9, record)


def write(ledger: Ledger, first: int, last: int, alive: list[int]) -> None:
    """Messages that are consumed at once; every hundredth stays, the very first was given back as failed."""
    for number in range(first, last):
        serial = put(ledger, b"id-%d" % number)
        if number % 100 == 0:
            alive.append(serial)
        else:
            event(ledger, serial, Event.ACQUIRE, State.AVAILABLE, State.GET_UNCONFIRMED, 0, 0)
            event(ledger, serial, Event.CONFIRM, State.GET_UNCONFIRMED, State.DELETED, Outcome.CONSUMED, 0)
        if number == 50:
            event(ledger, alive[0], Event.ACQUIRE, State.AVAILABLE, State.GET_UNCONFIRMED, 0, 0)
            event(ledger, alive[0], Event.FAIL, State.GET_UNCONFIRMED, State.AVAILABLE, 0, 1)
        commit(ledger)
    while ledger.maintenance_step():
        pass


def with_dropped_history(folder: Path, options: LedgerOptions = SMALL) -> list[int]:
    """Writes a ledger that has lost its oldest files; returns the serials alive."""
    ledger = Ledger.open(folder, options, NOW_US, maintenance="manual")
    ledger.builder.record(RecordType.QUEUE_DEFINED, 0, 1, 0, 0, 0, b'{"name": "orders"}')
    alive: list[int] = []
    for step in range(3):
        write(ledger, 300 * step, 300 * (step + 1), alive)
    ledger.close()
    return alive
