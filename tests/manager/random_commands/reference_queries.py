"""What an administrator sees of the reference's messages."""

from tests.manager.random_commands.reference_destination import (
    AVAILABLE,
    DELAYED,
    GOT,
    GOT_BY_ID,
    GOT_BY_LOCK,
    HELD,
    LOCKED,
    ORDERED,
    PARKED,
    PUT,
    PUT_BY_ID,
    UNBORN,
    Message,
    Place,
)

STATES = {
    AVAILABLE: {"visible"},
    HELD: {"receive"},
    UNBORN: {"delayed"},
    DELAYED: {"delayed"},
    PARKED: {"paused"},
    ORDERED: {"ordered"},
    PUT: {"send", "transaction"},
    GOT: {"receive", "transaction"},
    PUT_BY_ID: {"send"},
    GOT_BY_ID: {"receive"},
    GOT_BY_LOCK: {"receive"},
    LOCKED: {"locked"},
}


def states_of(place: Place, message: Message, now_us: int) -> set[str]:
    """As WebLogic names them."""
    found = set(STATES[message.state])
    if message.expired(now_us):  # somebody holds it; of all others it is noticed at once
        found.add("expired")
    if message.state == AVAILABLE and place.consumption:
        found.add("paused")
    if message.state not in (PUT, PUT_BY_ID) and place.over_limit(message):
        found.add("redelivery_count_exceeded")
    return found


def found_by(place: Place, wanted: int | None, states: set[str], now_us: int) -> list[Message]:
    """What a query finds, in its order: available, delayed, held. No states: any."""
    messages = [m for m in place.messages if wanted in (None, m.number)]
    messages = [m for m in messages if not states or states & states_of(place, m, now_us)]
    return sorted(messages, key=_in_search)


def _in_search(message: Message) -> tuple[int, tuple[int, int]]:
    if message.state == AVAILABLE:
        return (0, message.rank())
    return (1 if message.state in (UNBORN, DELAYED, PARKED, ORDERED) else 2, (message.serial, 0))


def same_order(place: Place, first: list[Message], second: list[Message]) -> bool:
    """Whether both are the same messages in one order, as far as there is one."""
    if place.takes_children:  # of one moment
        return {id(message) for message in first} == {id(message) for message in second}
    return [_in_search(message) for message in first] == [_in_search(message) for message in second]
