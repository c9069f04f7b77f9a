"""The course of a turn: what follows every command, what is done as time passes and as the disk answers, and
the effects at its end. Features have their parts in it (`core.TurnPart`)."""

from typing import final

from mypy_extensions import i64

from postroom.ledger.storage.body_requests import Body
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Effects
from postroom.manager.kernel.entry import Entry


@final
class Command:
    """``with Command(core, now_us):`` what is done in it is one command, refused or not."""

    def __init__(self, core: Core, now_us: i64) -> None:
        self._core = core
        core.begin(now_us)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, where: object) -> None:
        finish(self._core)


def finish(core: Core) -> None:
    """The command is over: dispatch where it has made something available, and let a large block end."""
    agenda = core.agenda
    if agenda.due:
        agenda.due = False
        for part in core.parts:
            part.finish(core)
    while agenda.woken or agenda.changed_pools or agenda.free_sends or core.reports.due:
        for part in core.followers:
            part.follow(core)
    core.ledger.boundary()


def fetched(core: Core, entries: list[Entry], bodies: list[Body]) -> None:
    """The bodies of ``entries`` are here: give them to whoever has asked."""
    part = next(each for each in core.parts if each.reads(entries[0]))
    part.bodies_read(core, entries, bodies)


def durable(core: Core, position: i64) -> None:
    """Everything up to ``position`` is on disk: go on with what has waited for that."""
    core.durability.through = position
    for part in core.parts:
        part.durable(core)
    if core.agenda.woken:
        finish(core)


def on_time(core: Core) -> None:
    """Do what is due, and what a bounded turn left undone."""
    for destination in core.agenda.pop_alarms(core.destinations, core.now_us):
        if not destination.deleted:
            for part in core.parts:
                part.destination_due(core, destination)
            finish(core)
    for part in core.parts:
        part.time_out(core)
    left = core.agenda.pending
    core.agenda.pending = []
    for destination in left:
        destination.schedule.pending = False
        for part in core.parts:
            part.left_over(core, destination)
        core.agenda.woken.append(destination)
    finish(core)


def next_deadline_us(core: Core) -> int:
    """When `on_time` is wanted; 0 never. Not later than now while a bounded turn has left work."""
    if core.agenda.pending:
        return core.now_us
    soonest = core.agenda.next_alarm_us(core.destinations)
    for part in core.parts:
        due_us = part.next_timeout_us(core)
        if due_us != 0 and (soonest == 0 or due_us < soonest):
            soonest = due_us
    return soonest


def end(core: Core) -> Effects:
    """What is to be done when everything written so far is durable; a new turn begins."""
    if core.agenda.watched:
        _spread_news(core)
        finish(core)
    for part in core.parts:
        part.end(core)
    effects = core.effects
    effects.close()
    core.effects = Effects()
    core.budget.begin()
    return effects


def _spread_news(core: Core) -> None:
    """Something may have become available where somebody waits for it."""
    watched = core.agenda.watched
    core.agenda.watched = []
    for destination in watched:
        destination.schedule.news = False
        for part in core.parts:
            part.news(core, destination)
