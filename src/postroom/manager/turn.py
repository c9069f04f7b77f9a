"""The course of a turn: what follows every command, what is done as time passes and as the disk answers, and
the effects at its end."""

from mypy_extensions import i64

from postroom.ledger.storage.body_requests import Body
from postroom.manager.administration import deletion as administration
from postroom.manager.administration import pausing
from postroom.manager.administration import subscriptions as topics
from postroom.manager.consuming import body_fetch, browser, dispatch, selection, unit_turns
from postroom.manager.consuming import registry as consumers
from postroom.manager.destinations.topic_subscriptions import subscriptions_of
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Effects
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.report_list import Reports
from postroom.manager.message_store import entry_verbs as store
from postroom.manager.message_store import pending_requests
from postroom.manager.message_store.pending_requests import StoreRequest, store_requests_of
from postroom.manager.producing import blocked_sends, send
from postroom.manager.producing.blocked_sends import blocked_sends_of
from postroom.manager.producing.quotas import quotas_of
from postroom.manager.queues.queue import Queue, as_queue
from postroom.manager.queues.selector_cursor import SelectorCursor
from postroom.manager.queues.units_of_order import Units
from postroom.manager.reports import reports
from postroom.manager.spark import assignment
from postroom.manager.spark import sink_verbs as sinks
from postroom.manager.spark import subscription_verbs as spark_subscriptions
from postroom.manager.spark.subscription import spark_subscriptions_of
from postroom.manager.transactions import commit as transactions
from postroom.manager.transactions import xa_verbs as branches
from postroom.manager.undeliverable import expiry, returned_entries
from postroom.model import numbers as n


def finish(core: Core) -> None:
    """The command is over: dispatch where it has made something available, and let a large block end."""
    blocked = blocked_sends_of(core)
    quotas = quotas_of(core)
    if core.transactions.failed_branches:
        branches.give_up_failed(core)
    if subscriptions_of(core).forsaken:
        topics.end_forsaken(core)
    if store_requests_of(core).stood_back:
        pending_requests.admit_more(core)
    while core.agenda.woken or quotas.changed_pools or blocked.unlimited or core.reports.due:
        if core.reports.due:
            reports.make_due(core)
        woken = core.agenda.woken
        core.agenda.woken = []
        for queue in woken:
            if not queue.deleted:
                dispatch.dispatch(core, as_queue(queue))
        if quotas.changed_pools or blocked.unlimited:
            send.let_in(core)
    core.ledger.boundary()


def fetched(core: Core, entries: list[Entry], bodies: list[Body]) -> None:
    """The bodies of ``entries`` are here: give them to whoever has asked."""
    owner = entries[0].owner
    if entries[0].state == n.START and isinstance(owner, Consumer):
        browser.fetched(core, owner, entries, bodies)
    elif entries[0].state == n.START and isinstance(owner, StoreRequest):
        pending_requests.bodies_read(core, owner, entries, bodies)
    elif isinstance(owner, SelectorCursor):
        selection.fetched(core, owner, entries, bodies)
    elif isinstance(owner, Units):
        unit_turns.names_read(core, owner, entries, bodies)
    elif entries[0].state == n.START and isinstance(owner, Reports):
        reports.bodies_read(core, bodies)
    else:
        _take_bodies(core, entries, bodies)


def _take_bodies(core: Core, entries: list[Entry], bodies: list[Body]) -> None:
    queue = as_queue(entries[0].queue)
    queue.bodies.fetching = False
    for entry, body in zip(entries, bodies, strict=True):
        body_fetch.arrived(core, entry, body)
    core.agenda.woken.append(queue)


def durable(core: Core, position: i64) -> None:
    """Everything up to ``position`` is on disk: go on with what has waited for that."""
    core.durability.through = position
    if store_requests_of(core).undurable:
        pending_requests.durable(core)
    if core.reports.waiting:
        reports.read_more(core)
    if core.durability.waiting:
        waiting_for_it = core.durability.waiting
        core.durability.waiting = []
        for queue in waiting_for_it:
            as_queue(queue).bodies.waits_for_durable = False
            core.agenda.woken.append(queue)
        finish(core)


def on_time(core: Core) -> None:
    """Do what is due, and what a bounded turn left undone."""
    for destination in core.agenda.pop_alarms(core.destinations, core.now_us):
        if destination.deleted:
            continue
        if isinstance(destination, Queue):
            _on_time(core, destination)
        administration.remove_if_idle(core, destination)
        finish(core)
    transactions.time_out(core)
    branches.time_out(core)
    sinks.time_out(core)
    blocked_sends.time_out(core)
    pending_requests.time_out(core)
    pending_requests.go_on(core)
    left = core.agenda.pending
    core.agenda.pending = []
    for destination in left:
        queue = as_queue(destination)
        queue.schedule.pending = False
        if queue.returning > 0:
            spark_subscriptions.give_back(core, queue)
        core.agenda.woken.append(queue)
    finish(core)


def _on_time(core: Core, queue: Queue) -> None:
    consumers.on_time(core, queue)
    returned_entries.end_delays(core, queue)
    pausing.release(core, queue)
    expiry.scan(core, queue)
    store.on_time(core, queue)
    if queue.spark:
        spark_subscriptions.on_time(core, queue)


def next_deadline_us(core: Core) -> int:
    """When `on_time` is wanted; 0 never. Not later than now while a bounded turn has left work."""
    if core.agenda.pending or store_requests_of(core).unfinished:
        return core.now_us
    soonest = core.agenda.next_alarm_us(core.destinations)
    for due_us in (
        transactions.next_timeout_us(core),
        branches.next_timeout_us(core),
        sinks.next_timeout_us(core),
        blocked_sends.next_timeout_us(core),
        pending_requests.next_deadline_us(core),
    ):
        if due_us != 0 and (soonest == 0 or due_us < soonest):
            soonest = due_us
    return soonest


def end(core: Core) -> Effects:
    """What is to be done when everything written so far is durable; a new turn begins."""
    if core.agenda.watched:
        pending_requests.serve(core)
        finish(core)
    if spark_subscriptions_of(core).assigning:
        assignment.write_all(core)
    effects = core.effects
    effects.close()
    core.effects = Effects()
    core.budget.begin()
    return effects
