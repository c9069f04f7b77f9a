"""What tests of message management have in common: dead letters, and what is found and counted."""

from typing import Any

from postroom.manager.administration.message_queries import CloseCursor, OpenCursor, QueryAnswer, ReadCursor
from postroom.manager.administration.message_search import Wanted
from postroom.manager.administration.message_states import ALL_STATES
from postroom.manager.queues.queue import Queue
from tests.manager.messages import put, text_of
from tests.manager.store_face import Recorder, perform
from tests.manager.world import World, recount

SMALL: dict[str, Any] = {"live_head": 8, "min_live_head": 4}
"""Nearly everything is packed."""


def wanted(selector: str = "", states: int = ALL_STATES, **named_by: Any) -> Wanted:
    made = Wanted(states, selector)
    for name, value in named_by.items():
        setattr(made, name, value)
    return made


def query(world: World, queue: Queue, selector: str = "", states: int = ALL_STATES) -> list[Any]:
    """Everything that a query finds, page by page."""
    opened = perform(world, OpenCursor(queue, Recorder(), wanted(selector, states), 0))
    assert isinstance(opened, QueryAnswer)
    rows: list[Any] = []
    while len(rows) < opened.count:
        page = perform(world, ReadCursor(queue, Recorder(), opened.cursor, len(rows), 7, True))
        assert page.rows
        rows += page.rows
    perform(world, CloseCursor(queue, Recorder(), opened.cursor))
    return rows


def found(world: World, queue: Queue, selector: str = "", states: int = ALL_STATES) -> list[str]:
    return [text_of(row.body) for row in query(world, queue, selector, states)]


def numbered(world: World, queue: Queue, count: int = 50, **head: Any) -> None:
    for number in range(count):
        put(world, queue, f"{number}", head=head, n=number)
    world.turn()


def check_counts(queue: Queue) -> None:
    counted = recount(queue)
    assert queue.statistics.current == counted["current"]
    assert queue.statistics.depth == counted["current"] + counted["held"] + counted["delayed"]


def dead_letters(world: World, count: int = 3, origin: str = "orders") -> tuple[Queue, Queue]:
    """``count`` messages that were rejected; origin and dead-letter queue."""
    world.queue("dead")
    return dead_letters_on(world, count, origin)


def dead_letters_on(world: World, count: int, origin: str = "orders") -> tuple[Queue, Queue]:
    """The same on the queue "dead" that is there."""
    queue = world.queue(origin, dead_letter_queue="dead", redelivery_limit=1)
    numbered(world, queue, count)
    consumer = world.consumer(queue, count)
    world.turn()
    for entry in world.held(consumer):
        world.manager.reject(consumer, entry, "app:bad", "no such customer", world.now_us)
    world.close(consumer)
    world.turn()
    return queue, world.manager.queue("dead")
