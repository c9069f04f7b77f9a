"""New entries made of old ones: dead letters and redirected ones. They name their parent and share its
body."""

from mypy_extensions import i64

from postroom.manager.core import Core
from postroom.manager.entry import Entry
from postroom.manager.memory import stored
from postroom.manager.placing import add_new
from postroom.manager.queue import Queue
from postroom.manager.statistics import CURRENT
from postroom.model import numbers as n


def make_child(
    core: Core, parent: Entry, queue: Queue, event: i64, annotations: dict[str, object] | None
) -> None:
    """Put what ``parent`` carries on ``queue`` as a new available entry that never expires.

    The limits of ``queue`` don't apply: what could be delivered nowhere must find room (WebLogic's rule).
    """
    flags = parent.flags | n.FLAG_ADVERSE | n.FLAG_BODY_SHARED
    serial = core.ledger.arrival(
        queue.id,
        n.AVAILABLE,
        event,
        0,
        0,
        0,
        parent.priority,
        flags,
        0,
        0,
        0,
        0,
        0,
        None,
        0,
        b"",
        0,
        b"",
        0,
        b"",
        0,
        parent.body_serial,
        parent.body_len,
        parent.serial,
        parent.queue.id,
        None,
        parent.body_offset,
    )
    child = Entry(
        queue,
        serial,
        parent.priority,
        flags,
        0,
        parent.body_serial,
        parent.body_offset,
        parent.body_len,
        None if stored(parent) else parent.body,
    )
    child.annotations = annotations
    queue.statistics.arrive(CURRENT, child.body_len)
    add_new(core, queue, child)
    wake(core, queue)


def wake(core: Core, queue: Queue) -> None:
    """Something new is on ``queue``: have it dispatched, if anybody waits there, when this command is
    over."""
    if queue.ready or queue.browsers or queue.watched:
        core.woken.append(queue)
