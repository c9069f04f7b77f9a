"""Puts in a ledger that its readers look at."""

from postroom.ledger.ledger import Ledger
from tests.ledger.entry_records import arrival_of

NOW_US = 1_790_000_000_000_000


def put(ledger: Ledger) -> None:
    """A message of 100 bytes on queue 1."""
    arrival = arrival_of(1, b"b" * 100, body_crc=0, message_id=b"id", message_id_type=1)
    ledger.builder.arrival(arrival)
