"""Channels that start because something has landed on their transmission queue.

A channel that wants that has its queue *armed*, by name: the queue may be made later, or made anew. What is
noticed is collected in `Channels.triggered` at the end of a turn; whoever runs the channels empties it.
"""

from postroom.manager.channels.channel import channels_of
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.kernel.core import Core
from postroom.manager.queues.queue import Queue


def arm(core: Core, name: str) -> None:
    """Tell when something can be taken from the queue of that name."""
    channels_of(core).armed.add(name)
    queue = destinations_of(core).queues.get(name)
    if queue is not None:
        look(core, queue)


def disarm(core: Core, name: str) -> None:
    """Tell no more."""
    channels_of(core).armed.discard(name)
    queue = destinations_of(core).queues.get(name)
    if queue is not None:
        look(core, queue)


def look(core: Core, queue: Queue) -> None:
    """Whether ``queue``, which may be new, is armed."""
    queue.schedule.armed = queue.name in channels_of(core).armed
    waiting = queue.store is not None and bool(queue.store.waiting)
    queue.schedule.watched = queue.schedule.armed or waiting


def notice(core: Core, queue: Queue) -> None:
    """Something may have become available on ``queue``, which is armed."""
    if queue.top_band() is not None:
        channels_of(core).triggered.append(queue.name)
