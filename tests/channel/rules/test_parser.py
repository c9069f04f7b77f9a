"""Rules tables: what they say, and what is said of those that say nothing right."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from postroom.channel.rules.parser import check_table
from postroom.channel.rules.symbols import SYMBOLS
from postroom.channel.rules.table import (
    FOR_EVER,
    Action,
    Authority,
    Control,
    NumberPattern,
    Rule,
    RulesTable,
    StringPattern,
)
from postroom.model.mq import Feedback, MessageType, Reason
from tests.channel.rules.tables import CORPORATIONS, SECURITY_FIRST, RulesInvalid, parse_table, tables


def faults(text: str) -> list[tuple[int, int, str]]:
    with pytest.raises(RulesInvalid) as caught:
        parse_table(text)
    return [(each.line, each.column, each.message) for each in caught.value.findings]


def only_fault(text: str) -> tuple[int, int, str]:
    found = faults(text)
    assert len(found) == 1, found
    return found[0]


def rule(text: str) -> Rule:
    table = parse_table(text)
    assert len(table.rules) == 1
    return table.rules[0]


def pattern(text: str) -> StringPattern | NumberPattern:
    return rule(text + " ACTION(IGNORE)").patterns[0]


def test_the_example_with_the_corporations():
    table = parse_table(CORPORATIONS)
    assert table.control == Control("", "", 60, FOR_EVER)
    assert [each.action.value for each in table.rules] == [
        "RETRY",
        "RETRY",
        "FWD",
        "FWD",
        "FWD",
        "DISCARD",
        "FWD",
    ]
    assert table.rules[0] == Rule(Action.RETRY, (NumberPattern("REASON", 2053),), retry_count=5)
    assert table.rules[2] == Rule(
        Action.FWD,
        (NumberPattern("MSGTYPE", 1), StringPattern("REPLYQM", "AAAA.*")),
        "DEADQ",
        "&REPLYQM",
    )
    assert table.rules[3] == Rule(Action.FWD, (StringPattern("DESTQM", "BBBB.1"),), "&DESTQ", "BBBB.2", False)
    assert table.rules[5] == Rule(Action.DISCARD, (NumberPattern("PERSIST", 0),))
    assert [each.line for each in table.rules] == [8, 9, 14, 16, 21, 23, 27]


def test_the_example_with_security_first():
    table = parse_table(SECURITY_FIRST)
    assert table.control == Control("", "CSQ1", 30, 0)
    assert table.rules[2].patterns == (NumberPattern("REASON", 265),)
    assert table.rules[3].patterns == (StringPattern("FORMAT", "MQADMIN"),)
    assert table.rules[5] == Rule(Action.FWD, (), "DEADQ.MANUAL", authority=Authority.CTX)


@given(tables)
def test_a_table_in_print_says_the_same(table: RulesTable):
    printed = str(table)
    assert parse_table(printed) == table
    assert all(len(line) <= 72 for line in printed.splitlines())


WORDS = st.sampled_from(
    [
        *("ACTION(", "FWD", "RETRY", ")", "(", "'", "''", "+", "-", ",", "*", "?", "REASON(", "MQRC_Q_FULL"),
        *("DESTQ", "WAIT(NO)", "INPUTQ(' ')", "&DESTQ", "FWDQ(", "2", "a", "é", "\n", "\r\n", " ", "\x00"),
    ]
)


@given(st.text() | st.lists(WORDS, max_size=40).map("".join))
@example("ACTION(RETRY) +")
@example("'")
@example("+\n-\n+")
def test_junk_gets_a_place_in_the_text(text: str):
    table, findings = check_table(text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert (table is None) == any(each.is_error for each in findings)
    for each in findings:
        assert 1 <= each.line <= len(lines)
        assert 1 <= each.column <= len(lines[each.line - 1]) + 1


@given(tables, st.data())
def test_damage_is_told_or_makes_another_table(table: RulesTable, data: st.DataObject):
    printed = str(table)
    at = data.draw(st.integers(0, len(printed)))
    damaged = printed[:at] + data.draw(st.sampled_from(["(", ")", "'", ",", "x", ""])) + printed[at + 1 :]
    check_table(damaged)


# Lines.


def test_plus_joins_from_the_first_character_that_is_no_blank():
    assert pattern("APPLNAME('ABC+\n   D')") == StringPattern("APPLNAME", "ABCD")


def test_minus_joins_from_the_first_column():
    assert pattern("APPLNAME('ABC-\n D')") == StringPattern("APPLNAME", "ABC D")


def test_a_keyword_may_be_split():
    assert rule("ACT+\n  ION(DIS-\nCARD)") == Rule(Action.DISCARD)


def test_comments_and_blank_lines_may_stand_between_what_is_joined():
    assert pattern("DESTQ(A+\n* here\n\n   \n B)") == StringPattern("DESTQ", "AB")


def test_an_asterisk_that_is_set_in_goes_on_with_a_value():
    assert pattern("DESTQ(A+\n *B)") == StringPattern("DESTQ", "A*B")


def test_a_comment_may_be_longer_than_a_line():
    assert rule("*" * 200 + "\n   * set in\nACTION(IGNORE)") == Rule(Action.IGNORE)


def test_a_line_has_72_significant_characters():
    text = "ACTION(IGNORE)" + " " * 60
    assert rule(text + "\n") == Rule(Action.IGNORE)
    line, column, record = only_fault(text + "RETRY(1)")
    assert (line, column) == (1, 73)
    assert "82 characters, more than 72" in record


def test_places_are_those_of_the_lines_as_they_were_written():
    assert only_fault("* x\n ACTION(FWD) +\n   FWDQ(A) FORMAT(+\n\n    'TOO LONG BY FAR')")[:2] == (5, 5)
    assert only_fault("ACTION(IGNORE) RET+\n  RY(0)")[:2] == (2, 6)


def test_a_sign_that_nothing_follows():
    line, column, record = only_fault("ACTION(IGNORE) +\n* only a comment\n")
    assert (line, column) == (1, 16)
    assert "nothing follows" in record


# Words.


def test_commas_and_blanks_separate_and_case_is_ignored():
    assert rule(" ,, action ( ignore ),,destq(a)persist(0) ") == Rule(
        Action.IGNORE, (StringPattern("DESTQ", "A"), NumberPattern("PERSIST", 0))
    )


def test_quoted_values_keep_their_case_and_their_quotes():
    assert pattern("DESTQ('It''s (mine), ok')") == StringPattern("DESTQ", "It's (mine), ok")
    assert pattern("DESTQ(orders.eu)") == StringPattern("DESTQ", "ORDERS.EU")


@pytest.mark.parametrize("text", ["FORMAT('')", "FORMAT( )", "FORMAT()", "FORMAT"])
def test_a_value_has_a_significant_character(text: str):
    line, _, record = only_fault(text + " ACTION(IGNORE)")
    assert line == 1
    assert "FORMAT" in record


@pytest.mark.parametrize("text", ["FORMAT(' ')", "FORMAT('A')", "FORMAT(ABC)"])
def test_a_blank_in_quotes_is_one(text: str):
    assert pattern(text).keyword == "FORMAT"


@pytest.mark.parametrize(
    ("text", "column", "expected_text"),
    [
        ("ACTION(IGNORE", 7, "not closed"),
        ("ACTION(", 7, "not closed"),
        ("ACTION(IGNORE) DESTQ('A", 22, "closing quote"),
        ("ACTION(IGNORE) DESTQ(A B)", 24, "put it in quotes"),
        ("ACTION(IGNORE) DESTQ('A'B)", 25, "put it in quotes"),
        ("ACTION(IGNORE) )", 16, "a keyword is expected"),
        ("ACTION(IGNORE) 2(3)", 16, "a keyword is expected"),
        ("ACTION(IGNORE) QUEUE(A)", 16, "no keyword"),
        ("ACTION(IGNORE) RETRY(2) ACTION(IGNORE)", 25, "a second time"),
    ],
)
def test_faults_of_words(text: str, column: int, expected_text: str):
    found = only_fault(text)
    assert found[:2] == (1, column)
    assert expected_text in found[2]


# Values.


@pytest.mark.parametrize(
    ("text", "column", "expected_text"),
    [
        ("ACTION(RETRY) RETRY(0)", 21, "from 1 to 999999999"),
        ("ACTION(RETRY) RETRY(1000000000)", 21, "from 1 to 999999999"),
        ("ACTION(GO)", 8, "DISCARD or IGNORE or RETRY or FWD"),
        ("ACTION(FWD)", 1, "needs FWDQ"),
        ("ACTION(FWD) FWDQ(' ')", 18, "may not be blank"),
        ("ACTION(FWD) FWDQ(A*)", 18, "only patterns have wildcards"),
        ("ACTION(FWD) FWDQ(A) FWDQM(B?)", 27, "only patterns have wildcards"),
        ("ACTION(FWD) FWDQ(&DESTQM)", 18, "takes &DESTQ or &REPLYQ"),
        ("ACTION(FWD) FWDQ(A) FWDQM(&DESTQ)", 27, "takes &DESTQM or &REPLYQM"),
        ("ACTION(FWD) FWDQ(" + "A" * 49 + ")", 18, "at most 48"),
        ("ACTION(FWD) FWDQ(A) HEADER(MAYBE)", 28, "YES or NO"),
        ("ACTION(FWD) FWDQ(A) PUTAUT(ALL)", 28, "DEF or CTX"),
        ("DESTQ(A)", 1, "has no ACTION"),
        ("ACTION(IGNORE) MSGTYPE(2*)", 24, "* alone"),
        ("ACTION(IGNORE) MSGTYPE('1?')", 24, "* alone"),
        ("ACTION(IGNORE) MSGTYPE(-1)", 24, "from 0 to 999999999"),
        ("ACTION(IGNORE) MSGTYPE(1000000000)", 24, "from 0 to 999999999"),
        ("ACTION(IGNORE) REASON(MQRC_Q_FUL)", 23, "is MQRC_Q_FULL meant?"),
        ("ACTION(IGNORE) MSGTYPE(MQRC_Q_FULL)", 24, "is a value of FEEDBACK"),
        ("ACTION(IGNORE) FORMAT(ABCDEFGHI)", 23, "at most 8"),
        ("ACTION(IGNORE) FORMAT('*A*B*C*D*E*F*G*H*I*')", 23, "has 9"),
    ],
)
def test_faults_of_values(text: str, column: int, expected_text: str):
    found = only_fault(text)
    assert found[:2] == (1, column)
    assert expected_text in found[2]


@pytest.mark.parametrize("text", ["MSGTYPE(*)", "MSGTYPE('*')", "DESTQ(*)", "DESTQ('*')"])
def test_an_asterisk_takes_anything(text: str):
    assert rule(text + " ACTION(IGNORE)").patterns == ()


@pytest.mark.parametrize("text", ["ABCDEFGH", "A*C*E*G*I", "*A*C*E*G*I*K*M*O*", "A       "])
def test_asterisks_and_trailing_blanks_are_not_counted(text: str):
    assert pattern(f"FORMAT('{text}')") == StringPattern("FORMAT", text.rstrip())


@pytest.mark.parametrize(
    ("keyword", "chars"),
    [
        *[("APPLIDAT", 32), ("APPLNAME", 28), ("FORMAT", 8), ("USERID", 12)],
        *[("DESTQ", 48), ("DESTQM", 48), ("REPLYQ", 48), ("REPLYQM", 48)],
    ],
)
def test_patterns_have_the_length_of_their_field(keyword: str, chars: int):
    assert pattern(f"{keyword}({'A' * chars})") == StringPattern(keyword, "A" * chars)
    assert f"at most {chars}" in only_fault(f"ACTION(IGNORE) +\n{keyword}({'A' * (chars + 1)})")[2]


def test_names_stand_for_numbers_and_any_number_is_taken():
    assert pattern("APPLTYPE(MQAT_QMGR)") == NumberPattern("APPLTYPE", 7)
    assert pattern("FEEDBACK(mqfb_coa)") == NumberPattern("FEEDBACK", 259)
    assert pattern("PERSIST(999999999)") == NumberPattern("PERSIST", 999_999_999)
    assert pattern("REASON(MQFB_XMIT_Q_MSG_ERROR)") == NumberPattern("REASON", 271)


def test_the_names_agree_with_those_of_the_model():
    for prefix, keyword, names in [
        ("MQRC_", "REASON", Reason),
        ("MQFB_", "FEEDBACK", Feedback),
        ("MQMT_", "MSGTYPE", MessageType),
    ]:
        for each in names:
            assert SYMBOLS[keyword][prefix + each.name] == each.value


def test_what_means_nothing_is_a_warning():
    table, findings = check_table("ACTION(DISCARD) HEADER(NO) FWDQ(A) PUTAUT(CTX)")
    assert table is not None
    assert [(each.column, each.is_error) for each in findings] == [(17, False), (28, False), (36, False)]
    assert findings[0].formatted("t.rul") == "t.rul:1:17: warning: HEADER means nothing with ACTION(DISCARD)"


# Control data, and the table as a whole.


@pytest.mark.parametrize(("text", "wait_s"), [("YES", FOR_EVER), ("NO", 0), ("0", 0), ("30", 30), ("no", 0)])
def test_wait(text: str, wait_s: int):
    assert parse_table(f"WAIT({text})\nACTION(IGNORE)").control == Control(wait_s=wait_s)


@pytest.mark.parametrize(
    ("text", "place", "expected_text"),
    [
        ("WAIT(SOON)\nACTION(IGNORE)", (1, 6), "WAIT takes YES, NO"),
        ("RETRYINT(-1)\nACTION(IGNORE)", (1, 10), "RETRYINT takes a number"),
        ("INPUTQ(A*)\nACTION(IGNORE)", (1, 8), "only patterns have wildcards"),
        ("INPUTQ(&DESTQ)\nACTION(IGNORE)", (1, 8), "takes a name"),
        ("INPUTQ(A) ACTION(IGNORE)\nACTION(IGNORE)", (1, 11), "begin the rule on a new line"),
        ("ACTION(IGNORE)\nINPUTQ(A) ACTION(RETRY)", (2, 1), "stands in the first entry"),
        ("", (1, 1), "has no rule"),
        ("* nothing\n\n", (1, 1), "has no rule"),
        ("WAIT(NO)\n", (1, 1), "has no rule"),
    ],
)
def test_faults_of_control_data(text: str, place: tuple[int, int], expected_text: str):
    found = only_fault(text)
    assert found[:2] == place
    assert expected_text in found[2]


def test_all_faults_are_told_in_the_order_of_the_text():
    text = "WAIT(X) RETRYINT(Y)\nACTION(FWD) DESTQ('\nFWDQ(A) REASON(Q) BAD(1\nDESTQ(A)\n"
    found = faults(text)
    assert [each[:2] for each in found] == [(1, 6), (1, 18), (2, 19), (3, 16), (3, 22), (4, 1)]
    assert found[0][2].startswith("WAIT takes ")


def test_a_table_has_a_bound():
    assert "characters" in only_fault("*" + " " * (1 << 20))[2]
