"""Read a rules table and check all of it.

Written by hand, as the parser of selectors is: a fault doesn't end it, so that everything that is wrong is
told at once, each with its place in the file as it was written, continuation lines and all, which parsers of
libraries don't do (docs/explanation/own-parts.md).
"""

from difflib import get_close_matches
from typing import Final, final

from postroom.channel.rules.checks import (
    check_name,
    check_pattern,
    choice_of,
    number_of,
    pattern_number,
    shown,
)
from postroom.channel.rules.errors import Finding
from postroom.channel.rules.lines import Entry, entries_of
from postroom.channel.rules.table import (
    ACTION_KEYWORDS,
    CONTROL_KEYWORDS,
    DESTINATION_MANAGER,
    DESTINATION_QUEUE,
    FOR_EVER,
    MAX_NUMBER,
    NUMBER_FIELDS,
    PATTERN_KEYWORDS,
    REPLY_MANAGER,
    REPLY_QUEUE,
    STRING_FIELDS,
    Action,
    Authority,
    Control,
    NumberPattern,
    Rule,
    RulesTable,
    StringPattern,
)
from postroom.channel.rules.tokens import Scanner, Word

KEYWORDS: Final = (*PATTERN_KEYWORDS, *ACTION_KEYWORDS, *CONTROL_KEYWORDS)
FORWARD_ONLY: Final = ("FWDQ", "FWDQM", "HEADER")
PUT_ONLY: Final = ("PUTAUT",)
ANY: Final = "*"


def check_table(text: str) -> tuple[RulesTable | None, tuple[Finding, ...]]:
    """The table, None if it can't be used, and what there is to say of it, in the order of the text."""
    findings: list[Finding] = []
    table = _Parser(findings).table(text)
    findings.sort()
    usable = not any(each.is_error for each in findings)
    return table if usable else None, tuple(findings)


@final
class _Parser:
    def __init__(self, findings: list[Finding]) -> None:
        self._findings = findings

    def table(self, text: str) -> RulesTable:
        control = Control()
        rules: list[Rule] = []
        entries = entries_of(text, self._findings)
        for index, entry in enumerate(entries):
            before = len(self._findings)
            words = self._words(entry)
            is_whole = len(self._findings) == before
            if index == 0 and any(word.keyword in CONTROL_KEYWORDS for word in words):
                control = self._control(entry, words)
            else:
                rules.append(self._rule(entry, words, is_whole))
        if not rules and not any(each.is_error for each in self._findings):
            last = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").count("\n") + 1
            self._findings.append(Finding(last, 1, "the table has no rule: add one, as ACTION(RETRY)"))
        return RulesTable(tuple(rules), control)

    def _words(self, entry: Entry) -> list[Word]:
        """The words of an entry whose keywords exist, each once."""
        seen: set[str] = set()
        found = []
        for word in Scanner(entry, self._findings).words():
            if word.keyword not in KEYWORDS:
                near = get_close_matches(word.keyword, KEYWORDS, 1)
                hint = f"; is {near[0]} meant?" if near else ""
                self._report(entry, word.at, f"{shown(word.keyword)} is no keyword of a rules table{hint}")
            elif word.keyword in seen:
                self._report(entry, word.at, f"{word.keyword} is here a second time: leave one")
            else:
                seen.add(word.keyword)
                found.append(word)
        return found

    def _report(self, entry: Entry, at: int, message: str, is_error: bool = True) -> None:
        self._findings.append(Finding(*entry.place(at), message, is_error))

    # Control data.

    def _control(self, entry: Entry, words: list[Word]) -> Control:
        settings: dict[str, str | int] = {}
        for word in words:
            if word.keyword not in CONTROL_KEYWORDS:
                message = f"{word.keyword} belongs to a rule: begin the rule on a new line"
                self._report(entry, word.at, message)
            elif word.keyword == "WAIT":
                settings["wait_s"] = self._wait(entry, word)
            elif word.keyword == "RETRYINT":
                settings["retry_interval_s"] = self._number(entry, word, 0)
            elif word.keyword == "INPUTQ":
                settings["input_queue"] = self._name(entry, word)
            else:
                settings["input_queue_manager"] = self._name(entry, word)
        return Control(**settings)  # type: ignore[arg-type]

    def _wait(self, entry: Entry, word: Word) -> int:
        if not word.quoted and word.value in ("YES", "NO"):
            return FOR_EVER if word.value == "YES" else 0
        number = number_of(word.value, 0)
        if number is None:
            message = (
                f"WAIT takes YES, NO, or a number of seconds from 0 to {MAX_NUMBER}, not {shown(word.value)}"
            )
            self._report(entry, word.value_at, message)
        return number or 0

    def _number(self, entry: Entry, word: Word, least: int) -> int:
        number = number_of(word.value, least)
        if number is None:
            message = f"{word.keyword} takes a number from {least} to {MAX_NUMBER}, not {shown(word.value)}"
            self._report(entry, word.value_at, message)
        return number or least

    def _name(self, entry: Entry, word: Word, substitutes: tuple[str, ...] = ()) -> str:
        """A name of MQ's length, or one of the ``substitutes``; "" where it is blank."""
        fault = check_name(word.keyword, word.value, substitutes)
        if fault:
            self._report(entry, word.value_at, fault)
        return word.value.rstrip(" ")

    # Rules.

    def _rule(self, entry: Entry, words: list[Word], is_whole: bool) -> Rule:
        """``is_whole`` False: some of it couldn't be read, so nothing is said of what is missing."""
        by_keyword = {}
        for word in words:
            if word.keyword in CONTROL_KEYWORDS:
                message = f"{word.keyword} is control data, which stands in the first entry of a table, alone"
                self._report(entry, word.at, message)
            else:
                by_keyword[word.keyword] = word
        action = self._action(entry, by_keyword)
        line, _ = entry.place(0)
        rule = Rule(
            action,
            self._patterns(entry, by_keyword),
            self._forward_queue(entry, by_keyword),
            self._optional_name(entry, by_keyword.get("FWDQM"), (DESTINATION_MANAGER, REPLY_MANAGER)),
            self._choice(entry, by_keyword.get("HEADER"), ("YES", "NO")) != "NO",
            Authority(self._choice(entry, by_keyword.get("PUTAUT"), ("DEF", "CTX"))),
            self._number(entry, by_keyword["RETRY"], 1) if "RETRY" in by_keyword else 1,
            line,
        )
        if is_whole:
            self._check_together(entry, by_keyword, rule)
        return rule

    def _action(self, entry: Entry, by_keyword: dict[str, Word]) -> Action:
        word = by_keyword.get("ACTION")
        names = tuple(each.value for each in Action)
        if word is None:
            return Action.IGNORE
        return Action(self._choice(entry, word, names))

    def _choice(self, entry: Entry, word: Word | None, choices: tuple[str, ...]) -> str:
        """What was chosen; the first of ``choices`` where nothing was, or nothing that exists."""
        if word is None:
            return choices[0]
        chosen = choice_of(word.value, choices)
        if chosen is None:
            message = f"{word.keyword} takes {' or '.join(choices)}, not {shown(word.value)}"
            self._report(entry, word.value_at, message)
        return chosen or choices[0]

    def _forward_queue(self, entry: Entry, by_keyword: dict[str, Word]) -> str:
        word = by_keyword.get("FWDQ")
        name = self._optional_name(entry, word, (DESTINATION_QUEUE, REPLY_QUEUE))
        if word is not None and not name:
            self._report(entry, word.value_at, "FWDQ may not be blank: name the queue")
        return name

    def _optional_name(self, entry: Entry, word: Word | None, substitutes: tuple[str, ...]) -> str:
        return "" if word is None else self._name(entry, word, substitutes)

    def _patterns(
        self, entry: Entry, by_keyword: dict[str, Word]
    ) -> tuple[StringPattern | NumberPattern, ...]:
        found = []
        for keyword in PATTERN_KEYWORDS:
            word = by_keyword.get(keyword)
            pattern = None if word is None else self._pattern(entry, word)
            if pattern is not None:
                found.append(pattern)
        return tuple(found)

    def _pattern(self, entry: Entry, word: Word) -> StringPattern | NumberPattern | None:
        if word.value == ANY:
            return None
        if word.keyword in NUMBER_FIELDS:
            number, fault = pattern_number(word.keyword, word.value)
            if fault:
                self._report(entry, word.value_at, fault)
            return NumberPattern(word.keyword, number)
        fault = check_pattern(word.keyword, word.value, STRING_FIELDS[word.keyword][1])
        if fault:
            self._report(entry, word.value_at, fault)
        return StringPattern(word.keyword, word.value.rstrip(" "))

    def _check_together(self, entry: Entry, by_keyword: dict[str, Word], rule: Rule) -> None:
        if "ACTION" not in by_keyword:
            at = len(entry.text) - len(entry.text.lstrip())
            message = f"the rule has no ACTION: add ACTION({'|'.join(each.value for each in Action)})"
            self._report(entry, at, message)
            return
        if rule.action is Action.FWD and "FWDQ" not in by_keyword:
            self._report(
                entry, by_keyword["ACTION"].at, "ACTION(FWD) needs FWDQ, the queue to forward to: add it"
            )
        puts = rule.action in (Action.FWD, Action.RETRY)
        useless = () if rule.action is Action.FWD else FORWARD_ONLY
        for keyword in (*useless, *(() if puts else PUT_ONLY)):
            if keyword in by_keyword:
                message = f"{keyword} means nothing with ACTION({rule.action.value})"
                self._report(entry, by_keyword[keyword].at, message, is_error=False)
