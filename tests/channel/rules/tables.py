"""Rules tables for tests: what IBM's published examples do, in tables of our own; and tables at random."""

from typing import Final

from hypothesis import strategies as st

from postroom.channel.rules.errors import Finding
from postroom.channel.rules.parser import check_table
from postroom.channel.rules.symbols import SYMBOLS
from postroom.channel.rules.table import (
    FOR_EVER,
    MAX_NUMBER,
    NUMBER_FIELDS,
    STRING_FIELDS,
    Action,
    Authority,
    Control,
    NumberPattern,
    Rule,
    RulesTable,
    StringPattern,
)

CORPORATIONS: Final = """\
***************************************************************************************
*  Everything that IBM's example for its handler on distributed systems does.          *
***************************************************************************************
inputqm(' ') inputq(' ')

* First of all to where it was to go: the queue was full, or its puts were inhibited.

REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(5)
REASON(MQRC_PUT_INHIBITED) ACTION(RETRY) RETRY(5)

* The requests of one partner go to the dead-letter queue of the manager that waits for
* the reply; what another's first manager can't take goes to its second, as it was sent.

MSGTYPE(MQMT_REQUEST) REPLYQM(AAAA.*) +
  ACTION(FWD) FWDQ(DEADQ) FWDQM(&REPLYQM)
DESTQM(bbbb.1) +
  action(fwd) fwdq(&DESTQ) fwdqm(bbbb.2) header(no)

* A third wants to see all of its own; what is not persistent may be lost.

REPLYQM(CCCC.*) +
  ACTION(FWD) FWDQ(ALARM) FWDQM(CCCC.SYSTEM)
PERSIST(MQPER_NOT_PERSISTENT) ACTION(DISCARD)

* The rest: somewhere else, so that this queue stays short.

ACTION(FWD) FWDQ(REALLY.DEAD.QUEUE) HEADER(YES)
"""

SECURITY_FIRST: Final = """\
* As the example for z/OS: look at security first, then try again, then by hand.
INPUTQM('CSQ1'), RETRYINT (30), WAIT(NO)
REASON(MQRC_NOT_AUTHORIZED) ACTION(FWD) +
FWDQ(DEADQ.MANUAL.SECURITY)
REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(5)
REASON(MQFB_APPL_CANNOT_BE_STARTED) ACTION(FWD) +
FWDQ(DEADQ.MANUAL.TRIGGER)
FORMAT('MQADMIN ') ACTION(IGNORE)
PERSIST(MQPER_PERSISTENT) REASON (MQRC_PUT_INHIBITED) +
  ACTION (RETRY) RETRY (3)
ACTION(FWD) FWDQ(DEADQ.MANUAL) HEADER(YES) PUTAUT(CTX)
"""

_CHARACTERS: Final = st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="\ufeff")
_NUMBERS: Final = st.integers(0, MAX_NUMBER)


def _named(text: str) -> bool:
    return text == text.rstrip(" ") and text != "" and not text.startswith("&")


names = st.text(_CHARACTERS.filter(lambda char: char not in "*?"), min_size=1, max_size=48).filter(_named)


@st.composite
def string_patterns(draw: st.DrawFn, keyword: str) -> StringPattern:
    text = draw(st.text(_CHARACTERS, max_size=STRING_FIELDS[keyword][1]))
    return StringPattern(keyword, "" if text.rstrip(" ") == "*" else text.rstrip(" "))


@st.composite
def number_patterns(draw: st.DrawFn, keyword: str) -> NumberPattern:
    known = st.sampled_from(sorted(SYMBOLS[keyword].values()))
    return NumberPattern(keyword, draw(known | _NUMBERS))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    keywords = draw(st.sets(st.sampled_from(sorted((*STRING_FIELDS, *NUMBER_FIELDS)))))
    patterns = tuple(
        draw(string_patterns(each) if each in STRING_FIELDS else number_patterns(each))
        for each in sorted(keywords)
    )
    action = draw(st.sampled_from(Action))
    forwards = action is Action.FWD
    return Rule(
        action,
        patterns,
        draw(names | st.sampled_from(["&DESTQ", "&REPLYQ"])) if forwards else "",
        draw(names | st.sampled_from(["", "&DESTQM", "&REPLYQM"])) if forwards else "",
        draw(st.booleans()) if forwards else True,
        draw(st.sampled_from(Authority)) if forwards or action is Action.RETRY else Authority.DEF,
        draw(st.integers(1, MAX_NUMBER)),
    )


controls = st.builds(
    Control, names | st.just(""), names | st.just(""), _NUMBERS, _NUMBERS | st.just(FOR_EVER)
)
tables = st.builds(RulesTable, st.lists(rules(), min_size=1, max_size=5).map(tuple), controls)


class RulesInvalid(ValueError):
    """The table can't be used; ``findings`` are all its faults, warnings too, in the order of the text."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__(*findings)
        self.findings = findings


def parse_table(text: str) -> RulesTable:
    """The table that ``text`` says."""
    table, findings = check_table(text)
    if table is None:
        raise RulesInvalid(findings)
    return table
