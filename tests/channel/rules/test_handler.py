"""The handler: which rule is applied when, and what becomes of a message that none helps."""

from hypothesis import given
from hypothesis import strategies as st

from postroom.channel.rules.handler import Attempt, Handler, Left, Why
from postroom.channel.rules.letter import DeadLetter
from postroom.channel.rules.table import Action
from tests.channel.rules.tables import CORPORATIONS, parse_table, tables

SECOND_US = 1_000_000
FULL = DeadLetter(2053, "ORDERS", "PARIS", persistence=1)
OTHER = DeadLetter(2085, "ORDERS", "PARIS", persistence=1)


def handler(*lines: str) -> Handler:
    return Handler(parse_table("\n".join(lines)), 0)


def tried(handling: Handler, now_us: int) -> Attempt:
    attempt = handling.attempt(now_us)
    assert attempt is not None
    return attempt


def test_the_first_rule_that_matches_is_applied():
    handling = handler("REASON(1) ACTION(DISCARD)", "REASON(2053) ACTION(RETRY)", "ACTION(DISCARD)")
    assert handling.found(7, FULL, 10) is None
    attempt = tried(handling, 10)
    assert (attempt.key, attempt.rule.action, attempt.number) == (7, Action.RETRY, 1)
    assert attempt.destination == ("ORDERS", "PARIS")
    assert not attempt.keeps_header
    handling.done(7, 11)
    assert handling.attempt(SECOND_US * 1000) is None
    assert handling.held_count == 0


def test_an_action_is_tried_so_often_so_far_apart_then_the_next_rule_comes():
    handling = handler(
        "RETRYINT(10)",
        "ACTION(RETRY) RETRY(3)",
        "DESTQ(X) ACTION(DISCARD)",
        "ACTION(FWD) FWDQ(LAST) HEADER(NO)",
    )
    handling.found(1, FULL, 0)
    for number in (1, 2, 3):
        now_us = (number - 1) * 10 * SECOND_US
        assert handling.next_due_us() == now_us
        assert handling.attempt(now_us - 1) is None
        assert tried(handling, now_us).number == number
        assert handling.failed(1, now_us) is None
    attempt = tried(handling, 20 * SECOND_US)  # at once
    assert (attempt.rule.action, attempt.number, attempt.destination) == (Action.FWD, 1, ("LAST", ""))
    assert handling.failed(1, 21 * SECOND_US) == Left(1, Why.ALL_FAILED, attempt.rule)
    assert handling.next_due_us() == 0


def test_what_is_ignored():
    handling = handler("REASON(2053) ACTION(IGNORE)", "REASON(2053) ACTION(DISCARD)")
    left = handling.found(1, FULL, 0)
    assert left is not None and (left.why, left.rule and left.rule.line) == (Why.RULE, 1)
    assert handling.found(2, OTHER, 0) == Left(2, Why.NO_RULE)
    assert handling.found(3, None, 0) == Left(3, Why.NO_HEADER)
    assert handling.held_count == 0


def test_what_waits_does_not_hold_up_others():
    handling = handler("REASON(2053) ACTION(RETRY) RETRY(2)", "ACTION(DISCARD)")
    handling.found(1, FULL, 0)
    handling.found(2, OTHER, 0)
    assert tried(handling, 0).key == 1
    handling.failed(1, 0)
    assert tried(handling, 0).key == 2
    handling.done(2, 0)
    assert handling.attempt(59 * SECOND_US) is None
    assert tried(handling, 60 * SECOND_US).key == 1


def test_a_message_that_is_gone_is_not_tried_again():
    handling = handler("ACTION(RETRY) RETRY(2)")
    handling.found(1, FULL, 0)
    tried(handling, 0)
    handling.failed(1, 0)
    handling.done(1, 1)
    assert handling.failed(1, 2) is None
    assert handling.attempt(SECOND_US * 1000) is None


def test_when_it_ends():
    assert handler("ACTION(IGNORE)").ends_us() == 0
    at_once = handler("WAIT(NO)", "ACTION(RETRY) RETRY(2)")
    at_once.found(1, FULL, 5)
    tried(at_once, 5)
    at_once.failed(1, 5)
    assert at_once.ends_us() == 0  # another try is left to do
    at_once.done(1, 9)
    assert at_once.ends_us() == 9
    later = handler("WAIT(30)", "ACTION(DISCARD)")
    later.found(1, None, 7)
    assert later.ends_us() == 7 + 30 * SECOND_US


def test_the_example_with_the_corporations():
    handling = Handler(parse_table(CORPORATIONS), 0)
    request = DeadLetter(
        2085, "Q", "HERE", message_type=1, persistence=1, reply_queue="R", reply_queue_manager="AAAA.1"
    )
    cases = [
        (FULL, Action.RETRY, ("ORDERS", "PARIS"), False),
        (request, Action.FWD, ("DEADQ", "AAAA.1"), True),
        (DeadLetter(2085, "Q", "BBBB.1", persistence=1), Action.FWD, ("Q", "BBBB.2"), False),
        (
            DeadLetter(2085, "Q", "X", reply_queue="R", reply_queue_manager="CCCC.9"),
            Action.FWD,
            ("ALARM", "CCCC.SYSTEM"),
            True,
        ),
        (DeadLetter(2085, "Q", "X", persistence=0), Action.DISCARD, ("", ""), False),
        (OTHER, Action.FWD, ("REALLY.DEAD.QUEUE", ""), True),
    ]
    for key, (letter, action, destination, keeps_header) in enumerate(cases):
        assert handling.found(key, letter, 0) is None
        attempt = tried(handling, 0)
        assert (attempt.key, attempt.rule.action) == (key, action)
        assert (attempt.destination, attempt.keeps_header) == (destination, keeps_header)
        handling.done(key, 0)


@given(tables, st.lists(st.sampled_from([FULL, OTHER, None]), max_size=4), st.data())
def test_every_message_ends_somewhere(table, letters, data):
    handling = Handler(table, 0)
    now_us = 0
    ended = [key for key, letter in enumerate(letters) if handling.found(key, letter, now_us) is not None]
    for _ in range(100):
        now_us = max(now_us, handling.next_due_us())
        attempt = handling.attempt(now_us)
        if attempt is None:
            break
        assert attempt.rule.matches(attempt.letter)
        assert attempt.rule.action is not Action.IGNORE
        assert attempt.number <= attempt.rule.retry_count
        if data.draw(st.booleans()):
            handling.done(attempt.key, now_us)
            ended.append(attempt.key)
        elif handling.failed(attempt.key, now_us) is not None:
            ended.append(attempt.key)
    else:
        return  # rules that try very often
    assert sorted(ended) == list(range(len(letters)))
    assert handling.held_count == 0
