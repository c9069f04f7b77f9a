"""Frames and protocol headers (part 2, sections 2.2 and 2.3): splitting what comes in, writing what goes out.

Reading is by pulling: :meth:`FrameDecoder.feed` the bytes as they come, then call :meth:`FrameDecoder.next`
until it says no. Frames are found by index in the bytes that were fed; only a frame that lies in several
pieces of them is copied.

Writing appends whole frames to a ``BytesWriter``, so that everything one turn has to say becomes one
``write``.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, write_i32_be
from mypy_extensions import i64

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.composite import Performative
from postroom.amqp.encoding.field_writer import in_range
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.scalar_writer import write_u16, write_u32
from postroom.amqp.encoding.types import MAX_UINT
from postroom.amqp.errors import EncodeError, FramingError, ProtocolHeaderError
from postroom.amqp.frames.outcomes import Accepted, DeliveryState, LastTransactionalState
from postroom.amqp.frames.performatives import read_performative
from postroom.amqp.frames.sasl import SaslFrame, read_sasl
from postroom.amqp.frames.transfers import ACCEPTED_BYTES, Disposition, Flow, Transfer

FRAME_HEADER_BYTES: Final = 8
MIN_MAX_FRAME_BYTES: Final = 512
"""Every peer takes frames of this size (part 2, section 2.3.3: MIN-MAX-FRAME-SIZE)."""

FRAME_TYPE_AMQP: Final = 0
FRAME_TYPE_SASL: Final = 1

PROTOCOL_AMQP: Final = 0
PROTOCOL_TLS: Final = 2
PROTOCOL_SASL: Final = 3
NO_PROTOCOL: Final = -1
"""What :meth:`FrameDecoder.read_protocol_header` gives while the header is not there yet."""

PROTOCOL_HEADER_BYTES: Final = 8
AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
TLS_HEADER: Final = b"AMQP\x02\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"

MAX_FAST_TAG_BYTES: Final = 32
"""The longest delivery-tag that the specification allows (part 2, section 2.8.7)."""

TRANSFER_OVERHEAD_BYTES: Final = 8 + 3 + 3 + 5 + 5 + 2 + MAX_FAST_TAG_BYTES + 5 + 1 + 1
"""The most that :func:`write_transfer` adds to its payload; :func:`write_settled_transfer` adds less, and its
state.
"""
_ID_TAG_BYTES: Final = 4


@final
class FrameDecoder:
    """Splits a byte stream into protocol headers and frames.

    After :meth:`next` has said yes, ``frame_type``, ``channel`` and ``is_empty`` (a heartbeat) describe the
    frame; :meth:`performative` or :meth:`sasl_body` reads its body, and then :meth:`payload` gives what
    follows it.
    """

    __slots__ = (
        "_data",
        "_end",
        "_have",
        "_last_state",
        "_next_data",
        "_next_end",
        "_next_start",
        "_parts",
        "_pos",
        "_reader",
        "_wanted",
        "channel",
        "frame_type",
        "is_empty",
        "max_frame_bytes",
    )

    def __init__(self, max_frame_bytes: i64) -> None:
        self.max_frame_bytes: i64 = max_frame_bytes
        self.frame_type: i64 = FRAME_TYPE_AMQP
        self.channel: i64 = 0
        self.is_empty: bool = True
        self._data: bytes = b""
        self._pos: i64 = 0
        self._end: i64 = 0
        self._parts: list[bytes] = []
        self._have: i64 = 0
        self._wanted: i64 = 0
        self._next_data: bytes = b""
        self._next_start: i64 = 0
        self._next_end: i64 = 0
        self._reader: Reader = Reader(b"", 0, 0)
        self._last_state = LastTransactionalState()

    def feed(self, data: bytes, start: i64 = 0, end: i64 = -1) -> None:
        """Takes the next bytes of the stream: those of ``data`` from ``start`` up to, not including, ``end``
        (−1: all). They are not copied where that can be avoided; pieces of the same bytes, one after the
        other, are as good as one.
        """
        if end < 0:
            end = len(data)
        if self._parts:
            self._complete(data, start, end)
        elif self._next_start < self._next_end:
            self._keep_apart(data, start, end)
        elif self._pos == self._end:
            self._data = data
            self._pos = start
            self._end = end
        elif data is self._data and start == self._end:
            self._end = end
        else:
            self._complete(data, start, end)

    def _keep_apart(self, data: bytes, start: i64, end: i64) -> None:
        """Adds to the bytes that are read when the present ones are through."""
        if data is self._next_data and start == self._next_end:
            self._next_end = end
            return
        self._next_data = self._next_data[self._next_start : self._next_end] + data[start:end]
        self._next_start = 0
        self._next_end = len(self._next_data)

    def _complete(self, data: bytes, start: i64, end: i64) -> None:
        """Joins what an unfinished frame still wants to what is there of it, and keeps the rest apart: no
        byte is copied often.
        """
        missing = max(0, self._wanted - (self._end - self._pos) - self._have)
        if missing > end - start:
            self._parts.append(data[start:end])
            self._have += end - start
            return
        if missing > 0:
            self._parts.append(data[start : start + missing])
            self._join()
        self._next_data = data
        self._next_start = start + missing
        self._next_end = end

    def _join(self) -> None:
        """Makes one piece of what was fed."""
        self._data = b"".join([self._data[self._pos : self._end], *self._parts])
        self._pos = 0
        self._end = len(self._data)
        self._parts = []
        self._have = 0

    def _go_on(self) -> bool:
        """Goes on with the bytes that were kept apart; False while that isn't enough for what is wanted."""
        data, start, end = self._next_data, self._next_start, self._next_end
        if start == end:
            if self._pos == self._end and not self._parts:
                self._let_go()
            return False
        self._next_data = b""
        self._next_start = 0
        self._next_end = 0
        self.feed(data, start, end)
        return not self._parts

    def _let_go(self) -> None:
        """All is read: a connection that is quiet keeps nothing of it."""
        self._data = b""
        self._pos = 0
        self._end = 0
        self._reader.data = b""

    def buffered_bytes(self) -> i64:
        """Bytes fed and not yet given out."""
        return self._end - self._pos + self._have + self._next_end - self._next_start

    # --- protocol headers

    def read_protocol_header(self) -> i64:
        """The protocol id in the next eight bytes; NO_PROTOCOL while they are not all there.

        ProtocolHeaderError as soon as they can't be the header of a protocol and version that is spoken here.
        """
        self._wanted = PROTOCOL_HEADER_BYTES
        if self._parts:
            self._join()
        while self._end - self._pos < PROTOCOL_HEADER_BYTES and self._go_on():
            pass
        received = self._data[self._pos : min(self._end, self._pos + PROTOCOL_HEADER_BYTES)]
        for header in (AMQP_HEADER, SASL_HEADER, TLS_HEADER):
            if received == header:
                self._pos += PROTOCOL_HEADER_BYTES
                self._wanted = 0
                return header[4]
            if header.startswith(received):
                return NO_PROTOCOL
        raise ProtocolHeaderError(
            f"{received!r} is not the protocol header of AMQP 1.0.0; this is an AMQP 1.0 port", received
        )

    # --- frames

    def next(self) -> bool:
        """Goes to the next frame; False while it is not all there.

        FramingError for a header that can't be right: the connection can't be read any further.
        """
        size = self._whole_size()
        while size == 0:
            if not self._go_on():
                return False
            size = self._whole_size()
        data = self._data
        pos = self._pos
        offset: i64 = data[pos + 4]
        offset *= 4
        if offset < FRAME_HEADER_BYTES or offset > size:
            raise FramingError(f"data offset of {offset} bytes in a frame of {size} bytes")
        self.frame_type = data[pos + 5]
        if self.frame_type > FRAME_TYPE_SASL:
            raise FramingError(f"frame type {self.frame_type} is unknown")
        channel: i64 = data[pos + 6]
        self.channel = channel << 8 | data[pos + 7]
        reader = Reader(data, pos + offset, pos + size)
        reader.elements_left = c.MAX_PERFORMATIVE_ELEMENTS
        self._reader = reader
        self.is_empty = offset == size
        self._pos = pos + size
        self._wanted = 0
        return True

    def _whole_size(self) -> i64:
        """The size of the frame that begins here; 0 while it is not all in the bytes that are read."""
        left = self._end - self._pos
        if left < FRAME_HEADER_BYTES:
            self._wanted = FRAME_HEADER_BYTES
            return 0
        size = self._size(self._data, self._pos)
        if left < size:
            self._wanted = size
            return 0
        return size

    def _size(self, data: bytes, pos: i64) -> i64:
        signed: int = read_i32_be(data, pos)
        size: i64 = signed
        if size < 0:
            size += 0x1_0000_0000
        if size < FRAME_HEADER_BYTES:
            raise FramingError(f"a frame size of {size} bytes; its header alone is {FRAME_HEADER_BYTES}")
        if size > self.max_frame_bytes:
            raise FramingError(
                f"a frame of {size} bytes, above the max-frame-size of {self.max_frame_bytes} granted here"
            )
        return size

    def performative(self) -> Performative:
        """Reads the performative of an AMQP frame; DecodeError if there is none, or bytes after one that
        takes no payload.
        """
        performative = read_performative(self._reader, self._last_state)
        if self._reader.pos != self._reader.end and not isinstance(performative, Transfer):
            raise self._reader.fail("bytes left over after a performative that carries no payload")
        return performative

    def sasl_body(self) -> SaslFrame:
        """Reads the body of a SASL frame; DecodeError if there is none or bytes are left over."""
        body = read_sasl(self._reader)
        if self._reader.pos != self._reader.end:
            raise self._reader.fail("bytes left over after the body of a SASL frame")
        return body

    def payload(self) -> bytes:
        """What follows the performative that was read: a transfer's part of the message."""
        r = self._reader
        return r.data[r.pos : r.end]


# --- writing


def _begin_frame(w: BytesWriter, frame_type: int, channel: i64) -> i64:
    """Appends a frame header without its size, gives the place that :func:`_end_frame` wants."""
    start = len(w)
    write_i32_be(w, 0)
    w.append(2)
    w.append(frame_type)
    write_u16(w, channel)
    return start


def _end_frame(w: BytesWriter, start: i64, behind: i64 = 0) -> None:
    """``behind``: bytes of the frame that are put out behind what is in the writer."""
    size: int = len(w) - start + behind
    w[start] = size >> 24 & 0xFF
    w[start + 1] = size >> 16 & 0xFF
    w[start + 2] = size >> 8 & 0xFF
    w[start + 3] = size & 0xFF


def write_empty_frame(w: BytesWriter, channel: i64 = 0) -> None:
    """Appends a heartbeat."""
    _end_frame(w, _begin_frame(w, FRAME_TYPE_AMQP, channel))


def write_frame(
    w: BytesWriter, channel: i64, performative: Performative, payload: bytes = b"", behind: i64 = 0
) -> None:
    """Appends a frame with any performative and, for a transfer, its payload. ``behind``: of the payload so
    many bytes more belong to the frame, which the caller puts out next.
    """
    start = _begin_frame(w, FRAME_TYPE_AMQP, channel)
    performative.write(w)
    w.write(payload)
    _end_frame(w, start, behind)


def write_sasl_frame(w: BytesWriter, body: SaslFrame) -> None:
    """Appends a SASL frame."""
    start = _begin_frame(w, FRAME_TYPE_SASL, 0)
    body.write(w)
    _end_frame(w, start)


def _write_uint(w: BytesWriter, value: i64) -> None:
    if value == 0:
        w.append(c.UINT_0)
    elif 0 < value < 256:
        w.append(c.UINT_8)
        w.append(value)
    else:
        number = in_range(value, MAX_UINT, "uint")
        w.append(c.UINT)
        write_u32(w, number)


def _write_uint_or_null(w: BytesWriter, value: int | None) -> None:
    if value is None:
        w.append(c.NULL)
    else:
        _write_uint(w, value)


def _begin_list(w: BytesWriter, descriptor: int, count: int) -> i64:
    """Appends a descriptor and a list header without its size, gives the place of the size."""
    w.append(c.DESCRIBED)
    w.append(c.ULONG_8)
    w.append(descriptor)
    w.append(c.LIST_8)
    place = len(w)
    w.append(0)
    w.append(count)
    return place


def _end_list(w: BytesWriter, place: i64) -> None:
    size: int = len(w) - place - 1
    w[place] = size


def write_transfer(
    w: BytesWriter,
    channel: i64,
    handle: i64,
    delivery_id: i64,
    tag: bytes,
    message_format: i64,
    settled: bool,
    more: bool,
    payload: bytes,
    behind: i64 = 0,
) -> None:
    """Appends a frame with a transfer that has no state: the hot path of sending. ``behind``: of the payload
    so many bytes more belong to the frame, which the caller puts out next.

    ``tag`` is at most MAX_FAST_TAG_BYTES long, which is also the specification's limit. What is not here
    (state, resume, aborted, the frames after a delivery's first) goes through :func:`write_frame`.
    """
    if len(tag) > MAX_FAST_TAG_BYTES:
        raise EncodeError(f"a delivery-tag of {len(tag)} bytes; at most {MAX_FAST_TAG_BYTES} are allowed")
    start = _begin_frame(w, FRAME_TYPE_AMQP, channel)
    place = _begin_list(w, d.TRANSFER, 6 if more else 5)
    _write_uint(w, handle)
    _write_uint(w, delivery_id)
    w.append(c.BINARY_8)
    w.append(len(tag))
    w.write(tag)
    _write_uint(w, message_format)
    w.append(c.TRUE if settled else c.FALSE)
    if more:
        w.append(c.TRUE)
    _end_list(w, place)
    w.write(payload)
    _end_frame(w, start, behind)


def write_settled_transfer(
    w: BytesWriter, channel: i64, handle: i64, delivery_id: i64, state: bytes, payload: bytes
) -> None:
    """Appends a frame with a whole message that is settled as it is sent; ``state`` is encoded, b"": none.

    Nobody speaks of such a delivery again: its tag, which a transfer has to have, is its id.
    """
    start = _begin_frame(w, FRAME_TYPE_AMQP, channel)
    place = _begin_list(w, d.TRANSFER, 8 if state else 5)
    _write_uint(w, handle)
    _write_uint(w, delivery_id)
    w.append(c.BINARY_8)
    w.append(_ID_TAG_BYTES)
    write_u32(w, delivery_id)
    w.append(c.UINT_0)
    w.append(c.TRUE)
    if state:
        w.append(c.NULL)
        w.append(c.NULL)
        w.write(state)
    _end_list(w, place)
    w.write(payload)
    _end_frame(w, start)


def write_disposition(
    w: BytesWriter,
    channel: i64,
    role: bool,
    first: i64,
    last: i64,
    settled: bool,
    state: DeliveryState | None,
) -> None:
    """Appends a frame with a disposition over the deliveries ``first`` to ``last``."""
    start = _begin_frame(w, FRAME_TYPE_AMQP, channel)
    if state is None or isinstance(state, Accepted):
        place = _begin_list(w, d.DISPOSITION, 4 if state is None else 5)
        _write_disposition_fields(w, role, first, last, settled)
        if state is not None:
            w.write(ACCEPTED_BYTES)
        _end_list(w, place)
    else:
        Disposition(role, first, last, settled, state).write(w)
    _end_frame(w, start)


def _write_disposition_fields(w: BytesWriter, role: bool, first: i64, last: i64, settled: bool) -> None:
    w.append(c.TRUE if role else c.FALSE)
    _write_uint(w, first)
    if last == first:
        w.append(c.NULL)
    else:
        _write_uint(w, last)
    w.append(c.TRUE if settled else c.FALSE)


def write_flow(w: BytesWriter, channel: i64, flow: Flow) -> None:
    """Appends a frame with a flow; fast for one that speaks of a link and has no properties."""
    if flow.handle is None or flow.properties is not None:
        return write_frame(w, channel, flow)
    start = _begin_frame(w, FRAME_TYPE_AMQP, channel)
    place = _begin_list(w, d.FLOW, 10)
    _write_uint_or_null(w, flow.next_incoming_id)
    _write_uint(w, flow.incoming_window)
    _write_uint(w, flow.next_outgoing_id)
    _write_uint(w, flow.outgoing_window)
    _write_uint(w, flow.handle)
    _write_uint_or_null(w, flow.delivery_count)
    _write_uint_or_null(w, flow.link_credit)
    _write_uint_or_null(w, flow.available)
    w.append(c.TRUE if flow.drain else c.FALSE)
    w.append(c.TRUE if flow.echo else c.FALSE)
    _end_list(w, place)
    return _end_frame(w, start)
