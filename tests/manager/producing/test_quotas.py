"""Quotas, and the sends that wait for room."""

from dataclasses import replace
from typing import Any

import pytest

from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.errors import (
    DefinitionInvalid,
    ManagerError,
    NameNotAllowed,
    NotAllowed,
    QuotaExists,
    QuotaInUse,
    QuotaNotFound,
    TransactionRolledBack,
)
from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.manager.kernel.quota_definition import Quota, QuotaDefinition
from postroom.manager.producing.blocked_sends import blocked_sends_of
from postroom.manager.queues.queue import Queue
from tests.manager.over_ledger import LedgerWorld
from tests.manager.world import TestSink, World, a_head, recount

NO_ROOM = "amqp:resource-limit-exceeded"


class Sender:
    """One link: a producer with its sink."""

    def __init__(self, world: World, timeout_ms: int = 1000) -> None:
        self.world = world
        self.sink = TestSink()
        self.producer: Producer = world.manager.open_producer("s", "c", "u", timeout_ms)

    def send(self, queue: Queue, body: bytes = b"body", **more: Any) -> int:
        return self.world.put(queue, body, self.sink, producer=self.producer, **more)


def define(world: World, name: str = "room", **settings: Any) -> Quota:
    definition = QuotaDefinition(name, **settings)
    if name in world.manager.quotas:
        return world.manager.update_quota(definition, world.now_us)
    return world.manager.create_quota(definition, world.now_us)


def take_one(world: World, queue: Queue) -> bytes:
    """Consume one message, which makes room."""
    consumer = world.consumer(queue, credit=1)
    world.turn()
    entry = world.held(consumer)[0]
    body = world.delivered[-1].body
    world.accept(consumer, entry)
    world.close(consumer)
    world.turn()
    return body


def test_a_blocked_send_is_invisible_and_uncounted_until_it_is_let_in(world: World) -> None:
    queue, sender = world.queue(max_messages=1), Sender(world)
    first = sender.send(queue)
    before = queue.statistics.snapshot()
    records = len(world.arrivals)
    second = sender.send(queue, b"second")
    world.turn()
    after = queue.statistics.snapshot()
    assert {k: v for k, v in after.items() if not k.startswith("blocked")} == {
        k: v for k, v in before.items() if not k.startswith("blocked")
    }
    assert (after["blocked_sends"], after["blocked_sends_total"], sender.sink.blocked) == (1, 1, 1)
    assert len(world.arrivals) == records + 1
    assert sender.sink.accepted == [first]
    take_one(world, queue)
    assert sender.sink.accepted == [first, second]
    assert (queue.statistics.blocked, sender.sink.blocked, queue.statistics.current) == (0, 0, 1)
    assert recount(queue)["current"] == 1


def test_the_time_out_refuses_and_takes_nothing(world: World) -> None:
    queue, sender = world.queue(max_messages=1), Sender(world, 50)
    sender.send(queue)
    token = sender.send(queue)
    world.turn(49)
    assert sender.sink.rejected == []
    world.turn(1)
    [(refused, condition, description)] = sender.sink.rejected
    assert (refused, condition) == (token, NO_ROOM)
    assert "within 50 ms (the send time-out)" in description
    assert (queue.statistics.blocked, queue.statistics.depth) == (0, 1)
    assert queue.statistics.snapshot()["blocked_send_us"] == 50_000


def test_a_time_out_of_0_fails_at_once(world: World) -> None:
    queue, sender = world.queue(max_messages=1), Sender(world, 0)
    sender.send(queue)
    token = sender.send(queue)
    world.turn()
    assert [refusal[:2] for refusal in sender.sink.rejected] == [(token, NO_ROOM)]
    assert queue.statistics.blocked_total == 0


def test_the_longest_time_out_is_the_brokers() -> None:
    world = World(ManagerOptions(max_send_timeout_ms=70))
    assert Sender(world, 5000).producer.send_timeout_us == 70_000
    assert Sender(world, -1).producer.send_timeout_us == 10_000


def test_what_can_never_fit_is_refused_at_once(world: World) -> None:
    sender = Sender(world)
    for queue in (world.queue("never", max_messages=0), world.queue("small", max_bytes=10)):
        sender.send(queue, bytes(11))
    world.turn()
    assert [condition for _, condition, _ in sender.sink.rejected] == [NO_ROOM, NO_ROOM]


def test_fifo_the_head_blocks_everyone_behind_and_nobody_overtakes(world: World) -> None:
    queue = world.queue(max_bytes=100)
    senders = [Sender(world) for _ in range(4)]
    senders[0].send(queue, bytes(40))
    senders[0].send(queue, bytes(50))
    senders[1].send(queue, bytes(80))  # waits for nearly everything
    senders[2].send(queue, bytes(10))  # would fit, but stands behind
    world.turn()
    assert [len(sender.sink.accepted) for sender in senders] == [2, 0, 0, 0]
    take_one(world, queue)  # 50 are left: still no room for the head
    senders[3].send(queue, bytes(1))  # a fresh send may not overtake a waiter
    world.turn()
    assert [len(sender.sink.accepted) for sender in senders] == [2, 0, 0, 0]
    take_one(world, queue)
    assert [len(sender.sink.accepted) for sender in senders] == [2, 1, 1, 1]


def test_preemptive_whatever_fits_goes_first_in_the_order_of_coming(world: World) -> None:
    queue = world.queue(max_bytes=100, quota_policy="preemptive")
    senders = [Sender(world) for _ in range(5)]
    senders[0].send(queue, bytes(60))
    senders[0].send(queue, bytes(40))
    senders[1].send(queue, bytes(80))
    senders[2].send(queue, bytes(30))
    senders[3].send(queue, bytes(10))
    senders[4].send(queue, bytes(20))
    world.turn()
    take_one(world, queue)  # 60 bytes of room: 30, 10 and 20 go in, 80 starves
    assert [len(sender.sink.accepted) for sender in senders] == [2, 0, 1, 1, 1]
    world.manager.purge_queue("q", world.now_us)
    world.turn()
    assert len(senders[1].sink.accepted) == 1


def test_preemptive_sends_of_one_link_keep_their_order(world: World) -> None:
    queue = world.queue(max_bytes=100, quota_policy="preemptive")
    holder, sender = Sender(world), Sender(world)
    holder.send(queue, bytes(90))
    large = sender.send(queue, bytes(50))
    small = sender.send(queue, b"small")
    world.turn()
    assert sender.sink.accepted == []
    take_one(world, queue)
    assert sender.sink.accepted == [large, small]


def test_preemptive_a_send_to_another_queue_costs_those_behind_it_no_turn(world: World) -> None:
    queue, free = world.queue(max_messages=1, quota_policy="preemptive"), world.queue("free")
    holder, first, second = Sender(world), Sender(world), Sender(world)
    holder.send(queue)
    tokens = [first.send(queue), first.send(free), first.send(queue)]
    second.send(queue)
    world.manager.update_queue(replace(queue.definition, max_messages=3), world.now_us)
    world.turn()
    assert first.sink.accepted == tokens and second.sink.accepted == []


def test_a_send_behind_a_blocked_one_of_its_link_waits_even_for_another_queue(world: World) -> None:
    full, free, sender = world.queue("full", max_messages=1), world.queue("free"), Sender(world)
    tokens = [sender.send(full), sender.send(full), sender.send(free)]
    world.turn()
    assert sender.sink.accepted == tokens[:1]
    assert sender.sink.blocked == 2
    take_one(world, full)
    assert sender.sink.accepted == tokens


def test_destinations_compete_for_a_shared_quota(world: World) -> None:
    define(world, messages_maximum=2)
    one, two = world.queue("one", quota="room"), world.queue("two", quota="room")
    sender = Sender(world)
    for queue in (one, two, two):
        sender.send(queue)
    world.turn()
    assert (one.statistics.depth, two.statistics.depth, two.statistics.blocked) == (1, 1, 1)
    take_one(world, one)
    assert (one.statistics.depth, two.statistics.depth, two.statistics.blocked) == (0, 2, 0)


def test_a_template_gives_each_destination_a_pool_of_its_own(world: World) -> None:
    define(world, messages_maximum=1, shared=False)
    one, two = world.queue("one", quota="room"), world.queue("two", quota="room")
    sender = Sender(world)
    sender.send(one)
    sender.send(two)
    world.turn()
    assert len(sender.sink.accepted) == 2
    sender.send(two)
    world.turn()
    assert (one.statistics.blocked, two.statistics.blocked) == (0, 1)


def test_one_level_only_own_quotas_are_not_charged_to_the_broker() -> None:
    world = World(ManagerOptions(quota_messages=1))
    define(world)
    own, named = world.queue("own", max_messages=5), world.queue("named", quota="room")
    plain, other = world.queue("plain"), world.queue("other")
    sender = Sender(world)
    for queue in (own, own, named, named, plain):
        sender.send(queue)
    sender.send(other)
    world.turn()
    assert len(sender.sink.accepted) == 5
    assert (other.statistics.blocked, other.statistics.depth) == (1, 0)
    take_one(world, plain)
    assert len(sender.sink.accepted) == 6


def test_lowering_evicts_nothing_and_raising_lets_in(world: World) -> None:
    define(world, messages_maximum=3)
    queue, sender = world.queue(quota="room"), Sender(world)
    for _ in range(3):
        sender.send(queue)
    define(world, messages_maximum=1)
    sender.send(queue)
    world.turn()
    assert (queue.statistics.depth, queue.statistics.blocked) == (3, 1)
    define(world, messages_maximum=4)
    world.turn()
    assert (queue.statistics.depth, queue.statistics.blocked) == (4, 0)


def test_another_quota_fails_the_sends_that_wait(world: World) -> None:
    define(world, "a", messages_maximum=1)
    define(world, "b", messages_maximum=5)
    queue, sender = world.queue(quota="a"), Sender(world)
    sender.send(queue)
    token = sender.send(queue)
    world.manager.update_queue(QueueDefinition(name="q", quota="b"), world.now_us)
    world.turn()
    assert [refusal[:2] for refusal in sender.sink.rejected] == [(token, NO_ROOM)]
    assert "another quota" in sender.sink.rejected[0][2]
    assert (world.manager.quotas["a"].pool.messages, world.manager.quotas["b"].pool.messages) == (0, 1)


def test_pending_messages_occupy_the_quota(world: World) -> None:
    quota = define(world, messages_maximum=10, bytes_maximum=1000)
    queue, sender = world.queue(quota="room"), Sender(world)
    transaction = world.manager.begin(world.now_us)
    sender.send(queue, delay_ms=500)
    sender.send(queue, transaction=transaction)
    sender.send(queue)
    world.consumer(queue, credit=1)
    world.turn()
    assert (quota.pool.messages, quota.pool.bytes) == (3, 12)


def test_a_deleted_queue_gives_its_room_back_and_refuses_who_waits(world: World) -> None:
    quota = define(world, messages_maximum=1)
    one, two = world.queue("one", quota="room"), world.queue("two", quota="room")
    sender, other = Sender(world), Sender(world)
    sender.send(one)
    refused = sender.send(one)
    let_in = other.send(two)
    world.manager.delete_queue("one", False, False, world.now_us)
    world.turn()
    assert [refusal[:2] for refusal in sender.sink.rejected] == [(refused, "amqp:resource-deleted")]
    assert other.sink.accepted == [let_in]
    assert [queue.name for queue in quota.members] == ["two"]


def test_blocked_sends_of_a_lost_link_vanish(world: World) -> None:
    queue, sender, other = world.queue(max_messages=1), Sender(world), Sender(world)
    sender.send(queue)
    sender.send(queue, b"gone")
    kept = other.send(queue, b"kept")
    world.manager.close_producer(sender.producer, world.now_us)
    take_one(world, queue)
    assert other.sink.accepted == [kept]
    assert (len(sender.sink.accepted), sender.sink.rejected) == (1, [])
    assert take_one(world, queue) == b"kept"
    assert (queue.statistics.depth, blocked_sends_of(world.manager.core).bytes) == (0, 0)


def test_blocked_bytes_are_bounded_for_a_link_and_for_the_broker() -> None:
    world = World(ManagerOptions(max_blocked_bytes=5000, max_blocked_bytes_per_link=3000))
    queue = world.queue(max_messages=1)
    one, two = Sender(world), Sender(world)
    for sender in (one, one, one, one, two, two, two):
        sender.send(queue, bytes(1000))
    world.turn()
    assert (len(one.sink.rejected), len(two.sink.rejected)) == (1, 2)
    assert "max_blocked_bytes_per_link" in one.sink.rejected[0][2]
    assert "(max_blocked_bytes)" in two.sink.rejected[0][2]
    assert {condition for _, condition, _ in one.sink.rejected + two.sink.rejected} == {NO_ROOM}
    world.turn(1000)
    assert blocked_sends_of(world.manager.core).bytes == 0


def test_a_transaction_is_not_committed_before_its_sends_are_answered(world: World) -> None:
    queue, sender = world.queue(max_messages=1), Sender(world, 50)
    sender.send(queue)
    transaction = world.manager.begin(world.now_us)
    token = sender.send(queue, b"in it", transaction=transaction)
    with pytest.raises(NotAllowed, match="1 sends that wait"):
        world.manager.commit(transaction, world.now_us)
    take_one(world, queue)
    world.manager.commit(transaction, world.now_us)
    world.turn()
    assert token in sender.sink.accepted
    assert take_one(world, queue) == b"in it"


def test_a_rollback_refuses_what_waits_in_it(world: World) -> None:
    queue, sender = world.queue(max_messages=1), Sender(world)
    sender.send(queue)
    transaction = world.manager.begin(world.now_us)
    token = sender.send(queue, transaction=transaction)
    world.manager.rollback(transaction, world.now_us)
    world.turn()
    assert [refusal[:2] for refusal in sender.sink.rejected] == [(token, "amqp:transaction:rollback")]
    take_one(world, queue)
    assert queue.statistics.depth == 0


def test_a_discharge_that_waits_fails_when_a_send_of_it_is_refused(world: World) -> None:
    queue, sender, coordinator = world.queue(max_messages=1), Sender(world, 50), TestSink()
    sender.send(queue)
    transaction = world.manager.begin(world.now_us)
    sender.send(queue, transaction=transaction)
    transaction.dischargers.append(coordinator)
    world.now_us += 50_000
    world.manager.on_time(world.now_us)
    assert coordinator in world.manager.take_effects().unblocked
    with pytest.raises(TransactionRolledBack, match="a message in it was refused"):
        world.manager.commit(transaction, world.now_us)


def test_a_presettled_send_waits_too_and_is_told_when_it_is_dropped(world: World) -> None:
    queue, sender = world.queue(max_messages=1), Sender(world, 50)
    manager = world.manager
    for body in (b"a", b"b", b"c"):
        manager.put(sender.producer, queue, a_head(), body, sender.sink, -1, world.now_us)
    take_one(world, queue)
    assert (queue.statistics.depth, sender.sink.blocked) == (1, 1)
    world.turn(50)
    assert [refusal[:2] for refusal in sender.sink.rejected] == [(-1, NO_ROOM)]
    assert take_one(world, queue) == b"b"


def test_a_large_body_waits_in_the_ledger_and_goes_with_its_send(world: World) -> None:
    queue, sender = world.queue(max_messages=1), Sender(world, 50)
    sender.send(queue)
    bodies = (b"x" * 1000, b"y" * 1000)
    for token, body in enumerate(bodies, 10):
        upload = world.manager.begin_upload(sender.producer)
        world.manager.upload_chunk(upload, body, world.now_us)
        world.manager.finish_upload(upload, queue, a_head(), sender.sink, token, world.now_us)
    take_one(world, queue)
    assert sender.sink.accepted[-1] == 10
    assert take_one(world, queue) == bodies[0]
    world.manager.update_queue(QueueDefinition(name="q", max_messages=0), world.now_us)
    world.turn(50)
    assert [token for token, _, _ in sender.sink.rejected] == []
    assert sender.sink.accepted[-1] == 11


def test_expired_messages_make_room_before_anybody_waits(world: World) -> None:
    queue, sender = world.queue(max_messages=1), Sender(world)
    sender.send(queue, ttl_ms=10)
    world.now_us += 10_000
    token = sender.send(queue)
    world.turn()
    assert sender.sink.accepted[-1] == token


def test_times_of_a_blocked_message_count_from_its_send(world: World) -> None:
    queue, sender = world.queue(max_messages=1), Sender(world)
    sender.send(queue)
    sender.send(queue, b"late", ttl_ms=100)
    world.turn(60)
    take_one(world, queue)
    assert queue.statistics.depth == 1
    world.turn(600)
    assert queue.statistics.depth == 0


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"messages_maximum": -2}, DefinitionInvalid),
        ({"bytes_maximum": -2}, DefinitionInvalid),
        ({"bytes_maximum": 1 << 64}, DefinitionInvalid),
        ({"policy": "lifo"}, DefinitionInvalid),
        ({"name": ""}, NameNotAllowed),
        ({"name": "a\nb"}, NameNotAllowed),
    ],
)
def test_bad_quotas_are_refused(world: World, settings: dict[str, Any], error: type[ManagerError]) -> None:
    with pytest.raises(error):
        world.manager.create_quota(QuotaDefinition(**{"name": "room", **settings}), world.now_us)
    assert world.builder.empty()


def test_quotas_come_and_go_by_name(world: World) -> None:
    quota = define(world, messages_maximum=5)
    assert world.manager.create_quota(quota.definition, world.now_us) is quota
    with pytest.raises(QuotaExists):
        world.manager.create_quota(QuotaDefinition("room"), world.now_us)
    with pytest.raises(QuotaNotFound):
        world.queue(quota="nowhere")
    queue = world.queue(quota="room")
    with pytest.raises(QuotaInUse, match="'q'"):
        world.manager.delete_quota("room", world.now_us)
    with pytest.raises(DefinitionInvalid, match="one quota only"):
        world.manager.update_queue(QueueDefinition(name="q", quota="room", max_messages=3), world.now_us)
    world.manager.update_queue(QueueDefinition(name="q"), world.now_us)
    world.manager.delete_quota("room", world.now_us)
    assert (queue.quota.pool, world.manager.quotas) == (None, {})


def test_quotas_survive_a_restart_and_are_charged_with_what_is_there() -> None:
    world = LedgerWorld()
    manager = world.manager
    world.queue("late")
    define(world, messages_maximum=3)
    manager.update_queue(QueueDefinition(name="late", quota="room"), world.now_us)
    queue = world.queue(quota="room")
    world.put(queue, b"one")
    world.put(queue, b"two", delay_ms=5000)
    world.turn()
    world.restart()
    room = world.manager.quotas["room"]
    assert sorted(queue.name for queue in room.members) == ["late", "q"]
    assert (room.pool.messages, room.pool.bytes, room.definition.messages_maximum) == (2, 6, 3)
    world.queue("new")
    assert len({queue.id for queue in world.manager.queues.values()} | {room.id}) == 4
