"""Puts in a ledger that its readers look at."""

from postroom.ledger.ledger import Ledger
from postroom.model.codes import Event, State

NOW_US = 1_790_000_000_000_000


def put(ledger: Ledger) -> None:
    """A message of 100 bytes on queue 1."""
    head = (1, State.AVAILABLE, Event.PUT, 0, 0, 0, 4, 1, 0, 0, 0, 0, 0)
    ledger.builder.arrival(*head, b"b" * 100, 0, b"id", 1, b"", 0, b"", 0)
