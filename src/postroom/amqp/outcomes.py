"""Delivery states and outcomes (part 3, section 3.4), with those of transactions (part 4, section 4.5)."""

from dataclasses import dataclass
from typing import Final, final

from postroom.amqp.composite import Composite, Error


class DeliveryState(Composite):
    """What one end says about a delivery; the outcomes among them are terminal."""


@final
@dataclass
class Received(DeliveryState):
    """Not terminal: how far the receiver has got (part 3, section 3.4.1)."""

    section_number: int
    section_offset: int


@final
@dataclass
class Accepted(DeliveryState):
    """The receiver has taken the message; the sender may forget it (part 3, section 3.4.2)."""


@final
@dataclass
class Rejected(DeliveryState):
    """The message is invalid for the receiver (part 3, section 3.4.3)."""

    error: Error | None = None


@final
@dataclass
class Released(DeliveryState):
    """Not processed; available to anyone again (part 3, section 3.4.4)."""


@final
@dataclass
class Modified(DeliveryState):
    """Not processed; the message is to be changed before it is available again (part 3, section 3.4.5)."""

    delivery_failed: bool = False
    undeliverable_here: bool = False
    message_annotations: dict[object, object] | None = None


@final
@dataclass
class Declared(DeliveryState):
    """The outcome of a :class:`Declare`: the transaction's id (part 4, section 4.5.4)."""

    txn_id: bytes


@final
@dataclass
class TransactionalState(DeliveryState):
    """A state that takes effect when its transaction is discharged (part 4, section 4.5.5)."""

    txn_id: bytes
    outcome: DeliveryState | None = None


@final
@dataclass
class Declare(Composite):
    """The body of the message that begins a transaction (part 4, section 4.5.2)."""

    global_id: object = None
    """Any AMQP value."""


@final
@dataclass
class Discharge(Composite):
    """The body of the message that ends a transaction (part 4, section 4.5.3): ``fail`` rolls back."""

    txn_id: bytes
    fail: bool = False


ACCEPTED: Final = Accepted()
RELEASED: Final = Released()
