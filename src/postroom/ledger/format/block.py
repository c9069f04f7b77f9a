"""Building a block: every event of one group commit, encoded as it happens.

The queue manager writes each arrival and each transition through a `BlockBuilder`; the ledger takes the
result once a turn and commits it. Pure and compiled: no files, no clock. What the bytes mean is in
``FORMAT.md`` (sections "Block", "Arrival", "Transition"); `records` declares the same layout for readers.
"""

from struct import pack
from typing import Final, final

from isal.isal_zlib import crc32
from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from postroom.ledger.format.entry_records import Arrival, EntryEvent
from postroom.ledger.format.records import MAX_BLOCK_BYTES

ARRIVAL_BYTES: Final = 128
TRANSITION_BYTES: Final = 64
BLOCK_HEADER_BYTES: Final = 96

BODY_TRAILER_BYTES: Final = 4
"""Every piece in the bodies heap is followed by its CRC-32, so that it can be checked without its record."""

CHUNKED_OFFSET: Final = 0x8000_0000
"""Set in a body_offset: what lies there is the list of the body's chunks, not the body."""

CHUNK_LIST_HEADER_BYTES: Final = 8
CHUNK_REFERENCE_BYTES: Final = 16

OWN_PIECE_BYTES: Final = 32 << 10
"""A body from here on is a piece of its block by itself, written from where it is rather than copied."""

MAX_PIECES: Final = 256
"""A block that has so many, as one that is full of such bodies does, takes what comes then by copying it: the
system writes a bounded number at once."""

ROLL_BYTES: Final = MAX_BLOCK_BYTES * 3 // 4
"""At a boundary between commands a block of this size is closed, so that one command more still fits."""

# The numbers of records.RecordType, ArrivalFlag and codes.Event used here, as plain ints for the hot path.
_FIRST_DICTIONARY_TYPE: Final = 4
_LAST_DICTIONARY_TYPE: Final = 14
_FIRST_LATER_TYPE: Final = 18
_LAST_LATER_TYPE: Final = 25
_PRINCIPAL_DEFINED: Final = 27
_PRINCIPAL_DROPPED: Final = 28
_BODY_CHUNK: Final = 15
_FLAG_BODY_STORED: Final = 2
_FLAG_BODY_CHUNKED: Final = 4
_EVENT_UNDO: Final = 10

_TWO_32: Final = 0x1_0000_0000
_SIGN_32: Final = 0x8000_0000


class UploadUnknownError(ValueError):
    """A chunk, end or abort names an upload that is not open, or lists other chunks than were written."""


@final
class DictionaryRecord:
    """A definition that later records refer to (queue, routing set, holder, producer), as it was written."""

    def __init__(self, type: int, position: int, record: bytes, detail: bytes) -> None:
        self.type: Final = type
        self.position: Final = position
        self.record: Final = record
        """The 64 bytes of its transition; detail_offset is that of its first block."""
        self.detail: Final = detail


@final
class SealedParts:
    """One block's content, ready to be given a header and written."""

    def __init__(
        self,
        first_position: int,
        last_position: int,
        time_us: int,
        arrivals: bytes,
        transitions: bytes,
        names: bytes,
        bodies: list[bytes],
        dictionary: list[DictionaryRecord],
    ) -> None:
        self.first_position: Final = first_position
        self.last_position: Final = last_position
        self.time_us: Final = time_us
        """The clock when the block was closed; no record in it is later."""
        self.arrivals: Final = arrivals
        self.transitions: Final = transitions
        self.names: Final = names
        self.bodies: Final = bodies
        """The bodies heap in pieces, one behind the other."""
        self.bodies_bytes: Final = sum([len(piece) for piece in bodies])
        self.dictionary: Final = dictionary

    def arrival_count(self) -> int:
        return len(self.arrivals) // ARRIVAL_BYTES

    def transition_count(self) -> int:
        return len(self.transitions) // TRANSITION_BYTES


@final
class _Upload:
    """The chunks of a large body seen so far: the references that its arrival will list."""

    def __init__(self) -> None:
        self.references = BytesWriter()
        self.chunk_count: i64 = 0


@final
class Group:
    """One kind of change to many entries of one queue, for GROUP_EVENT and DECISION records."""

    def __init__(
        self,
        queue: int,
        from_state: int,
        to_state: int,
        outcome: int,
        causes: int,
        delivery_delta: int,
        failure_delta: int,
        ranges: list[tuple[int, int]],
    ) -> None:
        self.queue: Final = queue
        self.from_state: Final = from_state
        self.to_state: Final = to_state
        self.outcome: Final = outcome
        self.causes: Final = causes
        self.delivery_delta: Final = delivery_delta
        self.failure_delta: Final = failure_delta
        self.ranges: Final = ranges
        """(first serial, last serial), both included; exact runs (see ``records.RANGE``)."""


def encode_groups(groups: list[Group]) -> bytes:
    """The detail of a GROUP_EVENT or DECISION record."""
    out: list[bytes] = []
    for g in groups:
        head = (g.queue, len(g.ranges), g.from_state, g.to_state, g.outcome, g.causes)
        out.append(pack("<IIBBBBBBH", *head, g.delivery_delta, g.failure_delta, 0))
        for first, last in g.ranges:
            out.append(pack("<QQ", first, last))
    return b"".join(out)


@final
class BlockBuilder:
    """Encodes the events of a turn; everything between two boundaries lies in one block and is atomic."""

    def __init__(self, next_position: i64 = 1, time_us: i64 = 0) -> None:
        self.next_position: i64 = next_position
        """Position of the next record, from 1, dense over the whole ledger."""
        self.time_us: i64 = time_us
        self.bodies_bytes: i64 = 0
        self.first_position: i64 = next_position
        self._names_bytes: i64 = 0
        self._arrivals = BytesWriter()
        self._transitions = BytesWriter()
        self._names = BytesWriter()
        self._pieces: list[bytes] = []
        """Of the bodies heap, before what is in `_bodies`."""
        self._bodies = BytesWriter()
        self._dictionary: list[DictionaryRecord] = []
        self._uploads: dict[int, _Upload] = {}
        self._full: list[SealedParts] = []

    def set_time(self, now_us: i64) -> None:
        """Time of the records that follow, µs since 1970; a clock that went back is held still."""
        if now_us > self.time_us:
            self.time_us = now_us

    def arrival(self, arrival: Arrival) -> i64:
        """Write an arrival; returns its serial, and ``arrival.body_offset`` says what its entries must
        remember. Its unique id is at most 255 bytes.

        Raises UploadUnknownError when the chunks are not those of an upload that is open.
        """
        serial = self.next_position
        flags = arrival.flags
        upload: i64 = 0
        body, chunk_positions = arrival.body, arrival.chunk_positions
        if body is not None:
            arrival.body_len = len(body)
            arrival.body_offset = self._put_body(body, arrival.body_crc)
            flags |= _FLAG_BODY_STORED
        elif chunk_positions is not None:
            upload = chunk_positions[0]
            arrival.body_offset = self._put_chunk_list(chunk_positions)
            flags |= _FLAG_BODY_STORED | _FLAG_BODY_CHUNKED
        self.next_position = serial + 1
        body_serial = arrival.body_serial
        w = self._arrivals
        write_i64_le(w, serial)
        write_i64_le(w, self.time_us)
        write_i64_le(w, arrival.expiry_us)
        write_i64_le(w, arrival.due_us)
        write_i64_le(w, arrival.properties.creation_us)
        write_i64_le(w, body_serial if body_serial != 0 else serial)
        write_i64_le(w, arrival.parent_serial)
        _write_two(w, arrival.parent_queue, arrival.routing_set)
        _write_two(w, arrival.holder, arrival.producer)
        _write_two(w, arrival.body_offset, arrival.body_len)
        write_i64_le(w, arrival.body_crc)  # and the message format, of which there is one
        self._put_properties(arrival, flags)
        write_i64_le(w, upload)
        return serial

    def _put_properties(self, arrival: Arrival, flags: i64) -> None:
        """The part of an arrival where the message's ids are, with the numbers of a byte or two between them.
        In the names the unique id lies right behind the message id."""
        properties = arrival.properties
        message_id, unique_id = properties.message_id, properties.unique_id
        message_id_len: i64 = len(message_id)
        correlation_id_len: i64 = len(properties.correlation_id)
        group_id_len: i64 = len(properties.group_id)
        unique_id_len: i64 = len(unique_id)
        if unique_id_len > 0:
            message_id = message_id + unique_id
        message_id_offset = self._put_name(message_id, message_id_len + unique_id_len)
        correlation_id_offset: i64 = 0
        if correlation_id_len > 0:
            correlation_id_offset = self._put_name(properties.correlation_id, correlation_id_len)
        group_id_offset: i64 = 0
        if group_id_len > 0:
            group_id_offset = self._put_name(properties.group_id, group_id_len)
        kinds = properties.message_id_type | properties.correlation_id_type << 8
        kinds |= arrival.to_state << 16 | arrival.holder_kind << 24
        happened = arrival.causes | arrival.priority << 8 | arrival.event << 16 | unique_id_len << 24
        w = self._arrivals
        _write_two(w, message_id_offset, correlation_id_offset)
        _write_two(w, group_id_offset, message_id_len | correlation_id_len << 16)
        _write_two(w, group_id_len | flags << 16, kinds)
        _write_two(w, happened, properties.group_sequence)

    def entry_event(self, serial: i64, queue: i64, holder: i64, event: EntryEvent) -> i64:
        """One entry changes state; ``holder`` holds it then or, if nobody does, held it. Returns the event's
        position.

        `_put_record` spelled out once more: the call would add a quarter to its 9.5 ns (measured, compiled).
        """
        position = self.next_position
        self.next_position = position + 1
        detail = event.detail
        place: i64 = 0
        if detail:
            detail_len: i64 = len(detail)
            place = self._put_name(detail, detail_len) | detail_len << 32
        w = self._transitions
        write_i64_le(w, position)
        write_i64_le(w, self.time_us)
        write_i64_le(w, serial)
        write_i64_le(w, event.due_us)
        _write_two(w, queue, holder)
        write_i64_le(w, place)
        write_i64_le(w, event.codes)
        write_i64_le(w, event.deltas)
        return position

    def record(
        self, type: i64, serial: i64, queue: i64, holder: i64, holder_kind: i64, event: i64, detail: bytes
    ) -> i64:
        """Any other 64-byte record with its detail; returns its position."""
        detail_len: i64 = len(detail)
        offset = self._put_name(detail, detail_len)
        kinds = type | holder_kind << 24
        position = self._put_record(serial, queue, holder, offset, detail_len, kinds, event)
        later = _FIRST_LATER_TYPE <= type <= _LAST_LATER_TYPE
        later = later or _PRINCIPAL_DEFINED <= type <= _PRINCIPAL_DROPPED
        if later or _FIRST_DICTIONARY_TYPE <= type <= _LAST_DICTIONARY_TYPE:
            fixed = (position, self.time_us, serial, 0, queue, holder, offset, detail_len)
            record = pack(
                "<QqQqIIIIBBBBBBBBBBHI", *fixed, type, 0, 0, holder_kind, event, 0, 0, 0, 0, 0, 0, 0
            )
            self._dictionary.append(DictionaryRecord(type, position, record, detail))
        return position

    def body_chunk(self, upload: i64, data: bytes) -> i64:
        """Part of a large body. `upload` 0 starts one: the position returned is its id.

        Raises UploadUnknownError when no such upload is open.
        """
        if upload == 0:
            upload = self.next_position
            self._uploads[upload] = _Upload()
        chunks = self._uploads.get(upload)
        if chunks is None:
            raise UploadUnknownError(f"upload {upload} is not open: it was finished, aborted or never begun")
        data_len: i64 = len(data)
        offset = self._put_body(data, crc32(data))
        position = self._put_record(upload, 0, 0, offset, data_len, _BODY_CHUNK, 0)
        write_i64_le(chunks.references, position)
        _write_two(chunks.references, offset, data_len)
        chunks.chunk_count += 1
        return position

    def abort_upload(self, upload: i64) -> i64:
        """The body will not be finished: its chunks are dead. Returns the position of that record."""
        if self._uploads.pop(upload, None) is None:
            raise UploadUnknownError(f"upload {upload} is not open: it was finished, aborted or never begun")
        return self._put_record(upload, 0, 0, 0, 0, _BODY_CHUNK, _EVENT_UNDO)

    def boundary(self) -> None:
        """Between two commands that need not be atomic together: only here a large block is closed."""
        if self.block_bytes() >= ROLL_BYTES:
            self._close_block()

    def empty(self) -> bool:
        """Whether there is nothing to commit."""
        return self.next_position == self.first_position and not self._full

    def next_to_take(self) -> int:
        """First position of the next block that `take` gives."""
        return self._full[0].first_position if self._full else self.first_position

    def block_bytes(self) -> int:
        """Size of the open block so far."""
        return (
            BLOCK_HEADER_BYTES
            + len(self._arrivals)
            + len(self._transitions)
            + self._names_bytes
            + self.bodies_bytes
        )

    def waiting_bytes(self) -> int:
        """Size of everything not yet taken: the open block and the full ones before it."""
        total = self.block_bytes()
        for parts in self._full:
            total += len(parts.arrivals) + len(parts.transitions) + len(parts.names) + parts.bodies_bytes
        return total

    def take(self) -> SealedParts | None:
        """The oldest block not yet taken; None if there is none. Only between turns."""
        if self._full:
            return self._full.pop(0)
        if self.next_position == self.first_position:
            return None
        self._close_block()
        return self._full.pop()

    def _close_block(self) -> None:
        last = self.next_position - 1
        parts = SealedParts(
            self.first_position,
            last,
            self.time_us,
            self._arrivals.getvalue(),
            self._transitions.getvalue(),
            self._names.getvalue(),
            self._take_bodies(),
            self._dictionary,
        )
        self._full.append(parts)
        self._dictionary = []
        self._arrivals.truncate(0)
        self._transitions.truncate(0)
        self._names.truncate(0)
        self._names_bytes = 0
        self.bodies_bytes = 0
        self.first_position = self.next_position

    def _put_name(self, name: bytes, name_len: i64) -> i64:
        if name_len == 0:
            return 0
        offset = self._names_bytes
        self._names.write(name)
        self._names_bytes = offset + name_len
        return offset

    def _put_body(self, data: bytes, crc: i64) -> i64:
        offset = self.bodies_bytes
        w = self._bodies
        size: i64 = len(data)
        if size < OWN_PIECE_BYTES or len(self._pieces) >= MAX_PIECES:
            w.write(data)
        else:
            self._end_piece()
            self._pieces.append(data)
        write_i32_le(w, i32(_signed(crc)))
        self.bodies_bytes = offset + size + BODY_TRAILER_BYTES
        return offset

    def _end_piece(self) -> None:
        """What was copied so far becomes a piece of the bodies heap."""
        if len(self._bodies) > 0:
            self._pieces.append(self._bodies.getvalue())
            self._bodies.truncate(0)

    def _take_bodies(self) -> list[bytes]:
        """The bodies heap, which begins anew."""
        self._end_piece()
        pieces = self._pieces
        self._pieces = []
        return pieces

    def _put_chunk_list(self, positions: list[int]) -> i64:
        """The references of a finished upload, as a piece of the bodies heap: count, CRC, references."""
        chunks = self._uploads.get(positions[0])
        if chunks is None or chunks.chunk_count != len(positions):
            raise UploadUnknownError(f"upload {positions[0]} is not open with {len(positions)} chunks")
        del self._uploads[positions[0]]
        offset = self.bodies_bytes
        w = self._bodies
        references = chunks.references.getvalue()
        _write_two(w, chunks.chunk_count, crc32(references))
        w.write(references)
        self.bodies_bytes = offset + CHUNK_LIST_HEADER_BYTES + len(references)
        return offset | CHUNKED_OFFSET

    def _put_record(
        self,
        serial: i64,
        queue: i64,
        holder: i64,
        detail_offset: i64,
        detail_len: i64,
        kinds: i64,
        event: i64,
    ) -> i64:
        """The 64 bytes of a transition that isn't an entry's. ``kinds``: type, from_state, to_state,
        holder_kind, a byte each, the first lowest."""
        position = self.next_position
        self.next_position = position + 1
        w = self._transitions
        write_i64_le(w, position)
        write_i64_le(w, self.time_us)
        write_i64_le(w, serial)
        write_i64_le(w, 0)
        _write_two(w, queue, holder)
        _write_two(w, detail_offset, detail_len)
        _write_two(w, kinds, event)
        write_i64_le(w, 0)
        return position


def _signed(x: i64) -> i64:
    """An unsigned 32-bit value as the signed one of the same bits."""
    return x - _TWO_32 if x >= _SIGN_32 else x


def _write_two(w: BytesWriter, low: i64, high: i64) -> None:
    """Two unsigned 32-bit values in one store."""
    if high >= _SIGN_32:
        high -= _TWO_32
    write_i64_le(w, low | high << 32)
