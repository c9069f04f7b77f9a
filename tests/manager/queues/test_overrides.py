"""What destinations say against senders; thresholds; and the pace of senders that are slowed down."""

from typing import Any

import pytest

from postroom.amqp.message.sections import Data, Message, decode_message
from postroom.manager.kernel.errors import DefinitionInvalid
from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.manager.kernel.quota_definition import QuotaDefinition
from postroom.manager.producing.flow_control import TICK_US, Pace
from postroom.manager.producing.quotas import quotas_of
from postroom.model.codes import Outcome
from tests.manager.world import MS, TestSink, World

BODY = Message(body=Data([b"body"])).encode()


def delivery_time_ms(stored: bytes) -> object:
    """What a receiver reads as JMSDeliveryTime."""
    return decode_message(stored).message_annotations.get("x-opt-delivery-time")


def test_a_relative_time_to_deliver_beats_the_sender(world: World) -> None:
    queue = world.queue(time_to_deliver_ms=50)
    world.consumer(queue, credit=10)
    for settings in ({}, {"delay_ms": 5}, {"delay_ms": 500}, {"due_ms": world.now_us // 1000 + 900}):
        world.put(queue, BODY, **settings)
    assert world.turn(49) == []
    born = world.turn(1)
    assert [delivery_time_ms(body) for body in born] == [world.now_us // 1000] * 4


def test_times_at_the_end_of_time(world: World) -> None:
    queue = world.queue(time_to_deliver_ms=1 << 52, ttl_override_ms=1 << 52)
    world.put(queue, BODY)
    world.put(world.queue("plain"), delay_ms=((1 << 62) - 1) // 1000, due_ms=((1 << 62) - 1) // 1000)
    assert world.turn(1_000_000) == []
    assert queue.statistics.slots()["unborn"][0] == 1


def test_a_time_to_deliver_of_0_delivers_at_once(world: World) -> None:
    queue = world.queue(time_to_deliver_ms=0)
    world.consumer(queue, credit=10)
    world.put(queue, BODY, delay_ms=500)
    [body] = world.turn()
    assert delivery_time_ms(body) == world.now_us // 1000


def test_a_schedule_says_when_messages_are_born(world: World) -> None:
    queue = world.queue(delivery_schedule="0 * * * * * *")  # at each full second
    world.consumer(queue, credit=10)
    world.now_us += 400 * MS
    world.put(queue, BODY)
    assert world.turn(599) == []
    [body] = world.turn(1)
    assert delivery_time_ms(body) == world.now_us // 1000


def test_overrides_don_t_touch_what_is_stored(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"before", delay_ms=10)
    definition = QueueDefinition(name="q", time_to_deliver_ms=1000, priority_override=9, ttl_override_ms=5)
    world.manager.update_queue(definition, world.now_us)
    world.consumer(queue, credit=10)
    assert world.turn(10) == [b"before"]
    [delivery] = world.delivered
    assert (delivery.entry.priority, delivery.entry.expiry_us) == (4, 0)


def test_time_to_live_and_priority_overrides(world: World) -> None:
    queue, lasting = world.queue(ttl_override_ms=20, priority_override=7), world.queue("l", ttl_override_ms=0)
    world.put(queue, priority=1)
    world.put(queue, ttl_ms=1_000_000)
    world.put(lasting, ttl_ms=1)
    assert queue.bands[7].count() == 2
    world.turn(1000)
    assert queue.statistics.ended[Outcome.EXPIRED] == 2
    assert lasting.statistics.current == 1


def test_a_life_not_longer_than_the_override_s_delay_ends_unseen(world: World) -> None:
    queue, sink = world.queue(time_to_deliver_ms=50), TestSink()
    world.consumer(queue, credit=10)
    world.put(queue, BODY, sink=sink, ttl_ms=50)
    assert world.turn(100) == []
    assert (len(sink.accepted), sink.rejected) == (1, [])
    assert queue.statistics.ended[Outcome.EXPIRED] == 1


@pytest.mark.parametrize(
    ("settings", "sent", "stored"),
    [
        ({"delivery_mode_override": "persistent"}, False, True),
        ({"delivery_mode_override": "non-persistent"}, True, False),
        ({"persistent": False, "allow_persistent_downgrade": True}, True, False),
        ({"persistent": False}, False, False),
        ({"persistent": False, "delivery_mode_override": "non-persistent"}, True, False),
    ],
)
def test_delivery_modes(world: World, settings: dict[str, Any], sent: bool, stored: bool) -> None:
    queue, sink = world.queue(**settings), TestSink()
    world.put(queue, sink=sink, durable=sent)
    world.consumer(queue, credit=1)
    world.turn()
    assert len(sink.accepted) == 1
    assert bool(world.delivered[0].entry.flags & 1) == stored


def test_a_queue_without_store_refuses_persistent_messages(world: World) -> None:
    queue, sink = world.queue(persistent=False), TestSink()
    token = world.put(queue, sink=sink)
    world.turn()
    [(refused, condition, description)] = sink.rejected
    assert (refused, condition) == (token, "amqp:not-allowed")
    assert "allow_persistent_downgrade" in description


def test_overrides_of_the_error_destination_apply_and_its_quota_doesn_t(world: World) -> None:
    dead = world.queue(
        "dead", max_messages=0, priority_override=8, ttl_override_ms=500, time_to_deliver_ms=100
    )
    queue = world.queue(expiration_policy="redirect", dead_letter_queue="dead")
    world.put(queue, b"expired", ttl_ms=10)
    world.turn(600)
    assert dead.statistics.slots()["unborn"] == (1, 7)
    world.consumer(dead, credit=1)
    assert world.turn(100) == [b"expired"]
    entry = world.delivered[-1].entry
    assert (entry.priority, entry.expiry_us > world.now_us) == (8, True)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"time_to_deliver_ms": -2}, "time_to_deliver_ms"),
    ({"time_to_deliver_ms": 1 << 53}, "time_to_deliver_ms"),
    ({"max_messages": 1 << 70}, "max_messages"),
    ({"ttl_override_ms": -2}, "ttl_override_ms"),
    ({"priority_override": 10}, "priority_override"),
    ({"priority_override": -2}, "priority_override"),
    ({"delivery_mode_override": "sometimes"}, "delivery_mode_override"),
    ({"delivery_schedule": "0 0 x * * * *"}, "delivery_schedule"),
    ({"delivery_schedule": "0 * * * * * *", "time_to_deliver_ms": 5}, "delivery_schedule"),
    ({"quota_policy": "random"}, "quota_policy"),
    ({"messages_threshold_high": 5}, "messages_threshold_low"),
    ({"messages_threshold_high": 5, "messages_threshold_low": 6}, "messages_threshold_low"),
    (
        {"messages_threshold_high": 5, "messages_threshold_low": 1, "max_messages": 4},
        "messages_threshold_high",
    ),
    ({"bytes_threshold_low": 5}, "bytes_threshold_low"),
    ({"bytes_threshold_high": 5, "bytes_threshold_low": 5, "max_bytes": 4}, "bytes_threshold_high"),
    ({"bytes_threshold_high": -3}, "bytes_threshold_high"),
]


@pytest.mark.parametrize(("settings", "key"), BAD)
def test_bad_settings_are_refused_with_their_key(world: World, settings: dict[str, Any], key: str) -> None:
    with pytest.raises(DefinitionInvalid, match=key) as caught:
        world.queue(**settings)
    assert caught.value.key == key


def test_thresholds_are_checked_against_the_quota_that_is_named(world: World) -> None:
    world.manager.create_quota(QuotaDefinition("room", messages_maximum=4), world.now_us)
    with pytest.raises(DefinitionInvalid, match="messages_threshold_high is 5"):
        world.queue(quota="room", messages_threshold_high=5, messages_threshold_low=1)
    world.queue(quota="room", messages_threshold_high=4, messages_threshold_low=4)
    with pytest.raises(DefinitionInvalid, match="quota's maximum"):
        world.manager.update_quota(QuotaDefinition("room", messages_maximum=3), world.now_us)


def test_thresholds_have_hysteresis_and_count_their_time(world: World) -> None:
    queue = world.queue(messages_threshold_high=3, messages_threshold_low=2)
    consumer = world.consumer(queue)
    meter = queue.statistics.meter
    assert meter is not None

    def crossed() -> list[tuple[str, bool, int]]:
        effects = world.manager.take_effects()
        return [(each.what, each.armed, int(each.value)) for each in effects.crossed]

    for _ in range(3):
        world.put(queue)
    assert (meter.armed, crossed()) == (False, [])
    world.put(queue)
    assert (meter.armed, crossed()) == (True, [("messages", True, 4)])
    world.turn(100)
    world.credit(consumer, 3)
    world.turn()
    for entry in world.held(consumer)[:2]:
        world.accept(consumer, entry)
    assert (meter.armed, queue.statistics.depth, crossed()) == (True, 2, [])  # between the two: nothing
    world.accept(consumer, world.held(consumer)[0])
    assert (meter.armed, crossed()) == (False, [("messages", False, 1)])
    world.turn(100)
    assert queue.statistics.snapshot()["messages_threshold_us"] == 100 * MS
    world.put(queue)
    world.put(queue)
    assert not meter.armed


def test_bytes_have_thresholds_of_their_own(world: World) -> None:
    queue = world.queue(bytes_threshold_high=100, bytes_threshold_low=50)
    world.put(queue, bytes(101))
    meter = queue.statistics.meter
    assert meter is not None and meter.armed
    world.turn(30)
    assert queue.statistics.snapshot()["bytes_threshold_us"] == 30 * MS
    world.manager.update_queue(QueueDefinition(name="q"), world.now_us)
    assert not meter.armed


def test_thresholds_set_later_hold_at_once(world: World) -> None:
    queue = world.queue()
    for _ in range(5):
        world.put(queue)
    world.manager.update_queue(
        QueueDefinition(name="q", messages_threshold_high=3, messages_threshold_low=1), world.now_us
    )
    assert queue.statistics.meter is not None and queue.statistics.meter.armed
    world.manager.purge_queue("q", world.now_us)
    assert not queue.statistics.meter.armed


def test_the_broker_has_thresholds_over_all_destinations() -> None:
    world = World(ManagerOptions(messages_threshold_high=3, messages_threshold_low=2))
    one, two = world.queue("one"), world.queue("two", max_messages=10)
    for queue in (one, two, one):
        world.put(queue)
    core = world.manager.core
    assert quotas_of(core).thresholds is not None and not quotas_of(core).thresholds.armed
    world.put(two)
    meters = [queue.statistics.meter for queue in (one, two)]
    assert all(meter is not None and meter.armed for meter in meters)
    [crossed] = world.manager.take_effects().crossed
    assert (crossed.queue, crossed.armed, crossed.value) == ("(broker)", True, 4)
    world.turn(20)
    world.manager.delete_queue("two", False, False, world.now_us)
    assert (quotas_of(core).thresholds.armed, quotas_of(core).thresholds.messages) == (
        True,
        2,
    )  # not below low
    world.manager.purge_queue("one", world.now_us)
    assert (quotas_of(core).thresholds.armed, quotas_of(core).thresholds.messages) == (False, 0)
    assert quotas_of(core).thresholds.messages_time_us() == 20 * MS


def run(pace: Pace, start_us: int, seconds: float, armed: bool) -> int:
    """Messages that the pace allows in so long."""
    ticks = int(seconds * 1_000_000 / TICK_US)
    return sum(pace.advance(start_us + (tick + 1) * TICK_US, armed) for tick in range(ticks))


def test_a_sender_comes_down_from_the_maximum_to_the_minimum() -> None:
    pace = Pace(ManagerOptions(), 0)
    assert run(pace, 0, 5, True) == pytest.approx(2500, abs=2)
    assert pace.rate == 500
    rates = []
    for second in range(5, 70):
        run(pace, second * 1_000_000, 1, True)
        rates.append(pace.rate)
    assert sorted(set(rates), reverse=True) == pytest.approx([500 * 0.1 ** (k / 10) for k in range(1, 11)])
    assert run(pace, 70_000_000, 10, True) == pytest.approx(500, abs=2)


def test_it_climbs_in_equal_steps_and_is_free_at_the_maximum() -> None:
    pace = Pace(ManagerOptions(), 0)
    run(pace, 0, 60, True)
    assert pace.rate == pytest.approx(50)
    for step in range(1, 11):
        assert not pace.over
        run(pace, (54 + 6 * step) * 1_000_000, 6, False)
        assert pace.rate == pytest.approx(50 + 45 * step)
    assert pace.over


def test_disarmed_at_the_maximum_it_is_free_at_once() -> None:
    pace = Pace(ManagerOptions(), 0)
    pace.advance(TICK_US, False)
    assert pace.over


def test_an_idle_sender_saves_up_no_more_than_a_burst() -> None:
    pace = Pace(ManagerOptions(flow_maximum=100, flow_minimum=100), 0)
    assert pace.advance(3600 * 1_000_000, True) <= pace.burst + 1
