"""Channels that start because something has landed on their transmission queue.

A channel that wants that has its queue *armed*, by name: the queue may be made later, or made anew. What is
noticed is collected in ``core.triggered`` at the end of a turn; whoever runs the channels empties it.
"""

from postroom.manager.kernel.core import Core
from postroom.manager.queues.queue import Queue


def arm(core: Core, name: str) -> None:
    """Tell when something can be taken from the queue of that name."""
    core.armed.add(name)
    queue = core.queues.get(name)
    if queue is not None:
        look(core, queue)


def disarm(core: Core, name: str) -> None:
    """Tell no more."""
    core.armed.discard(name)
    queue = core.queues.get(name)
    if queue is not None:
        look(core, queue)


def look(core: Core, queue: Queue) -> None:
    """Whether ``queue``, which may be new, is armed."""
    queue.schedule.armed = queue.name in core.armed
    waiting = queue.store is not None and bool(queue.store.waiting)
    queue.schedule.watched = queue.schedule.armed or waiting


def notice(core: Core, queue: Queue) -> None:
    """Something may have become available on ``queue``, which is armed."""
    if queue.top_band() is not None:
        core.triggered.append(queue.name)
