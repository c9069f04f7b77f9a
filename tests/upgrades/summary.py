"""What a ledger comes to when it is opened: recorded beside the fixtures, and asked of every later version.

Only what the recording says is compared, so a later version may know more.
"""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.segments import folder_of
from postroom.ledger.recovery.recovered import Recovered
from postroom.ledger.recovery.recovery import inspect
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.manager import QueueManager
from postroom.model.codes import DelayCause, HolderKind, Outcome, State
from tests.manager.recount import entries_of

OPTIONS: Final = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0)
DIGEST_CHARS: Final = 16

Summary = dict[str, Any]


def summary_of(folder: Path) -> Summary:
    """Opens the ledger as a broker does at its start, at the time of its last record, and closes it."""
    with folder_of(folder) as disk:
        now_us = inspect(disk).state.time_us
    ledger = Ledger.open(folder, OPTIONS, now_us, maintenance="manual")
    try:
        summary = _recovered(ledger.recovered)
        manager = QueueManager(ManagerOptions(), ledger.builder)
        manager.restore(ledger.recovered, now_us)
        ledger.flush()
        summary["leases"] = [[lease.name, lease.position, lease.reason] for lease in ledger.leases.all()]
        nodes = [
            *destinations_of(manager.core).queues.values(),
            *destinations_of(manager.core).topics.values(),
        ]
        summary["queues"] = {node.name: _queue(ledger, node) for node in nodes}
    finally:
        ledger.close()
    found: Summary = json.loads(json.dumps(summary, sort_keys=True))
    return found


def _recovered(found: Recovered) -> Summary:
    """What the broker is told at its start."""
    return {
        "next_position": found.next_position,
        "holders": [[HolderKind(row.holder_kind).name, row.holder, row.detail] for row in found.holders],
        "producers": found.producers,
        "channels": found.channels,
        "channel_states": found.channel_states,
        "sinks": found.sinks,
        "spark_subscriptions": found.spark_subscriptions,
        "annotations": found.annotations,
        "lost": [[queue, State(state).name, len(serials)] for queue, state, serials in found.lost],
        "duplicates": [[queue, [serial for serial, _ in taken]] for queue, taken in found.duplicates],
        "routing_sets": found.routing_sets,
        "totals": [[row.queue, row.arrived, row.arrived_bytes, _ended(row.ended)] for row in found.totals],
    }


def _ended(counts: list[int]) -> dict[str, int]:
    return {Outcome(code).name: count for code, count in enumerate(counts) if count}


def _queue(ledger: Ledger, queue: Destination) -> Summary:
    """A queue after the start: who holds what, and the bodies."""
    entries = sorted(entries_of(queue), key=lambda entry: int(entry.serial))
    bodies = ledger.read_bodies([(e.body_serial, e.body_offset, e.body_len) for e in entries])  # type: ignore[misc]
    return {
        "definition": queue.definition.to_record(),
        "entries": len(entries),
        "states": Counter(State(e.state).name for e in entries),
        "holders": Counter(HolderKind(e.holder_kind).name for e in entries),
        "waiting_for": Counter(str(DelayCause(e.causes)) for e in entries if e.causes),
        "entries_digest": _digest(json.dumps([_row(entry) for entry in entries]).encode()),
        "bodies_digest": _digest(b"".join(body if isinstance(body, bytes) else b"?" for body in bodies)),
    }


def _row(entry: Entry) -> list[Any]:
    counts = (entry.delivery_count, entry.failure_count, entry.expiry_us, entry.due_us)
    numbers = (entry.serial, entry.causes, entry.priority, entry.place, entry.ordinal, *counts)
    return [State(entry.state).name, HolderKind(entry.holder_kind).name, *map(int, numbers)]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGEST_CHARS]


def differences(recorded: Any, now: Any, where: str = "") -> list[str]:
    """What was recorded and is not so; what is beyond the recording doesn't count."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        return [
            text
            for key, value in recorded.items()
            for text in (
                differences(value, now[key], f"{where}.{key}") if key in now else [f"{where}.{key} is gone"]
            )
        ]
    if isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        pairs = enumerate(zip(recorded, now, strict=True))
        return [text for at, (one, other) in pairs for text in differences(one, other, f"{where}[{at}]")]
    return [] if recorded == now else [f"{where} was {recorded!r}, is {now!r}"]
