"""One channel as long as it is defined: its state, its retries, and what of them survives a restart."""

import logging
from typing import Final, Protocol

from postroom.manager.channels.channel import Channel
from postroom.model.channel import ChannelDefinition
from postroom.model.channel_states import (
    ACTIVE,
    ChannelEvent,
    ChannelState,
    Role,
    Verdict,
    cell,
    role_of,
)
from postroom.server.channels.instance import ChannelInstance, ChannelLink, LinkStatus, StopMode
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.logs import log

US_PER_S: Final = 1_000_000
LEAST_RETRY_US: Final = 100_000
"""Between two attempts, whatever the channel says: an interval of 0 is no reason to spin."""

STOP_EVENTS: Final = {
    StopMode.QUIESCE: ChannelEvent.STOP_QUIESCE,
    StopMode.FORCE: ChannelEvent.STOP_FORCE,
    StopMode.TERMINATE: ChannelEvent.STOP_TERMINATE,
}

_BAD_NEWS: Final = (ChannelEvent.LOST, ChannelEvent.REFUSED, ChannelEvent.RETRIES_OVER)
_IN_GOOD_ORDER: Final = (ChannelEvent.IDLE_OUT, ChannelEvent.ENDED)
"""Ends of a run of which the partner is told no error."""
_QUIET: Final = (ChannelState.STARTING, ChannelState.INITIALIZING, ChannelState.BINDING)
"""On the way to RUNNING; told only where everything is."""


class Owner(Protocol):
    """Who looks after all channels."""

    def begin(self, binding: ConnectionState, instance: ChannelInstance, now_us: int) -> ChannelLink: ...

    def wants_start(self, channel: "Supervised") -> None:
        """It is STARTING: have it connected when it is its turn."""

    def run_over(self, instance: ChannelInstance) -> None:
        """The run has ended: let its link and connection go."""

    def rests(self, channel: "Supervised", has_work: bool) -> None:
        """It is INACTIVE: trigger it when something lands on its queue, or has already."""

    def rests_no_more(self, channel: "Supervised") -> None:
        """Nothing triggers it any more."""

    def save(self, channel: "Supervised", status: dict[str, object], now_us: int) -> None:
        """Write what survives a restart."""

    def deadline_changed(self) -> None:
        """Some channel's time has changed."""


class Supervised:
    """One channel and its state."""

    def __init__(self, channel: Channel, owner: Owner, now_us: int) -> None:
        self.channel: Final = channel
        self.state = ChannelState.INACTIVE
        self.reason = ""
        """Why it is in this state, where there is more to say than what it has been told to."""
        self.since_us = now_us
        self.instance: ChannelInstance | None = None
        """While it is active."""
        self.short_left = 0
        self.long_left = 0
        self.retry_us = 0
        """RETRYING: when it starts again."""
        self.moved_us = 0
        """When a message has flowed last, since this broker runs; 0 never."""
        self.before: LinkStatus = LinkStatus()
        """What the links of earlier runs have done, since this broker runs."""
        self.last_partner = ""
        self.last_address = ""
        self.failed_address = ""
        """Of those that its definition names the one where the last connection failed."""
        self._stop_status = ChannelState.STOPPED
        """The STATUS of the command to stop that it is under."""
        self._owner: Final = owner
        self._refill_retries()

    @property
    def name(self) -> str:
        return self.channel.name

    @property
    def definition(self) -> ChannelDefinition:
        return self.channel.definition

    @property
    def role(self) -> Role:
        known = self.definition
        return role_of(known.type, known.connection, known.protocol == "amqp")

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    # After a restart.

    def restore(self, now_us: int) -> None:
        """Take up what was saved before the broker went down."""
        saved = self.channel.status
        name = str(saved.get("state", "inactive")).upper()
        state = cell(ChannelEvent.RESTART, self.role, ChannelState[name]).to
        self.reason = str(saved.get("reason", ""))
        if state == ChannelState.RETRYING:
            self.short_left = _number(saved, "short_left")
            self.long_left = _number(saved, "long_left")
            self.retry_us = _number(saved, "due_us")
        self.state = state
        if state == ChannelState.STOPPED:
            self._save(now_us)  # what was STOPPING is STOPPED now
        self._owner.deadline_changed()
        if state == ChannelState.INACTIVE:
            self._owner.rests(self, True)

    # Commands.

    def start(self, now_us: int) -> Verdict:
        """START CHANNEL."""
        return self.happened(ChannelEvent.START, "", now_us)

    def stop(self, mode: StopMode, to_inactive: bool, now_us: int) -> None:
        """STOP CHANNEL; ``to_inactive`` is its STATUS(INACTIVE)."""
        self._stop_status = ChannelState.INACTIVE if to_inactive else ChannelState.STOPPED
        stopping = self.state == ChannelState.STOPPING
        self.happened(STOP_EVENTS[mode], "stopped by a command", now_us)
        if stopping and self.state == ChannelState.STOPPING:
            self._save(now_us)  # it may have been on its way to the other one

    # What happens.

    def happened(self, event: ChannelEvent, why: str, now_us: int) -> Verdict:
        """Do what the table says."""
        found = cell(event, self.role, self.state, self._stop_status)
        if found.verdict == Verdict.IMPOSSIBLE:
            what = f"channel {self.name!r}: {event.name} can't come in state {self.state.name}"
            raise AssertionError(what)
        if found.to != self.state:
            self._move(found.to, event, why, now_us)
        return found.verdict

    def altered(self) -> None:
        """It has another definition, and is at rest."""
        self._refill_retries()

    def succeeded(self, now_us: int) -> None:
        """Messages have been confirmed: the attempts to start count from the beginning again."""
        self._refill_retries()
        if self.channel.status and self.state not in (ChannelState.STOPPING, ChannelState.STOPPED):
            self._owner.save(self, {}, now_us)

    def begin(self, binding: ConnectionState, instance: ChannelInstance, now_us: int) -> ChannelLink:
        """Make the link of a run whose connection is open. Raises AmqpError, ManagerError."""
        return self._owner.begin(binding, instance, now_us)

    def call_off(self) -> None:
        """The channel is no more, or its broker is stopping: what it is at counts as ended."""
        self._owner.rests_no_more(self)
        self._end_run(False, True)

    def _move(self, to: ChannelState, event: ChannelEvent, why: str, now_us: int) -> None:
        before, self.state = self.state, to
        if why or before != ChannelState.STOPPING:
            self.reason = why
        self.since_us = now_us
        self._log(before, event, why)
        if before == ChannelState.INACTIVE:
            self._owner.rests_no_more(self)
        if to not in ACTIVE:
            self._end_run(event == ChannelEvent.STOP_TERMINATE, event in _IN_GOOD_ORDER)
        self._enter(to, before, event, now_us)
        self._owner.deadline_changed()

    def _enter(self, to: ChannelState, before: ChannelState, event: ChannelEvent, now_us: int) -> None:
        if to == ChannelState.STARTING:
            if before != ChannelState.RETRYING:
                self._refill_retries()
                self._forget(now_us)
            self.instance = ChannelInstance(self, now_us)
            self._owner.wants_start(self)
        elif to == ChannelState.RETRYING:
            self._plan_retry(now_us)
        elif to == ChannelState.STOPPING:
            self._save(now_us)
            instance = self.instance
            if instance is not None and instance.link is not None:
                instance.link.stop(StopMode.QUIESCE, now_us)
        elif to == ChannelState.STOPPED:
            self._save(now_us)
        elif to == ChannelState.INACTIVE:
            self._forget(now_us)
            self._owner.rests(self, event in (ChannelEvent.LOST, ChannelEvent.ENDED, ChannelEvent.IDLE_OUT))

    def called(self, binding: ConnectionState, partner: str, now_us: int) -> ChannelInstance:
        """The partner's call has been let in: the run that it begins."""
        instance = ChannelInstance(self, now_us)
        instance.binding, instance.partner = binding, partner
        self.instance = instance
        return instance

    def _end_run(self, cut: bool, in_good_order: bool) -> None:
        instance, self.instance = self.instance, None
        if instance is None:
            return
        instance.cut, instance.in_good_order = cut, in_good_order
        self.last_partner = instance.partner or self.last_partner
        self.last_address = instance.address or self.last_address
        if instance.link is not None:
            self.before = _sum(self.before, instance.link.status())
        self._owner.run_over(instance)

    # Retries.

    def _refill_retries(self) -> None:
        self.short_left = self.definition.short_retry_count
        self.long_left = self.definition.long_retry_count

    def _plan_retry(self, now_us: int) -> None:
        known = self.definition
        if self.short_left > 0:
            self.short_left -= 1
            self.retry_us = now_us + max(LEAST_RETRY_US, known.short_retry_interval_s * US_PER_S)
        elif self.long_left > 0:
            self.long_left -= 1
            self.retry_us = now_us + max(LEAST_RETRY_US, known.long_retry_interval_s * US_PER_S)
        else:
            self.happened(ChannelEvent.RETRIES_OVER, f"no retry is left: {self.reason}", now_us)
            return
        self._save(now_us)

    # What survives.

    def _forget(self, now_us: int) -> None:
        if self.channel.status:
            self._owner.save(self, {}, now_us)

    def _save(self, now_us: int) -> None:
        status: dict[str, object] = {"state": self.state.name.lower(), "reason": self.reason}
        if self.state == ChannelState.STOPPING and self._stop_status == ChannelState.INACTIVE:
            status = {}
        if self.state == ChannelState.RETRYING:
            status.update(short_left=self.short_left, long_left=self.long_left, due_us=self.retry_us)
        self._owner.save(self, status, now_us)

    def _log(self, before: ChannelState, event: ChannelEvent, why: str) -> None:
        level = logging.WARNING if event in _BAD_NEWS else logging.INFO
        if self.state in _QUIET:
            level = logging.DEBUG
        log(
            level,
            "channel-state",
            channel=self.name,
            state=self.state.name.lower(),
            before=before.name.lower(),
            reason=why,
        )


def _number(saved: dict[str, object], key: str) -> int:
    value = saved.get(key, 0)
    return value if isinstance(value, int) else 0


def _sum(before: LinkStatus, link: LinkStatus) -> LinkStatus:
    return LinkStatus(
        before.messages + link.messages, before.bytes + link.bytes, before.batches + link.batches
    )
