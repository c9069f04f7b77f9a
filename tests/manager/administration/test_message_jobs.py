"""What a job does with messages that it has looked at before: by serial, place and deliveries."""

from random import Random
from typing import Any

import pytest

from postroom.manager.administration.message_jobs import (
    ACTIONS,
    ANSWERS,
    CONDITION,
    MAX_ACTIONS,
    MAX_REASON_CHARS,
    Act,
    Acted,
    Action,
    detail_of,
)
from postroom.manager.administration.message_moves import MAX_ONWARD_BYTES
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import LimitExceeded, QueueNotFound, RequestInvalid
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.names.remote_queue_definition import RemoteQueueDefinition
from postroom.manager.queues.queue import Queue
from tests.manager.administration.message_management import (
    SMALL,
    check_counts,
    dead_letters,
    dead_letters_on,
    found,
    numbered,
)
from tests.manager.messages import available_entries, put
from tests.manager.over_ledger import LedgerWorld
from tests.manager.store_face import Recorder, perform
from tests.manager.world import World

BIG = MAX_ONWARD_BYTES * 2 // 3
DETAIL = detail_of("because", "me")


@pytest.fixture(params=[World, LedgerWorld])
def world(request: pytest.FixtureRequest) -> World:
    made = request.param(ManagerOptions(**SMALL, fetch_entries=8, queue_manager="QM1"))
    assert isinstance(made, World)
    return made


def on(entry: Entry, action: str, to: str = "") -> Action:
    """An action on a message as it is."""
    return Action(action, to, DETAIL, entry.serial, entry.place, entry.ordinal, entry.delivery_count)


def act(world: World, queue: Queue, actions: list[Action]) -> Acted:
    done = perform(world, Act(queue, Recorder(), actions))
    assert isinstance(done, Acted)
    return done


def answers(done: Acted) -> list[str]:
    return [ANSWERS[answer] for answer in done.answers]


def why(done: Acted) -> str:
    """The only reason for which something was refused."""
    (only,) = done.refusals
    return only


def test_each_message_gets_its_action(world: World) -> None:
    origin, dead = dead_letters(world, 5)
    other = world.queue("other")
    seen = available_entries(dead)
    actions = zip(seen, ["replay", "forward", "discard", "leave"], ["", "other", "", ""], strict=False)
    done = act(world, dead, [on(entry, action, to) for entry, action, to in actions])
    assert answers(done) == ["done"] * 4 and not done.refusals
    assert (found(world, origin), found(world, other), found(world, dead)) == (["0"], ["1"], ["3", "4"])
    ends = dead.statistics.snapshot()
    assert (ends["messages_moved"], ends["messages_discarded"]) == (2, 1)
    for queue in (origin, dead, other):
        check_counts(queue)


def test_what_was_replayed_is_no_dead_letter_and_what_was_forwarded_is(world: World) -> None:
    origin, dead = dead_letters(world, 2)
    other = world.queue("other")
    first, second = available_entries(dead)
    act(world, dead, [on(first, "replay", "other"), on(second, "forward", "other")])
    replayed, forwarded = available_entries(other)
    assert replayed.annotations is None
    assert forwarded.annotations is not None and "x-opt-dead-letter-reason" in forwarded.annotations
    assert origin.is_empty() and dead.is_empty()


def test_the_ledger_tells_why_and_who(world: World) -> None:
    queue = world.queue()
    numbered(world, queue, 2)
    first, second = available_entries(queue)
    world.queue("other")
    act(world, queue, [on(first, "discard"), on(second, "forward", "other")])
    if not isinstance(world, LedgerWorld):
        record = f'{{"condition": "{CONDITION}", "description": "because", "user": "me"}}'.encode()
        assert [detail for detail in world.details if b"condition" in detail] == [record, record]


def test_a_reason_is_cut_off_where_it_is_too_long() -> None:
    assert len(detail_of("x" * 5000, "")) < MAX_REASON_CHARS + 100
    assert detail_of("", "") == f'{{"condition": "{CONDITION}"}}'.encode()


def test_what_has_changed_since_is_left_alone(world: World) -> None:
    queue = world.queue()
    numbered(world, queue, 4)
    seen = available_entries(queue)
    planned = [on(entry, "discard") for entry in seen]
    planned[3].place += 1
    consumer = world.consumer(queue, 2)
    world.turn()
    failed, released = world.held(consumer)
    world.fail(consumer, failed)
    world.release(consumer, released)
    world.close(consumer)
    world.turn()
    assert answers(act(world, queue, planned)) == ["changed", "done", "done", "changed"]
    assert found(world, queue) == ["0", "3"]
    check_counts(queue)


def test_what_is_gone_is_told_of(world: World) -> None:
    queue = world.queue()
    numbered(world, queue, 2)
    put(world, queue, "short-lived", head={"ttl_ms": 5})
    world.turn()
    planned = [on(entry, "discard") for entry in available_entries(queue)]
    assert answers(act(world, queue, planned[:1])) == ["done"]
    world.now_us += 6000
    assert answers(act(world, queue, planned)) == ["gone", "done", "gone"]


def test_a_message_that_is_named_twice(world: World) -> None:
    queue = world.queue()
    numbered(world, queue, 1)
    (entry,) = available_entries(queue)
    with pytest.raises(RequestInvalid, match="same message"):
        act(world, queue, [on(entry, "leave"), on(entry, "discard")])
    assert found(world, queue) == ["0"]


def test_what_somebody_holds_is_refused(world: World) -> None:
    queue = world.queue()
    numbered(world, queue, 3)
    planned = [on(entry, "discard") for entry in available_entries(queue)]
    consumer = world.consumer(queue, 2)
    world.turn()
    done = act(world, queue, planned)
    assert answers(done) == ["refused", "refused", "done"]
    assert done.refusals == {"the message is not free: receive": [0, 1]}
    assert len(world.held(consumer)) == 2
    check_counts(queue)


def test_what_waits_for_redelivery_can_be_acted_on(world: World) -> None:
    queue = world.queue(redelivery_delay_ms=60_000)
    numbered(world, queue, 1)
    consumer = world.consumer(queue, 1)
    world.turn()
    (entry,) = world.held(consumer)
    world.fail(consumer, entry)
    world.close(consumer)
    world.turn()
    assert answers(act(world, queue, [on(entry, "leave")])) == ["done"]
    done = act(world, queue, [Action("discard", "", DETAIL, entry.serial, entry.place, 0, 1)])
    assert answers(done) == ["done"] and queue.is_empty()
    check_counts(queue)


def test_what_a_transaction_put_is_found_by_its_rank_or_without(world: World) -> None:
    queue = world.queue()
    transaction = world.manager.begin(world.now_us)
    for number in range(30):
        put(world, queue, f"{number}", transaction=transaction, n=number)
    world.turn()
    world.manager.commit(transaction, world.now_us)
    world.turn()
    seen = available_entries(queue)
    assert len({int(entry.place) for entry in seen}) == 1
    by_rank = [on(entry, "discard") for entry in seen[:5]]
    by_rank += [Action("discard", "", DETAIL, each.serial, 0, 0, 0) for each in seen[5:10]]
    without = [Action("discard", "", DETAIL, each.serial, each.place, 0, 0) for each in seen[10:20]]
    assert answers(act(world, queue, by_rank + without)) == ["done"] * 20
    assert found(world, queue) == [str(number) for number in range(20, 30)]
    check_counts(queue)


def test_a_target_that_fills_up_takes_what_it_can(world: World) -> None:
    queue = world.queue()
    world.queue("small", max_messages=2)
    numbered(world, queue, 4)
    done = act(world, queue, [on(entry, "forward", "small") for entry in available_entries(queue)])
    assert answers(done) == ["done", "done", "refused", "refused"]
    assert "has no room" in why(done)
    assert found(world, queue) == ["2", "3"]


@pytest.mark.parametrize(
    ("action", "to", "text"),
    [
        ("forward", "nowhere", "nowhere"),
        ("forward", "q", "where the messages are"),
        ("forward", "t", "'t'"),
        ("replay", "", "say where to"),
        ("forward", "$undelivered", "broker's own"),
    ],
)
def test_where_nothing_can_go(world: World, action: str, to: str, text: str) -> None:
    queue = world.queue()
    world.queue("t", kind="topic")
    world.queue("$undelivered")
    numbered(world, queue, 1)
    done = act(world, queue, [on(entry, action, to) for entry in available_entries(queue)])
    assert answers(done) == ["refused"] and text in why(done)
    assert found(world, queue) == ["0"]


def test_a_serial_that_no_message_has_yet_is_gone_and_not_waited_for(world: World) -> None:
    """Ids are read once they are durable: of such a serial that would be when it is given to a message."""
    queue = world.queue()
    world.queue("other")
    numbered(world, queue, 2)
    first, second = available_entries(queue)
    planned = [on(first, "forward", "other"), on(second, "forward", "other")]
    planned[0].serial = second.serial + 1_000_000
    assert answers(act(world, queue, planned)) == ["gone", "done"]


def test_an_origin_that_is_gone_is_no_reason_for_the_others_to_stay(world: World) -> None:
    _, dead = dead_letters(world, 1, "orders")
    second, _ = dead_letters_on(world, 1, "payments")
    world.manager.delete_queue("orders", False, False, world.now_us)
    done = act(world, dead, [on(entry, "replay") for entry in available_entries(dead)])
    assert answers(done) == ["refused", "done"] and "has been deleted" in why(done)
    assert found(world, second) == ["0"]


def test_messages_go_to_another_queue_manager(world: World) -> None:
    queue = world.queue()
    world.queue("QM2", usage="transmission")
    world.manager.names.define(RemoteQueueDefinition("REMOTE", "Q", "QM2"), world.now_us)
    numbered(world, queue, 3)
    put(world, queue, "x" * BIG)
    put(world, queue, "y" * BIG)
    world.turn()
    planned = [on(entry, "forward", "REMOTE") for entry in available_entries(queue)]
    with pytest.raises(LimitExceeded, match="other queue managers"):
        act(world, queue, planned)
    assert answers(act(world, queue, planned[:4])) == ["done"] * 4
    assert answers(act(world, queue, planned[4:])) == ["done"]
    assert queue.is_empty()
    assert world.manager.queue("QM2").statistics.depth == 5


def test_bounds_and_words() -> None:
    world = World()
    queue = world.queue()
    numbered(world, queue, 1)
    (entry,) = available_entries(queue)
    with pytest.raises(LimitExceeded, match=str(MAX_ACTIONS)):
        act(world, queue, [Action("leave", "", DETAIL, serial, 0, 0, 0) for serial in range(MAX_ACTIONS + 1)])
    for action, to in [("eat", ""), ("forward", ""), ("discard", "q"), ("leave", "q")]:
        with pytest.raises(RequestInvalid):
            on(entry, action, to)
    world.manager.delete_queue("q", False, False, world.now_us)
    with pytest.raises(QueueNotFound):
        act(world, queue, [])


def test_a_moved_message_wakes_who_waits_for_it(world: World) -> None:
    queue, other = world.queue(), world.queue("other")
    numbered(world, queue, 1)
    consumer = world.consumer(other, 1)
    world.turn()
    planned = [on(entry, "forward", "other") for entry in available_entries(queue)]
    act(world, queue, planned)
    assert len(world.held(consumer)) == 1


@pytest.mark.parametrize("seed", range(12))
def test_after_a_crash_all_of_a_request_has_been_done_or_nothing(seed: int) -> None:
    world = LedgerWorld(ManagerOptions(**SMALL))
    queue, _ = world.queue("a"), world.queue("b")
    numbered(world, queue, 40)
    planned = [
        on(entry, *(("forward", "b") if entry.serial % 2 else ("discard",)))
        for entry in available_entries(queue)
    ]
    moved = sum(action.action == "forward" for action in planned)
    world.manager.submit_request(Act(queue, Recorder(), planned), world.now_us)
    effects = world.manager.take_effects()
    world._commit()
    for read in effects.id_reads:
        world.manager.ids_read(read, world._read_ids(read), world.now_us)
    assert not world.builder.empty(), "it is written, not yet durable"
    world.disk.crash_at_operation = world.disk.operations + seed % 4
    try:
        world.ledger.flush()
    except Exception:
        assert world.disk.dead
    world.disk = world.disk.crash(Random(seed))
    world.delivered.clear()
    world._open()
    there = [len(found(world, world.manager.queue(name))) for name in ("a", "b")]
    assert there in ([40, 0], [0, moved])


def test_every_action_leaves_a_restart_as_it_was(world: World) -> None:
    """What was done is done after a restart, and asked again it is told of as gone."""
    if not isinstance(world, LedgerWorld):
        pytest.skip("nothing to restart")
    queue, _ = world.queue("a"), world.queue("b")
    numbered(world, queue, 20)
    planned: list[Any] = []
    for number, entry in enumerate(available_entries(queue)):
        action = ACTIONS[1 + number % 3]
        planned.append(on(entry, action, "b" if action == "forward" else ""))
    assert answers(act(world, queue, planned)) == ["done"] * 20
    world.restart()
    again = act(world, world.manager.queue("a"), planned)
    assert answers(again) == ["done" if each.action == "leave" else "gone" for each in planned]
