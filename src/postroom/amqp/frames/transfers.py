"""The three performatives of the hot path: transfer, disposition and flow (part 2, sections 2.7.4 to
2.7.6).
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be
from mypy_extensions import i64, mypyc_attr

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.composite import Performative
from postroom.amqp.encoding.field_reader import Fields
from postroom.amqp.encoding.field_writer import FieldWriter
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    DeliveryState,
    LastTransactionalState,
    TransactionalState,
    read_optional_state,
)

# role (section 2.8.1).
SENDER: Final = False
RECEIVER: Final = True

# sender-settle-mode, receiver-settle-mode (sections 2.8.2 and 2.8.3).
SND_UNSETTLED: Final = 0
SND_SETTLED: Final = 1
SND_MIXED: Final = 2
RCV_FIRST: Final = 0
RCV_SECOND: Final = 1

ACCEPTED_BYTES: Final = b"\x00\x53\x24\x45"
"""The smallest encoding of the outcome accepted."""


@final
class Flow(Performative):
    """Updates windows and credit (section 2.7.4); without a handle it speaks of the session only."""

    def __init__(
        self,
        incoming_window: i64,
        next_outgoing_id: i64,
        outgoing_window: i64,
        *,
        next_incoming_id: int | None = None,
        handle: int | None = None,
        delivery_count: int | None = None,
        link_credit: int | None = None,
        available: int | None = None,
        drain: bool = False,
        echo: bool = False,
        properties: dict[object, object] | None = None,
    ) -> None:
        self.next_incoming_id = next_incoming_id
        self.incoming_window = incoming_window
        self.next_outgoing_id = next_outgoing_id
        self.outgoing_window = outgoing_window
        self.handle = handle
        self.delivery_count = delivery_count
        self.link_credit = link_credit
        self.available = available
        self.drain = drain
        self.echo = echo
        self.properties = properties

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.uint(self.next_incoming_id)
        f.uint(self.incoming_window)
        f.uint(self.next_outgoing_id)
        f.uint(self.outgoing_window)
        f.uint(self.handle)
        f.uint(self.delivery_count)
        f.uint(self.link_credit)
        f.uint(self.available)
        f.boolean(self.drain, False)
        f.boolean(self.echo, False)
        f.symbol_map(self.properties)
        f.finish(w, d.FLOW)


@mypyc_attr(free_list_len=1)
@final
class Transfer(Performative):
    """Carries a message or part of one (section 2.7.5); the payload follows it in the frame."""

    def __init__(
        self,
        handle: i64,
        delivery_id: int | None = None,
        delivery_tag: bytes | None = None,
        *,
        message_format: int | None = None,
        settled: bool | None = None,
        more: bool = False,
        rcv_settle_mode: int | None = None,
        state: DeliveryState | None = None,
        resume: bool = False,
        aborted: bool = False,
        batchable: bool = False,
    ) -> None:
        self.handle = handle
        self.delivery_id = delivery_id
        self.delivery_tag = delivery_tag
        self.message_format = message_format
        self.settled = settled
        self.more = more
        self.rcv_settle_mode = rcv_settle_mode
        self.state = state
        self.resume = resume
        self.aborted = aborted
        self.batchable = batchable

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.uint(self.handle)
        f.uint(self.delivery_id)
        f.binary(self.delivery_tag)
        f.uint(self.message_format)
        f.boolean(self.settled)
        f.boolean(self.more, False)
        f.ubyte(self.rcv_settle_mode)
        f.composite(self.state)
        f.boolean(self.resume, False)
        f.boolean(self.aborted, False)
        f.boolean(self.batchable, False)
        f.finish(w, d.TRANSFER)


@mypyc_attr(free_list_len=1)
@final
class Disposition(Performative):
    """Says what became of deliveries ``first`` to ``last`` (section 2.7.6); absent, ``last`` is ``first``."""

    def __init__(
        self,
        role: bool,
        first: i64,
        last: i64,
        settled: bool = False,
        state: DeliveryState | None = None,
        batchable: bool = False,
    ) -> None:
        self.role = role
        self.first = first
        self.last = last
        self.settled = settled
        self.state = state
        self.batchable = batchable

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.boolean(self.role)
        f.uint(self.first)
        f.uint(self.last, self.first)
        f.boolean(self.settled, False)
        f.composite(self.state)
        f.boolean(self.batchable, False)
        f.finish(w, d.DISPOSITION)


def read_transfer(r: Reader, last: LastTransactionalState) -> Transfer:
    """The fields of a transfer, its descriptor passed."""
    common = _common_transfer(r, last)
    return _any_transfer(r, last) if common is None else common


def read_disposition(r: Reader, last: LastTransactionalState) -> Disposition:
    """The fields of a disposition, its descriptor passed."""
    common = _common_disposition(r, last)
    return _any_disposition(r, last) if common is None else common


# --- the forms that most clients send
#
# Nothing is checked on the way. A read past the list's end shows at the end, as one past the bytes shows as
# IndexError; then, and for every other form, None and the unmoved reader leave the matter to the general
# functions, which know what to say of what is wrong.


_RCV_SETTLE_MODE: Final = 6
_STATE: Final = 7
_TRANSFER_FIELDS: Final = 11
_MAX_STATE_BYTES: Final = 64
"""Longer transactional states are read anew each time."""


def _uint_at(data: bytes, pos: i64) -> i64:
    """The uint whose constructor is at ``pos``; -1 if there is none."""
    code = data[pos]
    if code == c.UINT_8:
        return data[pos + 1]
    if code == c.UINT_0:
        return 0
    if code == c.UINT:
        signed: int = read_i32_be(data, pos + 1)
        return signed if signed >= 0 else signed + 0x1_0000_0000
    return -1


def _short_list_end(r: Reader) -> i64:
    """Where the list that begins here ends, if it has a one-byte size and lies within the reader's end; else
    0.
    """
    pos = r.pos
    if r.end - pos < 3 or r.data[pos] != c.LIST_8:
        return 0
    end = pos + 2 + r.data[pos + 1]
    return end if end <= r.end else 0


def _common_transfer(r: Reader, last: LastTransactionalState) -> Transfer | None:
    """Handle, delivery-id, a short tag, format, perhaps settled, more and the last state again, and then
    nothing but null and false.
    """
    end = _short_list_end(r)
    if end == 0:
        return None
    data = r.data
    pos = r.pos + 3
    count: i64 = data[pos - 1]
    if count < 4 or count > _TRANSFER_FIELDS:
        return None
    try:
        handle = _uint_at(data, pos)
        pos += 1 + c.WIDTHS[data[pos]]
        delivery_id = _uint_at(data, pos)
        pos += 1 + c.WIDTHS[data[pos]]
        if data[pos] != c.BINARY_8:
            return None
        tag_start = pos + 2
        pos = tag_start + data[pos + 1]
        tag = data[tag_start:pos]
        message_format = _uint_at(data, pos)
        pos += 1 + c.WIDTHS[data[pos]]
        settled: i64 = c.NULL
        if count > 4:
            settled = data[pos]
            pos += 1
        if handle < 0 or delivery_id < 0 or message_format < 0 or not c.NULL <= settled <= c.FALSE:
            return None
        more = count > 5 and data[pos] == c.TRUE
        pos += 1 if more else 0
        state: DeliveryState | None = None
        for field in range(6 if more else 5, count):
            code = data[pos]
            if field == _STATE and code == c.DESCRIBED:
                state = last.state
                if state is None or not data.startswith(last.data, pos):
                    return None
                pos += len(last.data)
            elif code == c.NULL or (code == c.FALSE and field not in (_RCV_SETTLE_MODE, _STATE)):
                pos += 1
            else:
                return None
    except IndexError:
        return None
    if pos != end:
        return None
    r.pos = pos
    return Transfer(
        handle,
        delivery_id,
        tag,
        message_format=message_format,
        settled=None if settled == c.NULL else settled == c.TRUE,
        more=more,
        state=state,
    )


def _common_disposition(r: Reader, last_state: LastTransactionalState) -> Disposition | None:
    """Role, first, perhaps last, settled, accepted or the last state again."""
    end = _short_list_end(r)
    if end == 0:
        return None
    data = r.data
    pos = r.pos + 3
    if data[pos - 1] != 5:
        return None
    try:
        role = data[pos]
        first = _uint_at(data, pos + 1)
        pos += 2 + c.WIDTHS[data[pos + 1]]
        last = first if data[pos] == c.NULL else _uint_at(data, pos)
        pos += 1 + c.WIDTHS[data[pos]]
        settled = data[pos]
    except IndexError:
        return None
    if (role != c.TRUE and role != c.FALSE) or (settled != c.TRUE and settled != c.FALSE):
        return None
    if first < 0 or last < 0 or pos >= end:
        return None
    rest = data[pos + 1 : end]
    state: DeliveryState | None = ACCEPTED
    if rest != ACCEPTED_BYTES:
        state = last_state.state
        if state is None or rest != last_state.data:
            return None
    r.pos = end
    return Disposition(role == c.TRUE, first, last, settled == c.TRUE, state)


# --- every form


def _read_state(f: Fields, last: LastTransactionalState) -> DeliveryState | None:
    """The field state, which is kept as the last one where a transaction's may come again."""
    start = f.reader.pos
    state = read_optional_state(f, "state")
    if isinstance(state, TransactionalState) and f.reader.pos - start <= _MAX_STATE_BYTES:
        last.data = f.reader.data[start : f.reader.pos]
        last.state = state
    return state


def _any_transfer(r: Reader, last: LastTransactionalState) -> Transfer:
    f = Fields(r, "transfer")
    transfer = Transfer(
        handle=f.uint("handle"),
        delivery_id=f.optional_uint("delivery-id"),
        delivery_tag=f.optional_binary("delivery-tag"),
        message_format=f.optional_uint("message-format"),
        settled=f.optional_boolean("settled"),
        more=f.boolean_or("more", False),
        rcv_settle_mode=f.optional_ubyte("rcv-settle-mode", RCV_SECOND),
        state=_read_state(f, last),
        resume=f.boolean_or("resume", False),
        aborted=f.boolean_or("aborted", False),
        batchable=f.boolean_or("batchable", False),
    )
    f.close()
    return transfer


def _any_disposition(r: Reader, last: LastTransactionalState) -> Disposition:
    f = Fields(r, "disposition")
    role = f.boolean("role")
    first = f.uint("first")
    disposition = Disposition(
        role,
        first,
        f.uint_or("last", first),
        f.boolean_or("settled", False),
        _read_state(f, last),
        f.boolean_or("batchable", False),
    )
    f.close()
    return disposition


def read_flow(r: Reader) -> Flow:
    """The fields of a flow, its descriptor passed."""
    f = Fields(r, "flow")
    next_incoming_id = f.optional_uint("next-incoming-id")
    flow = Flow(
        incoming_window=f.uint("incoming-window"),
        next_outgoing_id=f.uint("next-outgoing-id"),
        outgoing_window=f.uint("outgoing-window"),
        next_incoming_id=next_incoming_id,
        handle=f.optional_uint("handle"),
        delivery_count=f.optional_uint("delivery-count"),
        link_credit=f.optional_uint("link-credit"),
        available=f.optional_uint("available"),
        drain=f.boolean_or("drain", False),
        echo=f.boolean_or("echo", False),
        properties=f.symbol_map("properties"),
    )
    f.close()
    return flow
