"""Which messages a rule matches."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.channel.rules.letter import DeadLetter
from postroom.channel.rules.table import Rule, StringPattern
from tests.channel.rules.tables import parse_table

LETTER = DeadLetter(
    reason=2053,
    dest_queue="ORDERS.EU",
    dest_queue_manager="PARIS",
    format="MQSTR",
    appl_identity_data="batch 7",
    put_appl_name="billing",
    put_appl_type=28,
    feedback=0,
    message_type=1,
    persistence=1,
    reply_queue="REPLIES",
    reply_queue_manager="LONDON",
    user_id="alice",
)


def rule(text: str) -> Rule:
    return parse_table(text + " +\n  ACTION(IGNORE)").rules[0]


@pytest.mark.parametrize(
    "text",
    [
        "REASON(MQRC_Q_FULL)",
        "REASON(2053) DESTQ(ORDERS.*) DESTQM(P?RIS)",
        "APPLIDAT('batch*') APPLNAME('billing') APPLTYPE(MQAT_JAVA)",
        "FEEDBACK(MQFB_NONE) FORMAT(MQSTR) MSGTYPE(MQMT_REQUEST) +\nPERSIST(MQPER_PERSISTENT)",
        "REPLYQ(?*) REPLYQM(LON*) USERID('alice')",
        "DESTQ('ORDERS.EU    ')",
        "",
    ],
)
def test_matches(text: str):
    assert rule(text).matches(LETTER)


@pytest.mark.parametrize(
    "text",
    [
        "REASON(MQRC_PUT_INHIBITED)",
        "REASON(MQRC_Q_FULL) DESTQ(ORDERS)",
        "DESTQ(' ORDERS.EU')",
        "USERID(alice)",
        "DESTQ(ORDERS.EU?)",
        "PERSIST(0)",
    ],
)
def test_matches_not(text: str):
    assert not rule(text).matches(LETTER)


def test_a_question_mark_is_no_trailing_blank():
    blank = DeadLetter(2053, "A", "B", reply_queue="   ")
    assert not rule("REPLYQ(?*)").matches(blank)
    assert rule("REPLYQ(' ')").matches(blank)
    assert rule("REPLYQ(*)").matches(blank)
    assert not rule("DESTQ(A?)").matches(DeadLetter(2053, "A   ", "B"))


def test_leading_and_inner_blanks_count():
    assert rule("APPLNAME('?A  B')").matches(DeadLetter(1, "", "", put_appl_name=" A  B  "))
    assert not rule("APPLNAME('A B')").matches(DeadLetter(1, "", "", put_appl_name="A  B"))


TEXTS = st.text("ab*? ", max_size=12)


@given(TEXTS, st.text("ab. ", max_size=12))
def test_wildcards_are_those_of_a_regular_expression(pattern: str, value: str):
    expression = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern.rstrip(" "))
    expected = re.fullmatch(expression, value.rstrip(" "), re.DOTALL) is not None
    assert StringPattern("DESTQ", pattern).matches(DeadLetter(0, value, "")) == expected


def test_many_asterisks_take_no_long_time():
    assert not StringPattern("DESTQ", "*a" * 24 + "b").matches(DeadLetter(0, "a" * 10_000, ""))


def test_where_a_rule_sends_to():
    def destination(text: str) -> tuple[str, str]:
        return parse_table(text).rules[0].destination(LETTER)

    assert destination("ACTION(RETRY)") == ("ORDERS.EU", "PARIS")
    assert destination("ACTION(FWD) FWDQ(A)") == ("A", "")
    assert destination("ACTION(FWD) FWDQ(&DESTQ) FWDQM(&DESTQM)") == ("ORDERS.EU", "PARIS")
    assert destination("ACTION(FWD) FWDQ(&replyq) FWDQM(&replyqm)") == ("REPLIES", "LONDON")
    assert destination("ACTION(FWD) FWDQ(A) FWDQM(B)") == ("A", "B")
