"""Expiry, unborn messages, redelivery delay and limit, dead letters."""

import json
from dataclasses import replace

import pytest

from postroom.manager.headers.dead_letter_header import DEAD_LETTER, header_of
from postroom.manager.kernel.errors import DefinitionInvalid
from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.model.codes import Event, Outcome
from tests.manager.world import MS, World


def test_expired_messages_are_not_delivered(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"short", ttl_ms=10)
    world.put(queue, b"long", ttl_ms=10_000)
    world.now_us += 10 * MS
    world.consumer(queue, credit=5)
    assert world.turn() == [b"long"]
    assert queue.statistics.ended[Outcome.EXPIRED] == 1


def test_nobody_need_look_for_a_message_to_expire(world: World) -> None:
    queue = world.queue()
    world.put(queue, ttl_ms=10)
    world.turn(9)
    assert queue.statistics.depth == 1
    world.turn(world.options.expiry_scan_ms)
    assert (queue.statistics.depth, world.events()[-1]) == (0, ("EXPIRE", "DELETED", "EXPIRED"))


def test_time_to_live_zero_means_none(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1", ttl_ms=0)
    world.turn(3_600_000)
    assert queue.statistics.current == 1


def test_the_queue_limits_the_time_to_live(world: World) -> None:
    queue = world.queue(max_ttl_ms=20)
    world.put(queue, b"none")
    world.put(queue, b"long", ttl_ms=1000)
    world.turn(20 + world.options.expiry_scan_ms)
    assert queue.statistics.ended[Outcome.EXPIRED] == 2


def test_expiry_of_a_held_entry_waits_for_its_return(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1", ttl_ms=10)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    (entry,) = consumer.held
    world.turn(5_000)
    assert queue.statistics.unacknowledged == 1
    world.release(consumer, entry)
    world.turn()
    assert [event for event, _, _ in world.events()][-2:] == ["RELEASE", "EXPIRE"]
    assert queue.statistics.depth == 0


def test_an_expired_held_entry_can_still_be_accepted(world: World) -> None:
    queue = world.queue()
    world.put(queue, ttl_ms=10)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.turn(5_000)
    world.accept(consumer, world.held(consumer)[0])
    assert queue.statistics.consumed == 1


def test_expired_messages_are_redirected_where_the_queue_says_so(world: World) -> None:
    queue, late = world.queue(expiration_policy="redirect", expiry_queue="late"), world.queue("late")
    world.put(queue, b"old", ttl_ms=10)
    world.turn(1_000)
    assert queue.statistics.ended[Outcome.REDIRECTED] == 1
    world.consumer(late, credit=1)
    assert world.turn(3_600_000) == [b"old"]
    child = world.arrivals[-1]
    assert (child["parent_serial"], child["parent_queue"]) == (world.arrivals[0]["position"], queue.id)
    assert child["body_serial"] == world.arrivals[0]["position"]
    assert child["expiry_us"] == 0


@pytest.mark.parametrize("how", ["delay", "time"])
def test_unborn_messages_become_available_when_due(world: World, how: str) -> None:
    queue = world.queue()
    due_ms = world.now_us // 1000 + 50
    if how == "delay":
        world.put(queue, b"later", delay_ms=50)
    else:
        world.put(queue, b"later", due_ms=due_ms)
    world.put(queue, b"now")
    world.consumer(queue, credit=5)
    assert world.turn(49) == [b"now"]
    assert queue.statistics.slots()["unborn"] == (1, 5)
    assert world.turn(1) == [b"later"]
    assert ("DUE", "AVAILABLE", "NONE") in world.events()


def test_birth_in_the_past_is_birth_now(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1", due_ms=world.now_us // 1000 - 5)
    assert queue.statistics.current == 1


def test_a_message_that_expires_before_its_birth_is_never_seen(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1", delay_ms=1_000, ttl_ms=10)
    world.consumer(queue, credit=1)
    assert world.turn(999) == []
    assert world.turn(5_000) == []
    assert queue.statistics.ended[Outcome.EXPIRED] == 1


def test_redelivery_waits_out_the_delay_and_keeps_its_place(world: World) -> None:
    queue = world.queue(redelivery_delay_ms=100)
    world.put(queue, b"1")
    world.put(queue, b"2")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.fail(consumer, world.held(consumer)[0])
    assert queue.statistics.slots()["redelivery_delay"] == (1, 1)
    assert world.turn(99) == []
    world.turn(1)
    world.credit(consumer, 5)
    assert world.turn() == [b"1", b"2"]


def test_no_delay_after_release_or_lost_link(world: World) -> None:
    queue = world.queue(redelivery_delay_ms=100)
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.close(consumer, lost=True)
    world.consumer(queue, credit=1)
    assert world.turn() == [b"1"]


@pytest.mark.parametrize("delay_ms", [0, 50])
def test_over_the_redelivery_limit_goes_to_the_dead_letter_queue(world: World, delay_ms: int) -> None:
    queue = world.queue(redelivery_limit=1, redelivery_delay_ms=delay_ms, dead_letter_queue="dead")
    world.put(queue, b"poison")
    consumer = world.consumer(queue, credit=10)
    for _ in range(2):
        world.turn()
        world.fail(consumer, world.held(consumer)[0])
        if delay_ms:
            assert queue.statistics.ended[Outcome.DEAD_LETTERED] == 0
        world.turn(delay_ms)
    assert queue.statistics.ended[Outcome.DEAD_LETTERED] == 1
    dead = world.manager.queue("dead")
    world.consumer(dead, credit=1)
    assert world.turn() == [b"poison"]
    annotations = world.last(b"poison").annotations
    assert annotations is not None
    assert annotations["x-opt-dead-letter-reason"] == "postroom:redelivery-limit-exceeded"


def test_over_the_limit_without_dead_letter_queue_is_discarded(world: World) -> None:
    queue = world.queue(redelivery_limit=0)
    world.put(queue)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.fail(consumer, world.held(consumer)[0])
    world.turn()
    assert world.events()[-1] == ("DISCARD", "DELETED", "DISCARDED")


def test_releases_and_lost_links_are_not_failures(world: World) -> None:
    queue = world.queue(redelivery_limit=0)
    world.put(queue, b"1")
    for lost in (False, True, True):
        consumer = world.consumer(queue, credit=1)
        world.turn()
        world.close(consumer, lost=lost)
    world.consumer(queue, credit=1)
    assert world.turn() == [b"1"]
    assert world.last(b"1").delivery_count == 2


def test_rejected_goes_to_the_dead_letter_queue_with_its_error(world: World) -> None:
    queue = world.queue(dead_letter_queue="dead")
    world.put(queue, b"bad", priority=7)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.manager.reject(consumer, world.held(consumer)[0], "app:bad", "no such order", world.now_us)
    dead = world.consumer(world.manager.queue("dead"), credit=1)
    assert world.turn() == [b"bad"]
    annotations = world.last(b"bad").annotations
    assert annotations is not None
    header = header_of(annotations[DEAD_LETTER])
    assert header is not None and (header.reason, header.queue) == (2195, "q")
    assert {name: value for name, value in annotations.items() if name != DEAD_LETTER} == {
        "x-opt-dead-letter-reason": "app:bad",
        "x-opt-dead-letter-description": "no such order",
        "x-opt-dead-letter-queue": "q",
    }
    ended = [i for i, row in enumerate(world.transitions) if row["event"] == Event.DEAD_LETTER]
    assert json.loads(world.details[ended[0]]) == {"condition": "app:bad", "description": "no such order"}
    (entry,) = dead.held
    assert (entry.priority, entry.delivery_count) == (7, 0)


def test_rejected_without_dead_letter_queue_is_discarded(world: World) -> None:
    queue = world.queue()
    world.put(queue)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.manager.reject(consumer, world.held(consumer)[0], "app:bad", "", world.now_us)
    assert queue.statistics.ended[Outcome.DISCARDED] == 1


def test_a_dead_letter_queue_does_not_send_to_itself(world: World) -> None:
    queue = world.queue(dead_letter_queue="q")
    world.put(queue)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.manager.reject(consumer, world.held(consumer)[0], "app:bad", "", world.now_us)
    assert (queue.statistics.depth, queue.statistics.ended[Outcome.DISCARDED]) == (0, 1)


LAST = ManagerOptions(
    dead_letter_queue="dead",
    queue_defaults=QueueDefinition(
        name="default", redelivery_limit=1, redelivery_delay_ms=5, dead_letter_queue="dead"
    ),
)


@pytest.mark.parametrize("committed", [False, True])
def test_what_is_rejected_on_the_queue_managers_own_comes_back_as_failed(committed: bool) -> None:
    """It has no redelivery limit, so that this never ends; but it waits."""
    world = World(LAST)
    dead = world.manager.create_queue(LAST.new_queue("dead"), world.now_us)
    world.put(dead, b"bad")
    consumer = world.consumer(dead, credit=1)
    for attempt in range(3):
        assert world.turn(5) == [b"bad"]
        (entry,) = world.held(consumer)
        transaction = world.manager.begin(world.now_us) if committed else None
        world.manager.reject(consumer, entry, "app:bad", "no", world.now_us, transaction=transaction)
        if transaction is not None:
            world.manager.commit(transaction, world.now_us)
        assert (entry.failure_count, entry.delivery_count) == (attempt + 1, attempt + 1)
        assert (dead.statistics.current, dead.statistics.depth) == (0, 1)
        world.manager.set_credit(consumer, 1, False, world.now_us)
    world.turn()
    failed = [i for i, row in enumerate(world.transitions) if row["event"] == Event.FAIL]
    assert [json.loads(world.details[i]) for i in failed] == [
        {"condition": "app:bad", "description": "no"}
    ] * 3
    assert dead.statistics.ended[Outcome.DISCARDED] == 0


def test_new_queues_are_as_the_defaults_say_but_for_some() -> None:
    plain = LAST.new_queue("q", temporary=True)
    assert (plain.name, plain.redelivery_limit, plain.dead_letter_queue) == ("q", 1, "dead")
    assert plain.temporary
    assert LAST.new_queue("x", usage="transmission") == QueueDefinition(name="x", usage="transmission")
    end = LAST.new_queue("dead")
    assert (end.redelivery_limit, end.redelivery_delay_ms, end.dead_letter_queue) == (-1, 5, "")


def test_each_discard_is_an_effect_for_the_log(world: World) -> None:
    queue = world.queue()
    for _ in range(2):
        world.put(queue)
    consumer = world.consumer(queue, credit=2)
    world.turn()
    for entry in world.held(consumer):
        world.manager.reject(consumer, entry, "app:bad", "why", world.now_us)
    (record,) = world.manager.take_effects().discarded.values()
    assert (record.queue, record.count, record.reason) == ("q", 2, "app:bad: why")


def test_a_full_dead_letter_queue_still_takes_dead_letters(world: World) -> None:
    queue, dead = world.queue(dead_letter_queue="dead"), world.queue("dead", max_messages=0)
    world.put(queue)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.manager.reject(consumer, world.held(consumer)[0], "app:bad", "", world.now_us)
    assert dead.statistics.current == 1


def test_non_persistent_dead_letters_keep_their_body(world: World) -> None:
    queue = world.queue(dead_letter_queue="dead")
    world.put(queue, b"bad", durable=False)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.manager.reject(consumer, world.held(consumer)[0], "app:bad", "", world.now_us)
    world.consumer(world.manager.queue("dead"), credit=1)
    assert world.turn() == [b"bad"]


def test_expiry_finds_packed_entries_without_a_full_scan() -> None:
    world = World(ManagerOptions(live_head=10, expiry_scan_ms=0))
    queue = world.queue()
    for number in range(2000):
        world.put(queue, b"%d" % number, ttl_ms=10 if 500 <= number < 600 else 60_000)
    world.turn(20)
    assert queue.statistics.ended[Outcome.EXPIRED] == 100
    world.consumer(queue, credit=5000)
    bodies = world.turn()
    assert len(bodies) == 1900
    assert bodies == [b"%d" % number for number in range(2000) if not 500 <= number < 600]


def test_one_turn_ends_a_bounded_number_of_expired_entries() -> None:
    world = World(ManagerOptions(live_head=10, max_expired_per_turn=50, expiry_scan_ms=0))
    queue = world.queue()
    for _ in range(175):
        world.put(queue, ttl_ms=10)
    world.manager.take_effects()
    world.now_us += 20 * MS
    world.manager.on_time(world.now_us)
    assert queue.statistics.ended[Outcome.EXPIRED] == 50
    assert world.manager.next_deadline_us() <= world.now_us
    world.turn()
    assert queue.statistics.ended[Outcome.EXPIRED] == 175


def test_dead_letters_find_room_even_when_no_queue_may_be_created() -> None:
    world = World(ManagerOptions(max_queues=1))
    queue = world.queue(dead_letter_queue="dead")
    world.put(queue)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.manager.reject(consumer, world.held(consumer)[0], "c" * 5000, "\ud800", world.now_us)
    assert world.manager.queue("dead").statistics.current == 1


@pytest.mark.parametrize(("own_ms", "consumer_ms", "waits_ms"), [(-1, 50, 50), (100, 50, 100), (0, 50, 0)])
def test_the_delay_of_a_queue_beats_that_of_the_consumer(
    world: World, own_ms: int, consumer_ms: int, waits_ms: int
) -> None:
    queue = world.queue(redelivery_delay_ms=own_ms)
    consumer = world.consumer(queue, credit=5, redelivery_delay_ms=consumer_ms)
    world.put(queue, b"m")
    world.turn()
    world.fail(consumer, world.held(consumer)[0])
    if waits_ms:
        assert world.turn(waits_ms - 1) == []
    assert world.turn(1) == [b"m"]


def test_a_delay_is_fixed_when_the_message_comes_back(world: World) -> None:
    queue = world.queue(redelivery_delay_ms=100)
    consumer = world.consumer(queue, credit=5)
    world.put(queue, b"m")
    world.turn()
    world.fail(consumer, world.held(consumer)[0])
    world.manager.update_queue(replace(queue.definition, redelivery_delay_ms=0), world.now_us)
    assert world.turn(99) == []
    assert world.turn(1) == [b"m"]


def test_a_rolled_back_receipt_waits_as_long_as_its_consumer_says(world: World) -> None:
    queue = world.queue()
    consumer = world.consumer(queue, credit=5, redelivery_delay_ms=30)
    world.put(queue, b"m")
    world.turn()
    transaction = world.manager.begin(world.now_us)
    world.accept(consumer, world.held(consumer)[0], transaction)
    world.manager.rollback(transaction, world.now_us)
    assert world.turn(29) == []
    assert world.turn(1) == [b"m"]


def test_a_lost_consumer_brings_no_delay(world: World) -> None:
    queue = world.queue()
    consumer = world.consumer(queue, credit=5, redelivery_delay_ms=1000)
    world.put(queue, b"m")
    world.turn()
    world.close(consumer, lost=True)
    world.consumer(queue, credit=1)
    assert world.turn() == [b"m"]


@pytest.mark.parametrize(
    ("definition", "complaint"),
    [
        ({"expiration_policy": "redirect"}, "neither expiry_queue nor dead_letter_queue"),
        ({"expiry_queue": "late"}, "expiry_queue needs expiration_policy = 'redirect'"),
        ({"expiration_policy": "forget"}, "must be one of discard, log, redirect"),
    ],
)
def test_expiration_policies_that_mean_nothing_are_refused(
    definition: dict[str, str], complaint: str
) -> None:
    with pytest.raises(DefinitionInvalid, match=complaint):
        QueueDefinition(name="q", **definition).check()


def test_a_target_of_redirection_cannot_be_taken_away(world: World) -> None:
    queue = world.queue(expiration_policy="redirect", dead_letter_queue="dead")
    with pytest.raises(DefinitionInvalid, match="where to"):
        world.manager.update_queue(replace(queue.definition, dead_letter_queue=""), world.now_us)


def test_redirection_goes_to_the_dead_letter_queue_where_no_other_is_named(world: World) -> None:
    queue, dead = world.queue(expiration_policy="redirect", dead_letter_queue="dead"), world.queue("dead")
    world.put(queue, b"m", ttl_ms=10)
    world.turn(11)
    world.turn(1000)
    assert dead.statistics.current == 1
