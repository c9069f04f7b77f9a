"""What clients have seen of one queue, over all members that have served it, and what of it breaks a promise.

A message is the name of its sender and a number, which the sender counts up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Sent(NamedTuple):
    """A message."""

    sender: str
    number: int

    def __str__(self) -> str:
        return f"{self.sender}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> Sent:
        """What ``str`` has written."""
        sender, _, number = text.rpartition("-")
        return cls(sender, int(number))


@dataclass
class Account:
    """A method is a thing seen; `problems` names the promises that were broken. One consumer at a time."""

    queue: str
    problems: list[str]
    is_ordered: bool = True
    """Whether what a sender sends comes in its order."""
    accepted: set[Sent] = field(default_factory=set)
    """It was answered that they are there, or that their transaction is committed."""
    undone: set[Sent] = field(default_factory=set)
    """Of transactions that were rolled back."""
    in_doubt: list[set[Sent]] = field(default_factory=list)
    """Of transactions whose commit had no answer: each whole or not at all."""
    arrived: set[Sent] = field(default_factory=set)
    answered: set[Sent] = field(default_factory=set)
    """Taken by the consumer, and it was answered that they are gone."""
    unanswered: set[Sent] = field(default_factory=set)
    """Taken by the consumer, without an answer, and not seen since: gone, or to come again."""
    repeats: int = 0
    """Deliveries of what was delivered before."""
    _furthest: dict[str, int] = field(default_factory=dict)
    _of_life: dict[str, int] = field(default_factory=dict)
    _life: int = -1

    def saw(self, sent: Sent, flagged: bool, life: int) -> None:
        """A delivery; `life`: number of the consumer's connection."""
        if life != self._life:
            self._life, self._of_life = life, {}
        if sent in self.answered:
            self._problem(f"{sent} came back though it was answered that it is gone")
        if sent in self.undone:
            self._problem(f"{sent} came though its transaction was rolled back")
        if sent in self.arrived:
            self.repeats += 1
            if not flagged:
                self._problem(f"{sent} came again and was not flagged")
        elif self.is_ordered and sent.number < self._furthest.get(sent.sender, -1):
            self._problem(f"{sent} came behind {sent.sender}-{self._furthest[sent.sender]}")
        if self.is_ordered and sent.number <= self._of_life.get(sent.sender, -1):
            self._problem(f"{sent} came behind {sent.sender}-{self._of_life[sent.sender]} of one connection")
        self._of_life[sent.sender] = sent.number
        self._furthest[sent.sender] = max(sent.number, self._furthest.get(sent.sender, -1))
        self.arrived.add(sent)
        self.unanswered.discard(sent)

    def took(self, sent: Sent) -> None:
        """The consumer has said that it has it; no answer yet."""
        self.unanswered.add(sent)

    def saw_answer(self, sent: Sent) -> None:
        """It is gone for good."""
        self.unanswered.discard(sent)
        self.answered.add(sent)

    def is_drained(self) -> bool:
        """Whether everything that was accepted has come, and is gone."""
        return self.accepted <= self.answered | self.unanswered

    def finish(self) -> None:
        """The queue is empty: whatever was accepted has come."""
        for sent in sorted(self.accepted - self.arrived):
            self._problem(f"{sent} was accepted and is lost")
        for batch in self.in_doubt:
            if batch & self.arrived and batch - self.arrived:
                here, gone = sorted(map(str, batch & self.arrived)), sorted(map(str, batch - self.arrived))
                self._problem(f"a transaction was torn: {here} came, {gone} did not")
        known = self.accepted.union(self.undone, *self.in_doubt)
        for sent in sorted(self.arrived - known):
            self._problem(f"{sent} came and was never sent, or never answered")

    def _problem(self, text: str) -> None:
        self.problems.append(f"queue {self.queue}: {text}")
