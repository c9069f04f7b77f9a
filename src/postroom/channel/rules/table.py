"""A rules table of the dead-letter queue handler: control data and rules, and how a rule's patterns match."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from postroom.channel.rules.letter import DeadLetter
from postroom.channel.rules.symbols import name_of

DEFAULT_RETRY_INTERVAL_S: Final = 60
FOR_EVER: Final = -1
MAX_NUMBER: Final = 999_999_999

STRING_FIELDS: Final = {
    "APPLIDAT": ("appl_identity_data", 32),
    "APPLNAME": ("put_appl_name", 28),
    "DESTQ": ("dest_queue", 48),
    "DESTQM": ("dest_queue_manager", 48),
    "FORMAT": ("format", 8),
    "REPLYQ": ("reply_queue", 48),
    "REPLYQM": ("reply_queue_manager", 48),
    "USERID": ("user_id", 12),
}
"""Pattern keyword → the field of a `DeadLetter`, and how many characters IBM MQ's field has."""

NUMBER_FIELDS: Final = {
    "APPLTYPE": "put_appl_type",
    "FEEDBACK": "feedback",
    "MSGTYPE": "message_type",
    "PERSIST": "persistence",
    "REASON": "reason",
}
PATTERN_KEYWORDS: Final = tuple(sorted((*STRING_FIELDS, *NUMBER_FIELDS)))
CONTROL_KEYWORDS: Final = ("INPUTQM", "INPUTQ", "RETRYINT", "WAIT")
ACTION_KEYWORDS: Final = ("ACTION", "FWDQ", "FWDQM", "HEADER", "PUTAUT", "RETRY")

DESTINATION_QUEUE: Final = "&DESTQ"
REPLY_QUEUE: Final = "&REPLYQ"
DESTINATION_MANAGER: Final = "&DESTQM"
REPLY_MANAGER: Final = "&REPLYQM"


class Action(Enum):
    """What becomes of a message that a rule matches."""

    DISCARD = "DISCARD"
    IGNORE = "IGNORE"
    RETRY = "RETRY"
    FWD = "FWD"


class Authority(Enum):
    """On whose authority a message is put: the handler's, or that of the user in the message's context."""

    DEF = "DEF"
    CTX = "CTX"


@dataclass(frozen=True)
class Control:
    """The control data of a table."""

    input_queue: str = ""
    """INPUTQ; "" the dead-letter queue of the queue manager."""
    input_queue_manager: str = ""
    """INPUTQM; "" the queue manager that the handler is connected to."""
    retry_interval_s: int = DEFAULT_RETRY_INTERVAL_S
    wait_s: int = FOR_EVER
    """Seconds to wait for more after there was nothing left to do; 0 for WAIT(NO), FOR_EVER for WAIT(YES)."""


@dataclass(frozen=True)
class StringPattern:
    """``?`` stands for one character that is no trailing blank, ``*`` for any number of them."""

    keyword: str
    text: str

    def matches(self, letter: DeadLetter) -> bool:
        """Trailing blanks don't matter, neither of the pattern nor of the field."""
        value: str = getattr(letter, STRING_FIELDS[self.keyword][0])
        return _matches(self.text.rstrip(" "), value.rstrip(" "))


@dataclass(frozen=True)
class NumberPattern:
    """One number; whoever takes any has no pattern."""

    keyword: str
    number: int

    def matches(self, letter: DeadLetter) -> bool:
        return bool(getattr(letter, NUMBER_FIELDS[self.keyword]) == self.number)


@dataclass(frozen=True)
class Rule:
    """Patterns, all of which a message has to match, and what is done with it then."""

    action: Action
    patterns: tuple[StringPattern | NumberPattern, ...] = ()
    """In the order of their keywords; a keyword that takes anything has none."""
    forward_queue: str = ""
    """FWDQ: a name, &DESTQ or &REPLYQ."""
    forward_queue_manager: str = ""
    """FWDQM: a name, &DESTQM, &REPLYQM, or "" the local queue manager."""
    keeps_header: bool = True
    """HEADER: whether what is forwarded keeps its dead-letter header."""
    authority: Authority = Authority.DEF
    retry_count: int = 1
    """RETRY: how often the action is tried."""
    line: int = field(default=0, compare=False)
    """Where it begins in the file."""

    def matches(self, letter: DeadLetter) -> bool:
        return all(pattern.matches(letter) for pattern in self.patterns)

    def destination(self, letter: DeadLetter) -> tuple[str, str]:
        """The queue, and the queue manager ("" the local one), that RETRY or FWD puts ``letter`` to."""
        if self.action is Action.RETRY:
            return letter.dest_queue, letter.dest_queue_manager
        queues = {DESTINATION_QUEUE: letter.dest_queue, REPLY_QUEUE: letter.reply_queue}
        managers = {
            DESTINATION_MANAGER: letter.dest_queue_manager,
            REPLY_MANAGER: letter.reply_queue_manager,
        }
        queue, manager = self.forward_queue, self.forward_queue_manager
        return queues.get(queue, queue), managers.get(manager, manager)


@dataclass(frozen=True)
class RulesTable:
    """What a file says: control data and at least one rule, which are tried from the top."""

    rules: tuple[Rule, ...]
    control: Control = Control()

    def __str__(self) -> str:
        """As a file that says the same, with nothing left to defaults."""
        entries = [_control_words(self.control)] + [_rule_words(rule) for rule in self.rules]
        return "\n".join(_broken(" ".join(words)) for words in entries) + "\n"


def _matches(pattern: str, value: str) -> bool:
    """Whether ``pattern`` with its wildcards covers all of ``value``, in time linear in both but for one
    product: after a ``*`` only the last one is ever tried again."""
    at = place = 0
    star = resume = -1
    while place < len(value):
        wanted = pattern[at : at + 1]
        if wanted == "*":
            star, resume = at, place
            at += 1
        elif wanted == "?" or (wanted and wanted == value[place]):
            at += 1
            place += 1
        elif star >= 0:
            resume += 1
            at, place = star + 1, resume
        else:
            return False
    return not pattern[at:].strip("*")


def _quoted(text: str) -> str:
    return "'" + (text or " ").replace("'", "''") + "'"


def _control_words(control: Control) -> list[str]:
    wait = {FOR_EVER: "YES", 0: "NO"}.get(control.wait_s, str(control.wait_s))
    return [
        f"INPUTQM({_quoted(control.input_queue_manager)})",
        f"INPUTQ({_quoted(control.input_queue)})",
        f"RETRYINT({control.retry_interval_s})",
        f"WAIT({wait})",
    ]


def _rule_words(rule: Rule) -> list[str]:
    words = [f"{each.keyword}({_value(each)})" for each in rule.patterns]
    words.append(f"ACTION({rule.action.value})")
    if rule.action is Action.FWD:
        words.append(f"FWDQ({_quoted(rule.forward_queue)})")
        words.append(f"FWDQM({_quoted(rule.forward_queue_manager)})")
        words.append(f"HEADER({'YES' if rule.keeps_header else 'NO'})")
    if rule.action in (Action.FWD, Action.RETRY):
        words.append(f"PUTAUT({rule.authority.value})")
    words.append(f"RETRY({rule.retry_count})")
    return words


def _value(pattern: StringPattern | NumberPattern) -> str:
    if isinstance(pattern, StringPattern):
        return _quoted(pattern.text)
    return name_of(pattern.keyword, pattern.number)


LINE_CHARS: Final = 71
"""A line has 72 significant characters, the last of which may be the sign that it goes on."""


def _broken(text: str) -> str:
    """One entry in as many lines as it takes.

    A part that begins with a blank is joined from the first column (``-``); any other is set in by one blank
    (``+``), so that it isn't taken for a comment if it begins with an asterisk.
    """
    lines = []
    indent = ""
    while len(indent + text) > LINE_CHARS + 1:
        size = LINE_CHARS - len(indent)
        line, text = indent + text[:size], text[size:]
        indent = "" if text[0] == " " else " "
        lines.append(line + ("+" if indent else "-"))
    return "\n".join([*lines, indent + text])
