"""What must be true of every message, whatever happened: the promises of the design, kept beside the broker.

The oracle hears what clients did and what they were told, and nothing of how the broker works. Each message
has an id of its own in its body. A `Broken` promise names the message and what was seen.
"""

from dataclasses import dataclass, field, replace
from enum import Enum


class Broken(AssertionError):
    """A promise was broken."""


class Answer(Enum):
    """What the sender of a message knows."""

    UNKNOWN = "unknown"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    ROLLED_BACK = "rolled back"


@dataclass
class Fate:
    """Everything the clients know of one message."""

    id: int
    queue: str
    stream: tuple[str, int]
    """Producer and priority: order is promised within it and the queue."""
    durable: bool
    expiry_us: int
    unit: "Unit | None"
    answer: Answer = Answer.UNKNOWN
    accepted_in_life: int = 0
    deliveries: int = 0
    settled_by: str = ""
    """The outcome that a consumer gave and the broker has answered, or "" while none."""
    given: set[str] = field(default_factory=set)
    """Outcomes that consumers gave, answered or not."""
    lost_possible: bool = False
    order_perturbed: bool = False
    released: bool = False
    """A consumer has released it: it may come again uncounted."""
    due_us: int = 0
    """Not to be delivered before; 0 at once."""
    number: int = 0
    """What selectors ask for."""
    copies: "list[Fate]" = field(default_factory=list)
    """Of a publish: its entries on the other subscriptions."""
    has_dead_letters: bool = True
    """Whether it is kept when it is rejected."""
    locked_until_us: int = 0
    """A lock was answered, and nobody has lifted it."""


@dataclass(eq=False)
class Unit:
    """A transaction: its messages stand or fall together."""

    decision: str = "open"
    """open, committing, committed, rolled back, unknown"""
    sent: list[Fate] = field(default_factory=list)
    received: list[Fate] = field(default_factory=list)


class Oracle:
    """Judges one run."""

    def __init__(self, dead_letter_queue: str, judges_order: bool) -> None:
        self.judges_order = judges_order
        self.may_refuse = False
        """Sends can be refused, so that a transaction may hold less than was sent in it."""
        self.fates: dict[tuple[int, str], Fate] = {}
        """By id and queue."""
        self._first: dict[int, Fate] = {}
        self.life = 1
        """Counts the broker's processes: each crash ends one."""
        self.dead_letter_queue = dead_letter_queue
        self._newest: dict[tuple[str, str, tuple[str, int]], int] = {}
        self.checks = 0

    def sent(
        self, queue: str, stream: tuple[str, int], durable: bool, expiry_us: int, unit: Unit | None
    ) -> Fate:
        fate = Fate(len(self._first) + 1, queue, stream, durable, expiry_us, unit)
        self.fates[fate.id, queue] = self._first[fate.id] = fate
        if unit is not None:
            unit.sent.append(fate)
        return fate

    def published(self, first: Fate, subscriptions: list[str]) -> None:
        """``first`` was sent to a topic: it has a copy on each further subscription."""
        for name in subscriptions:
            copy = replace(first, queue=name, copies=[], given=set())
            self.fates[first.id, name] = copy
            first.copies.append(copy)
            if first.unit is not None:
                first.unit.sent.append(copy)

    def fate_of(self, id: int, queue: str) -> Fate | None:
        """What is known of the message ``id`` that stands on ``queue``, perhaps as a dead letter."""
        fate = self.fates.get((id, queue))
        if fate is None and queue == self.dead_letter_queue:
            return self._first.get(id)
        return fate

    def answered(self, fate: Fate, answer: Answer) -> None:
        for one in (fate, *fate.copies):
            one.answer = answer
            one.accepted_in_life = self.life

    def delivered(self, id: int, queue: str, count: int, consumer: str, now_us: int) -> Fate:
        """``consumer`` was given message ``id`` with this delivery count."""
        self.checks += 1
        fate = self.fate_of(id, queue)
        if fate is None:
            raise Broken(f"message {id} was delivered from {queue} and never sent there")
        if now_us < fate.due_us:
            raise Broken(f"message {id} was delivered {fate.due_us - now_us} us before its time")
        if now_us < fate.locked_until_us:
            raise Broken(f"message {id} was delivered from {queue} while it is locked")
        if queue not in (fate.queue, self.dead_letter_queue):
            raise Broken(f"message {id} was sent to {fate.queue} and delivered from {queue}")
        self._check_not_over(fate, queue)
        if fate.unit is not None and fate.unit.decision in ("open", "rolled back"):
            raise Broken(f"message {id} was delivered though its transaction is {fate.unit.decision}")
        if queue == fate.queue:
            if fate.deliveries and count == 0 and not fate.released:
                raise Broken(f"message {id} was delivered again with a delivery count of 0")
            self._check_order(fate, count, consumer)
            fate.deliveries += 1
        return fate

    def _check_not_over(self, fate: Fate, queue: str) -> None:
        over = fate.settled_by in ("accepted", "pre-settled")
        if over or (fate.settled_by == "rejected" and queue == fate.queue):
            raise Broken(f"message {fate.id} was delivered again though {fate.settled_by} had been answered")
        if fate.answer in (Answer.REFUSED, Answer.ROLLED_BACK):
            raise Broken(f"message {fate.id} was delivered though it was {fate.answer.value}")

    def _check_order(self, fate: Fate, count: int, consumer: str) -> None:
        first_time = not (fate.deliveries or count or fate.order_perturbed)
        if not (self.judges_order and first_time and fate.unit is None):
            return
        key = (consumer, fate.queue, fate.stream)
        newest = self._newest.get(key, 0)
        if fate.id < newest:
            raise Broken(f"message {fate.id} of {key} came for the first time after message {newest}")
        self._newest[key] = fate.id

    def gave(self, fate: Fate, outcome: str) -> None:
        fate.given.add(outcome)

    def settled(self, fate: Fate, outcome: str) -> None:
        """The broker has answered a consumer's outcome: it holds from now on."""
        fate.settled_by = outcome

    def deliveries_returned(self, queue: str, lost: bool) -> None:
        """What was on its way to a consumer goes back unseen, so it may come after newer ones.

        ``lost``: the consumer is gone and took pre-settled, so what was on its way is nowhere.
        """
        for fate in self.fates.values():
            if queue in (fate.queue, self.dead_letter_queue) and not fate.settled_by:
                fate.order_perturbed = True
                fate.lost_possible = fate.lost_possible or lost

    def crashed(self) -> None:
        """The process is gone: what was unanswered stays unknown, non-persistent messages may be lost."""
        self.life += 1
        self._newest.clear()
        for fate in self.fates.values():
            fate.order_perturbed = True
            if not fate.durable:
                fate.lost_possible = True
            if fate.unit is not None and fate.unit.decision in ("open", "committing"):
                self._end_unit(fate.unit)

    def _end_unit(self, unit: Unit) -> None:
        if unit.decision == "open":
            unit.decision = "rolled back"
            for fate in unit.sent:
                fate.answer = Answer.ROLLED_BACK
        else:
            unit.decision = "unknown"

    def decided(self, unit: Unit, committed: bool) -> None:
        """The coordinator has answered."""
        unit.decision = "committed" if committed else "rolled back"
        for fate in unit.sent:
            if fate.answer is not Answer.REFUSED:
                self.answered(fate, Answer.ACCEPTED if committed else Answer.ROLLED_BACK)
        if committed:
            for fate in unit.received:
                self.settled(fate, "accepted")

    def final(self, remaining: dict[str, list[int]], now_us: int) -> None:
        """Everything that was left on the queues has been read: does it add up?"""
        places: dict[tuple[int, str], list[str]] = {}
        for queue, ids in remaining.items():
            for id in ids:
                fate = self.fate_of(id, queue)
                if fate is None:
                    raise Broken(f"message {id} is on {queue} and was never sent there")
                places.setdefault((id, fate.queue), []).append(queue)
        for fate in self.fates.values():
            self._check_final(fate, places.get((fate.id, fate.queue), []), now_us)
        for queue, ids in remaining.items():
            if queue != self.dead_letter_queue:
                self._check_places(queue, ids)
        for unit in {fate.unit for fate in self.fates.values() if fate.unit is not None}:
            if not self.may_refuse:
                _check_unit(unit, remaining)

    def _check_places(self, queue: str, ids: list[int]) -> None:
        """What came back came back to its place: one reader of a quiet queue sees the order of sending."""
        newest: dict[tuple[str, int], int] = {}
        for id in ids:
            fate = self.fates[id, queue]
            if fate.due_us:
                continue
            if fate.unit is None and id < newest.get(fate.stream, 0):
                raise Broken(f"message {id} of {fate.stream} stands on {queue} behind {newest[fate.stream]}")
            newest[fate.stream] = max(id, newest.get(fate.stream, 0))

    def _check_final(self, fate: Fate, places: list[str], now_us: int) -> None:
        self.checks += 1
        if len(places) > 1:
            raise Broken(f"message {fate.id} is on {places}: it was made twice")
        if fate.answer is not Answer.ACCEPTED or places:
            return
        excused = fate.given or fate.lost_possible or (fate.expiry_us and now_us >= fate.expiry_us)
        if not excused:
            raise Broken(
                f"message {fate.id} was accepted for {fate.queue} in life {fate.accepted_in_life} and is lost"
            )
        if fate.settled_by == "rejected" and fate.has_dead_letters and not fate.lost_possible:
            raise Broken(f"message {fate.id} was rejected and is not on {self.dead_letter_queue}")


def _check_unit(unit: Unit, remaining: dict[str, list[int]]) -> None:
    """All or nothing, also where nobody knows which."""
    if unit.decision != "unknown":
        return
    left = {id for ids in remaining.values() for id in ids}
    seen = [f.id in left or f.deliveries > 0 for f in unit.sent if not (f.lost_possible or f.expiry_us)]
    if any(seen) and not all(seen):
        raise Broken(f"of the transaction's messages {[f.id for f in unit.sent]} only some are there: {seen}")
