"""The supervisor of a broker's channels: who starts when, on which connection, and what is due.

Pure: time comes in as an argument, connections are listed in ``wanted`` and answered later. What ends
a run is carried out at the end of the turn, so that a link may tell of its own end from wherever it is.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, cast

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.states import UNOPENED
from postroom.amqp.errors import LINK_DETACH_FORCED, NOT_ALLOWED, NOT_FOUND, AmqpError
from postroom.channel.wire import CALL_BACK, CHANNEL_IN_USE, CHANNEL_STOPPED
from postroom.manager.channels import triggering
from postroom.manager.channels.channel import Channel, channels_of
from postroom.manager.kernel.errors import ChannelInUse, ChannelNotFound, LimitExceeded, NotAllowed
from postroom.model.channel import PROTOCOL_AMQP, RECEIVER, SENDER, SERVER, ChannelDefinition
from postroom.model.channel_states import ChannelEvent, ChannelState, Role, Verdict, role_of
from postroom.server.channels.instance import ChannelInstance, ChannelLink, PartnerRuns
from postroom.server.channels.link_kinds import begin as begin_link
from postroom.server.channels.outbound_connection import Outward, OutwardOwner
from postroom.server.channels.supervised_channel import US_PER_S, Supervised
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.kernel.connection_state import ConnectionState

MS_PER_S: Final = 1000

Begin = Callable[[ConnectionState, ChannelInstance, int], ChannelLink]


class Channels(PartnerRuns):
    """Every channel of one broker."""

    def __init__(self, broker: BrokerState, begin: Begin = begin_link) -> None:
        """``begin`` makes the link of a run on the connection that it has opened."""
        self.wanted: Final[list[Outward]] = []
        """Connections to be opened; answer each with `Broker.connect_outward` or its own ``fail``."""
        self._broker: Final = broker
        self._manager: Final = broker.manager
        self._begin: Final = begin
        self._known: Final[dict[str, Supervised]] = {}
        self._starting: Final[deque[Supervised]] = deque()
        self._over: Final[list[ChannelInstance]] = []
        self._called: Final[list[ChannelInstance]] = []
        """Runs that partners have begun in this turn."""
        self._resting: Final[list[tuple[Supervised, bool]]] = []
        self._armed: Final[dict[str, dict[Supervised, None]]] = {}
        """Channels that wait for a trigger, by their transmission queues."""
        self._outgoing: Final[dict[Outward, None]] = {}
        self._links: Final[dict[ChannelInstance, None]] = {}
        """Runs that may have a link."""
        self._due_us = 0
        self._due_known = False

    # What there is.

    def restore(self, now_us: int) -> None:
        """Take up the channels that the queue manager has; once, after its own restart."""
        for channel in channels_of(self._manager.core).by_name.values():
            self._supervise(channel, now_us).restore(now_us)

    def all(self) -> list[Supervised]:
        """Oldest first."""
        return list(self._known.values())

    def find(self, name: str) -> Supervised:
        """The channel of that name. Raises ChannelNotFound."""
        channel = self._known.get(name)
        if channel is None:
            raise ChannelNotFound(f"there is no channel {name!r}")
        return channel

    def define(self, definition: ChannelDefinition, now_us: int) -> Supervised:
        """Make a channel. Raises ChannelExists, DefinitionInvalid, LimitExceeded."""
        channel = self._manager.channels.define(definition, now_us)
        if definition.name in self._known:
            return self._known[definition.name]
        found = self._supervise(channel, now_us)
        self.rests(found, True)
        return found

    def alter(self, definition: ChannelDefinition, now_us: int) -> Supervised:
        """Give a channel another definition, for its next start. Raises ChannelNotFound, DefinitionInvalid,
        ChannelInUse.
        """
        channel = self.find(definition.name)
        role = role_of(definition.type, definition.connection, definition.protocol == PROTOCOL_AMQP)
        at_rest = channel.state in (ChannelState.INACTIVE, ChannelState.STOPPED)
        if role != channel.role and not at_rest:
            self._refuse_active(channel, "who calls whom can't change")
        resting = channel.state == ChannelState.INACTIVE
        if resting:
            self.rests_no_more(channel)
        try:
            self._manager.channels.alter(definition, now_us)
        finally:
            if resting:
                self.rests(channel, True)
        if at_rest:
            channel.altered()
        return channel

    def delete(self, name: str, now_us: int) -> None:
        """Forget a channel. Raises ChannelNotFound, ChannelInUse."""
        channel = self.find(name)
        if channel.active:
            self._refuse_active(channel, "it can't be deleted")
        self._manager.channels.delete(name, now_us)
        del self._known[name]
        channel.call_off()

    def reset(self, name: str, sequence: int, now_us: int) -> None:
        """RESET CHANNEL SEQNUM. Raises ChannelNotFound, ChannelInUse, DefinitionInvalid."""
        channel = self.find(name)
        if channel.active:
            self._refuse_active(channel, "its sequence can't be reset")
        self._manager.channels.reset(name, sequence, now_us)

    def resolve(self, name: str, commit: bool, now_us: int) -> None:
        """RESOLVE CHANNEL. Raises ChannelNotFound, ChannelInUse, ChannelNotInDoubt, NotAllowed."""
        channel = self.find(name)
        if channel.active:
            self._refuse_active(channel, "its batch can't be resolved")
        self._manager.channels.resolve(name, commit, now_us)

    def open_ping(self, name: str, owner: OutwardOwner) -> Outward:
        """PING CHANNEL: open a connection as the channel would, for ``owner`` to close. Raises
        ChannelNotFound, ChannelInUse, NotAllowed, LimitExceeded.
        """
        channel = self.find(name)
        known = channel.definition
        if channel.active:
            self._refuse_active(channel, "it can't be pinged")
        if channel.role == Role.ANSWERER:
            raise NotAllowed(f"channel {name!r} is a {known.type} that is called: ping it from the other end")
        if len(self._outgoing) >= self._broker.config.limits.max_outgoing_connections:
            raise LimitExceeded("all outgoing connections are in use (limits.max_outgoing_connections)")
        outward = Outward(owner, known.connection, known.credentials)
        self.wanted.append(outward)
        return outward

    def _supervise(self, channel: Channel, now_us: int) -> Supervised:
        made = self._known[channel.name] = Supervised(channel, self, now_us)
        return made

    def _refuse_active(self, channel: Supervised, what: str) -> None:
        state = channel.state.name.lower()
        raise ChannelInUse(f"channel {channel.name!r} is {state}: {what} now; stop it first")

    # A partner calls.

    def partner_attaches(
        self, name: str, partner: str, sending: bool, binding: ConnectionState, now_us: int
    ) -> ChannelInstance:
        channel = self._known.get(name)
        if channel is None:
            raise AmqpError(
                NOT_FOUND, f"there is no channel {name!r} at {self._broker.config.container_id!r}"
            )
        _check_direction(channel.definition, sending)
        if sending and channel.definition.type == SENDER:
            self._call_back(channel, now_us)
        self._adopt(channel, partner, now_us)
        verdict = channel.happened(ChannelEvent.CALLED, "", now_us)
        if verdict == Verdict.STOPPED:
            raise AmqpError(CHANNEL_STOPPED, f"channel {name!r} is stopped here: it takes a START CHANNEL")
        if verdict == Verdict.IN_USE:
            state = channel.state.name.lower()
            whose = f", with {channel.instance.partner!r}" if channel.instance is not None else ""
            raise AmqpError(CHANNEL_IN_USE, f"channel {name!r} is {state} here{whose}")
        instance = channel.called(binding, partner, now_us)
        self._links[instance] = None
        self._called.append(instance)
        return instance

    def _call_back(self, channel: Supervised, now_us: int) -> None:
        verdict = channel.start(now_us) if channel.state != ChannelState.STOPPED else Verdict.STOPPED
        if verdict == Verdict.STOPPED:
            raise AmqpError(CHANNEL_STOPPED, f"channel {channel.name!r} is stopped here")
        raise AmqpError(CALL_BACK, f"channel {channel.name!r} is a sender here: it calls back")

    def _adopt(self, channel: Supervised, partner: str, now_us: int) -> None:
        """What the same partner has left behind on a broken connection ends, as with MQ's adopt."""
        instance = channel.instance
        if instance is None or instance.link is None or instance.partner != partner:
            return
        instance.link.adopted(now_us)
        instance.event(ChannelEvent.LOST, f"{partner} has attached anew", now_us)
        self._let_go_all(now_us)

    # For a channel: its `Owner`.

    def begin(self, binding: ConnectionState, instance: ChannelInstance, now_us: int) -> ChannelLink:
        link = self._begin(binding, instance, now_us)
        self._links[instance] = None
        return link

    def wants_start(self, channel: Supervised) -> None:
        self._starting.append(channel)

    def run_over(self, instance: ChannelInstance) -> None:
        self._over.append(instance)

    def rests(self, channel: Supervised, has_work: bool) -> None:
        if channel.role == Role.CALLER and channel.definition.triggered:
            self._resting.append((channel, has_work))

    def rests_no_more(self, channel: Supervised) -> None:
        name = channel.definition.transmission_queue
        waiting = self._armed.get(name)
        if waiting is not None and channel in waiting:
            del waiting[channel]
            if not waiting:
                del self._armed[name]
                triggering.disarm(self._manager.core, name)

    def save(self, channel: Supervised, status: dict[str, object], now_us: int) -> None:
        self._manager.channels.set_status(channel.name, status, now_us)

    def deadline_changed(self) -> None:
        self._due_known = False

    # The course of a turn.

    def end_turn(self, now_us: int) -> None:
        """Runs that are over let go; channels at rest listen; those that start get a connection."""
        if self._called:
            self._check_calls(now_us)
        if self._over:
            self._let_go_all(now_us)
        if self._resting:
            self._arm(now_us)
        if self._starting:
            self._admit(now_us)

    def _check_calls(self, now_us: int) -> None:
        """A partner whose attach was refused after all has left no link."""
        for instance in self._called:
            if instance.link is None:
                instance.event(ChannelEvent.LOST, "the partner's attach was refused", now_us)
        self._called.clear()

    def triggered(self, now_us: int) -> None:
        """The queue manager has noticed something on transmission queues."""
        channels = channels_of(self._manager.core)
        names, channels.triggered = channels.triggered, []
        for name in names:
            for channel in list(self._armed.get(name, ())):
                channel.happened(ChannelEvent.TRIGGER, "triggered", now_us)
        if self._starting:
            self._admit(now_us)

    def _arm(self, now_us: int) -> None:
        resting = self._resting[:]
        self._resting.clear()
        for channel, has_work in resting:
            if channel.state != ChannelState.INACTIVE or self._known.get(channel.name) is not channel:
                continue
            name = channel.definition.transmission_queue
            if name:
                self._armed.setdefault(name, {})[channel] = None
                triggering.arm(self._manager.core, name)
            if has_work and (channel.channel.batches or self._has_work(name)):
                channel.happened(ChannelEvent.TRIGGER, "triggered", now_us)

    def _has_work(self, name: str) -> bool:
        """Whether something can be taken from that queue; without one there is always something to do."""
        queue = self._manager.queues.get(name)
        return not name or (queue is not None and queue.top_band() is not None)

    def _admit(self, now_us: int) -> None:
        limit = self._broker.config.limits.max_outgoing_connections
        while self._starting and len(self._outgoing) < limit:
            channel = self._starting.popleft()
            instance = channel.instance
            if channel.state != ChannelState.STARTING or instance is None or instance.outward is not None:
                continue
            known = instance.definition
            heartbeat_ms = known.heartbeat_interval_s * MS_PER_S
            instance.outward = Outward(
                instance, known.connection, known.credentials, heartbeat_ms, channel.failed_address
            )
            self._outgoing[instance.outward] = None
            self.wanted.append(instance.outward)
            instance.event(ChannelEvent.ADMITTED, "", now_us)

    def _let_go_all(self, now_us: int) -> None:
        while self._over:
            self._let_go(self._over.pop(0), now_us)

    def _let_go(self, instance: ChannelInstance, now_us: int) -> None:
        self._links.pop(instance, None)
        link, instance.link = instance.link, None
        if link is not None:
            _close_link(link, "" if instance.in_good_order else instance.channel.reason, now_us)
        outward, binding = instance.outward, instance.binding
        if outward is not None:
            self._outgoing.pop(outward, None)
            outward.end(instance.cut)
        elif instance.cut and binding is not None:
            binding.cut()

    def shut_down(self, now_us: int) -> None:
        """The broker is stopping: every run ends in good order. What ran counts as inactive at the next
        start, so that it is triggered at once.
        """
        for channel in self.all():
            channel.call_off()
        self._let_go_all(now_us)

    # Time.

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never."""
        if not self._due_known:
            self._due_us = min((due for due in map(_due_us, self._known.values()) if due), default=0)
            self._due_known = True
        soonest = self._due_us
        for instance in self._links:
            due_us = 0 if instance.link is None else instance.link.next_deadline_us()
            if due_us and (soonest == 0 or due_us < soonest):
                soonest = due_us
        return soonest

    def on_time(self, now_us: int) -> None:
        """Retries, disconnect intervals, and what links wait for."""
        for instance in list(self._links):
            link = instance.link
            if link is not None and 0 < link.next_deadline_us() <= now_us:
                link.on_time(now_us)
        if self._due_known and not 0 < self._due_us <= now_us:
            return
        self._due_known = False
        for channel in self.all():
            if 0 < _due_us(channel) <= now_us:
                self._is_due(channel, now_us)

    def _is_due(self, channel: Supervised, now_us: int) -> None:
        if channel.state == ChannelState.RETRYING:
            channel.happened(ChannelEvent.RETRY_DUE, f"again after: {channel.reason}", now_us)
            return
        instance = channel.instance
        if instance is None or instance.link is None:
            return
        if self._is_idle(instance):
            instance.event(ChannelEvent.IDLE_OUT, "idle for the disconnect interval", now_us)
        else:
            instance.moved_us = now_us  # it works, or will: another interval

    def _is_idle(self, instance: ChannelInstance) -> bool:
        assert instance.link is not None
        status = instance.link.status()
        busy = status.in_doubt or status.current_messages > 0 or status.outside > 0
        return not busy and not self._has_work(instance.definition.transmission_queue)


def _due_us(channel: Supervised) -> int:
    """When something is due: the retry, or the end of the disconnect interval; 0 never."""
    if channel.state == ChannelState.RETRYING:
        return channel.retry_us
    instance = channel.instance
    if channel.state != ChannelState.RUNNING or instance is None or not instance.definition.sending:
        return 0
    interval_s = instance.definition.disconnect_interval_s
    return max(instance.moved_us, channel.since_us) + interval_s * US_PER_S if interval_s else 0


def _check_direction(definition: ChannelDefinition, sending: bool) -> None:
    """Raise AmqpError unless a partner may attach so to a channel of this type."""
    wanted = (SERVER, SENDER) if sending else (RECEIVER, "requester")
    if definition.protocol == PROTOCOL_AMQP or definition.type not in wanted:
        kind = f"a {definition.protocol} {definition.type}"
        what = "received from" if sending else "sent to"
        raise AmqpError(NOT_ALLOWED, f"channel {definition.name!r} is {kind} here: it can't be {what}")


def _close_link(link: ChannelLink, why: str, now_us: int) -> None:
    """The run is over: so is its link, unless it has gone already."""
    binding, attached = link.binding, link.attached_link
    bound: object = binding.links.get(attached)
    if bound is not link:
        return
    link.leave(now_us)
    binding.forget_link(attached)
    if attached.local_state == UNOPENED:
        attached.refuse_attach(Error(CHANNEL_STOPPED, why or "the channel was stopped"))
    else:
        # CHANNEL_STOPPED would say that all batches asked for are answered.
        attached.detach(error=Error(LINK_DETACH_FORCED, why) if why else None)
    binding.touch()


def supervisor_of(broker: BrokerState) -> Channels:
    """That of a broker."""
    return cast(Channels, broker.state(Channels))
