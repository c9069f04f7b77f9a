"""A checkpoint file: a fold's state, written whole and checked whole. See ``FORMAT.md``, "Checkpoint"."""

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from isal.isal_zlib import crc32

from postroom.ledger.errors import LedgerCorrupt, UnknownFormat, UnknownRecord
from postroom.ledger.fold.duplicates import DUPLICATE_DTYPE
from postroom.ledger.fold.known_records import unknown_definition
from postroom.ledger.fold.retained_bodies import RETAINED_DTYPE
from postroom.ledger.fold.state import FileSpan, FoldState
from postroom.ledger.format.dictionary import decode_dictionary
from postroom.ledger.format.file_names import checkpoint_name
from postroom.ledger.format.headers import crc_matches, header_crc_of, with_crc
from postroom.ledger.format.layout import (
    ARRIVAL_DTYPE,
    CHECKPOINT_HEADER,
    CHECKPOINT_MAGIC,
    CHUNK_DTYPE,
    EXPLICIT_DTYPE,
    PLAIN_DTYPE,
    SECTION_ROW,
    TOTAL_DTYPE,
    TRANSITION_DTYPE,
    Array,
)
from postroom.ledger.format.records import FORMAT_VERSION, RecordType
from postroom.ledger.storage.disk import Bytes, Disk
from postroom.ledger.storage.events_image import EventsImage, write_durably

BITMAP: Final = 0
INDEXES: Final = 1

SECTION_NAMES: Final = (
    "meta",
    "dictionary",
    "details",
    "totals",
    "plain",
    "indexes",
    "explicit",
    "carried",
    "carried_names",
    "chunks",
    "duplicates",
    "retained",
)
"""All that this version knows."""

_INDEX_BITS: Final = 32
_U32: Final = np.dtype("<u4")


def encode_checkpoint(state: FoldState, ledger_id: bytes) -> list[Bytes]:
    """The bytes of a checkpoint file."""
    sections = _sections(state)
    directory, offset = b"", CHECKPOINT_HEADER.size_bytes + SECTION_ROW.size_bytes * len(sections)
    for name, content in sections.items():
        size = memoryview(content).nbytes
        directory += SECTION_ROW.struct.pack(name.encode(), offset, size, crc32(content), 0)
        offset += size
    head = CHECKPOINT_HEADER.struct.pack(
        CHECKPOINT_MAGIC,
        0,
        FORMAT_VERSION,
        state.epoch,
        ledger_id,
        state.position,
        state.time_us,
        state.file_number,
        len(sections),
        b"",
    )
    return [with_crc(head, directory), directory, *sections.values()]


def write_checkpoint(disk: Disk, state: FoldState, ledger_id: bytes) -> tuple[int, int]:
    """Make it durable under its name; returns its size in bytes and its header_crc."""
    parts = encode_checkpoint(state, ledger_id)
    write_durably(disk, checkpoint_name(state.position), parts)
    return sum(memoryview(part).nbytes for part in parts), header_crc_of(bytes(parts[0]))


def checkpoints_recorded(image: EventsImage, where: str) -> dict[int, int]:
    """What a file's records say of checkpoints: header_crc by position. Raises LedgerCorrupt."""
    recorded: dict[int, int] = {}
    for record in image.own_transitions()[image.own_types == RecordType.CHECKPOINT_WRITTEN]:
        start = int(record["detail_offset"])
        detail = bytes(image.names[start : start + int(record["detail_len"])])
        try:
            recorded[int(record["serial"])] = int(json.loads(detail)["header_crc"])
        except (ValueError, KeyError, TypeError):
            reason = f"position {record['position']}: its detail tells of no checkpoint"
            raise LedgerCorrupt(where, 0, reason) from None
    return recorded


def require_past(disk: Disk, position: int, last_position: int) -> None:
    """Whether a checkpoint is of the ledger's past. Raises LedgerCorrupt."""
    if position > last_position:
        reason = f"covers position {position}, but the files end at {last_position}"
        raise LedgerCorrupt(disk.describe(checkpoint_name(position)), 0, reason)


def require_recorded(disk: Disk, position: int, recorded: Mapping[int, int]) -> None:
    """Whether a checkpoint is the one that the ledger recorded, if it did. Raises LedgerCorrupt."""
    name = checkpoint_name(position)
    crc = header_crc_of(disk.open(name).read_at(0, CHECKPOINT_HEADER.size_bytes))
    if recorded.get(position, crc) != crc:
        reason = "it isn't the checkpoint that the ledger recorded as written"
        raise LedgerCorrupt(disk.describe(name), 0, reason)


def _sections(state: FoldState) -> dict[str, Bytes]:
    meta = {
        "next_queue_id": state.next_queue_id,
        "next_holder_id": state.next_holder_id,
        "next_set_id": state.next_set_id,
        "needs": state.needs,
    }
    transitions, details = state.dictionary.encode()
    plain, indexes = _encode_plain(state)
    return {
        "meta": json.dumps(meta).encode(),
        "dictionary": transitions,
        "details": details,
        "totals": _raw(state.totals),
        "plain": _raw(plain),
        "indexes": b"".join(indexes),
        "explicit": _raw(state.explicit),
        "carried": _raw(state.carried),
        "carried_names": state.carried_names,
        "chunks": _raw(state.chunks),
        "duplicates": _raw(state.duplicates),
        "retained": _raw(state.retained),
    }


def _raw(rows: Array) -> memoryview:
    return np.ascontiguousarray(rows).view(np.uint8).data


def _encode_plain(state: FoldState) -> tuple[Array, list[bytes]]:
    rows, payloads, offset = [], [], 0
    for (file_number, queue), indexes in sorted(state.plain.items()):
        encoding, payload = _encode_indexes(indexes)
        rows.append((file_number, queue, encoding, len(indexes), offset, len(payload)))
        payloads.append(payload)
        offset += len(payload)
    return np.array(rows, PLAIN_DTYPE), payloads


def _encode_indexes(indexes: Array) -> tuple[int, bytes]:
    """A bitmap, or the indexes themselves where that is shorter."""
    if len(indexes) * _INDEX_BITS < int(indexes[-1]) + 1:
        return INDEXES, indexes.astype(_U32).tobytes()
    bits = np.zeros(int(indexes[-1]) + 1, np.uint8)
    bits[indexes] = 1
    return BITMAP, np.packbits(bits, bitorder="little").tobytes()


def _decode_indexes(encoding: int, payload: memoryview) -> Array:
    if encoding == INDEXES:
        return np.frombuffer(payload, _U32)
    bits = np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")
    return np.flatnonzero(bits).astype(np.uint32)


def load_checkpoint(disk: Disk, position: int, ledger_id: bytes | None) -> FoldState:
    """Read and check a checkpoint. Raises LedgerCorrupt; `ledger_id` None: any ledger's."""
    name = checkpoint_name(position)
    where = disk.describe(name)
    data = memoryview(disk.open(name).view())
    head = data[: CHECKPOINT_HEADER.size_bytes]
    if len(head) < CHECKPOINT_HEADER.size_bytes:
        raise LedgerCorrupt(where, 0, "the checkpoint is shorter than its header")
    names = (name for name, _ in CHECKPOINT_HEADER.fields)
    fields = dict(zip(names, CHECKPOINT_HEADER.struct.unpack(head), strict=True))
    count = fields["section_count"]
    directory = bytes(data[len(head) : len(head) + count * SECTION_ROW.size_bytes])
    if not crc_matches(bytes(head), directory) or fields["magic"] != CHECKPOINT_MAGIC:
        raise LedgerCorrupt(where, 0, "the checkpoint's header or directory is damaged")
    if fields["version"] != FORMAT_VERSION:
        raise UnknownFormat(where, fields["version"], FORMAT_VERSION)
    if fields["position"] != position:
        raise LedgerCorrupt(where, 0, "the checkpoint is of another position")
    if ledger_id is not None and fields["ledger_id"] != ledger_id:
        raise LedgerCorrupt(where, 0, "the checkpoint belongs to another ledger")
    sections = _load_sections(where, data, directory)
    _require_known(position, sections)
    return _decode_state(fields, sections)


def _require_known(position: int, sections: dict[str, memoryview]) -> None:
    """Raises ``UnknownRecord`` where it says more than this version knows."""
    for name in sections:
        if name not in SECTION_NAMES:
            raise UnknownRecord(position, f"the section {name!r} of its checkpoint")
    definition = unknown_definition(np.frombuffer(sections["dictionary"], TRANSITION_DTYPE))
    if definition is not None:
        raise UnknownRecord(definition.position, definition.what)


def _load_sections(where: str, data: memoryview, directory: bytes) -> dict[str, memoryview]:
    sections = {}
    for name, offset, length, crc, _ in SECTION_ROW.struct.iter_unpack(directory):
        content = data[offset : offset + length]
        text = name.rstrip(b"\0").decode()
        if len(content) != length or crc32(content) != crc:
            raise LedgerCorrupt(where, offset, f"the checkpoint's section {text} is damaged")
        sections[text] = content
    return sections


def _decode_state(fields: dict[str, Any], sections: dict[str, memoryview]) -> FoldState:
    meta = json.loads(bytes(sections["meta"]))
    state = FoldState()
    state.position, state.time_us = fields["position"], fields["time_us"]
    state.epoch, state.file_number = fields["epoch"], fields["file_number"]
    state.next_queue_id, state.next_holder_id = meta["next_queue_id"], meta["next_holder_id"]
    state.next_set_id = meta["next_set_id"]
    state.needs = [FileSpan(*span) for span in meta["needs"]]
    state.dictionary = decode_dictionary(bytes(sections["dictionary"]), bytes(sections["details"]))
    indexes = sections["indexes"]
    for row in np.frombuffer(sections["plain"], PLAIN_DTYPE):
        start = int(row["offset"])
        payload = indexes[start : start + int(row["length"])]
        key = (int(row["file_number"]), int(row["queue"]))
        state.plain[key] = _decode_indexes(int(row["encoding"]), payload)
    state.totals = np.frombuffer(sections["totals"], TOTAL_DTYPE).copy()
    state.explicit = np.frombuffer(sections["explicit"], EXPLICIT_DTYPE)
    state.carried = np.frombuffer(sections["carried"], ARRIVAL_DTYPE)
    state.carried_names = bytes(sections["carried_names"])
    state.chunks = np.frombuffer(sections["chunks"], CHUNK_DTYPE).copy()
    state.duplicates = np.frombuffer(sections["duplicates"], DUPLICATE_DTYPE)
    state.retained = np.frombuffer(sections["retained"], RETAINED_DTYPE)
    return state
