"""Transmission queues that start a channel because something has landed there; and those that give nothing
out, as MQ's GET(DISABLED): one of their channels is stopped.

A channel that wants that has its queue *armed*, by name: the queue may be made later, or made anew. What is
noticed is collected in `Channels.triggered` at the end of a turn; whoever runs the channels empties it.
"""

from typing import final

from postroom.manager.channels.channel import channels_of
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


def inhibit(core: Core, transmission_queue: str) -> None:
    """Look anew whether the queue of that name, if there is one, gives nothing out."""
    queue = destinations_of(core).queues.get(transmission_queue)
    if queue is not None:
        set_inhibited(core, queue)


def set_inhibited(core: Core, queue: Queue) -> None:
    """The same for a queue; it may have been made after its channel was stopped."""
    stopped = any(
        channel.stopped and channel.definition.transmission_queue == queue.name
        for channel in channels_of(core).by_name.values()
    )
    if queue.switches.get_inhibited and not stopped:
        core.agenda.woken.append(queue)
    queue.switches.get_inhibited = stopped


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
        armed = destination.schedule.armed
        if armed and isinstance(destination, Queue) and destination.top_band() is not None:
            channels_of(core).triggered.append(destination.name)
