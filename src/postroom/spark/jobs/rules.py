"""The rules of a triage: a TOML file with a list of rules, the first of which that holds decides. Pure."""

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from postroom.manager.administration.message_jobs import ACTIONS, DISCARD, FORWARD, LEAVE, REPLAY
from postroom.manager.kernel.options import KIND_QUEUE, KIND_SUBSCRIPTION
from postroom.manager.names.remote_queue_definition import KIND_REMOTE
from postroom.server.configuration.toml_lines import line_of
from postroom.spark.data_source.option_names import nearest
from postroom.spark.jobs.errors import RulesInvalid

MAX_RULES: Final = 1000
MAX_RULES_BYTES: Final = 1 << 20
MAX_NAME_CHARS: Final = 100

ELSEWHERE: Final = "@"
"""In `to`, before the queue manager."""
TARGETS: Final = (KIND_QUEUE, KIND_SUBSCRIPTION, KIND_REMOTE)
"""Kinds of what messages can be sent to."""

_RULE: Final = "rule"
_KEYS: Final = ("name", "when", "action", "to")


@dataclass(frozen=True, slots=True)
class Rule:
    """What is done with the messages for which `when` is true and no rule before it was."""

    name: str
    when: str
    """An expression of Spark SQL."""
    action: str
    to: str
    """The queue that takes them: of forward always, of replay perhaps."""
    line: int
    """Where it stands in the file."""


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of a file, in their order."""

    source: str
    """What people call it."""
    rules: tuple[Rule, ...]
    digest: str
    """Of what they say, whatever they are called and however they are laid out."""

    def actions(self) -> frozenset[str]:
        """What they do."""
        return frozenset(rule.action for rule in self.rules)

    def line(self, rule: Rule, why: str) -> str:
        """What is wrong with one of them."""
        return f"{self.source}, line {rule.line}: rule {rule.name!r}: {why}"


def read_rules(file: Path) -> Rules:
    """Raises ``RulesInvalid``, which says all that is wrong in as many lines."""
    try:
        size = file.stat().st_size
        if size > MAX_RULES_BYTES:
            raise RulesInvalid(f"{file} has {size:,} bytes; rules have at most {MAX_RULES_BYTES:,}")
        text = file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise RulesInvalid(f"{file} is no UTF-8 text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise RulesInvalid(f"{file}: {error.strerror}") from None
    return parse_rules(text, str(file))


def parse_rules(text: str, source: str) -> Rules:
    """Rules as text; `source` is what errors call it. Raises ``RulesInvalid``."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RulesInvalid(f"{source}: {error}") from None
    reader = _Reader(text, source)
    rules = reader.rules(document)
    if reader.findings:
        raise RulesInvalid("\n".join(reader.findings))
    return Rules(source, rules, digest_of(rules))


def check_targets(rules: Rules, kinds: Mapping[str, str]) -> None:
    """Whether what rules send messages to is there; `kinds` of what is, by name. A queue of another queue
    manager is its own to know. Raises ``RulesInvalid``, with a line for each that isn't."""
    wrong = [rules.line(rule, why) for rule in rules.rules if (why := _why_no_target(rule.to, kinds))]
    if wrong:
        raise RulesInvalid("\n".join(wrong))


def _why_no_target(to: str, kinds: Mapping[str, str]) -> str:
    """Why nothing can be sent there; "" if it can, or nothing is."""
    if not to or ELSEWHERE in to or kinds.get(to) in TARGETS:
        return ""
    if to in kinds:
        return f"`to` is the {kinds[to]} {to!r}: messages can be sent to queues only"
    near = nearest(to, [name for name, kind in kinds.items() if kind in TARGETS])
    return f"`to`: there is no queue {to!r}" + (f"; did you mean {near!r}?" if near else "")


def digest_of(rules: Iterable[Rule]) -> str:
    """The same for rules that do the same."""
    text = "\n".join(repr((rule.when, rule.action, rule.to)) for rule in rules)
    return hashlib.sha256(text.encode()).hexdigest()


class _Reader:
    """Takes a document apart, and notes what is wrong in it, with its line."""

    def __init__(self, text: str, source: str) -> None:
        self._text: Final = text
        self._source: Final = source
        self.findings: Final[list[str]] = []

    def _wrong(self, path: tuple[str | int, ...], why: str) -> None:
        self.findings.append(f"{self._source}, line {line_of(self._text, path)}: {why}")

    def rules(self, document: Mapping[str, Any]) -> tuple[Rule, ...]:
        for key in document.keys() - {_RULE}:
            self._wrong((key,), f"there is no setting {key!r}: a file has rules, each under [[{_RULE}]]")
        tables = document.get(_RULE, [])
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            self._wrong((_RULE,), f"rules are a list: each begins with [[{_RULE}]]")
            return ()
        if not tables:
            self._wrong((), f"there is no rule: each begins with [[{_RULE}]]")
        if len(tables) > MAX_RULES:
            self._wrong((), f"there are {len(tables):,} rules; at most {MAX_RULES:,} are allowed")
            return ()
        found = [rule for number, each in enumerate(tables) if (rule := self._rule(number, each)) is not None]
        self._check_names(found)
        return tuple(found)

    def _rule(self, number: int, table: dict[str, Any]) -> Rule | None:
        before = len(self.findings)
        for key in sorted(table.keys() - set(_KEYS)):
            self._wrong((_RULE, number, key), f"a rule has no setting {key!r}: {', '.join(_KEYS)}")
        texts = {key: self._text_of(number, table, key) for key in _KEYS}
        name = texts["name"] or f"rule {number + 1}"
        self._check(number, texts, name)
        if len(self.findings) > before:
            return None
        line = line_of(self._text, (_RULE, number))
        return Rule(name, texts["when"], texts["action"], texts["to"], line)

    def _text_of(self, number: int, table: dict[str, Any], key: str) -> str:
        value = table.get(key, "")
        if not isinstance(value, str):
            self._wrong((_RULE, number, key), f"{key} is {value!r}, must be text")
            return ""
        return value.strip()

    def _check(self, number: int, texts: Mapping[str, str], name: str) -> None:
        path = (_RULE, number)
        if len(name) > MAX_NAME_CHARS or not name.isprintable():
            self._wrong((*path, "name"), f"a name has at most {MAX_NAME_CHARS} printable characters")
        if not texts["when"]:
            self._wrong((*path, "when"), f"rule {name!r} has no `when`: an expression of Spark SQL, or true")
        *others, last = ACTIONS
        if texts["action"] not in ACTIONS:
            self._wrong(
                (*path, "action"),
                f"rule {name!r}: action is {texts['action']!r}, must be {', '.join(others)} or {last}",
            )
        elif texts["action"] == FORWARD and not texts["to"]:
            self._wrong((*path, "action"), f"rule {name!r} forwards and has no `to`, the queue")
        elif texts["action"] in (DISCARD, LEAVE) and texts["to"]:
            self._wrong(
                (*path, "to"), f"rule {name!r} has a `to`, which only {FORWARD} and {REPLAY} can have"
            )

    def _check_names(self, rules: list[Rule]) -> None:
        known: dict[str, int] = {}
        for rule in rules:
            if rule.name in known:
                line = known[rule.name]
                self.findings.append(
                    f"{self._source}, line {rule.line}: rule {rule.name!r} has its name from line {line}"
                )
            known.setdefault(rule.name, rule.line)
