"""Entries go out and come back; whatever else lies in the stream is told."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal.igzip_lib import compress

from postroom.ledger.format.headers import with_crc
from postroom.replication.entries import (
    CLAIM_ID_BYTES,
    COMPRESS_FROM_BYTES,
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    Claimant,
    Encoding,
    Entry,
    Kind,
    Place,
    decode_entry,
    parts_of_block,
)
from postroom.replication.errors import EntryDamaged

claims = st.binary(min_size=CLAIM_ID_BYTES, max_size=CLAIM_ID_BYTES)
texts = st.tuples(st.binary(min_size=1, max_size=40), st.integers(0, 3 * COMPRESS_FROM_BYTES)).map(
    lambda drawn: (drawn[0] * drawn[1])[: drawn[1]]
)
noises = st.tuples(st.integers(0, 3), st.integers(0, 3 * COMPRESS_FROM_BYTES)).map(
    lambda drawn: random.Random(drawn[0]).randbytes(drawn[1])
)
payloads = st.one_of(st.binary(max_size=300), texts, noises, st.tuples(texts, noises).map(b"".join))
entries = st.builds(
    Entry,
    st.sampled_from(Kind),
    claims,
    st.integers(0, (1 << 64) - 1),
    payloads,
    st.integers(0, (1 << 32) - 1),
    st.integers(0, (1 << 64) - 1),
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFFFF),
)


@given(entries)
def test_an_entry_comes_back(entry: Entry) -> None:
    assert decode_entry(7, entry.encode()) == entry


@given(entries, st.data())
def test_a_flipped_bit_is_found(entry: Entry, data: st.DataObject) -> None:
    stored = bytearray(entry.encode())
    bit = data.draw(st.integers(0, 8 * len(stored) - 1))
    stored[bit // 8] ^= 1 << bit % 8
    with pytest.raises(EntryDamaged, match="entry 7 of the log"):
        decode_entry(7, bytes(stored))


def _encoding(stored: bytes) -> Encoding:
    return Encoding(stored[10])


def test_what_can_be_compressed_takes_less() -> None:
    numbers = [at * 2654435761 % 2**32 for at in range(9000)]
    orders = b"".join(b'{"order":"%08x","quantity":%d},' % (number, number % 97) for number in numbers)
    stored = _part(orders).encode()
    assert _encoding(stored) is Encoding.DEFLATE
    assert len(stored) < len(orders) // 2


@pytest.mark.parametrize("payload", [b"a" * (COMPRESS_FROM_BYTES - 1), random.Random(1).randbytes(100_000)])
def test_what_would_not_pay_is_stored_as_it_is(payload: bytes) -> None:
    stored = _part(payload).encode()
    assert _encoding(stored) is Encoding.PLAIN
    assert stored[HEADER_BYTES:] == payload


def test_an_entry_never_grows() -> None:
    """Its middle can be compressed, most of it can't."""
    noise = random.Random(2).randbytes(50_000)
    payload = noise + bytes(COMPRESS_FROM_BYTES) + noise
    assert len(_part(payload).encode()) <= HEADER_BYTES + len(payload)


def _part(payload: bytes) -> Entry:
    return Entry(Kind.PART, bytes(CLAIM_ID_BYTES), 3, payload, 1, 0, 0, 1)


def _forged(stored: bytes, size: int, encoding: int = Encoding.DEFLATE) -> bytes:
    """An entry with a right checksum, and this in its header."""
    header = bytearray(_part(b"").encode()[:HEADER_BYTES])
    header[4:8] = bytes(4)
    header[10] = encoding
    struct.pack_into("<I", header, 52, size)
    return with_crc(bytes(header), stored) + stored


@pytest.mark.parametrize(
    ("stored", "size", "why"),
    [
        (compress(bytes(9000), 1), 8999, "isn't the 8999 bytes"),
        (compress(bytes(9000), 1), 9001, "isn't the 9001 bytes"),
        (compress(bytes(9000), 1)[:-4], 9000, "isn't the 9000 bytes"),
        (compress(bytes(MAX_PAYLOAD_BYTES + 1), 1), MAX_PAYLOAD_BYTES + 1, "more than any has"),
        (compress(bytes(64 << 20), 1), MAX_PAYLOAD_BYTES, "isn't the 1048576 bytes"),
        (b"\xff" * 40, 9000, "can't be decompressed"),
        (b"", 9000, "isn't the 9000 bytes"),
    ],
)
def test_a_payload_that_is_not_what_its_header_says_is_refused(stored: bytes, size: int, why: str) -> None:
    with pytest.raises(EntryDamaged, match=why):
        decode_entry(7, _forged(stored, size))


def test_an_encoding_of_a_later_version_is_named() -> None:
    with pytest.raises(EntryDamaged, match="encoding 2 is unknown here: upgrade"):
        decode_entry(7, _forged(b"", 0, 2))


@given(st.binary(max_size=200))
def test_what_no_member_has_written_is_refused(data: bytes) -> None:
    with pytest.raises(EntryDamaged):
        decode_entry(7, data)


@given(
    st.lists(st.binary(max_size=200), max_size=6),
    st.integers(HEADER_BYTES + 1, 300),
    st.integers(0, 1000),
    st.integers(0, 1000),
)
def test_a_block_in_parts_is_the_block(parts: list[bytes], most_bytes: int, after: int, offset: int) -> None:
    claim = bytes(range(CLAIM_ID_BYTES))
    made = parts_of_block(claim, after, Place(3, offset), parts, most_bytes)
    assert all(len(each) <= most_bytes for each in made)
    place, whole = offset, b""
    for at, each in enumerate(made):
        entry = decode_entry(after + 1 + at, each)
        assert (entry.kind, entry.claim, entry.after) == (Kind.PART, claim, after + at)
        assert (entry.file_number, entry.part, entry.parts, entry.offset) == (3, at, len(made), place)
        place += len(entry.payload)
        whole += entry.payload
    assert whole == b"".join(parts)


def test_a_block_of_too_many_parts_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 65535"):
        parts_of_block(bytes(16), 0, Place(1, 0), [bytes(70_000)], HEADER_BYTES + 1)


def test_a_claim_says_who_claims() -> None:
    entry = Entry(Kind.CLAIM, bytes(16), 0, b'{"member":"a","urls":["amqp://a:1"],"later":1}')
    assert entry.claimant() == Claimant("a", ["amqp://a:1"])
