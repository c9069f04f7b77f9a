"""Delivery states and outcomes (part 3, section 3.4), with those of transactions (part 4, section 4.5), and
Error.
"""

from dataclasses import dataclass
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.composite import Composite, Error, read_error
from postroom.amqp.encoding.field_reader import ABSENT, Fields, read_descriptor
from postroom.amqp.encoding.field_writer import FieldWriter
from postroom.amqp.encoding.reader import Reader


class DeliveryState(Composite):
    """What one end says about a delivery; the outcomes among them are terminal."""


@final
@dataclass
class Received(DeliveryState):
    """Not terminal: how far the receiver has got (part 3, section 3.4.1)."""

    section_number: int
    section_offset: int

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.uint(self.section_number)
        f.ulong(self.section_offset)
        f.finish(w, d.RECEIVED)


@final
@dataclass
class Accepted(DeliveryState):
    """The receiver has taken the message; the sender may forget it (part 3, section 3.4.2)."""

    def write(self, w: BytesWriter) -> None:
        FieldWriter().finish(w, d.ACCEPTED)


@final
@dataclass
class Rejected(DeliveryState):
    """The message is invalid for the receiver (part 3, section 3.4.3)."""

    error: Error | None = None

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.composite(self.error)
        f.finish(w, d.REJECTED)


@final
@dataclass
class Released(DeliveryState):
    """Not processed; available to anyone again (part 3, section 3.4.4)."""

    def write(self, w: BytesWriter) -> None:
        FieldWriter().finish(w, d.RELEASED)


@final
@dataclass
class Modified(DeliveryState):
    """Not processed; the message is to be changed before it is available again (part 3, section 3.4.5)."""

    delivery_failed: bool = False
    undeliverable_here: bool = False
    message_annotations: dict[object, object] | None = None

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.boolean(self.delivery_failed, False)
        f.boolean(self.undeliverable_here, False)
        f.symbol_map(self.message_annotations)
        f.finish(w, d.MODIFIED)


@final
@dataclass
class Declared(DeliveryState):
    """The outcome of a :class:`Declare`: the transaction's id (part 4, section 4.5.4)."""

    txn_id: bytes

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.binary(self.txn_id)
        f.finish(w, d.DECLARED)


@final
@dataclass
class TransactionalState(DeliveryState):
    """A state that takes effect when its transaction is discharged (part 4, section 4.5.5)."""

    txn_id: bytes
    outcome: DeliveryState | None = None

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.binary(self.txn_id)
        f.composite(self.outcome)
        f.finish(w, d.TRANSACTIONAL_STATE)


@final
class Declare(Composite):
    """The body of the message that begins a transaction (part 4, section 4.5.2).

    ``global_id`` is any AMQP value; None asks for a local transaction.
    """

    def __init__(self, global_id: object = None) -> None:
        self.global_id = global_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Declare) and self.global_id == other.global_id

    def __hash__(self) -> int:
        return hash(self.global_id)

    def __repr__(self) -> str:
        return f"Declare(global_id={self.global_id!r})"

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.value(self.global_id)
        f.finish(w, d.DECLARE)


@final
@dataclass
class Discharge(Composite):
    """The body of the message that ends a transaction (part 4, section 4.5.3): ``fail`` rolls back."""

    txn_id: bytes
    fail: bool = False

    def write(self, w: BytesWriter) -> None:
        f = FieldWriter()
        f.binary(self.txn_id)
        f.boolean(self.fail, False)
        f.finish(w, d.DISCHARGE)


ACCEPTED: Final = Accepted()
RELEASED: Final = Released()


@final
class LastTransactionalState:
    """The last one that was read on a connection, by its bytes: transfers and dispositions in a transaction
    name the same again and again, and then one object says so.
    """

    __slots__ = ("data", "state")

    def __init__(self) -> None:
        self.data: bytes = b""
        """As it was encoded; b"": none was read yet."""
        self.state: DeliveryState | None = None


def read_state(r: Reader, code: i64) -> DeliveryState:
    """The delivery state whose descriptor was just passed."""
    if code == d.ACCEPTED:
        Fields(r, "accepted").close()
        return ACCEPTED
    if code == d.RECEIVED:
        return _read_received(r)
    if code == d.DECLARED:
        return _read_declared(r)
    if code == d.TRANSACTIONAL_STATE:
        return _read_transactional(r)
    return _read_outcome(r, code)


def read_optional_state(f: Fields, field: str) -> DeliveryState | None:
    """The next field, a delivery state; None when absent."""
    code = f.descriptor(field)
    return None if code == ABSENT else read_state(f.reader, code)


def _read_outcome(r: Reader, code: i64) -> DeliveryState:
    if code == d.ACCEPTED:
        Fields(r, "accepted").close()
        return ACCEPTED
    if code == d.RELEASED:
        Fields(r, "released").close()
        return RELEASED
    if code == d.REJECTED:
        return _read_rejected(r)
    if code == d.MODIFIED:
        return _read_modified(r)
    raise r.fail(f"descriptor 0x{int(code):x} is not that of a delivery state that may stand here")


def _read_received(r: Reader) -> Received:
    f = Fields(r, "received")
    state = Received(f.uint("section-number"), f.ulong("section-offset"))
    f.close()
    return state


def _read_rejected(r: Reader) -> Rejected:
    f = Fields(r, "rejected")
    state = Rejected(read_error(f))
    f.close()
    return state


def _read_modified(r: Reader) -> Modified:
    f = Fields(r, "modified")
    state = Modified(
        f.boolean_or("delivery-failed", False),
        f.boolean_or("undeliverable-here", False),
        f.symbol_map("message-annotations"),
    )
    f.close()
    return state


def _read_declared(r: Reader) -> Declared:
    f = Fields(r, "declared")
    state = Declared(f.binary("txn-id"))
    f.close()
    return state


def _read_transactional(r: Reader) -> TransactionalState:
    f = Fields(r, "transactional-state")
    txn_id = f.binary("txn-id")
    code = f.descriptor("outcome")
    state = TransactionalState(txn_id, None if code == ABSENT else _read_outcome(r, code))
    f.close()
    return state


def decode_declare_or_discharge(data: bytes, start: int) -> Declare | Discharge:
    """What the value of a message to a coordinator is; DecodeError for anything else."""
    r = Reader(data, start, len(data))
    code = read_descriptor(r)
    if code == d.DECLARE:
        f = Fields(r, "declare")
        declare = Declare(f.value("global-id"))
        f.close()
        return declare
    if code == d.DISCHARGE:
        f = Fields(r, "discharge")
        discharge = Discharge(f.binary("txn-id"), f.boolean_or("fail", False))
        f.close()
        return discharge
    raise r.fail("a coordinator takes declare and discharge only")
