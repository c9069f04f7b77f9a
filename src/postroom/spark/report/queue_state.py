"""What was on a queue at a time, from the tables entries and events: read with Arrow, without Spark."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from postroom.spark.store.protocol import TableError
from postroom.spark.store.reader import Reader

COLUMNS: Final = (
    "ledger_id", "serial", "queue_id", "queue", "message_id", "state", "delay_causes", "due", "holder_kind",
    "holder", "arrival_time", "last_event_time", "ended_time", "delivery_count", "priority", "body_bytes",
    "is_carried",
)  # fmt: skip
EVENT_COLUMNS: Final = (
    "ledger_id", "serial", "queue_id", "position", "ordinal", "time", "to_state", "causes", "due",
    "holder_kind", "holder", "delivery_delta",
)  # fmt: skip

Row = dict[str, Any]
Key = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Held:
    """An entry as it was on the queue at the time asked for."""

    ledger_id: str
    serial: int
    queue_id: int
    message_id: str | None
    state: str
    since: datetime | None
    """When it came to that state; None if that is older than the history."""
    arrival: datetime | None
    why: str
    """Who holds it, or what delays it."""
    due: datetime | None
    deliveries: int
    priority: int | None
    body_bytes: int | None


class HistoryShort(TableError):
    """The tables don't reach back to the time asked for."""


def state_of_queue(root: str, queue: str, as_of: datetime | None = None) -> list[Held]:
    """What is on a queue, in the order of arrival; or was at a time (aware). Empty if nothing was, or no such
    queue is known. Raises ``TableError``, ``OSError``."""
    reader = Reader(root)
    if reader.snapshot("entries") is None:
        raise TableError(f"there is no table entries in {root}: postroom pipeline run makes it")
    rows = [row for piece in _entries(reader, as_of) for row in _there(piece, queue, as_of)]
    found = [_held(row) for row in rows]
    if as_of is not None:
        changed = {_key(row) for row in rows if (row["last_event_time"] or as_of) > as_of}
        found = _as_they_were(reader, found, changed, as_of)
    return sorted(found, key=lambda one: (one.ledger_id, one.serial))


def _entries(reader: Reader, as_of: datetime | None) -> Iterator[pa.Table]:
    """Entries that were not at their end before that time; without one, those that aren't now."""
    yield from reader.partial("entries", COLUMNS)
    if as_of is not None:
        yield from reader.final("entries", COLUMNS, since_day=as_of.strftime("%Y-%m-%d"))


def _there(piece: pa.Table, queue: str, as_of: datetime | None) -> list[Row]:
    rows = piece.filter(pc.equal(piece["queue"], queue))
    if as_of is None:
        return list(rows.filter(pc.not_equal(rows["state"], "deleted")).to_pylist())
    time = pa.scalar(as_of, rows["arrival_time"].type)
    came = pc.or_kleene(pc.less_equal(rows["arrival_time"], time), pc.is_null(rows["arrival_time"]))
    stayed = pc.or_kleene(pc.greater(rows["ended_time"], time), pc.is_null(rows["ended_time"]))
    return list(rows.filter(pc.and_(came, stayed)).to_pylist())


def _held(row: Row) -> Held:
    """As the entry is now."""
    return Held(
        ledger_id=row["ledger_id"],
        serial=row["serial"],
        queue_id=row["queue_id"],
        message_id=row["message_id"],
        state=row["state"],
        since=row["last_event_time"],
        arrival=row["arrival_time"],
        why=_why(row["state"], row["delay_causes"], row["holder_kind"], row["holder"]),
        due=row["due"],
        deliveries=row["delivery_count"],
        priority=row["priority"],
        body_bytes=row["body_bytes"],
    )


def _why(state: str, causes: str | None, holder_kind: str | None, holder: str | None) -> str:
    if state == "delayed":
        return (causes or "").replace("_", " ")
    return " ".join(part for part in ((holder_kind or "").replace("_", " "), holder) if part)


def _key(row: Row) -> Key:
    return (row["ledger_id"], row["serial"], row["queue_id"])


# --- as it was ------------------------------------------------------------------------------------


def _as_they_were(reader: Reader, found: list[Held], changed: set[Key], as_of: datetime) -> list[Held]:
    """Those that something happened to later, as their events until then left them."""
    if not changed:
        return found
    if reader.snapshot("events") is None:
        raise HistoryShort("what was is in the table events, which isn't kept here: leave --as-of out")
    serials = {serial for _, serial, _ in changed}
    events = reader.newest("events", EVENT_COLUMNS, min(serials), reader.rows("events"))
    last, deliveries = _until(events, serials, as_of)
    missing = changed - last.keys()
    if missing:
        ledger, serial, _ = min(missing)
        raise HistoryShort(
            f"the table events doesn't reach back to {as_of.isoformat()}: it has nothing of serial {serial}"
            f" of ledger {ledger} before that"
        )
    return [
        replace(
            one,
            state=row["to_state"],
            since=row["time"],
            why=_why(row["to_state"], row["causes"], row["holder_kind"], row["holder"]),
            due=row["due"] if row["to_state"] == "delayed" else None,
            deliveries=deliveries[key],
        )
        if (key := (one.ledger_id, one.serial, one.queue_id)) in changed and (row := last[key])
        else one
        for one in found
    ]


def _until(
    pieces: Iterable[pa.Table], serials: set[int], as_of: datetime
) -> tuple[dict[Key, Row], dict[Key, int]]:
    """By entry: the last event until a time, and how often it had come back by then."""
    last: dict[Key, Row] = {}
    deliveries: dict[Key, int] = {}
    wanted = pa.array(sorted(serials), pa.int64())
    for piece in pieces:
        these = pc.and_(
            pc.is_in(piece["serial"], wanted),
            pc.less_equal(piece["time"], pa.scalar(as_of, piece["time"].type)),
        )
        for row in piece.filter(these).to_pylist():
            key = _key(row)
            deliveries[key] = deliveries.get(key, 0) + row["delivery_delta"]
            if key not in last or (last[key]["position"], last[key]["ordinal"]) < (
                row["position"],
                row["ordinal"],
            ):
                last[key] = row
    return last, deliveries
