"""Why an entry is a dead letter, with MQ's header, is there after a restart, as long as the entry lives."""

from pathlib import Path

import pytest

from postroom.manager.headers.dead_letter_header import DEAD_LETTER, DeadLetterHeader, header_of
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.queues.annotations import annotated_entries_of
from postroom.manager.undeliverable.dead_letters import number_of
from tests.manager.over_ledger import LedgerWorld


@pytest.fixture
def world() -> LedgerWorld:
    world = LedgerWorld(ManagerOptions(queue_manager="LONDON", live_head=8))
    world.queue("q", dead_letter_queue="dead")
    return world


def die(world: LedgerWorld, count: int = 1, condition: str = "app:broken", durable: bool = True) -> None:
    queue = world.manager.queue("q")
    for number in range(count):
        world.put(queue, b"\x00\x53\x75\xa0\x01%d" % (number % 10), durable=durable)
    consumer = world.consumer(queue, count)
    world.turn()
    for entry in world.held(consumer):
        world.manager.reject(consumer, entry, condition, "no such customer", world.now_us)
    world.turn()
    world.close(consumer)
    world.turn()


def letters(world: LedgerWorld) -> list[dict[str, object] | None]:
    browser = world.browser(world.manager.queue("dead"), 1000)
    before = len(world.delivered)
    world.turn()
    found = [delivery.annotations for delivery in world.delivered[before:]]
    world.close(browser)
    return found


def header(annotations: dict[str, object] | None) -> DeadLetterHeader:
    assert annotations is not None
    found = header_of(annotations[DEAD_LETTER])
    assert found is not None
    return found


def test_a_rejected_message_keeps_why_over_a_restart(world: LedgerWorld, tmp_path: Path) -> None:
    die(world)
    [before] = letters(world)
    for _ in range(2):
        world.restart()
        [after] = letters(world)
        assert after == before
    assert after is not None
    assert after["x-opt-dead-letter-reason"] == "app:broken"
    found = header(after)
    assert (found.reason, found.queue, found.queue_manager) == (2195, "q", "LONDON")
    world.check_whole(tmp_path)


def test_also_when_a_checkpoint_stands_for_the_records(world: LedgerWorld) -> None:
    die(world, 40)
    for _ in range(200):
        world.put(world.manager.queue("q"), b"x" * 1000)
    world.turn()
    world.maintain()
    world.restart()
    assert [header(one).reason for one in letters(world)] == [2195] * 40


def test_over_the_redelivery_limit(world: LedgerWorld) -> None:
    world.queue("once", dead_letter_queue="dead", redelivery_limit=0)
    world.put(world.manager.queue("once"), b"\x00\x53\x75\xa0\x00")
    consumer = world.consumer(world.manager.queue("once"), 1)
    world.turn()
    [entry] = world.held(consumer)
    world.fail(consumer, entry)
    world.turn()
    world.restart()
    assert [header(one).reason for one in letters(world)] == [2362]


def test_nothing_is_left_when_they_have_ended(world: LedgerWorld) -> None:
    die(world, 30)
    world.restart()
    consumer = world.consumer(world.manager.queue("dead"), 10)
    world.turn()
    for entry in world.held(consumer):
        world.accept(consumer, entry)
    world.turn()
    assert annotated_entries_of(world.manager.core).count == 20
    world.close(consumer)
    world.manager.purge_queue("dead", world.now_us)
    world.turn()
    assert annotated_entries_of(world.manager.core).count == 0
    world.restart()
    assert (world.ledger.recovered.annotations, annotated_entries_of(world.manager.core).count) == ([], 0)


def test_what_is_not_persistent_leaves_nothing(world: LedgerWorld) -> None:
    die(world, durable=False)
    assert len(letters(world)) == 1
    world.restart()
    assert world.ledger.recovered.annotations == []


def test_a_queue_that_is_deleted_takes_them_along(world: LedgerWorld) -> None:
    die(world, 3)
    world.restart()
    world.manager.delete_queue("dead", False, False, world.now_us)
    world.turn()
    world.restart()
    assert world.ledger.recovered.annotations == []


@pytest.mark.parametrize(
    ("condition", "reason"),
    [("mqrc:2053", 2053), ("mqrc:", 2195), ("mqrc:-1", 2195), ("mqrc:9999999999", 2195), ("2053", 2195)],
)
def test_the_reason_of_a_rejection(condition: str, reason: int) -> None:
    assert number_of(condition) == reason
