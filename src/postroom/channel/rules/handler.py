"""What the dead-letter queue handler does: messages that were found go in, what is to be done comes out.

For each message the rules are tried from the top. The first that matches is applied: its action is tried as
often as it says (RETRY), RETRYINT apart. When all tries have failed, the search goes on with the next rule
that matches. Where none is left the message is ignored: it stays on the queue, and this handler leaves it
alone from then on, as it does with what has no dead-letter header.

Pure: whoever owns the handler carries its attempts out, and says how they went.
"""

from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush
from typing import Final, final

from postroom.channel.rules.letter import DeadLetter
from postroom.channel.rules.table import FOR_EVER, Action, Rule, RulesTable

US_A_SECOND: Final = 1_000_000


class Why(Enum):
    """Why a message stays where it is."""

    NO_HEADER = "it has no dead-letter header"
    NO_RULE = "no rule matches it"
    RULE = "a rule says that it stays"
    ALL_FAILED = "every rule that matches it has failed"


@dataclass(frozen=True)
class Left:
    """A message that stays on the queue, and that the handler doesn't look at again."""

    key: int
    why: Why
    rule: Rule | None = None
    """That says so, or that was tried last."""


@dataclass(frozen=True)
class Attempt:
    """Carry out ``rule.action`` with the message ``key``, and say how it went: `done` or `failed`."""

    key: int
    letter: DeadLetter
    rule: Rule
    number: int
    """The first is 1."""

    @property
    def destination(self) -> tuple[str, str]:
        """The queue, and the queue manager ("" the local one), that the message goes to."""
        return self.rule.destination(self.letter)

    @property
    def keeps_header(self) -> bool:
        """Whether it goes there with its dead-letter header."""
        return self.rule.action is Action.FWD and self.rule.keeps_header


@final
class _Case:
    """A message that something is still to be done with."""

    def __init__(self, letter: DeadLetter) -> None:
        self.letter = letter
        self.rule = -1
        """Its place in the table; −1 before the first."""
        self.tries = 0
        """Of the rule's action."""


@final
class Handler:
    """Applies one table. Keys are the caller's; times are µs of any clock that doesn't go back."""

    def __init__(self, table: RulesTable, now_us: int) -> None:
        self._rules = table.rules
        self._interval_us = table.control.retry_interval_s * US_A_SECOND
        self._wait_s = table.control.wait_s
        self._cases: dict[int, _Case] = {}
        self._due: list[tuple[int, int, int]] = []
        """When, in which order, which message; of messages that are gone, too."""
        self._count = 0
        self._busy_us = now_us
        """When there was something to do last."""

    @property
    def held_count(self) -> int:
        """Messages that wait for an attempt, or are under way."""
        return len(self._cases)

    def found(self, key: int, letter: DeadLetter | None, now_us: int) -> Left | None:
        """A message is on the queue that wasn't told before; None: it is to be waited for an attempt."""
        self._busy_us = now_us
        if letter is None:
            return Left(key, Why.NO_HEADER)
        self._cases[key] = _Case(letter)
        return self._next_rule(key, now_us)

    def attempt(self, now_us: int) -> Attempt | None:
        """What is to be done now, once; None if there is nothing before `next_due_us`."""
        while self._due and self._due[0][0] <= now_us:
            key = heappop(self._due)[2]
            case = self._cases.get(key)
            if case is not None:
                case.tries += 1
                self._busy_us = now_us
                return Attempt(key, case.letter, self._rules[case.rule], case.tries)
        return None

    def next_due_us(self) -> int:
        """When an attempt is due; 0 if none is."""
        return self._due[0][0] if self._due else 0

    def done(self, key: int, now_us: int) -> None:
        """The attempt has succeeded, or the message is gone from the queue otherwise."""
        self._cases.pop(key, None)
        self._busy_us = now_us

    def failed(self, key: int, now_us: int) -> Left | None:
        """The attempt has failed; what is returned stays on the queue."""
        self._busy_us = now_us
        case = self._cases.get(key)
        if case is None:
            return None
        if case.tries < self._rules[case.rule].retry_count:
            self._schedule(key, now_us + self._interval_us)
            return None
        return self._next_rule(key, now_us)

    def ends_us(self) -> int:
        """When it is to end, if nothing new is found until then; 0: never, or not before what is left to do
        is done."""
        if self._wait_s == FOR_EVER or self._cases:
            return 0
        return self._busy_us + self._wait_s * US_A_SECOND

    def _next_rule(self, key: int, now_us: int) -> Left | None:
        case = self._cases[key]
        tried = case.rule
        for place in range(tried + 1, len(self._rules)):
            rule = self._rules[place]
            if rule.matches(case.letter):
                if rule.action is Action.IGNORE:
                    return self._left(key, Why.RULE, rule)
                case.rule, case.tries = place, 0
                self._schedule(key, now_us)
                return None
        if tried < 0:
            return self._left(key, Why.NO_RULE, None)
        return self._left(key, Why.ALL_FAILED, self._rules[tried])

    def _left(self, key: int, why: Why, rule: Rule | None) -> Left:
        del self._cases[key]
        return Left(key, why, rule)

    def _schedule(self, key: int, due_us: int) -> None:
        self._count += 1
        heappush(self._due, (due_us, self._count, key))
