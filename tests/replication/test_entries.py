"""Entries go out and come back; whatever else lies in the stream is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.replication.entries import (
    CLAIM_ID_BYTES,
    HEADER_BYTES,
    Claimant,
    Entry,
    Kind,
    Place,
    decode_entry,
    parts_of_block,
)
from postroom.replication.errors import EntryDamaged

claims = st.binary(min_size=CLAIM_ID_BYTES, max_size=CLAIM_ID_BYTES)
entries = st.builds(
    Entry,
    st.sampled_from(Kind),
    claims,
    st.integers(0, (1 << 64) - 1),
    st.binary(max_size=300),
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
