"""What a client has seen across the lives of a broker, and what of it breaks a promise.

A message is a number. Each life ends by a kill; then everything that was in doubt may have gone either way,
and everything that was answered may not.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Discharge:
    """A transaction whose commit was asked for: its life, what it put, what it got, and what of that came
    again.
    """

    life: int
    puts: set[int]
    gets: set[int]
    returned: set[int] = field(default_factory=set)


class History:
    """One producer, one queue, one consumer. A method is a thing seen; `problems` names broken promises."""

    def __init__(self) -> None:
        self.sent: set[int] = set()
        self.accepted: set[int] = set()
        self.answered: set[int] = set()
        """Confirmed by the consumer, and the broker has answered."""
        self.unanswered: set[int] = set()
        """Confirmed by the consumer, not answered when its life ended, not seen since: gone or to return."""
        self.delivered_before: set[int] = set()
        self.problems: list[str] = []
        self.lives = 1
        self._in_doubt: list[Discharge] = []
        """Not answered."""
        self._got_in: dict[int, Discharge] = {}
        """In which of them a message was got that hasn't come again since."""
        self._this_life: set[int] = set()
        self._last = -1

    def saw_sent(self, number: int) -> None:
        """The producer has handed a message to its client library; it does so once, in order."""
        self.sent.add(number)

    def saw_accepted(self, number: int) -> None:
        """The broker has accepted it."""
        self.accepted.add(number)

    def saw_delivery(self, number: int, redelivered: bool) -> None:
        """The consumer has got it."""
        self._check_delivery(number, redelivered)
        self.unanswered.discard(number)
        if (discharge := self._got_in.pop(number, None)) is not None:
            discharge.returned.add(number)
        self.delivered_before.add(number)
        self._this_life.add(number)
        self._last = max(self._last, number)

    def _check_delivery(self, number: int, redelivered: bool) -> None:
        if number not in self.sent:
            self._problem(f"{number} was never sent")
        if number in self.answered:
            self._problem(f"{number} came back though its confirm was answered")
        if number in self._this_life:
            self._problem(f"{number} was delivered twice in one life")
        elif number in self.delivered_before and not redelivered:
            self._problem(f"{number} was delivered again and not flagged")
        if number < self._last:
            self._problem(f"{number} was delivered after {self._last}")

    def saw_confirm_sent(self, number: int) -> None:
        """The consumer has accepted it; no answer yet."""
        self.unanswered.add(number)

    def saw_confirm_answered(self, number: int) -> None:
        """The broker has settled it: it has the consumer's outcome for good."""
        self.unanswered.discard(number)
        self.answered.add(number)

    def saw_discharge_sent(self, puts: set[int], gets: set[int]) -> None:
        """A transaction's commit has been asked for; no answer yet. All of it happens or nothing."""
        discharge = Discharge(self.lives, puts, gets)
        self._in_doubt.append(discharge)
        self._got_in.update(dict.fromkeys(gets, discharge))
        self.unanswered |= gets

    def saw_discharge_answered(self) -> None:
        """The transaction asked for last is committed for good."""
        done = self._in_doubt.pop()
        self.accepted |= done.puts
        self.answered |= done.gets
        self.unanswered -= done.gets
        for number in done.gets:
            del self._got_in[number]

    def saw_end_of_life(self) -> None:
        """The broker is dead."""
        self.lives += 1
        self._this_life = set()
        self._last = -1

    def finish(self) -> None:
        """The queue has been emptied and every confirm answered: whatever was accepted is accounted for."""
        for number in sorted(self.accepted - self.answered - self.unanswered):
            self._problem(f"{number} was accepted and is lost")
        for discharge in self._in_doubt:
            happened = (discharge.puts & self.delivered_before) | (discharge.gets - discharge.returned)
            undone = (discharge.puts - self.delivered_before) | discharge.returned
            if happened and undone:
                torn = f"{sorted(happened)} happened, {sorted(undone)} did not"
                self.problems.append(f"life {discharge.life}: a transaction was torn: {torn}")

    def _problem(self, text: str) -> None:
        self.problems.append(f"life {self.lives}: message {text}")
