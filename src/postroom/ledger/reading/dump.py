"""A ledger line by line, for people and scripts: each record spelled out into the entries that it changes.

Filters are applied to the arrays, so that looking for one message in a large ledger stays fast; only what is
shown is turned into Python values.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import numpy as np

from postroom.ledger.format.expand import Chunk, Rows, expand
from postroom.ledger.format.layout import Array
from postroom.ledger.format.records import ArrivalFlag, RecordType
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.reader import LedgerReader
from postroom.model.codes import DelayCause, Event, HolderKind, IdType, Outcome, State

ROW_TYPES: Final = (RecordType.ENTRY_EVENT, RecordType.GROUP_EVENT, RecordType.DECISION)
"""Records that are shown as the entries they change."""

_FIRST_S: Final = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LAST_S: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()

Line = dict[str, Any]
"""One row or record: position and time first; only fields that say something."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What to show: a range of positions, both included; one queue by name; certain messages by their
    serials."""

    first: int | None = None
    last: int | None = None
    queue: str | None = None
    serials: frozenset[int] | None = None

    @property
    def is_about_entries(self) -> bool:
        """Whether records that change no entry (definitions, epochs) are left out."""
        return self.queue is not None or self.serials is not None


def dump(folder: Path, wanted: Filter, beyond_durable: bool = False) -> Iterator[Line]:
    """The lines that a filter lets through, in order. Raises ``NoLedger``, ``LedgerCorrupt``."""
    reader = LedgerReader(folder, beyond_durable)
    known: Definitions | None = None
    number = -1
    for segment, source, chunk in reader.chunks(wanted.first, wanted.last):
        if segment.number != number or known is None:
            known, number = source.definitions(segment.last_position), segment.number
        yield from chunk_lines(chunk, known, wanted)


def chunk_lines(chunk: Chunk, known: Definitions, wanted: Filter) -> list[Line]:
    """The lines of some records that a filter lets through, in order."""
    lines: list[tuple[int, int, Line]] = []
    if wanted.serials is not None:
        chunk = _about(chunk, np.array(sorted(wanted.serials), np.uint64))
    for rows in expand(chunk, known.routing_sets):
        for index in np.flatnonzero(_mask(rows, known, wanted)).tolist():
            lines.append(
                (int(rows["position"][index]), int(rows.ordinal[index]), _row_line(rows, index, known))
            )
    if not wanted.is_about_entries:
        others = chunk.transitions[~np.isin(chunk.transitions["type"], ROW_TYPES)]
        lines += [(int(record["position"]), 0, _record_line(record, chunk, known)) for record in others]
    return [line for _, _, line in sorted(lines, key=lambda one: one[:2])]


def _about(chunk: Chunk, serials: Array) -> Chunk:
    """What may be about certain messages: less to spell out."""
    kinds = chunk.transitions["type"]
    theirs = (kinds != RecordType.ENTRY_EVENT) | np.isin(chunk.transitions["serial"], serials)
    arrivals = chunk.arrivals[np.isin(chunk.arrivals["position"], serials)]
    return Chunk(arrivals, chunk.transitions[theirs], chunk.names)


def _mask(rows: Rows, known: Definitions, wanted: Filter) -> Array:
    mask = np.ones(len(rows), bool)
    if wanted.serials is not None:
        mask &= np.isin(rows["serial"], np.array(sorted(wanted.serials), np.uint64))
    if wanted.queue is not None:
        mask &= np.isin(
            rows["queue"], [number for number, name in known.queue_names.items() if name == wanted.queue]
        )
    return mask


def _row_line(rows: Rows, index: int, known: Definitions) -> Line:
    def value(name: str) -> int:
        return int(rows[name][index])

    line: Line = {
        "position": value("position"),
        "time": iso(value("time_us")),
        "event": name_of(Event, value("event")),
        "serial": value("serial"),
        "queue": known.queue_names.get(value("queue"), f"#{value('queue')}"),
        "from": name_of(State, value("from_state")),
        "to": name_of(State, value("to_state")),
        "ordinal": int(rows.ordinal[index]),
        "outcome": name_of(Outcome, value("outcome")) if value("outcome") else None,
        "causes": _flags(DelayCause, value("causes")),
        "holder_kind": name_of(HolderKind, value("holder_kind")) if value("holder_kind") else None,
        "holder": value("holder") or None,
        "holder_name": known.holder_names.get(value("holder")),
        "user": known.holder_users.get(value("holder")),
        "due": iso(value("due_us")) if value("due_us") else None,
        "delivery_delta": value("delivery_delta") or None,
        "failure_delta": value("failure_delta") or None,
    }
    if rows.arrivals is not None:
        line |= _arrival_fields(rows.arrivals[index], rows.names, known)
    if rows.transitions is not None and rows.transitions["detail_len"][index]:
        line["detail"] = json_or_hex(heap_piece(rows.names, rows.transitions[index], "detail"))
    return {
        name: content
        for name, content in line.items()
        if content not in (None, "") and (name, content) != ("ordinal", 0)
    }


def _arrival_fields(arrival: Any, names: Array, known: Definitions) -> Line:
    def piece(field: str) -> bytes:
        return heap_piece(names, arrival, field)

    producer = int(arrival["producer"])
    return {
        "message_id": id_text(piece("message_id"), int(arrival["message_id_type"])),
        "correlation_id": id_text(piece("correlation_id"), int(arrival["correlation_id_type"])),
        "group_id": piece("group_id").decode("utf-8", "replace"),
        "priority": int(arrival["priority"]),
        "flags": _flags(ArrivalFlag, int(arrival["flags"])),
        "body_bytes": int(arrival["body_len"]),
        "producer": known.producer_names.get(producer, f"#{producer}") if producer else None,
        "user": known.producer_users.get(producer),
        "expiry": iso(int(arrival["expiry_us"])) if arrival["expiry_us"] else None,
        **_origin_fields(arrival, known),
    }


def _origin_fields(arrival: Any, known: Definitions) -> Line:
    """What it was made of here, or where it came from through a channel."""
    serial, number = int(arrival["parent_serial"]), int(arrival["parent_queue"])
    if not arrival["flags"] & ArrivalFlag.RECEIVED:
        return {"parent": serial or None, "parent_queue": known.queue_names.get(number)}
    channel, ledger = known.receiving_channels.get(int(arrival["producer"]), ("", ""))
    return {
        "channel": channel,
        "origin_ledger": ledger,
        "origin_serial": serial or None,
        "sequence": number or None,
    }


def _record_line(record: Any, chunk: Chunk, known: Definitions) -> Line:
    """A record that changes no entry."""
    kind = int(record["type"])
    line: Line = {
        "position": int(record["position"]),
        "time": iso(int(record["time_us"])),
        "record": name_of(RecordType, kind),
        "queue": known.queue_names.get(int(record["queue"]), f"#{record['queue']}")
        if record["queue"]
        else None,
        "id": int(record["holder"]) or None,
        "holder_kind": name_of(HolderKind, int(record["holder_kind"])) if record["holder_kind"] else None,
        "serial": int(record["serial"]) or None,
        "detail": _detail(record, kind, chunk, known),
    }
    return {name: content for name, content in line.items() if content is not None}


def _detail(record: Any, kind: int, chunk: Chunk, known: Definitions) -> Any:
    if record["detail_len"] == 0:
        return None
    if kind == RecordType.BODY_CHUNK:
        return {"bytes": int(record["detail_len"])}
    raw = heap_piece(chunk.names, record, "detail")
    if kind == RecordType.ROUTING_SET_DEFINED:
        return [known.queue_names.get(int(number), f"#{number}") for number in np.frombuffer(raw, "<u4")]
    return json_or_hex(raw)


def json_or_hex(raw: bytes) -> Any:
    """A detail: the JSON that it is, or else its bytes in hex."""
    try:
        return json.loads(raw)
    except ValueError:
        return raw.hex()


def heap_piece(names: Array, record: Any, field: str) -> bytes:
    """What a record's ``field_offset`` and ``field_len`` point at."""
    at, length = int(record[f"{field}_offset"]), int(record[f"{field}_len"])
    return names[at : at + length].tobytes()


# --- values as people read them -------------------------------------------------------------------


def iso(time_us: int) -> str:
    """A time in UTC, to the microsecond; the first or last that has four digits for the year where a message
    says that it expires still farther away."""
    time_s = min(max(time_us / 1e6, _FIRST_S), _LAST_S)
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def name_of(codes: type[Any], value: int) -> str:
    """A code's name; the number where this version knows none."""
    try:
        return str(codes(value).name).lower()
    except ValueError:
        return str(value)


def _flags(flags: type[Any], value: int) -> str | None:
    return "+".join(flag.name.lower() for flag in flags if flag and value & flag) or None


def id_text(raw: bytes, kind: int) -> str | None:
    """A message or correlation id: strings as they are, UUIDs canonical, numbers decimal, binary as hex."""
    if kind == IdType.STRING:
        return raw.decode("utf-8", "replace")
    if kind == IdType.UUID and len(raw) == 16:
        return str(UUID(bytes=raw))
    if kind == IdType.ULONG:
        return str(int.from_bytes(raw, "big"))
    return raw.hex() or None
