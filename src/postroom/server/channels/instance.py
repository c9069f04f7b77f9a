"""One run of a channel: from its start, or its partner's call, to the end of its link.

What lasts longer (the state, retries, what survives a restart) is the channel's own, `supervised_channel`. A
run tells its channel what happens; once the channel has another run, or none, it isn't listened to any more.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol, cast

from postroom.amqp.errors import AmqpError
from postroom.manager.kernel.errors import ChannelInUse, ManagerError, QueueInUse
from postroom.model.channel import ChannelDefinition
from postroom.model.channel_states import ChannelEvent, ChannelState, Verdict
from postroom.server.channels.outbound_connection import Outward
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.kernel.connection_state import ConnectionState

if TYPE_CHECKING:
    from postroom.amqp.engine.link import Link
    from postroom.server.channels.supervised_channel import Supervised


class StopMode(IntEnum):
    """How a channel is told to stop."""

    QUIESCE = 0
    """When its batch has ended."""
    FORCE = 1
    """At once: its link is closed, whatever is in doubt then."""
    TERMINATE = 2
    """At once: its connection is cut."""


Luwid = bytes


@dataclass(frozen=True)
class LinkStatus:
    """What a link has done so far."""

    messages: int = 0
    bytes: int = 0
    batches: int = 0
    """Confirmed."""
    current_messages: int = 0
    """In the batch that is open [CURMSGS]."""
    current_sequence: int = 0
    """Number of the message that was sent or received last [CURSEQNO]."""
    current_luwid: Luwid = b""
    """Of the batch that is open [CURLUWID]."""
    in_doubt: bool = False
    """A batch was asked for and is not answered [INDOUBT]."""
    outside: int = 0
    """Messages outside of batches that the partner has not taken yet."""


class ChannelLink(Protocol):
    """The link of a run, as its channel sees it; it is a `BoundLink`, too."""

    @property
    def binding(self) -> ConnectionState: ...

    @property
    def attached_link(self) -> "Link": ...

    def stop(self, mode: StopMode, now_us: int) -> None:
        """Let the batch come to its end, then tell the run that it has ENDED."""

    def status(self) -> LinkStatus: ...

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted, wall clock; 0 never."""

    def on_time(self, now_us: int) -> None: ...

    def adopted(self, now_us: int) -> None:
        """Its partner has attached anew: this link is what a broken connection has left."""

    def leave(self, now_us: int) -> None:
        """This end is about to close it: what hangs on it ends, or stays in doubt."""

    def close(self, lost: bool, now_us: int) -> None:
        """The partner has closed it, or the connection is gone: the same."""


class ChannelInstance:
    """One run of one channel."""

    def __init__(self, channel: "Supervised", now_us: int) -> None:
        self.channel: Final = channel
        self.definition: Final[ChannelDefinition] = channel.definition
        """As it was at the start of this run."""
        self.started_us: Final = now_us
        self.outward: Outward | None = None
        """The connection, where this end has opened it."""
        self.binding: ConnectionState | None = None
        self.link: ChannelLink | None = None
        self.partner = ""
        """The partner's queue manager."""
        self.moved_us = 0
        """When a message has flowed last; 0 never."""
        self.cut = False
        """At its end the connection is to be cut."""
        self.in_good_order = False
        """It has ended without anything to complain about."""

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def state(self) -> ChannelState:
        """The channel's."""
        return self.channel.state

    @property
    def current(self) -> bool:
        """Whether this is still the run of its channel."""
        return self.channel.instance is self

    @property
    def address(self) -> str:
        """Where the partner is."""
        return "" if self.binding is None else self.binding.remote

    def event(self, event: ChannelEvent, why: str, now_us: int) -> Verdict:
        """Something has happened to the link; ``why`` is for people."""
        if not self.current:
            return Verdict.DONE
        if event == ChannelEvent.BATCH_CONFIRMED:
            self.succeeded(now_us)
        return self.channel.happened(event, why, now_us)

    def moved(self, now_us: int) -> None:
        """Messages have been sent, or have come: the channel isn't idle."""
        self.moved_us = now_us
        if self.current:
            self.channel.moved_us = now_us

    def succeeded(self, now_us: int) -> None:
        """Messages are at their other end, and both ends know: what was tried in vain before is forgotten."""
        self.moved(now_us)
        if self.current:
            self.channel.succeeded(now_us)

    # The owner of an outgoing connection.

    def connected(self, outward: Outward, now_us: int) -> None:
        """The partner has answered: attach the link."""
        if not self.current or outward.binding is None:
            return
        self.binding = outward.binding
        self.partner = outward.partner
        self.event(ChannelEvent.CONNECTED, "", now_us)
        try:
            self.link = self.channel.begin(outward.binding, self, now_us)
        except (ChannelInUse, QueueInUse) as error:
            self.event(ChannelEvent.LOST, error.description, now_us)
        except (AmqpError, ManagerError) as error:
            self.event(ChannelEvent.REFUSED, error.description, now_us)

    def connection_failed(self, outward: Outward, why: str, lasting: bool, now_us: int) -> None:
        """There is no connection, or no longer."""
        self.channel.failed_address = outward.address
        self.event(ChannelEvent.REFUSED if lasting else ChannelEvent.LOST, why, now_us)


class PartnerRuns:
    """Begins the runs that partners ask for."""

    def partner_attaches(
        self, name: str, partner: str, sending: bool, binding: ConnectionState, now_us: int
    ) -> ChannelInstance:
        """The partner's queue manager has attached to the channel; ``sending``: this end is to send.

        The caller makes the link and sets ``link`` of the run. Raises AmqpError: there is no such channel, it
        is of the wrong type, it is stopped or in use; or, of a requester that asks a sender, CALL_BACK.
        """
        raise NotImplementedError


def partner_runs_of(broker: BrokerState) -> PartnerRuns:
    """What begins them in a broker."""
    return cast(PartnerRuns, broker.state(PartnerRuns))
