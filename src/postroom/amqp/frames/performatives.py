"""The nine performatives of AMQP 1.0 (part 2, section 2.7), with the specification's field names and
defaults.

None is an absent field; where the specification gives a default, an absent field reads as the default, and a
field that has it is not sent. Lists of symbols ("multiple" fields) are empty when absent: the specification
treats the two alike.
"""

from dataclasses import dataclass, field
from typing import final

from librt.strings import BytesWriter
from mypy_extensions import i64

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.composite import Error, Performative, read_error
from postroom.amqp.encoding.field_reader import Fields, read_descriptor
from postroom.amqp.encoding.field_writer import FieldWriter
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.types import MAX_UINT, MAX_USHORT
from postroom.amqp.frames.outcomes import DeliveryState, LastTransactionalState, read_state
from postroom.amqp.frames.termini import Coordinator, Source, Target, read_source, read_target
from postroom.amqp.frames.transfers import (
    RCV_FIRST,
    RCV_SECOND,
    SND_MIXED,
    read_disposition,
    read_flow,
    read_transfer,
)


@final
@dataclass(kw_only=True)
class Open(Performative):
    """Begins a connection (section 2.7.1). ``idle_timeout`` in milliseconds."""

    container_id: str
    hostname: str | None = None
    max_frame_size: int = MAX_UINT
    channel_max: int = MAX_USHORT
    idle_timeout: int | None = None
    outgoing_locales: list[str] = field(default_factory=list)
    incoming_locales: list[str] = field(default_factory=list)
    offered_capabilities: list[str] = field(default_factory=list)
    desired_capabilities: list[str] = field(default_factory=list)
    properties: dict[object, object] | None = None

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.string(self.container_id)
        f.string(self.hostname)
        f.uint(self.max_frame_size, MAX_UINT)
        f.ushort(self.channel_max, MAX_USHORT)
        f.uint(self.idle_timeout)
        f.symbols(self.outgoing_locales)
        f.symbols(self.incoming_locales)
        f.symbols(self.offered_capabilities)
        f.symbols(self.desired_capabilities)
        f.symbol_map(self.properties)
        f.finish(w, d.OPEN)


@final
@dataclass(kw_only=True)
class Begin(Performative):
    """Begins a session (section 2.7.2)."""

    remote_channel: int | None = None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int = MAX_UINT
    offered_capabilities: list[str] = field(default_factory=list)
    desired_capabilities: list[str] = field(default_factory=list)
    properties: dict[object, object] | None = None

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.ushort(self.remote_channel)
        f.uint(self.next_outgoing_id)
        f.uint(self.incoming_window)
        f.uint(self.outgoing_window)
        f.uint(self.handle_max, MAX_UINT)
        f.symbols(self.offered_capabilities)
        f.symbols(self.desired_capabilities)
        f.symbol_map(self.properties)
        f.finish(w, d.BEGIN)


@final
@dataclass(kw_only=True)
class Attach(Performative):
    """Attaches a link (section 2.7.3)."""

    name: str
    handle: int
    role: bool
    snd_settle_mode: int = SND_MIXED
    rcv_settle_mode: int = RCV_FIRST
    source: Source | None = None
    target: Target | Coordinator | None = None
    unsettled: dict[bytes, DeliveryState | None] | None = None
    incomplete_unsettled: bool = False
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    """Bytes; None and 0 both say that no limit is imposed."""
    offered_capabilities: list[str] = field(default_factory=list)
    desired_capabilities: list[str] = field(default_factory=list)
    properties: dict[object, object] | None = None

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.string(self.name)
        f.uint(self.handle)
        f.boolean(self.role)
        f.ubyte(self.snd_settle_mode, SND_MIXED)
        f.ubyte(self.rcv_settle_mode, RCV_FIRST)
        f.composite(self.source)
        f.composite(self.target)
        f.unsettled_map(self.unsettled)
        f.boolean(self.incomplete_unsettled, False)
        f.uint(self.initial_delivery_count)
        f.ulong(self.max_message_size)
        f.symbols(self.offered_capabilities)
        f.symbols(self.desired_capabilities)
        f.symbol_map(self.properties)
        f.finish(w, d.ATTACH)


@final
@dataclass(kw_only=True)
class Detach(Performative):
    """Detaches a link; ``closed`` ends it for good (section 2.7.7)."""

    handle: int
    closed: bool = False
    error: Error | None = None

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.uint(self.handle)
        f.boolean(self.closed, False)
        f.composite(self.error)
        f.finish(w, d.DETACH)


@final
@dataclass(kw_only=True)
class End(Performative):
    """Ends a session (section 2.7.8)."""

    error: Error | None = None

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.composite(self.error)
        f.finish(w, d.END)


@final
@dataclass(kw_only=True)
class Close(Performative):
    """Ends the connection (section 2.7.9)."""

    error: Error | None = None

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.composite(self.error)
        f.finish(w, d.CLOSE)


def read_performative(r: Reader, last: LastTransactionalState) -> Performative:
    """Reads one performative; DecodeError for anything else. ``last`` is that of the connection."""
    code = read_descriptor(r)
    if code == d.TRANSFER:
        return read_transfer(r, last)
    if code == d.DISPOSITION:
        return read_disposition(r, last)
    if code == d.FLOW:
        return read_flow(r)
    if code == d.ATTACH:
        return _read_attach(r)
    if code == d.DETACH:
        return _read_detach(r)
    return _read_rare(r, code)


def _read_rare(r: Reader, code: i64) -> Performative:
    if code == d.BEGIN:
        return _read_begin(r)
    if code == d.END:
        return _read_end(r)
    if code == d.OPEN:
        return _read_open(r)
    if code == d.CLOSE:
        return _read_close(r)
    raise r.fail(f"descriptor 0x{int(code):x} is not that of a performative")


def _read_attach(r: Reader) -> Attach:
    f = Fields(r, "attach")
    attach = Attach(
        name=f.string("name"),
        handle=f.uint("handle"),
        role=f.boolean("role"),
        snd_settle_mode=f.ubyte_or("snd-settle-mode", SND_MIXED, SND_MIXED),
        rcv_settle_mode=f.ubyte_or("rcv-settle-mode", RCV_SECOND, RCV_FIRST),
        source=read_source(f),
        target=read_target(f),
        unsettled=_read_unsettled(f),
        incomplete_unsettled=f.boolean_or("incomplete-unsettled", False),
        initial_delivery_count=f.optional_uint("initial-delivery-count"),
        max_message_size=f.optional_ulong("max-message-size"),
        offered_capabilities=f.symbols("offered-capabilities"),
        desired_capabilities=f.symbols("desired-capabilities"),
        properties=f.symbol_map("properties"),
    )
    f.close()
    return attach


def _read_unsettled(f: Fields) -> dict[bytes, DeliveryState | None] | None:
    if f.absent():
        return None
    r = f.reader
    outer_end = r.end
    code = r.take_byte()
    if code != c.MAP_8 and code != c.MAP_32:
        raise f.wrong(code, "unsettled", "map")
    count = r.open_compound(code)
    if count & 1:
        raise r.fail("unsettled: the last delivery-tag has no value")
    unsettled: dict[bytes, DeliveryState | None] = {}
    for _ in range(count >> 1):
        tag = r.value()
        if not isinstance(tag, bytes) or tag in unsettled:
            raise r.fail("unsettled: a key that is not a delivery-tag, or is there twice")
        unsettled[tag] = _read_state_or_null(r)
    r.close_compound(outer_end)
    return unsettled


def _read_state_or_null(r: Reader) -> DeliveryState | None:
    r.need(1)
    if r.data[r.pos] == c.NULL:
        r.pos += 1
        return None
    return read_state(r, read_descriptor(r))


def _read_detach(r: Reader) -> Detach:
    f = Fields(r, "detach")
    detach = Detach(handle=f.uint("handle"), closed=f.boolean_or("closed", False), error=read_error(f))
    f.close()
    return detach


def _read_begin(r: Reader) -> Begin:
    f = Fields(r, "begin")
    begin = Begin(
        remote_channel=f.optional_ushort("remote-channel"),
        next_outgoing_id=f.uint("next-outgoing-id"),
        incoming_window=f.uint("incoming-window"),
        outgoing_window=f.uint("outgoing-window"),
        handle_max=f.uint_or("handle-max", MAX_UINT),
        offered_capabilities=f.symbols("offered-capabilities"),
        desired_capabilities=f.symbols("desired-capabilities"),
        properties=f.symbol_map("properties"),
    )
    f.close()
    return begin


def _read_end(r: Reader) -> End:
    f = Fields(r, "end")
    end = End(error=read_error(f))
    f.close()
    return end


def _read_open(r: Reader) -> Open:
    f = Fields(r, "open")
    opened = Open(
        container_id=f.string("container-id"),
        hostname=f.optional_string("hostname"),
        max_frame_size=f.uint_or("max-frame-size", MAX_UINT),
        channel_max=f.ushort_or("channel-max", MAX_USHORT),
        idle_timeout=f.optional_uint("idle-time-out"),
        outgoing_locales=f.symbols("outgoing-locales"),
        incoming_locales=f.symbols("incoming-locales"),
        offered_capabilities=f.symbols("offered-capabilities"),
        desired_capabilities=f.symbols("desired-capabilities"),
        properties=f.symbol_map("properties"),
    )
    f.close()
    return opened


def _read_close(r: Reader) -> Close:
    f = Fields(r, "close")
    close = Close(error=read_error(f))
    f.close()
    return close
