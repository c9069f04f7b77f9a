"""Two queue managers and a channel between them: messages arrive once and in order, whatever is cut when."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.amqp.message.sections import Header, Message, Value
from postroom.model.channel_states import ChannelState
from postroom.server.channels.instance import StopMode
from postroom.server.configuration.config import QueueConfig, QueueManagerConfig
from tests.channel.making import A_TO_B, receiver, running, sender, two
from tests.channel.pair import Client, Place, Wire, World
from tests.sampling import examples, spread, stride

MANY = [f"message {number}" for number in range(25)]


def arrived(b: Place) -> list[str]:
    return Client(b).get("IN")


def check_end(a: Place, b: Place, texts: list[str]) -> None:
    """Everything is there once and in order, and both ends agree."""
    assert arrived(b) == texts
    assert a.depth("B") == 0
    ours, theirs = a.manager.channels.sync(A_TO_B), b.manager.channels.sync(A_TO_B)
    assert (ours.last_luwid, ours.last_sequence) == (theirs.last_luwid, theirs.last_sequence)
    assert ours.in_doubt is None


# Messages.


@pytest.mark.parametrize("batch_size", [1, 3, 50])
def test_messages_pass_in_order(batch_size: int) -> None:
    _, a, b = running(sender(batch_size=batch_size), receiver())
    Client(a).put("IN@B", *MANY)
    check_end(a, b, MANY)
    assert b.manager.channels.sync(A_TO_B).last_sequence == len(MANY)


def test_the_smaller_batch_size_counts() -> None:
    _, a, b = two(sender(batch_size=50), receiver(batch_size=4))
    Client(a).put("IN@B", *MANY)
    a.start(A_TO_B)
    a.world.settle()
    assert a.link(A_TO_B).status().batches == 7
    check_end(a, b, MANY)


def test_what_waits_before_the_start_is_sent_in_full_batches() -> None:
    world, a, b = two(sender(batch_size=10), receiver())
    Client(a).put("IN@B", *MANY)
    a.start(A_TO_B)
    world.settle()
    assert a.link(A_TO_B).status().batches == b.link(A_TO_B).status().batches == 3
    check_end(a, b, MANY)


def test_sequence_numbers_wrap() -> None:
    _, a, b = running(sender(sequence_wrap=100, batch_size=30), receiver(sequence_wrap=100))
    texts = [str(number) for number in range(250)]
    Client(a).put("IN@B", *texts)
    assert a.manager.channels.sync(A_TO_B).last_sequence == 50
    check_end(a, b, texts)


def test_a_large_message_travels_in_frames_and_is_stored_in_pieces() -> None:
    _, a, b = running(sender(), receiver())
    text = "x" * 1_500_000
    Client(a).put("IN@B", "small", text, "small again")
    check_end(a, b, ["small", text, "small again"])


def test_what_is_left_of_the_time_to_live_travels_along() -> None:
    world, a, b = two(sender(), receiver())
    Client(a).put("IN@B", "dies here", "dies there", ttl_ms=60_000)
    world.pass_time(50)
    a.start(A_TO_B)
    world.settle()
    assert b.depth("IN") == 2
    world.pass_time(9)
    assert b.depth("IN") == 2
    world.pass_time(2)
    assert arrived(b) == []


def test_an_expired_message_is_not_sent() -> None:
    world, a, b = two(sender(), receiver())
    Client(a).put("IN@B", "dead", ttl_ms=1000)
    Client(a).put("IN@B", "alive")
    world.pass_time(2)
    a.start(A_TO_B)
    world.settle()
    check_end(a, b, ["alive"])


def test_a_batch_stays_open_for_its_interval() -> None:
    world, a, b = running(sender(batch_interval_ms=500), receiver())
    client = Client(a)
    client.put("IN@B", "one")
    assert b.depth("IN") == 1 and Client(b).get("IN") == []
    assert a.link(A_TO_B).status().current_messages == 1
    client.put("IN@B", "two")
    world.pass_time(0.6)
    assert a.link(A_TO_B).status().batches == 1
    check_end(a, b, ["one", "two"])


def test_a_batch_ends_although_what_else_was_on_its_queue_gave_it_nothing() -> None:
    world, a, b = running(sender(batch_interval_ms=100), receiver())
    client = Client(a)
    client.put("IN@B", "one")
    a.manager.pause(a.manager.queues["B"], "consumption", world.now_us)
    client.put("IN@B", "two", ttl_ms=1000)
    world.pass_time(0.2)
    assert a.link(A_TO_B).status().batches == 1
    assert arrived(b) == ["one"]


# Fast messages.


def test_fast_messages_need_no_batch_and_overtake_it() -> None:
    world, a, b = running(sender(batch_interval_ms=10_000), receiver())
    client = Client(a)
    client.put("IN@B", "slow")
    client.put("IN@B", "fast 1", "fast 2", durable=False)
    assert arrived(b) == ["fast 1", "fast 2"]
    assert a.manager.channels.sync(A_TO_B).last_sequence == 0
    world.pass_time(11)
    assert arrived(b) == ["slow"]
    assert a.manager.channels.sync(A_TO_B).last_sequence == 1


@pytest.mark.parametrize("which", ["sender", "receiver"])
def test_normal_speed_at_either_end_puts_everything_into_batches(which: str) -> None:
    speed = {"nonpersistent_speed": "normal"}
    _, a, b = running(
        sender(**(speed if which == "sender" else {})), receiver(**(speed if which == "receiver" else {}))
    )
    Client(a).put("IN@B", "one", "two", durable=False)
    assert a.manager.channels.sync(A_TO_B).last_sequence == 2
    check_end(a, b, ["one", "two"])


@pytest.mark.parametrize(("speed", "left"), [("fast", []), ("normal", ["message"])])
def test_a_fast_message_is_lost_with_the_link_and_a_normal_one_is_not(speed: str, left: list[str]) -> None:
    world, a, b = running(sender(nonpersistent_speed=speed), receiver())
    world.carrying = world.cut
    Client(a).put("IN@B", "message", durable=False)
    world.carrying = lambda wire: None
    world.pass_time(2)
    assert arrived(b) == left
    assert a.depth("B") == 0


@settings(max_examples=examples(40), deadline=None)
@given(
    durables=st.lists(st.booleans(), min_size=1, max_size=40),
    batch_size=st.integers(1, 5),
    interval_ms=st.sampled_from([0, 50]),
    limit_kb=st.sampled_from([0, 1]),
    piece_bytes=st.sampled_from([100, 1 << 20]),
    waits=st.booleans(),
)
def test_each_class_keeps_its_order_in_batches_of_any_size(
    durables: list[bool], batch_size: int, interval_ms: int, limit_kb: int, piece_bytes: int, waits: bool
) -> None:
    sending = sender(batch_size=batch_size, batch_interval_ms=interval_ms, batch_limit_kb=limit_kb)
    world, a, b = two(sending, receiver())
    world.piece_bytes = piece_bytes
    if not waits:
        a.start(A_TO_B)
        world.settle()
    client = Client(a)
    link = client.sender("IN@B")
    texts = [f"{number} {'x' * 300}" for number in range(len(durables))]
    for text, durable in zip(texts, durables, strict=True):
        message = Message(header=Header(durable=durable), body=Value(text))
        link.send(message.encode(), text[:4].encode(), True)
    world.settle()
    if waits:
        a.start(A_TO_B)
    world.pass_time(0.1)
    world.pass_time(0.1)
    came = arrived(b)
    for which in (True, False):
        sent = [text for text, durable in zip(texts, durables, strict=True) if durable == which]
        assert [text for text in came if text in sent] == sent
    assert len(came) == len(texts) and a.depth("B") == 0
    assert b.manager.channels.sync(A_TO_B).last_sequence == sum(durables)
    assert a.manager.channels.sync(A_TO_B).last_sequence == sum(durables)


# Failures.


def put_and_cut(world: World, a: Place, b: Place, failure: str, step: int) -> bool:
    """Let messages flow and something fail after ``step`` pieces; whether it came to that."""
    count = 0
    failed = False

    def carried(wire: Wire) -> None:
        nonlocal count, failed
        count += 1
        if count == step:
            failed = True
            if failure == "cut":
                world.cut(wire)

    world.carrying = carried
    client = Client(a)
    link = client.sender("IN@B")
    for number, text in enumerate(MANY[:7]):
        message = Message(header=Header(durable=True), body=Value(text))
        link.send(message.encode(), number.to_bytes(4, "big"), False)
    done = False
    while not failed and not done:
        done = not world.round()
    world.carrying = lambda wire: None
    if failed and failure != "cut":
        (a if failure == "sender" else b).crash()
    return failed


@pytest.mark.parametrize("piece_bytes", [90, 1 << 20])
@pytest.mark.parametrize("failure", ["cut", "sender", "receiver"])
def test_a_failure_at_every_piece_that_is_carried(failure: str, piece_bytes: int) -> None:
    step = 0
    failed = True
    while failed:
        step += stride(5)
        world, a, b = running(sender(batch_size=3), receiver())
        world.piece_bytes = piece_bytes
        failed = put_and_cut(world, a, b, failure, step)
        world.settle()
        if a.state(A_TO_B) == ChannelState.INACTIVE:
            a.start(A_TO_B)
        world.pass_time(2)
        world.pass_time(2)
        Client(a).put("IN@B", "last")
        texts = arrived(b)
        sent = texts[:-1]
        if failure == "sender":
            # What was not stored when the power failed may be lost: nothing in the middle is.
            assert texts[-1] == "last" and sent == MANY[: len(sent)], (step, texts)
        else:
            assert texts == [*MANY[:7], "last"], (step, texts)
        assert a.depth("B") == 0
        ours, theirs = a.manager.channels.sync(A_TO_B), b.manager.channels.sync(A_TO_B)
        assert ours.last_sequence == theirs.last_sequence
    assert step > 3


def test_a_batch_in_doubt_is_kept_until_the_partner_says() -> None:
    world, a, b = running(sender(), receiver())

    def cut_after_commit(wire: Wire) -> None:
        if b.manager.channels.sync(A_TO_B).last_sequence:
            world.cut(wire)

    world.carrying = cut_after_commit
    Client(a).put("IN@B", "one", "two")
    world.carrying = lambda wire: None
    assert a.state(A_TO_B) == ChannelState.RETRYING
    sync = a.manager.channels.sync(A_TO_B)
    assert sync.in_doubt is not None and sync.in_doubt.count == 2
    assert a.depth("B") == 2
    world.pass_time(2)
    assert a.state(A_TO_B) == ChannelState.RUNNING
    check_end(a, b, ["one", "two"])


# Stopping.


def test_quiesce_lets_the_batch_end() -> None:
    world, a, b = running(sender(batch_interval_ms=60_000), receiver())
    Client(a).put("IN@B", "one")
    a.broker.channels.find(A_TO_B).stop(StopMode.QUIESCE, False, world.now_us)
    world.settle()
    assert a.state(A_TO_B) == ChannelState.STOPPED
    assert b.state(A_TO_B) == ChannelState.INACTIVE
    check_end(a, b, ["one"])


def test_force_backs_the_open_batch_out() -> None:
    world, a, b = running(sender(batch_interval_ms=60_000), receiver())
    Client(a).put("IN@B", "one")
    a.broker.channels.find(A_TO_B).stop(StopMode.FORCE, False, world.now_us)
    world.settle()
    assert a.state(A_TO_B) == ChannelState.STOPPED
    assert arrived(b) == [] and a.depth("B") == 1
    a.start(A_TO_B)
    world.settle()
    world.pass_time(61)
    check_end(a, b, ["one"])


def test_a_stopped_receiver_ends_between_batches_and_the_sender_retries() -> None:
    world, a, b = running(sender(), receiver())
    Client(a).put("IN@B", "one")
    b.broker.channels.find(A_TO_B).stop(StopMode.QUIESCE, False, world.now_us)
    world.settle()
    assert b.state(A_TO_B) == ChannelState.STOPPED
    assert a.state(A_TO_B) == ChannelState.RETRYING
    assert "channel-stopped" in a.reason(A_TO_B)
    Client(a).put("IN@B", "two")
    world.pass_time(2)
    assert a.state(A_TO_B) == ChannelState.RETRYING
    b.start(A_TO_B)
    world.pass_time(2)
    check_end(a, b, ["one", "two"])


@pytest.mark.parametrize("which", ["A", "B"])
@pytest.mark.parametrize("batch_size", [1, 10, 100])
def test_quiesce_comes_to_an_end_in_a_flood(which: str, batch_size: int) -> None:
    for rounds in spread(range(1, 12), 3):
        world, a, b = two(sender(batch_size=batch_size), receiver())
        texts = [str(number) for number in range(600)]
        Client(a).put("IN@B", *texts)
        Client(a).put("IN@B", "fast", durable=False)
        world.piece_bytes = 3000
        a.start(A_TO_B)
        for _ in range(4 * rounds):
            world.round()
        stopped = a if which == "A" else b
        stopped.broker.channels.find(A_TO_B).stop(StopMode.QUIESCE, False, world.now_us)
        world.settle()
        assert stopped.state(A_TO_B) == ChannelState.STOPPED
        assert stopped.broker.channels.find(A_TO_B).instance is None
        stopped.start(A_TO_B)
        world.pass_time(2)
        came = arrived(b)
        assert [text for text in came if text != "fast"] == texts, rounds
        assert a.depth("B") == 0


def test_a_paused_receiver_that_is_stopped_backs_the_batch_out() -> None:
    world, a, b = running(sender(), receiver(message_retry_interval_ms=60_000))
    inhibit(b)
    Client(a).put("IN@B", "one")
    assert b.state(A_TO_B) == ChannelState.PAUSED
    b.broker.channels.find(A_TO_B).stop(StopMode.QUIESCE, False, world.now_us)
    world.settle()
    assert b.state(A_TO_B) == ChannelState.STOPPED
    assert a.state(A_TO_B) == ChannelState.RETRYING
    assert a.depth("B") == 1


# Pausing.


def inhibit(b: Place) -> None:
    b.manager.pause(b.manager.queues["IN"], "production", b.world.now_us)


def allow(b: Place) -> None:
    b.manager.resume(b.manager.queues["IN"], "production", b.world.now_us)


def test_an_inhibited_queue_pauses_the_channel_and_the_order_is_kept() -> None:
    world, a, b = running(sender(batch_size=5), receiver(message_retry_interval_ms=100))
    inhibit(b)
    Client(a).put("IN@B", *MANY)
    assert b.state(A_TO_B) == ChannelState.PAUSED
    world.pass_time(0.25)
    assert b.state(A_TO_B) == ChannelState.PAUSED
    allow(b)
    world.pass_time(0.1)
    assert b.state(A_TO_B) == ChannelState.RUNNING
    check_end(a, b, MANY)


def test_a_paused_channel_gives_no_credit_and_bounds_what_is_under_way() -> None:
    world, a, b = running(sender(batch_size=5), receiver(message_retry_interval_ms=10_000))
    inhibit(b)
    texts = [str(number) for number in range(600)]
    Client(a).put("IN@B", *texts)
    link = b.link(A_TO_B)
    assert link.attached_link.credit == 0
    assert a.depth("B") == len(texts)
    assert a.link(A_TO_B).status().messages < len(texts)
    allow(b)
    world.pass_time(11)
    check_end(a, b, texts)


def test_a_heartbeat_is_answered_while_the_channel_is_paused() -> None:
    world, a, b = running(
        sender(batch_size=2, batch_heartbeat_ms=10), receiver(message_retry_interval_ms=1000)
    )
    world.pass_time(0.1)
    inhibit(b)
    Client(a).put("IN@B", "one", "two")
    assert b.state(A_TO_B) == ChannelState.PAUSED
    link = a.link(A_TO_B)
    assert link.attached_link.unsettled_count == 0 and link.status().current_messages == 2
    allow(b)
    world.pass_time(2)
    check_end(a, b, ["one", "two"])


# What can't be delivered.


def with_dead_letters(
    sending: dict[str, object], receiving: dict[str, object], **changes: object
) -> tuple[World, Place, Place]:
    """Both have a dead-letter queue DEAD."""
    world = World()
    own = QueueManagerConfig(dead_letter_queue="DEAD")
    dead = QueueConfig(name="DEAD")
    a = world.add("A", QueueConfig(name="B", usage="transmission"), dead, queue_manager=own)
    b = world.add("B", QueueConfig(name="IN", **changes), dead, queue_manager=own)  # type: ignore[arg-type]
    b.define(**receiving)
    a.define(**sending)
    a.start(A_TO_B)
    world.settle()
    return world, a, b


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
@pytest.mark.parametrize("durable", [True, False])
def test_what_is_too_large_for_the_channel_is_a_dead_letter_of_its_sender(
    batch_size: int, durable: bool
) -> None:
    _, a, b = with_dead_letters(sender(batch_size=batch_size, max_message_bytes=500), receiver())
    large = "x" * 1000
    Client(a).put("IN@B", "one", large, "two", large, large, "three", durable=durable)
    assert arrived(b) == ["one", "two", "three"]
    assert a.state(A_TO_B) == b.state(A_TO_B) == ChannelState.RUNNING
    assert a.depth("B") == 0
    assert a.depth("DEAD") == 3


def test_without_a_dead_letter_queue_a_message_that_is_too_large_stops_the_channel() -> None:
    _, a, _ = running(sender(max_message_bytes=500), receiver())
    Client(a).put("IN@B", "one", "x" * 1000)
    assert a.state(A_TO_B) == ChannelState.STOPPED
    assert "max_message_bytes" in a.reason(A_TO_B)
    assert a.depth("B") == 2


def test_a_message_for_an_unknown_queue_is_a_dead_letter_of_its_receiver() -> None:
    _, a, b = with_dead_letters(sender(batch_size=2), receiver())
    client = Client(a)
    client.put("IN@B", "one")
    client.put("NOWHERE@B", "lost")
    client.put("IN@B", "two")
    assert arrived(b) == ["one", "two"]
    assert Client(b).get("DEAD") == ["lost"]
    assert a.depth("B") == 0


@pytest.mark.parametrize("durable", [True, False])
def test_without_a_dead_letter_queue_a_batch_is_backed_out_and_a_fast_message_dropped(durable: bool) -> None:
    world, a, _ = running(sender(), receiver())
    client = Client(a)
    client.put("NOWHERE@B", "lost", durable=durable)
    assert a.state(A_TO_B) == (ChannelState.RETRYING if durable else ChannelState.RUNNING)
    assert a.depth("B") == (1 if durable else 0)
    if durable:
        assert "MQRC_UNKNOWN_OBJECT_NAME" in a.reason(A_TO_B)
        world.pass_time(2)
        assert a.state(A_TO_B) == ChannelState.RETRYING


def test_what_a_queue_has_no_room_for_is_tried_again_and_then_a_dead_letter() -> None:
    world, a, b = with_dead_letters(
        sender(),
        receiver(message_retry_count=3, message_retry_interval_ms=100),
        max_messages=2,
    )
    Client(a).put("IN@B", "one", "two", "three", "four")
    assert b.state(A_TO_B) == ChannelState.PAUSED
    world.pass_time(0.15)
    world.pass_time(0.15)
    assert b.state(A_TO_B) == ChannelState.PAUSED and b.depth("DEAD") == 0
    world.pass_time(0.15)
    assert b.state(A_TO_B) == ChannelState.PAUSED  # the fourth has attempts of its own
    for _ in range(3):
        world.pass_time(0.15)
    assert b.state(A_TO_B) == ChannelState.RUNNING
    assert arrived(b) == ["one", "two"]
    assert Client(b).get("DEAD") == ["three", "four"]
    assert a.depth("B") == 0
