"""Channels that start because something has landed on their transmission queue.

A channel that wants that has its queue *armed*, by name: the queue may be made later, or made anew. What is
noticed is collected in `Channels.triggered` at the end of a turn; whoever runs the channels empties it.
"""

from typing import final

from postroom.manager.channels.channel import channels_of
from postroom.manager.channels.get_inhibited import set_inhibited
from postroom.manager.destinations.tables import DestinationListener, destinations_of
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.destination import Destination
from postroom.manager.queues.queue import Queue


def arm(core: Core, name: str) -> None:
    """Tell when something can be taken from the queue of that name."""
    channels_of(core).armed.add(name)
    queue = destinations_of(core).queues.get(name)
    if queue is not None:
        note_armed(core, queue)


def disarm(core: Core, name: str) -> None:
    """Tell no more."""
    channels_of(core).armed.discard(name)
    queue = destinations_of(core).queues.get(name)
    if queue is not None:
        note_armed(core, queue)


def note_armed(core: Core, queue: Queue) -> None:
    """Whether ``queue``, which may be new, is armed."""
    queue.schedule.arm(queue.name in channels_of(core).armed)


def notice(core: Core, queue: Queue) -> None:
    """Something may have become available on ``queue``, which is armed."""
    if queue.top_band() is not None:
        channels_of(core).triggered.append(queue.name)


@final
class TransmissionQueueListener(DestinationListener):
    """A queue that is new may be one that gives nothing out, or has a channel wait for it."""

    def defined(self, core: Core, destination: Destination) -> None:
        if isinstance(destination, Queue):
            set_inhibited(core, destination)
            note_armed(core, destination)


@final
class TriggerPart(TurnPart):
    """Channels are triggered."""

    def news(self, core: Core, destination: Destination) -> None:
        if destination.schedule.armed and isinstance(destination, Queue):
            notice(core, destination)
