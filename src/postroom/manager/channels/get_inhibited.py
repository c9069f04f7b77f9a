"""Transmission queues that give nothing out, as MQ's GET(DISABLED): one of their channels is stopped."""

from postroom.manager.channels.channel import channels_of
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.kernel.core import Core
from postroom.manager.queues.queue import Queue


def inhibit(core: Core, transmission_queue: str) -> None:
    """Look anew whether the queue of that name, if there is one, is inhibited."""
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
