"""What the links of both message channel agents have in common: a beginning that both ends agree to, and an
end that the channel is told of once.
"""

import logging
from typing import Final

from postroom.amqp import errors
from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.link import Link
from postroom.amqp.errors import AmqpError
from postroom.amqp.frames.performatives import Attach
from postroom.channel import wire
from postroom.manager.kernel.errors import ManagerError
from postroom.model.channel_states import ChannelEvent
from postroom.server.channels.instance import ChannelInstance, LinkStatus, StopMode
from postroom.server.kernel.bound_link import BoundLink
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.logs import log

LINK_NAME_PREFIX: Final = "postroom-channel:"
"""Before the channel's name: the name of the link."""
US_PER_MS: Final = 1000
CONTROL_BYTES: Final = 512
"""The ends of batches fit into a link's bound of message sizes, however small that of the channel is."""

_PASSING: Final = frozenset(
    (
        wire.CHANNEL_STOPPED,
        wire.CHANNEL_IN_USE,
        wire.CALL_BACK,
        wire.BATCH_REFUSED,
        errors.CONNECTION_FORCED,
        errors.INTERNAL_ERROR,
        errors.LINK_DETACH_FORCED,
        errors.LINK_STOLEN,
        errors.RESOURCE_LIMIT_EXCEEDED,
        errors.RESOURCE_LOCKED,
    )
)
"""Conditions that time may heal; every other one wants somebody to look at it."""


class AgentLink(BoundLink):
    """One end of a channel's link."""

    def __init__(self, binding: ConnectionState, link: Link, instance: ChannelInstance) -> None:
        super().__init__(binding, link)
        self.instance: Final = instance
        self.name: Final = instance.definition.name
        self.address = wire.CHANNEL_ADDRESS
        self.over = False
        """It was closed, from either side: whatever still comes means nothing."""
        self.stopping = False
        self.answer_due_us = 0
        """When the partner must have answered the attach; 0: it has, or has attached by itself."""
        self.messages = 0
        """Sent or received, and their bytes; of these what the channel hasn't been told of yet."""
        self.bytes = 0
        self.unreported = 0
        self.left = False
        """This end closes it; False: the partner does, or the connection is gone."""
        self._finished = False
        """This end has done what it wanted to."""

    # For the supervisor.

    def stop(self, mode: StopMode, now_us: int) -> None:
        """A command to stop. QUIESCE lets the batch end; the other modes close the link now, after which
        the supervisor does the rest."""
        if self.over:
            return
        if mode == StopMode.QUIESCE:
            self.stopping = True
            self.quiesce(now_us)
        else:
            self._finished = True
            self.detach(None, now_us)

    def status(self) -> LinkStatus:
        """What it has done so far."""
        raise NotImplementedError

    def quiesce(self, now_us: int) -> None:
        """Come to an end when the batch does."""
        raise NotImplementedError

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never."""
        return self.answer_due_us or self.due_us()

    def on_time(self, now_us: int) -> None:
        """The time of `next_deadline_us` has come."""
        if self.answer_due_us == 0:
            self.due(now_us)
        elif now_us >= self.answer_due_us:
            why = f"the partner has not answered the attach of channel {self.name!r} in time"
            self.refuse(AmqpError(errors.LINK_DETACH_FORCED, why), now_us)

    def attaching(self, now_us: int) -> None:
        """The attach has been sent: its answer may take as long as that to the open of a connection."""
        self.answer_due_us = now_us + self.binding.broker.config.limits.open_timeout_ms * US_PER_MS

    def answered(self, attach: Attach, now_us: int) -> None:
        self.answer_due_us = 0
        if (attach.target if self.instance.definition.sending else attach.source) is None:
            return  # refused: the detach that follows says why
        try:
            self.begin(attach, now_us)
        except (AmqpError, ManagerError) as error:
            self.refuse(error, now_us)

    def begin(self, attach: Attach, now_us: int) -> None:
        """The partner has answered with ``attach``: agree and begin. Raises `AmqpError`, `ManagerError`."""
        raise NotImplementedError

    def resynchronised(self, now_us: int) -> None:
        """Both ends agree on what has arrived: messages may flow."""
        self.instance.event(ChannelEvent.RESYNCHRONISED, "", now_us)
        if self.stopping:
            self.quiesce(now_us)
        else:
            self.flow(now_us)

    def flow(self, now_us: int) -> None:
        """Let messages come."""
        raise NotImplementedError

    def due_us(self) -> int:
        """When something of the link's own is due; 0 never."""
        return 0

    def due(self, now_us: int) -> None:
        """Its time has come."""

    def adopted(self, now_us: int) -> None:
        """The partner has attached the channel anew: this link is a leftover of a connection that it has
        lost."""
        why = f"channel {self.name!r} has been attached again by its partner"
        self.detach(Error(errors.LINK_STOLEN, why), now_us)

    def count(self, size_bytes: int) -> None:
        """A message has moved."""
        self.messages += 1
        self.bytes += size_bytes
        self.unreported += 1

    def report_moved(self, now_us: int) -> None:
        """Messages have moved: once for many."""
        if self.unreported > 0:
            self.unreported = 0
            self.instance.moved(now_us)

    # Ends.

    def finish(self, now_us: int, error: Error | None = None) -> None:
        """Everything is done: close the link, with ``error`` where that isn't what the partner wanted."""
        self._finished = True
        self.detach(error, now_us)

    def refuse(self, error: AmqpError | ManagerError, now_us: int) -> None:
        """Close the link for what the partner has done, or for what this end can't do."""
        log(
            logging.WARNING,
            "channel-refused",
            channel=self.name,
            remote=self.binding.remote,
            condition=error.condition,
            description=error.description,
        )
        self.detach(Error(error.condition, error.description), now_us)

    def detach(self, error: Error | None, now_us: int) -> None:
        """Close the link from this side."""
        if self.over:
            return
        self.detach_error = error
        link = self.attached_link
        self.leave(now_us)
        link.detach(closed=True, error=error)
        self.binding.forget_link(link)
        self.binding.touch()

    def ended(self, condition: str, description: str) -> None:
        self.refuse(AmqpError(condition, description), self.binding.broker.manager.core.now_us)

    def leave(self, now_us: int) -> None:
        """This end is about to close it: give back what it holds, and tell the channel."""
        self.left = True
        self.close(False, now_us)

    def close(self, lost: bool, now_us: int) -> None:
        """Whoever closes it, and for whatever reason: give back what it holds, and tell the channel."""
        if self.over:
            return
        self.over = True
        self.let_go(lost, now_us)
        event, why = self._how(lost)
        self.instance.event(event, why, now_us)

    def let_go(self, lost: bool, now_us: int) -> None:
        """Give up what the queue manager has given to this end; ``lost``: the connection is gone."""
        raise NotImplementedError

    def _how(self, lost: bool) -> tuple[ChannelEvent, str]:
        if self._finished:
            return ChannelEvent.ENDED, ""
        error = self.detach_error
        if error is not None:
            why = f"{error.condition}: {error.description or 'no reason given'}"
            return (ChannelEvent.LOST if error.condition in _PASSING else ChannelEvent.REFUSED), why
        if lost:
            return ChannelEvent.LOST, "the connection was lost"
        return ChannelEvent.ENDED, "the partner has closed the link"
