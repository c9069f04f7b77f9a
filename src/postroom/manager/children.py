"""New entries made of old ones: dead letters and redirected ones. They name their parent and share its
body."""

from mypy_extensions import i64

from postroom.manager import routing
from postroom.manager.core import Core
from postroom.manager.entry import Entry
from postroom.manager.memory import stored
from postroom.manager.overrides import birth_us
from postroom.manager.overrides import expiry_us as override_expiry_us
from postroom.manager.placing import add_delayed, add_new
from postroom.manager.queue import Queue
from postroom.manager.statistics import CURRENT
from postroom.model import numbers as n


def make_child(
    core: Core, parent: Entry, queue: Queue, event: i64, annotations: dict[str, object] | None
) -> None:
    """Put what ``parent`` carries on ``queue`` as a new entry, which expires only if ``queue`` says so; on a
    topic, as one for each of its subscriptions.

    The overrides of ``queue`` apply (priority, times), its quota doesn't: what could be delivered nowhere
    must find room (WebLogic's rules).
    """
    takers = [queue]
    routing_set = queue.id
    flags = parent.flags | n.FLAG_ADVERSE | n.FLAG_BODY_SHARED
    if queue.topic is not None:
        route = routing.route_of(core, queue)
        takers = route.queues
        routing_set = routing.set_of(core, route, takers)
        if len(takers) > 1:
            flags |= n.FLAG_PUBLISHED
    overrides = queue.overrides
    priority = parent.priority
    expiry_us: i64 = 0
    due_us: i64 = 0
    if overrides is not None:
        if overrides.priority >= 0:
            priority = overrides.priority
        expiry_us = override_expiry_us(core, overrides)
        due_us = birth_us(core, overrides)
    causes: i64 = n.UNBORN if due_us != 0 else n.PAUSED if queue.insertion_paused else 0
    serial = core.ledger.arrival(
        routing_set,
        n.AVAILABLE if causes == 0 else n.DELAYED,
        event,
        0,
        0,
        causes,
        priority,
        flags,
        0,
        expiry_us,
        due_us,
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
    for taker in takers:
        child = Entry(
            taker,
            serial,
            priority,
            flags,
            expiry_us,
            parent.body_serial,
            parent.body_offset,
            parent.body_len,
            None if stored(parent) else parent.body,
        )
        child.annotations = annotations
        _place(core, taker, child, causes, due_us)


def _place(core: Core, queue: Queue, child: Entry, causes: i64, due_us: i64) -> None:
    if causes != 0:
        add_delayed(core, child, causes, due_us)
        return
    queue.statistics.arrive(CURRENT, child.body_len)
    if queue.units is not None:
        queue.units.come(child)
    add_new(core, queue, child)
    wake(core, queue)


def wake(core: Core, queue: Queue) -> None:
    """Something new is on ``queue``: have it dispatched, if anybody waits there, when this command is
    over."""
    if queue.ready or queue.browsers or queue.watched:
        core.woken.append(queue)
