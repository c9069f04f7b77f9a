"""What the reference makes of moves, replays and imports."""

from postroom.manager.kernel.errors import (
    DestinationPaused,
    LimitExceeded,
    ManagerError,
    OriginGone,
    RequestInvalid,
)
from postroom.model.codes import Outcome
from tests.manager.random_commands.reference import Reference
from tests.manager.random_commands.reference_destination import AVAILABLE, DELAYED, UNBORN, Message, Place

Refusals = set[type[ManagerError]]
"""Any of these may be said."""


def meant(place: Place, wanted: int | None, id: str) -> list[Message]:
    """What an administrator means by a selector and a message id ("": any), in the order of a search."""
    found = [m for m in place.changeable(wanted) if id in ("", m.id)]
    return found if not id else sorted(found, key=lambda m: m.serial)


def first_of(messages: list[Message], count: int) -> list[Message] | None:
    """The first so many; None where that isn't said, because some came at once."""
    chosen, left = messages[:count], messages[count:]
    ranks = {message.rank() for message in chosen}
    return None if any(message.rank() in ranks for message in left) else chosen


def origin_of(reference: Reference, message: Message) -> Place | None:
    """Where it came from; None if that is no more."""
    assert message.origin is not None
    place, life = message.origin
    there = reference.places.get(place.name) is place and place.life == life and not place.dismissed
    return place if there else None


def refusals(reference: Reference, source: Place, target: Place, count: int) -> Refusals:
    """Why ``count`` messages can't go from one to the other."""
    if target is source:
        return {RequestInvalid}
    if target.closed():
        return {DestinationPaused}
    pool = target.pool
    no_room = pool is not None and pool is not source.pool and not pool.fits(count)
    return {LimitExceeded} if no_room else set()


def move(reference: Reference, source: Place, target: Place, messages: list[Message]) -> None:
    """By an administrator: priority, expiry and birth stay; nobody was given a unique id here, so that it has
    another, from where it arrives."""
    ranks = [message.rank() for message in messages if message.state == AVAILABLE]
    tied = any(message.state == DELAYED for message in messages) or len(set(ranks)) < len(ranks)
    first = 0
    for message in messages:
        child = message.child(source, message.expiry_us)
        child.due_us = message.due_us if message.state == UNBORN else 0
        reference.arrive(target, child)
        if tied and child.order:  # what was delayed, or came at once, has no order among them
            first = first or child.order
            child.order = first
        reference.end(source, message, Outcome.MOVED)


def replay(reference: Reference, source: Place, messages: list[Message], to: Place | None) -> Refusals:
    """Each goes to ``to``, or to where it came from; or none goes."""
    if to is None and any(origin_of(reference, message) is None for message in messages):
        return {OriginGone}
    by_target: dict[str, list[Message]] = {}
    for message in messages:
        target = to or origin_of(reference, message)
        assert target is not None
        by_target.setdefault(target.name, []).append(message)
    places = reference.places
    said = [refusals(reference, source, places[name], len(found)) for name, found in by_target.items()]
    if not any(said):
        for name, found in by_target.items():
            move(reference, source, places[name], found)
    return set().union(*said)


def has_room(reference: Reference, place: Place) -> bool:
    """Whether another message may be imported: there is room, and nobody whom it would overtake."""
    pool = place.pool
    return pool is None or (pool.most > 0 and reference.lines.lacks([place], None) is None)


def take_in(reference: Reference, place: Place, message: Message) -> bool:
    """An imported message takes the place of those with its id; whether there were any. None is refused."""
    earlier = meant(place, None, message.id) if message.id else []
    for each in earlier:
        reference.end(place, each, Outcome.DELETED)
    reference.arrive(place, message)
    return bool(earlier)
