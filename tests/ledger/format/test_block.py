"""The block builder against the declared layouts, over all values of every field."""

from struct import unpack
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.ledger.format.block import (
    CHUNKED_OFFSET,
    MAX_PIECES,
    OWN_PIECE_BYTES,
    ROLL_BYTES,
    BlockBuilder,
    Group,
    SealedParts,
    UploadUnknownError,
    encode_groups,
)
from postroom.ledger.format.headers import (
    FileHeader,
    Identity,
    Seal,
    decode_block_header,
    decode_file_header,
    encode_block,
)
from postroom.ledger.format.layout import ARRIVAL_DTYPE, GROUP_DTYPE, RANGE_DTYPE, TRANSITION_DTYPE
from postroom.ledger.format.records import DEFINING_TYPES, ArrivalFlag, RecordType
from postroom.ledger.storage.disk import MAX_IO_PARTS
from tests.ledger.entry_records import arrival_of, event_of, put, put_chunks

u8, u16 = st.integers(0, 2**8 - 1), st.integers(0, 2**16 - 1)
u32, i63 = st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 1)
names = st.binary(max_size=40)

ARRIVAL_FIELDS = {
    "routing_set": u32, "to_state": u8, "event": u8, "holder_kind": u8, "holder": u32, "causes": u8,
    "priority": u8, "flags": u16, "producer": u32, "expiry_us": i63, "due_us": i63, "creation_us": i63,
    "body": st.none() | st.binary(max_size=60), "body_crc": u32, "message_id": names,
    "message_id_type": u8, "correlation_id": names, "correlation_id_type": u8, "group_id": names,
    "group_sequence": u32, "body_serial": i63, "body_len": u32, "parent_serial": i63, "parent_queue": u32,
    "unique_id": names,
}  # fmt: skip
EVENT_FIELDS = {
    "serial": i63, "queue": u32, "event": u8, "from_state": u8, "to_state": u8, "holder_kind": u8,
    "holder": u32, "outcome": u8, "causes": u8, "due_us": i63, "delivery_delta": u8, "failure_delta": u8,
    "flags": u8,
}  # fmt: skip

WHOSE = ("serial", "queue", "holder")


def taken(builder: BlockBuilder) -> SealedParts:
    parts = builder.take()
    assert parts is not None
    return parts


def heap_of(parts: SealedParts) -> bytes:
    """The bodies heap as it is written."""
    return b"".join(parts.bodies)


def name_of(row: np.void, parts: SealedParts, name: str) -> bytes:
    start, length = int(row[f"{name}_offset"]), int(row[f"{name}_len"])
    return parts.names[start : start + length]


def unique_id_of(row: np.void, parts: SealedParts) -> bytes:
    start = int(row["message_id_offset"]) + int(row["message_id_len"])
    return parts.names[start : start + int(row["unique_id_len"])]


@given(st.lists(st.fixed_dictionaries(ARRIVAL_FIELDS), min_size=1, max_size=4), i63, st.integers(1, 2**62))
def test_arrival_fields_survive(messages: list[dict[str, object]], time_us: int, first: int) -> None:
    builder = BlockBuilder(first, time_us)
    offsets = []
    for message in messages:
        arrival = arrival_of(1, **message)  # type: ignore[arg-type]
        builder.arrival(arrival)
        offsets.append(arrival.body_offset)
    parts = taken(builder)
    rows = np.frombuffer(parts.arrivals, ARRIVAL_DTYPE)
    assert (parts.first_position, parts.last_position) == (first, first + len(messages) - 1)
    for number, (row, message) in enumerate(zip(rows, messages, strict=True)):
        assert int(row["position"]) == first + number and int(row["time_us"]) == time_us
        _check_body(row, message, parts, offsets[number])
        for name in ("message_id", "correlation_id", "group_id"):
            assert name_of(row, parts, name) == message[name]
        assert unique_id_of(row, parts) == message["unique_id"]
        same = ARRIVAL_FIELDS.keys() - {"body", "body_serial", "body_len", "flags"} - NAMES
        assert {name: int(row[name]) for name in same} == {name: message[name] for name in same}


NAMES = {"message_id", "correlation_id", "group_id", "unique_id"}


def _check_body(row: np.void, message: dict[str, object], parts: SealedParts, offset: int) -> None:
    body = message["body"]
    if isinstance(body, bytes):
        assert heap_of(parts)[offset : offset + len(body)] == body
        trailer = heap_of(parts)[offset + len(body) : offset + len(body) + 4]
        assert int.from_bytes(trailer, "little") == message["body_crc"]
        assert int(row["body_len"]) == len(body) and int(row["body_offset"]) == offset
        assert int(row["flags"]) == int(message["flags"]) | ArrivalFlag.BODY_STORED  # type: ignore[call-overload]
    else:
        assert int(row["body_len"]) == message["body_len"]
        assert int(row["flags"]) == message["flags"]
    assert int(row["body_serial"]) == (message["body_serial"] or int(row["position"]))


@given(st.lists(st.fixed_dictionaries(EVENT_FIELDS), min_size=1, max_size=5), names)
def test_event_fields_survive(events: list[dict[str, int]], detail: bytes) -> None:
    builder = BlockBuilder(1, 5)
    for event in events:
        fields = {name: value for name, value in event.items() if name not in WHOSE}
        for written in (b"", detail):
            builder.entry_event(*(event[name] for name in WHOSE), event_of(**fields, detail=written))
    parts = taken(builder)
    rows = np.frombuffer(parts.transitions, TRANSITION_DTYPE)
    for number, row in enumerate(rows):
        event = events[number // 2]
        assert {name: int(row[name]) for name in event} == event
        assert (int(row["type"]), int(row["position"])) == (RecordType.ENTRY_EVENT, number + 1)
        assert name_of(row, parts, "detail") == (detail if number % 2 else b"")
        assert (int(row["reserved"]), int(row["reserved2"])) == (0, 0)


@given(u8, i63, u32, u32, u8, u8, names)
def test_record_fields_survive(
    type: int, serial: int, queue: int, holder: int, kind: int, event: int, detail: bytes
) -> None:
    builder = BlockBuilder(1, 5)
    builder.record(type, serial, queue, holder, kind, event, detail)
    parts = taken(builder)
    row = np.frombuffer(parts.transitions, TRANSITION_DTYPE)[0]
    fields = ("type", "serial", "queue", "holder", "holder_kind", "event")
    assert tuple(int(row[name]) for name in fields) == (type, serial, queue, holder, kind, event)
    assert name_of(row, parts, "detail") == detail
    defines = any(first <= type <= last for first, last in DEFINING_TYPES)
    assert [(d.record, d.detail) for d in parts.dictionary] == [(parts.transitions, detail)] * defines


ranges_lists = st.lists(st.tuples(i63, i63), max_size=3)
GroupFields = tuple[int, int, int, int, int, int, int, list[tuple[int, int]]]


@given(st.lists(st.tuples(u32, u8, u8, u8, u8, u8, u8, ranges_lists), max_size=4))
def test_groups_survive(groups: list[GroupFields]) -> None:
    data = encode_groups([Group(*group) for group in groups])
    offset = 0
    for group in groups:
        row = np.frombuffer(data, GROUP_DTYPE, 1, offset)[0]
        offset += GROUP_DTYPE.itemsize
        ranges = np.frombuffer(data, RANGE_DTYPE, int(row["range_count"]), offset)
        offset += ranges.nbytes
        assert (*row.tolist()[:1], *row.tolist()[2:8]) == group[:7]
        assert ranges.tolist() == group[7]
    assert offset == len(data)


def test_large_bodies_are_not_copied_into_a_block() -> None:
    builder = BlockBuilder(7, 0)
    bodies = [b"small", b"a" * OWN_PIECE_BYTES, b"b" * OWN_PIECE_BYTES, b"c" * (OWN_PIECE_BYTES - 1)]
    places = [put(builder, body) for body in bodies]
    parts = taken(builder)
    assert [any(piece is body for piece in parts.bodies) for body in bodies] == [False, True, True, False]
    heap = heap_of(parts)
    assert [heap[start : start + size] for _, start, size in places] == bodies
    assert parts.bodies_bytes == len(heap) == sum(map(len, bodies)) + 4 * len(bodies)


def test_a_block_has_a_bounded_number_of_pieces() -> None:
    """Whatever the turn puts into it: who writes it takes so many at once."""
    builder = BlockBuilder(1, 0)
    bodies = [bytes([number % 251]) * OWN_PIECE_BYTES for number in range(300)]
    places = [put(builder, body) for body in bodies]
    parts = taken(builder)
    assert len(parts.bodies) <= MAX_PIECES + 3 < MAX_IO_PARTS - 10
    heap = heap_of(parts)
    assert [heap[start : start + size] for _, start, size in places] == bodies


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=5))
def test_chunks_are_listed(chunks: list[bytes]) -> None:
    builder = BlockBuilder(7, 0)
    positions = [builder.body_chunk(0, chunks[0])]
    positions += [builder.body_chunk(positions[0], chunk) for chunk in chunks[1:]]
    body = b"".join(chunks)
    _, offset, _ = put_chunks(builder, positions, body)
    parts = taken(builder)
    row = np.frombuffer(parts.arrivals, ARRIVAL_DTYPE)[0]
    assert offset & CHUNKED_OFFSET and int(row["body_offset"]) == offset
    assert int(row["upload"]) == positions[0] == 7
    assert int(row["flags"]) & ArrivalFlag.BODY_CHUNKED
    at = offset & ~CHUNKED_OFFSET
    count, crc = unpack("<II", heap_of(parts)[at : at + 8])
    references = heap_of(parts)[at + 8 : at + 8 + 16 * count]
    assert crc == crc32(references)
    listed = [unpack("<QII", references[16 * i : 16 * i + 16]) for i in range(count)]
    assert [position for position, _, _ in listed] == positions
    assert [heap_of(parts)[start : start + size] for _, start, size in listed] == chunks


def test_uploads_that_are_not_open_are_refused() -> None:
    builder = BlockBuilder()
    with pytest.raises(UploadUnknownError):
        builder.body_chunk(99, b"x")
    upload = builder.body_chunk(0, b"x")
    builder.abort_upload(upload)
    with pytest.raises(UploadUnknownError):
        builder.abort_upload(upload)
    with pytest.raises(UploadUnknownError):
        builder.body_chunk(upload, b"y")
    with pytest.raises(UploadUnknownError):
        put_chunks(builder, [upload], b"x")


def test_time_does_not_go_back() -> None:
    builder = BlockBuilder(1, 100)
    builder.set_time(50)
    assert builder.time_us == 100
    builder.set_time(150)
    assert builder.time_us == 150


def test_blocks_are_closed_only_at_boundaries() -> None:
    builder = BlockBuilder()
    body = bytes(ROLL_BYTES // 2)
    put(builder, body)
    builder.boundary()
    put(builder, body)
    put(builder, body)
    assert builder.take() is not None and builder.empty()
    for _ in range(5):
        put(builder, body)
        builder.boundary()
    assert builder.waiting_bytes() > 5 * len(body)
    assert [taken(builder).arrival_count() for _ in range(3)] == [2, 2, 1]
    assert builder.take() is None and builder.empty()


@given(st.binary(min_size=16, max_size=16), u32, u32, i63, i63, u32, names, st.integers(0, 95))
def test_block_header_round_trip_and_damage(
    ledger_id: bytes, epoch: int, number: int, first: int, durable: int, previous: int, heap: bytes, at: int
) -> None:
    parts = SealedParts(first, first, 77, b"", bytes(64), heap, [heap], [])
    identity = Identity(ledger_id, epoch, number)
    data = encode_block(parts, identity, durable, previous)
    header = decode_block_header(data)
    assert header is not None
    assert header[2:5] == identity
    assert (header.first_position, header.durable_through, header.previous_crc) == (first, durable, previous)
    assert header.records_crc == crc32(bytes(64) + heap)
    assert header.block_bytes() == 96 + 64 + 2 * len(heap)
    assert decode_block_header(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) is None
    assert decode_block_header(data[:at]) is None


@given(st.binary(min_size=16, max_size=16), u32, u32, i63, i63, u32, i63, st.integers(0, 159))
def test_file_header_round_trip_and_damage(
    ids: bytes, epoch: int, number: int, first: int, time_us: int, crc: int, position: int, at: int
) -> None:
    header = FileHeader(ids, epoch, ids[::-1], number, first, time_us, Seal(number, epoch, position, crc), 0)
    data = header.encode()
    decoded = decode_file_header(data)
    assert decoded is not None and decoded._replace(crc=0) == header
    assert decode_file_header(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) is None
