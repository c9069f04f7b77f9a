"""The agents' machines: nothing lost, nothing twice, order kept, wherever a link is cut or a queue manager
crashes."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from postroom.amqp.errors import AmqpError
from postroom.channel.negotiation import Terms
from postroom.channel.receiving_machine import MAX_UNANSWERED, ReceivingMachine
from postroom.channel.sending_machine import (
    BEAT,
    FINISH,
    MAX_AHEAD_MESSAGES,
    MAX_IN_DOUBT_MESSAGES,
    REQUEST_CONFIRM,
    WAIT,
    SendingMachine,
)
from postroom.channel.wire import SEQUENCE_ERROR, BatchEnd
from postroom.model.channel import ChannelDefinition
from tests.channel.rehearsal import COURSES, EVENTS, FAILURES, Rehearsal
from tests.sampling import examples

WRAP = 100


def definition(**changes: object) -> ChannelDefinition:
    settings = {"name": "A.TO.B", "transmission_queue": "B", "sequence_wrap": WRAP, **changes}
    return ChannelDefinition(**settings)  # type: ignore[arg-type]


def terms(batch_size: int = 3) -> Terms:
    return Terms("B", "ledger", batch_size, WRAP, True, 1 << 20)


def sending(last_sequence: int = 0, batch_size: int = 3, **changes: object) -> SendingMachine:
    return SendingMachine(terms(batch_size), definition(**changes), last_sequence, 0)


# Together.


@settings(max_examples=examples(400), deadline=None)
@given(
    events=st.lists(st.sampled_from(sorted(EVENTS)), max_size=120),
    batch_size=st.integers(1, 4),
    interval_ms=st.sampled_from([0, 5]),
    heartbeat_ms=st.sampled_from([0, 1]),
)
@example(
    events=["put many", "take many", "put", "arrive many", "cut", "crash receiver"],
    batch_size=2,
    interval_ms=0,
    heartbeat_ms=0,
)
def test_every_message_arrives_once_and_in_order_whatever_fails(
    events: list[str], batch_size: int, interval_ms: int, heartbeat_ms: int
) -> None:
    rehearsal = Rehearsal(
        definition(batch_size=batch_size, batch_interval_ms=interval_ms, batch_heartbeat_ms=heartbeat_ms)
    )
    for event in events:
        EVENTS[event](rehearsal)
    rehearsal.settle()
    assert rehearsal.receiver.messages == list(range(1, rehearsal.puts + 1))


@pytest.mark.parametrize("batch_size", [1, 2, 3, MAX_IN_DOUBT_MESSAGES])
@pytest.mark.parametrize("course", COURSES, ids=["one by one", "many", "interleaved"])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_at_every_step(failure: str, course: str, batch_size: int) -> None:
    events = course.split(", ")
    for step in range(len(events)):
        rehearsal = Rehearsal(definition(batch_size=batch_size))
        for number, event in enumerate(events):
            EVENTS[event](rehearsal)
            if number == step:
                EVENTS[failure](rehearsal)
        rehearsal.settle()
        assert rehearsal.receiver.messages == list(range(1, rehearsal.puts + 1)), (step, events[step])


def test_sequence_numbers_wrap_on_the_way() -> None:
    rehearsal = Rehearsal(definition(batch_size=7))
    for _ in range(2 * WRAP + 5):
        rehearsal.put()
    rehearsal.settle()
    assert rehearsal.receiver.messages == list(range(1, 2 * WRAP + 6))
    assert rehearsal.receiver.last_sequence == 5


# The sender.


@pytest.mark.parametrize("size", [3, MAX_IN_DOUBT_MESSAGES, 9999])
def test_a_batch_ends_with_its_last_message(size: int) -> None:
    machine = sending(batch_size=size)
    for _ in range(size):
        assert machine.step(0, False, 0) == WAIT
        assert not machine.full
        machine.add(10, 0)
    assert machine.full
    assert machine.step(0, False, 0) == REQUEST_CONFIRM


def test_a_large_batch_is_taken_by_itself_and_small_ones_ahead() -> None:
    large = sending(batch_size=MAX_IN_DOUBT_MESSAGES)
    assert large.room() == MAX_IN_DOUBT_MESSAGES
    for _ in range(MAX_IN_DOUBT_MESSAGES):
        large.add(10, 0)
    assert large.room() == 0
    small = sending(batch_size=2)
    for _ in range(2):
        small.add(10, 0)
    assert small.room() == MAX_AHEAD_MESSAGES
    assert small.step(100, False, 0) == REQUEST_CONFIRM  # what was taken since belongs to the next ones
    small.confirm_requested()
    assert small.room() == MAX_AHEAD_MESSAGES


def test_a_batch_ends_with_the_message_that_fills_it() -> None:
    machine = sending(batch_size=50, batch_limit_kb=2)
    machine.add(1999, 0)
    assert machine.step(0, False, 0) == WAIT
    machine.add(1, 0)
    assert machine.room() == 0
    assert machine.step(0, False, 0) == REQUEST_CONFIRM


def test_a_batch_without_a_limit_of_bytes_is_only_counted() -> None:
    machine = sending(batch_size=2, batch_limit_kb=0)
    machine.add(1 << 30, 0)
    assert machine.room() > 0
    assert machine.step(0, False, 0) == WAIT


def test_an_empty_queue_ends_a_batch_that_was_open_for_its_interval() -> None:
    machine = sending(batch_interval_ms=10)
    machine.add(10, 5_000)
    assert machine.next_deadline_us() == 15_000
    assert machine.step(0, True, 14_999) == WAIT
    assert machine.step(0, False, 20_000) == WAIT
    assert machine.step(0, True, 15_000) == REQUEST_CONFIRM


def test_without_an_interval_an_empty_queue_ends_the_batch_at_once() -> None:
    machine = sending()
    machine.add(10, 0)
    assert machine.step(0, True, 0) == REQUEST_CONFIRM


def test_nothing_is_asked_while_messages_of_the_batch_are_still_to_leave() -> None:
    machine = sending()
    machine.add(10, 0)
    assert machine.step(1, True, 0) == WAIT


def test_a_batch_that_is_not_full_waits_for_the_answer_to_the_one_before() -> None:
    machine = sending()
    machine.add(10, 0)
    machine.confirm_requested()
    assert machine.room() > 3
    machine.add(10, 0)
    assert machine.step(0, True, 0) == WAIT
    machine.confirmed(0)
    assert machine.step(0, True, 0) == REQUEST_CONFIRM


def test_full_batches_are_asked_for_until_as_many_messages_as_may_be_are_in_doubt() -> None:
    machine = sending(batch_size=1)
    for _ in range(MAX_IN_DOUBT_MESSAGES):
        machine.add(10, 0)
        assert machine.step(0, False, 0) == REQUEST_CONFIRM
        machine.confirm_requested()
    machine.add(10, 0)
    assert machine.step(0, False, 0) == WAIT
    machine.confirmed(0)
    assert machine.in_doubt_count == MAX_IN_DOUBT_MESSAGES - 1
    assert machine.step(0, False, 0) == REQUEST_CONFIRM


def test_of_large_batches_one_is_in_doubt() -> None:
    machine = sending(batch_size=MAX_IN_DOUBT_MESSAGES)
    for _ in range(2):
        for _ in range(MAX_IN_DOUBT_MESSAGES):
            machine.add(10, 0)
        if machine.in_doubt_count == 0:
            machine.confirm_requested()
    assert machine.step(0, False, 0) == WAIT


def test_fast_messages_count_for_the_end_of_a_batch_but_make_none() -> None:
    machine = sending()
    for _ in range(10):
        machine.add_fast(10)
        assert machine.room() > 0
    machine.add(10, 0)
    while not machine.full:
        machine.add_fast(10)
    assert machine.step(0, False, 0) == REQUEST_CONFIRM
    assert machine.count == 1 and machine.sequence == 1


def test_fast_messages_alone_want_no_confirmation() -> None:
    machine = sending()
    machine.add_fast(10)
    assert machine.step(0, True, 0) == WAIT


def test_a_silent_partner_is_asked_whether_it_lives_before_a_batch_is_asked_for() -> None:
    machine = sending(batch_heartbeat_ms=5)
    machine.add(10, 0)
    assert machine.step(0, True, 5_001) == BEAT
    machine.beat()
    assert machine.step(0, True, 6_000) == WAIT
    machine.beat_answered(7_000)
    assert machine.step(0, True, 7_000) == REQUEST_CONFIRM


def test_a_partner_heard_of_lately_is_not_asked() -> None:
    machine = sending(batch_heartbeat_ms=5)
    machine.add(10, 0)
    assert machine.step(0, True, 5_000) == REQUEST_CONFIRM


def test_told_to_stop_it_ends_the_batch_and_finishes_when_that_is_confirmed() -> None:
    machine = sending(batch_interval_ms=1000)
    machine.add(10, 0)
    machine.stopping = True
    assert machine.room() == 0
    assert machine.step(0, False, 0) == REQUEST_CONFIRM
    machine.confirm_requested()
    assert machine.step(0, False, 0) == WAIT
    machine.confirmed(0)
    assert machine.step(0, False, 0) == FINISH


def test_the_highest_sequence_number_is_followed_by_1() -> None:
    machine = sending(last_sequence=WRAP - 1)
    assert [machine.add(1, 0), machine.add(1, 0)] == [WRAP, 1]


# The receiver.


def receiving(last_sequence: int = 0, batch_size: int = 3) -> ReceivingMachine:
    return ReceivingMachine(terms(batch_size), last_sequence, b"")


LUWID = bytes(16)


@given(expected=st.integers(0, WRAP), comes=st.integers(0, 2**63 - 1))
def test_only_the_next_number_is_taken(expected: int, comes: int) -> None:
    machine = receiving(expected)
    following = 1 if expected == WRAP else expected + 1
    if comes == following:
        machine.arrived(comes)
        assert machine.sequence == comes
    else:
        with pytest.raises(AmqpError) as refused:
            machine.arrived(comes)
        assert refused.value.condition == SEQUENCE_ERROR
        assert machine.sequence == expected


def test_a_batch_larger_than_agreed_on_is_refused() -> None:
    machine = receiving()
    for sequence in range(1, 4):
        machine.arrived(sequence)
    with pytest.raises(AmqpError, match="more than 3 messages"):
        machine.arrived(4)


@pytest.mark.parametrize(("last_sequence", "count"), [(1, 2), (2, 1), (3, 2), (2, 3)])
def test_the_end_of_another_batch_is_refused(last_sequence: int, count: int) -> None:
    machine = receiving()
    machine.arrived(1)
    machine.arrived(2)
    with pytest.raises(AmqpError) as refused:
        machine.ended(BatchEnd(LUWID, last_sequence, count))
    assert refused.value.condition == SEQUENCE_ERROR


def test_a_name_is_not_used_for_two_batches() -> None:
    machine = receiving()
    machine.arrived(1)
    end = BatchEnd(LUWID, 1, 1)
    machine.ended(end)
    machine.confirmed(end)
    machine.arrived(2)
    with pytest.raises(AmqpError, match="two batches"):
        machine.ended(BatchEnd(LUWID, 2, 1))


def test_no_more_batches_than_agreed_on_are_without_an_answer() -> None:
    machine = receiving()
    for sequence in range(1, MAX_UNANSWERED + 2):
        machine.arrived(sequence)
        end = BatchEnd(sequence.to_bytes(16, "big"), sequence, 1)
        if sequence <= MAX_UNANSWERED:
            machine.ended(end)
    with pytest.raises(AmqpError, match="have no answer"):
        machine.ended(end)


def test_at_rest_between_batches_only() -> None:
    machine = receiving()
    assert machine.at_rest()
    machine.arrived(1)
    assert not machine.at_rest()
    end = BatchEnd(LUWID, 1, 1)
    machine.ended(end)
    assert not machine.at_rest()
    machine.confirmed(end)
    assert machine.at_rest()
