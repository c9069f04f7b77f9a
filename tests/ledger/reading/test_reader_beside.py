"""Reading beside the ledger that writes: what is seen is dense, durable, and only ever more."""

from pathlib import Path

from postroom.ledger.format.records import RecordType
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.verification.verification import verify
from tests.ledger.puts import NOW_US, put

COMMITS = 400


def _positions(reader: LedgerReader) -> list[int]:
    return sorted(
        position
        for _, _, chunk in reader.chunks()
        for records in (chunk.arrivals, chunk.transitions)
        for position in records["position"].tolist()
    )


def test_every_look_sees_a_dense_prefix_while_files_are_sealed_and_dropped(tmp_path: Path) -> None:
    options = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=200_000)
    ledger = Ledger.open(tmp_path, options, NOW_US)
    ledger.builder.record(RecordType.QUEUE_DEFINED, 0, 1, 0, 0, 0, b'{"name": "q"}')
    durable = seen = 0
    for number in range(COMMITS):
        for _ in range(5):
            put(ledger)
        ledger.submit()
        durable = ledger.wait()
        if number % 20 == 0:
            reader = LedgerReader(tmp_path)
            assert seen <= reader.durable_through <= durable
            assert _positions(reader) == list(range(reader.first_position, reader.durable_through + 1))
            seen = reader.durable_through
    ledger.close()
    last = LedgerReader(tmp_path)
    assert last.durable_through >= durable
    assert len(last.segments) > 3
    assert verify(tmp_path).is_whole
