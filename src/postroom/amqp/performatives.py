"""The nine performatives of AMQP 1.0 (part 2, section 2.7), with the specification's field names and
defaults.

None is an absent field; where the specification gives a default, an absent field reads as the default, and a
field that has it is not sent. Lists of symbols ("multiple" fields) are empty when absent: the specification
treats the two alike.
"""

from dataclasses import dataclass, field
from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.composite import Composite, Error
from postroom.amqp.outcomes import (
    ACCEPTED,
    RELEASED,
    Accepted,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from postroom.amqp.termini import Coordinator, Source, Target
from postroom.amqp.types import MAX_UINT, MAX_USHORT

__all__ = [
    "ACCEPTED",
    "RCV_FIRST",
    "RCV_SECOND",
    "RECEIVER",
    "RELEASED",
    "SENDER",
    "SND_MIXED",
    "SND_SETTLED",
    "SND_UNSETTLED",
    "Accepted",
    "Attach",
    "Begin",
    "Close",
    "Composite",
    "Coordinator",
    "Declare",
    "Declared",
    "DeliveryState",
    "Detach",
    "Discharge",
    "Disposition",
    "End",
    "Error",
    "Flow",
    "Modified",
    "Open",
    "Performative",
    "Received",
    "Rejected",
    "Released",
    "Source",
    "Target",
    "TransactionalState",
    "Transfer",
]

# role (section 2.8.1).
SENDER: Final = False
RECEIVER: Final = True

# sender-settle-mode, receiver-settle-mode (sections 2.8.2 and 2.8.3).
SND_UNSETTLED: Final = 0
SND_SETTLED: Final = 1
SND_MIXED: Final = 2
RCV_FIRST: Final = 0
RCV_SECOND: Final = 1


class Performative(Composite):
    """The operation that a frame carries."""


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


@final
class Flow(Performative):
    """Updates windows and credit (section 2.7.4); without a handle it speaks of the session only."""

    def __init__(
        self,
        incoming_window: i64,
        next_outgoing_id: i64,
        outgoing_window: i64,
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


@final
class Transfer(Performative):
    """Carries a message or part of one (section 2.7.5); the payload follows it in the frame."""

    def __init__(
        self,
        handle: i64,
        delivery_id: int | None = None,
        delivery_tag: bytes | None = None,
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


@final
@dataclass(kw_only=True)
class Detach(Performative):
    """Detaches a link; ``closed`` ends it for good (section 2.7.7)."""

    handle: int
    closed: bool = False
    error: Error | None = None


@final
@dataclass(kw_only=True)
class End(Performative):
    """Ends a session (section 2.7.8)."""

    error: Error | None = None


@final
@dataclass(kw_only=True)
class Close(Performative):
    """Ends the connection (section 2.7.9)."""

    error: Error | None = None
