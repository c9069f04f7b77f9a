"""The audit between ledgers once more, in plain Python: what every ledger says of every message.

Independent of Spark and of the queue manager: it reads the files that a run has left behind.
"""

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postroom.ledger.format.records import ArrivalFlag
from postroom.ledger.reading.reader import LedgerReader
from postroom.model.codes import HolderKind, Outcome, State
from tests.simulation.disk import SimDisk
from tests.simulation.oracle import Broken

Key = tuple[str, int]
"""Ledger and serial."""

GONE = (Outcome.FORWARDED, Outcome.LOST, Outcome.DISCARDED)
"""Outcomes after which a message is nowhere, unless it has arrived elsewhere."""


@dataclass
class Entry:
    """Where a message stands on a queue."""

    id: int
    flags: int
    origin: Key | None
    state: int
    outcome: int = 0
    holder_kind: int = 0

    @property
    def durable(self) -> bool:
        return bool(self.flags & ArrivalFlag.DURABLE)


class Audit:
    """What the ledgers of all queue managers say."""

    def __init__(self, disks: dict[str, SimDisk]) -> None:
        self.entries: dict[str, dict[tuple[int, int], Entry]] = {}
        for disk in disks.values():
            with tempfile.TemporaryDirectory(prefix="postroom-audit-") as folder:
                ledger = _written(disk, Path(folder))
                self.entries[ledger.ledger_id.hex] = _fold(ledger)

    def check(self) -> None:
        """Every persistent message that was forwarded arrived once; what arrived had been forwarded."""
        arrivals = Counter(key for key in self._origins())
        for ledger, entries in self.entries.items():
            for (serial, _), entry in entries.items():
                came = arrivals.pop((ledger, serial), 0)
                self._check(entry, f"message {entry.id} (serial {serial})", came)
        if arrivals:
            raise Broken(f"arrivals of messages that their senders don't know: {dict(arrivals)}")

    def _check(self, entry: Entry, name: str, came: int) -> None:
        if came > 1:
            raise Broken(f"{name} was received {came} times")
        if entry.outcome == Outcome.FORWARDED:
            if entry.durable and not came:
                raise Broken(f"{name} was forwarded and never received")
        elif came and entry.durable:
            raise Broken(f"{name} was received, and its sender says {State(entry.state).name}")
        if entry.holder_kind == HolderKind.CHANNEL_BATCH:
            raise Broken(f"{name} is still in doubt")

    def _origins(self) -> list[Key]:
        """Of every message that came through a channel and stayed; an arrival in a batch that was rolled back
        is none, and one counts once, whatever its queues."""
        found: dict[tuple[str, int], Key] = {}
        for ledger, entries in self.entries.items():
            for (serial, _), entry in entries.items():
                if entry.origin is not None and entry.outcome != Outcome.ROLLED_BACK:
                    found[ledger, serial] = entry.origin
        return list(found.values())

    def lost(self) -> set[int]:
        """Ids of messages, not persistent, that were forwarded and never came, were dropped, or were lost
        in a crash and had not come by then."""
        came = set(self._origins())
        lost = set()
        for ledger, entries in self.entries.items():
            for (serial, _), entry in entries.items():
                if not entry.durable and entry.outcome in GONE and (ledger, serial) not in came:
                    lost.add(entry.id)
        return lost


def _written(disk: SimDisk, folder: Path) -> LedgerReader:
    return LedgerReader(disk.write_out(folder), beyond_durable=True)


def _fold(ledger: LedgerReader) -> dict[tuple[int, int], Entry]:
    """By serial and queue id."""
    senders: dict[int, str] = {}
    for segment in ledger.segments:
        known = ledger.open(segment).definitions(segment.last_position)
        senders.update({number: sender for number, (_, sender) in known.receiving_channels.items()})
    steps: list[tuple[int, int, Any]] = []
    for rows in ledger.rows():
        steps.extend((int(rows["position"][n]), int(rows.ordinal[n]), (rows, n)) for n in range(len(rows)))
    found: dict[tuple[int, int], Entry] = {}
    for _, _, (rows, n) in sorted(steps, key=lambda step: step[:2]):
        key = int(rows["serial"][n]), int(rows["queue"][n])
        if rows.arrivals is not None:
            found[key] = _arrival(rows, n, senders)
        entry = found[key]
        entry.state, entry.outcome = int(rows["to_state"][n]), int(rows["outcome"][n])
        entry.holder_kind = int(rows["holder_kind"][n]) if entry.state != State.DELETED else 0
    return found


def _arrival(rows: Any, n: int, senders: dict[int, str]) -> Entry:
    record = rows.arrivals[n]
    flags = int(record["flags"])
    origin = None
    if flags & ArrivalFlag.RECEIVED:
        origin = senders[int(record["producer"])], int(record["parent_serial"])
    # a report has an id of its own, and that of the message that it returns as correlation id
    id = _number(rows, record, "message_id") or _number(rows, record, "correlation_id")
    return Entry(id, flags, origin, State.START)


def _number(rows: Any, record: Any, field: str) -> int:
    """An id that is one of ours; 0 for another."""
    at, length = int(record[f"{field}_offset"]), int(record[f"{field}_len"])
    text = rows.names[at : at + length].tobytes().decode(errors="replace")
    return int(text) if text.isdecimal() else 0
