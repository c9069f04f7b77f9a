"""Frames and protocol headers: split wherever the socket splits them, written as they are read."""

import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from postroom.amqp.encoding.composite import Performative
from postroom.amqp.encoding.constructors import MAX_PERFORMATIVE_ELEMENTS
from postroom.amqp.errors import (
    CONNECTION_FRAMING_ERROR,
    DecodeError,
    EncodeError,
    FramingError,
    ProtocolHeaderError,
)
from postroom.amqp.frames.frames import (
    AMQP_HEADER,
    FRAME_TYPE_AMQP,
    FRAME_TYPE_SASL,
    MAX_FAST_TAG_BYTES,
    NO_PROTOCOL,
    PROTOCOL_AMQP,
    PROTOCOL_SASL,
    PROTOCOL_TLS,
    SASL_HEADER,
    TLS_HEADER,
    TRANSFER_OVERHEAD_BYTES,
    FrameDecoder,
    write_disposition,
    write_empty_frame,
    write_flow,
    write_frame,
    write_sasl_frame,
    write_transfer,
)
from postroom.amqp.frames.outcomes import DeliveryState
from postroom.amqp.frames.performatives import End, Open
from postroom.amqp.frames.sasl import SaslInit
from postroom.amqp.frames.transfers import Disposition, Flow, Transfer
from tests.amqp.strategies import dispositions, fields_of, flows, performatives, uints, ushorts

MAX_FRAME = 1 << 20
END_FRAME = bytes.fromhex("0000000c0200000700531745")
"""An end on channel 7."""


def frame(channel: int, performative: Performative, payload: bytes = b"") -> bytes:
    w = BytesWriter()
    write_frame(w, channel, performative, payload)
    return w.getvalue()


def only_frame(data: bytes) -> FrameDecoder:
    decoder = FrameDecoder(MAX_FRAME)
    decoder.feed(data)
    assert decoder.next()
    return decoder


def test_bytes_on_the_wire() -> None:
    assert frame(7, End()) == END_FRAME
    w = BytesWriter()
    write_empty_frame(w)
    assert w.getvalue() == bytes.fromhex("0000000802000000")


@given(ushorts, performatives, st.binary(max_size=100))
def test_a_frame_is_read_as_it_was_written(channel: int, sent: Performative, payload: bytes) -> None:
    payload = payload if isinstance(sent, Transfer) else b""
    decoder = only_frame(frame(channel, sent, payload))
    assert (decoder.frame_type, decoder.channel, decoder.is_empty) == (FRAME_TYPE_AMQP, channel, False)
    assert fields_of(decoder.performative()) == fields_of(sent)
    assert decoder.payload() == payload
    assert not decoder.next()


@given(
    st.lists(st.binary(max_size=60), max_size=12),
    st.lists(st.integers(1, 90), min_size=1, max_size=20),
    st.lists(st.integers(1, 400), min_size=1, max_size=6),
    st.lists(st.sampled_from([0, 1, 1, 1, 2]), min_size=1, max_size=7),
)
def test_frames_are_found_however_the_stream_is_cut(
    payloads: list[bytes], pieces: list[int], chunks: list[int], reads: list[int]
) -> None:
    """It comes in chunks, of which pieces are fed; now and then only one frame or none is read in between."""
    stream = AMQP_HEADER + b"".join(
        frame(number, Transfer(number), payload) for number, payload in enumerate(payloads)
    )
    decoder = FrameDecoder(MAX_FRAME)
    found: list[tuple[int, bytes]] = []
    protocol = NO_PROTOCOL

    def read(most: int) -> None:
        nonlocal protocol
        if protocol == NO_PROTOCOL:
            protocol = decoder.read_protocol_header()
        while most > 0 and protocol != NO_PROTOCOL and decoder.next():
            assert isinstance(decoder.performative(), Transfer)
            found.append((decoder.channel, decoder.payload()))
            most -= 1

    position = 0
    while position < len(stream):
        chunk = stream[position : position + chunks[position % len(chunks)]]
        start = 0
        while start < len(chunk):
            end = min(len(chunk), start + pieces[(position + start) % len(pieces)])
            decoder.feed(chunk, start, end)
            start = end
            read([0, 1, len(payloads)][reads[(position + start) % len(reads)]])
        position += len(chunk)
    read(len(payloads))
    assert found == list(enumerate(payloads))
    assert not decoder.next()
    assert decoder.buffered_bytes() == 0


def test_what_a_frame_has_wanted_is_forgotten_when_it_is_there() -> None:
    long, short = frame(0, Transfer(0), b"x" * 200), [frame(channel, End()) for channel in (1, 2, 3)]
    decoder = FrameDecoder(MAX_FRAME)
    chunk = long + short[0] + short[1]
    decoder.feed(chunk, 0, 100)
    assert not decoder.next()
    decoder.feed(chunk, 100)
    assert decoder.next()
    decoder.feed(short[2])
    for channel in (1, 2, 3):
        assert decoder.next()
        assert decoder.channel == channel


def test_pieces_of_the_same_bytes_are_not_copied() -> None:
    stream = b"".join(frame(channel, Transfer(channel), b"x" * 100) for channel in range(100))
    decoder = FrameDecoder(MAX_FRAME)
    before, channels = sys.getrefcount(stream), []
    for start in range(0, len(stream), 33):
        decoder.feed(stream, start, min(start + 33, len(stream)))
        assert sys.getrefcount(stream) > before
        while decoder.next():
            channels.append(decoder.channel)
    assert channels == list(range(100))
    assert not decoder.next()
    assert sys.getrefcount(stream) == before  # and nothing is kept of what is read


def test_frames_fed_before_those_before_them_are_read() -> None:
    decoder = FrameDecoder(MAX_FRAME)
    for channel in range(5):
        decoder.feed(frame(channel, End()))
    channels = []
    while decoder.next():
        channels.append(decoder.channel)
    assert channels == [0, 1, 2, 3, 4]


def test_bytes_of_an_unfinished_frame_are_not_joined_again_and_again() -> None:
    whole = frame(0, Transfer(0), b"x" * 500_000)
    decoder = FrameDecoder(MAX_FRAME)
    for start in range(0, len(whole), 1000):
        assert not decoder.next()
        decoder.feed(whole[start : start + 1000])
        assert decoder.buffered_bytes() == min(start + 1000, len(whole))
    assert decoder.next()
    decoder.performative()
    assert decoder.payload() == b"x" * 500_000


def test_an_empty_frame_is_a_heartbeat() -> None:
    decoder = only_frame(bytes.fromhex("0000000802000000"))
    assert decoder.is_empty
    with pytest.raises(DecodeError, match="a byte wanted, none left"):
        decoder.performative()


def test_an_extended_header_is_passed_over() -> None:
    decoder = only_frame(bytes.fromhex("000000100300000711223344" + "00531745"))
    assert decoder.channel == 7
    assert decoder.performative() == End()


def test_sasl_frames() -> None:
    w = BytesWriter()
    write_sasl_frame(w, SaslInit("ANONYMOUS"))
    decoder = only_frame(w.getvalue())
    assert decoder.frame_type == FRAME_TYPE_SASL
    assert decoder.sasl_body() == SaslInit("ANONYMOUS")


BAD_HEADERS: list[tuple[str, str]] = [
    ("00000000" + "02000000", "a frame size of 0 bytes; its header alone is 8"),
    ("00000007" + "02000000", "a frame size of 7 bytes"),
    ("ffffffff" + "02000000", "a frame of 4294967295 bytes, above the max-frame-size of 1048576"),
    ("00100001" + "02000000", "a frame of 1048577 bytes, above the max-frame-size"),
    ("00000008" + "01000000", "data offset of 4 bytes in a frame of 8 bytes"),
    ("00000008" + "00000000", "data offset of 0 bytes"),
    ("00000008" + "03000000", "data offset of 12 bytes in a frame of 8 bytes"),
    ("00000008" + "ff000000", "data offset of 1020 bytes"),
    ("00000008" + "02020000", "frame type 2 is unknown"),
    ("414d5150" + "00010000", "a frame of 1095586128 bytes"),
]


@pytest.mark.parametrize(("header", "text"), BAD_HEADERS)
def test_headers_that_cannot_be_right(header: str, text: str) -> None:
    decoder = FrameDecoder(MAX_FRAME)
    decoder.feed(bytes.fromhex(header))
    with pytest.raises(FramingError, match=text) as caught:
        decoder.next()
    assert caught.value.condition == CONNECTION_FRAMING_ERROR


def test_a_size_above_the_maximum_is_refused_before_its_bytes_come() -> None:
    decoder = FrameDecoder(512)
    decoder.feed(struct.pack(">IBBH", 513, 2, 0, 0))
    with pytest.raises(FramingError, match="above the max-frame-size of 512"):
        decoder.next()


def test_a_frame_of_the_maximum_passes() -> None:
    whole = frame(0, Transfer(0), b"x" * (512 - len(frame(0, Transfer(0)))))
    decoder = FrameDecoder(512)
    decoder.feed(whole)
    assert decoder.next()


def test_only_a_transfer_carries_a_payload() -> None:
    decoder = only_frame(frame(0, End(), b"x"))
    with pytest.raises(DecodeError, match="bytes left over after a performative that carries no payload"):
        decoder.performative()


def test_the_elements_of_a_performative_are_bounded() -> None:
    within: list[object] = [None] * (MAX_PERFORMATIVE_ELEMENTS - 20)
    only_frame(frame(0, Open(container_id="c", properties={"a": within}))).performative()
    beyond: list[object] = [None] * MAX_PERFORMATIVE_ELEMENTS
    with pytest.raises(DecodeError, match="open: too many elements in one value"):
        only_frame(frame(0, Open(container_id="c", properties={"a": beyond}))).performative()


def test_nothing_follows_a_sasl_body() -> None:
    w = BytesWriter()
    write_sasl_frame(w, SaslInit("PLAIN"))
    data = bytearray(w.getvalue() + b"x")
    data[3] += 1
    with pytest.raises(DecodeError, match="bytes left over after the body of a SASL frame"):
        only_frame(bytes(data)).sasl_body()


# --- protocol headers


@pytest.mark.parametrize(
    ("header", "protocol"),
    [(AMQP_HEADER, PROTOCOL_AMQP), (SASL_HEADER, PROTOCOL_SASL), (TLS_HEADER, PROTOCOL_TLS)],
)
def test_protocol_headers_byte_by_byte(header: bytes, protocol: int) -> None:
    decoder = FrameDecoder(MAX_FRAME)
    for byte in header[:-1]:
        assert decoder.read_protocol_header() == NO_PROTOCOL
        decoder.feed(bytes([byte]))
    decoder.feed(header[-1:] + END_FRAME)
    assert decoder.read_protocol_header() == protocol
    assert decoder.next()
    assert decoder.channel == 7


@pytest.mark.parametrize(
    "received",
    [
        b"AMQP\x00\x00\x09\x01",
        b"AMQP\x01\x01\x00\x0a",
        b"AMQP\x00\x01\x01\x00",
        b"AMQP\x04",
        b"AMQQ",
        b"GET / HT",
        b"\x16\x03\x01",
        b"\x00",
    ],
)
def test_other_protocols_are_refused_as_soon_as_they_show(received: bytes) -> None:
    decoder = FrameDecoder(MAX_FRAME)
    decoder.feed(received)
    with pytest.raises(ProtocolHeaderError, match="not the protocol header of AMQP") as caught:
        decoder.read_protocol_header()
    assert caught.value.received == received


# --- the fast writers


@given(
    ushorts,
    uints,
    uints,
    st.binary(max_size=MAX_FAST_TAG_BYTES),
    uints,
    st.booleans(),
    st.booleans(),
    st.binary(max_size=100),
)
def test_write_transfer_is_a_transfer(
    channel: int,
    handle: int,
    delivery_id: int,
    tag: bytes,
    message_format: int,
    settled: bool,
    more: bool,
    payload: bytes,
) -> None:
    w = BytesWriter()
    write_transfer(w, channel, handle, delivery_id, tag, message_format, settled, more, payload)
    data = w.getvalue()
    assert data == frame(
        channel,
        Transfer(handle, delivery_id, tag, message_format=message_format, settled=settled, more=more),
        payload,
    )
    assert len(data) <= len(payload) + TRANSFER_OVERHEAD_BYTES


def test_the_overhead_of_a_transfer_is_reached() -> None:
    w = BytesWriter()
    write_transfer(w, 0, 2**32 - 1, 2**32 - 1, b"t" * MAX_FAST_TAG_BYTES, 2**32 - 1, True, True, b"")
    assert len(w) == TRANSFER_OVERHEAD_BYTES


@pytest.mark.parametrize(
    ("handle", "delivery_id", "tag", "text"),
    [
        (0, 0, b"t" * 33, "a delivery-tag of 33 bytes"),
        (-1, 0, b"", "-1 is out of the range of uint"),
        (0, 2**32, b"", "4294967296 is out of the range of uint"),
    ],
)
def test_write_transfer_refuses_what_has_no_encoding(
    handle: int, delivery_id: int, tag: bytes, text: str
) -> None:
    with pytest.raises(EncodeError, match=text):
        write_transfer(BytesWriter(), 0, handle, delivery_id, tag, 0, False, False, b"")


@given(ushorts, dispositions)
def test_write_disposition_is_a_disposition(channel: int, sent: Disposition) -> None:
    w = BytesWriter()
    write_disposition(w, channel, sent.role, sent.first, sent.last, sent.settled, sent.state)
    decoder = only_frame(w.getvalue())
    sent.batchable = False
    assert decoder.channel == channel
    assert fields_of(decoder.performative()) == fields_of(sent)


@given(ushorts, flows)
def test_write_flow_is_a_flow(channel: int, sent: Flow) -> None:
    w = BytesWriter()
    write_flow(w, channel, sent)
    decoder = only_frame(w.getvalue())
    assert decoder.channel == channel
    assert fields_of(decoder.performative()) == fields_of(sent)


def test_frames_follow_each_other_in_one_writer() -> None:
    state: DeliveryState | None = None
    w = BytesWriter()
    write_transfer(w, 1, 0, 0, b"t", 0, False, False, b"one")
    write_disposition(w, 2, True, 0, 5, True, state)
    write_flow(w, 3, Flow(1, 2, 3, handle=0))
    write_empty_frame(w)
    write_frame(w, 4, Transfer(0), b"two")
    decoder = FrameDecoder(MAX_FRAME)
    decoder.feed(w.getvalue())
    kinds = []
    while decoder.next():
        kinds.append((decoder.channel, None if decoder.is_empty else type(decoder.performative())))
    assert kinds == [(1, Transfer), (2, Disposition), (3, Flow), (0, None), (4, Transfer)]
