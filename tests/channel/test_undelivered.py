"""The steps of what can't be put: every row of its table, message retry, and exits of every kind."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Data, Header, Message, Properties
from postroom.channel.undelivered import NEXT, RetryRequest, Stage, Stop, UndeliveredHandler, Wait
from postroom.manager.channels.undelivered import Action, OnFailure, ReceivedMessage, on_failure_of
from postroom.model import mq
from postroom.model.channel import RECEIVER, ChannelDefinition
from postroom.model.mq import Reason, Report, Undelivered

CHANNEL = ChannelDefinition(
    "TO.LONDON",
    type=RECEIVER,
    message_retry_count=3,
    message_retry_interval_ms=250,
    message_retry_data="five",
)
FULL = Undelivered(Reason.Q_FULL, "Q", "LONDON", "queue 'Q' is full")
UNKNOWN = Undelivered(Reason.UNKNOWN_OBJECT_NAME, "Q", "LONDON", "there is no queue 'Q'")
WORDS = {
    OnFailure.NOTHING: 0,
    OnFailure.DISCARD: Report.DISCARD_MSG,
    OnFailure.REPORT: Report.EXCEPTION_WITH_FULL_DATA,
    OnFailure.REPORT_AND_DISCARD: Report.EXCEPTION_WITH_DATA | Report.DISCARD_MSG,
    OnFailure.RETURN: Report.EXCEPTION_WITH_FULL_DATA | Report.DISCARD_MSG,
}


def message(
    requested: OnFailure = OnFailure.NOTHING,
    *,
    fast: bool = False,
    reply_to: str | None = "R",
) -> ReceivedMessage:
    payload = Message(
        header=Header(durable=not fast),
        message_annotations={"x-opt-report": int(WORDS[requested])},
        properties=Properties(message_id="ID:1", reply_to=reply_to),
        body=Data([b"body"]),
    ).encode()
    head = scan_head(payload)
    return ReceivedMessage(head, payload[head.bare_offset :], 1, 1, fast)


def walk(
    handler: UndeliveredHandler, first: Undelivered, of: ReceivedMessage, failing: set[Action]
) -> list[Action]:
    """The steps, those of ``failing`` being tried in vain."""
    step = handler.begin(first, of)
    steps = [step.action]
    while step.action not in (Action.DONE, Action.BACK_OUT):
        step = handler.next(FULL if step.action in failing else None)
        steps.append(step.action)
        assert len(steps) < 20
    return steps


# --- the table


def expected(requested: OnFailure, dead_letters: bool, fast: bool, failing: set[Action]) -> list[Action]:
    """MQ's rules said another way: in the order of the seed, not of the table."""
    steps: list[Action] = []
    discard = requested in (
        OnFailure.DISCARD,
        OnFailure.REPORT_AND_DISCARD,
        OnFailure.RETURN,
    )
    if requested in (
        OnFailure.REPORT,
        OnFailure.REPORT_AND_DISCARD,
        OnFailure.RETURN,
    ):
        steps.append(Action.PUT_REPORT)
        discard = discard and Action.PUT_REPORT not in failing
    if discard:
        end = Action.RETURN_TO_SENDER if requested is OnFailure.RETURN else Action.DISCARD
        return [*steps, end, Action.DONE]
    if dead_letters:
        steps.append(Action.DEAD_LETTER)
        if Action.DEAD_LETTER not in failing:
            return [*steps, Action.DONE]
    return [*steps, Action.DROP, Action.DONE] if fast else [*steps, Action.BACK_OUT]


@pytest.mark.parametrize("requested", OnFailure)
@pytest.mark.parametrize("dead_letters", [True, False])
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("failing", [set(), {Action.PUT_REPORT}, {Action.DEAD_LETTER}, {*Action}])
def test_every_way_down_the_ladder(
    requested: OnFailure, dead_letters: bool, fast: bool, failing: set[Action]
) -> None:
    handler = UndeliveredHandler(replace(CHANNEL, use_dead_letter_queue=dead_letters), None)
    failing = failing & {Action.PUT_REPORT, Action.DEAD_LETTER}
    steps = walk(handler, UNKNOWN, message(requested, fast=fast), failing)
    assert steps == expected(requested, dead_letters, fast, failing)


def test_the_table_has_every_row() -> None:
    assert set(NEXT) == set(product(Stage, OnFailure, (True, False), (True, False)))
    assert {action for (stage, *_), action in NEXT.items() if stage is Stage.ENDED} == {Action.DONE}


def test_what_travels_in_a_batch_is_never_dropped_and_what_does_not_is_never_backed_out() -> None:
    for (_, _, _, fast), action in NEXT.items():
        assert action is not (Action.BACK_OUT if fast else Action.DROP)


def test_a_message_that_asks_for_nothing_is_never_discarded() -> None:
    for (_, on_failure, _, _), action in NEXT.items():
        if on_failure in (OnFailure.NOTHING, OnFailure.REPORT):
            assert action not in (Action.DISCARD, Action.RETURN_TO_SENDER)


@given(st.integers(0, mq.WORD_MASK), st.booleans())
def test_what_a_word_asks_for(word: int, replies: bool) -> None:
    exception, discards = word & mq.EXCEPTION_MASK, word & mq.DISCARD_MSG != 0
    if exception not in (0, 0x01000000, 0x03000000, 0x07000000):
        return
    on_failure = on_failure_of(word, replies)
    returns = exception == Report.EXCEPTION_WITH_FULL_DATA and discards and replies
    assert (on_failure is OnFailure.RETURN) == returns
    assert (on_failure in (OnFailure.REPORT, OnFailure.REPORT_AND_DISCARD, OnFailure.RETURN)) == (
        exception != 0 and replies
    )
    assert (on_failure in (OnFailure.NOTHING, OnFailure.REPORT)) == (not discards)


def test_without_a_reply_queue_nothing_is_returned() -> None:
    assert message(OnFailure.RETURN).requested is OnFailure.RETURN
    assert message(OnFailure.RETURN, reply_to=None).requested is OnFailure.DISCARD


# --- message retry


def test_a_reason_that_may_pass_is_tried_again_as_often_as_the_channel_says() -> None:
    handler = UndeliveredHandler(CHANNEL, None)
    step = handler.begin(FULL, message())
    waits = []
    while step.action is Action.WAIT:
        waits.append(step.wait_ms)
        step = handler.next(FULL)
    assert waits == [250, 250, 250]
    assert step.action is Action.DEAD_LETTER


def test_a_put_that_succeeds_at_last_ends_it() -> None:
    handler = UndeliveredHandler(CHANNEL, None)
    assert handler.begin(FULL, message()).action is Action.WAIT
    assert handler.next(None).action is Action.DONE


def test_a_reason_that_stays_is_not_tried_again() -> None:
    assert UndeliveredHandler(CHANNEL, None).begin(UNKNOWN, message()).action is Action.DEAD_LETTER


def test_a_reason_that_changes_to_one_that_stays_ends_the_attempts() -> None:
    handler = UndeliveredHandler(CHANNEL, None)
    assert handler.begin(FULL, message()).action is Action.WAIT
    assert handler.next(UNKNOWN).action is Action.DEAD_LETTER
    assert handler.undelivered is UNKNOWN


def test_no_attempts_without_a_count() -> None:
    handler = UndeliveredHandler(replace(CHANNEL, message_retry_count=0), None)
    assert handler.begin(FULL, message()).action is Action.DEAD_LETTER


def test_the_next_message_begins_anew() -> None:
    handler = UndeliveredHandler(replace(CHANNEL, message_retry_count=1), None)
    for _ in range(2):
        assert walk(handler, FULL, message(), {Action.WAIT}) == [
            *(Action.WAIT, Action.DEAD_LETTER, Action.DONE)
        ]


# --- exits

EXIT = replace(CHANNEL, message_retry_exit="exits:again", message_retry_count=0)


def with_exit(answer: Callable[[RetryRequest], object]) -> UndeliveredHandler:
    return UndeliveredHandler(EXIT, answer)


def test_an_exit_decides_whatever_the_reason_and_the_count() -> None:
    requests: list[RetryRequest] = []

    def again(request: RetryRequest) -> object:
        requests.append(request)
        return Wait(request.attempt * 10) if request.attempt < 4 else Stop()

    handler = with_exit(again)
    step = handler.begin(UNKNOWN, message())
    waits = []
    while step.action is Action.WAIT:
        waits.append(step.wait_ms)
        step = handler.next(UNKNOWN)
    assert (waits, step.action, step.complaint) == ([10, 20, 30], Action.DEAD_LETTER, "")
    assert [request.attempt for request in requests] == [1, 2, 3, 4]
    last = requests[-1]
    assert (last.channel, last.data, last.wait_ms) == ("TO.LONDON", "five", 250)
    assert last.undelivered is UNKNOWN
    assert last.header.value("JMSMessageID") == "ID:1"


def test_an_exit_is_not_asked_about_the_dead_letter_queue() -> None:
    calls: list[int] = []

    def never(request: RetryRequest) -> object:
        calls.append(request.attempt)
        return Stop()

    steps = walk(with_exit(never), UNKNOWN, message(), {Action.DEAD_LETTER})
    assert steps == [Action.DEAD_LETTER, Action.BACK_OUT]
    assert calls == [1]


@given(st.integers())
def test_a_wait_out_of_range_is_the_channels_own(wait_ms: int) -> None:
    step = with_exit(lambda _: Wait(wait_ms)).begin(UNKNOWN, message())
    assert step.action is Action.WAIT
    assert step.wait_ms == (wait_ms if 0 <= wait_ms <= 999_999_999 else 250)
    assert step.complaint == ""


def failing_exit(_: RetryRequest) -> object:
    raise LookupError("no such customer " + "x" * 5000)


@pytest.mark.parametrize("answer", [None, 5, "wait", True, Wait, Exception("wait")])
def test_an_answer_that_is_none_means_stop_and_is_complained_of(answer: object) -> None:
    step = with_exit(lambda _: answer).begin(FULL, message())
    assert step.action is Action.DEAD_LETTER
    assert "TO.LONDON" in step.complaint
    assert "exits:again" in step.complaint
    assert "Wait or Stop" in step.complaint


def test_an_exit_that_fails_means_stop_and_is_complained_of() -> None:
    step = with_exit(failing_exit).begin(FULL, message())
    assert step.action is Action.DEAD_LETTER
    assert "LookupError: no such customer" in step.complaint
    assert len(step.complaint) <= 1024


def test_an_exit_that_is_not_loaded_means_stop() -> None:
    step = UndeliveredHandler(EXIT, None).begin(FULL, message())
    assert step.action is Action.DEAD_LETTER
    assert "not loaded" in step.complaint
