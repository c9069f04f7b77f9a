"""Queues that a lease names: bodies of non-persistent messages are in the ledger for its readers, and for
nobody else."""

from pathlib import Path

import numpy as np
import pytest

from postroom.ledger.format.records import ArrivalFlag
from postroom.ledger.reading.body_reader import BodyReader, BodyState
from postroom.ledger.reading.reader import LedgerReader
from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.destinations import tap
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.kernel.options import QueueDefinition
from tests.ledger.files import bodies_of
from tests.manager.over_ledger import LedgerWorld

TAPPED = ArrivalFlag.TAPPED | ArrivalFlag.BODY_STORED
SECTIONS = b"\x00\x53\x75\xa0\x04body"


@pytest.fixture
def world() -> LedgerWorld:
    world = LedgerWorld()
    world.queue("q", dead_letter_queue="dead")
    world.queue("dead")
    return world


def lease(world: LedgerWorld, *names: str) -> None:
    world.manager.set_leased(frozenset(names))


def put(world: LedgerWorld, name: str, body: bytes = SECTIONS, durable: bool = False) -> None:
    world.put(world.manager.queue(name), body, durable=durable)
    world.turn()


def read(world: LedgerWorld, folder: Path) -> list[tuple[str, BodyState, bytes]]:
    """(queue, state of the body, body) of every arrival."""
    world.write_out(folder)
    names = {queue.id: queue.name for queue in world.manager.core.destinations.values()}
    arrivals = np.concatenate([chunk.arrivals for _, _, chunk in LedgerReader(folder).chunks()])
    found = BodyReader(folder).read(arrivals["position"])
    return [
        (names.get(int(arrival["routing_set"]), ""), BodyState(state), body)
        for arrival, state, body in zip(arrivals, found.states, bodies_of(found), strict=True)
    ]


def test_only_what_comes_to_a_leased_queue_while_it_is(world: LedgerWorld, tmp_path: Path) -> None:
    put(world, "q")
    lease(world, "q", "not there")
    put(world, "q")
    put(world, "dead")
    lease(world, "dead")
    put(world, "q")
    put(world, "dead")
    put(world, "q", durable=True)
    states = [(queue, state.name) for queue, state, _ in read(world, tmp_path)]
    assert states == [
        ("q", "NOT_STORED"),
        ("q", "PRESENT"),
        ("dead", "NOT_STORED"),
        ("q", "NOT_STORED"),
        ("dead", "PRESENT"),
        ("q", "PRESENT"),
    ]
    world.check_whole(tmp_path)


def test_a_queue_that_is_made_later_is_leased_from_its_first_message(
    world: LedgerWorld, tmp_path: Path
) -> None:
    lease(world, "new")
    world.queue("new")
    put(world, "new")
    assert read(world, tmp_path) == [("new", BodyState.PRESENT, SECTIONS)]
    world.manager.purge_queue("new", world.now_us)
    world.manager.delete_queue("new", False, False, world.now_us)
    assert destinations_of(world.manager.core).tapped == 0


def test_such_a_message_is_still_lost_at_a_restart(world: LedgerWorld, tmp_path: Path) -> None:
    lease(world, "q")
    put(world, "q")
    put(world, "q", durable=True)
    for _ in range(2):
        world.restart()
        assert world.manager.queue("q").statistics.depth == 1
    consumer = world.consumer(world.manager.queue("q"), 10)
    world.turn()
    assert [entry.flags & int(TAPPED) for entry in world.held(consumer)] == [ArrivalFlag.BODY_STORED]
    assert [state for _, state, _ in read(world, tmp_path)] == [BodyState.PRESENT] * 2


def test_memory_is_charged_as_if_it_were_not_stored(world: LedgerWorld) -> None:
    put(world, "q")
    one = int(world.manager.core.memory.volatile_bytes)
    lease(world, "q")
    put(world, "q")
    assert (world.manager.core.memory.volatile_bytes, world.manager.core.memory.cached_bytes) == (2 * one, 0)


@pytest.mark.parametrize("leased", [("q",), ("dead",), ("q", "dead")], ids="+".join)
def test_a_dead_letter_has_its_body_where_its_own_queue_is_leased(
    world: LedgerWorld, leased: tuple[str, ...], tmp_path: Path
) -> None:
    lease(world, *leased)
    put(world, "q")
    consumer = world.consumer(world.manager.queue("q"), 10)
    world.turn()
    for entry in world.held(consumer):
        world.manager.reject(consumer, entry, "app:broken", "", world.now_us)
    world.turn()
    found = {queue: state for queue, state, _ in read(world, tmp_path)}
    assert {queue for queue, state in found.items() if state is BodyState.PRESENT} == set(leased)
    assert set(found) == {"q", "dead"}
    world.restart()
    assert world.manager.queue("dead").statistics.depth == 0


@pytest.mark.parametrize("leased", ["news", "one", ""])
def test_a_publish_is_stored_once_for_any_of_its_subscriptions(
    world: LedgerWorld, leased: str, tmp_path: Path
) -> None:
    world.manager.create_queue(QueueDefinition(name="news", kind="topic"), world.now_us)
    names = []
    for name in ("one", "two"):
        wanted = Subscribing(topic="news", client="c", name=name, durable=True)
        names.append(world.manager.subscribe(wanted, world.now_us).name)
    lease(world, *([names[0]] if leased == "one" else [leased] if leased else []))
    world.put(world.manager.topic("news"), SECTIONS, durable=False)
    world.turn()
    expected = (BodyState.PRESENT, SECTIONS) if leased else (BodyState.NOT_STORED, b"")
    assert [(state, body) for _, state, body in read(world, tmp_path)] == [expected]
    world.restart()
    assert [world.manager.queue(name).statistics.depth for name in names] == [0, 0]


def test_a_second_reason_outlives_the_first(world: LedgerWorld, tmp_path: Path) -> None:
    queue = world.manager.queue("q")
    lease(world, "q")
    tap.begin(world.manager.core, queue)
    lease(world)
    put(world, "q")
    tap.end(world.manager.core, queue)
    put(world, "q")
    assert [state for _, state, _ in read(world, tmp_path)] == [BodyState.PRESENT, BodyState.NOT_STORED]
    assert (queue.taps, destinations_of(world.manager.core).tapped) == (0, 0)
