"""The rules once more, as plainly as can be: lists and loops, no ledger, no packing, no increments.

The random tests compare the queue manager with this.
"""

from collections import Counter
from dataclasses import dataclass, field

from postroom.model.codes import Outcome

AVAILABLE = "current"
HELD = "unacknowledged"
UNBORN = "unborn"
DELAYED = "redelivery_delay"
PUT_IN_TRANSACTION = "uncommitted_put"
GOT_IN_TRANSACTION = "uncommitted_get"


@dataclass
class Message:
    body: bytes
    priority: int
    durable: bool
    expiry_us: int
    state: str = AVAILABLE
    order: int = 0
    """Rank of its first availability; 0 while it has never been available."""
    serial: int = 0
    due_us: int = 0
    holder: object = None
    transaction: object = None
    settled: bool = True
    verb: str = "accept"
    deliveries: int = 0
    failures: int = 0

    def expired(self, now_us: int) -> bool:
        return self.expiry_us != 0 and self.expiry_us <= now_us


def _is_gone(holder: object) -> bool:
    return getattr(holder, "closed", False) or getattr(holder, "suspended", False)


@dataclass
class Place:
    """One queue."""

    name: str
    limit: int = -1
    delay_us: int = 0
    dead_letters: str = ""
    messages: list[Message] = field(default_factory=list)
    ended: Counter[Outcome] = field(default_factory=Counter)
    received: int = 0

    def available(self) -> list[Message]:
        found = [message for message in self.messages if message.state == AVAILABLE]
        return sorted(found, key=lambda message: (-message.priority, message.order))

    def counts(self) -> dict[str, tuple[int, int]]:
        states = (AVAILABLE, HELD, UNBORN, DELAYED, PUT_IN_TRANSACTION, GOT_IN_TRANSACTION)
        return {state: self._count(state) for state in states}

    def _count(self, state: str) -> tuple[int, int]:
        sizes = [len(message.body) for message in self.messages if message.state == state]
        return len(sizes), sum(sizes)


class Reference:
    """All queues, and the clock."""

    def __init__(self, places: list[Place]) -> None:
        self.places = {place.name: place for place in places}
        self.now_us = 0
        self._ranks = 0
        self._serials = 0

    def next_rank(self) -> int:
        self._ranks += 1
        return self._ranks

    def arrive(self, place: Place, message: Message, delay_us: int) -> None:
        self._serials += 1
        message.serial = self._serials
        place.received += 1
        place.messages.append(message)
        if message.transaction is not None:
            message.state = PUT_IN_TRANSACTION
            message.due_us = self.now_us + delay_us if delay_us else 0
        elif delay_us:
            message.state = UNBORN
            message.due_us = self.now_us + delay_us
        else:
            message.order = self.next_rank()

    def end(self, place: Place, message: Message, outcome: Outcome) -> None:
        place.messages.remove(message)
        place.ended[outcome] += 1

    def come_back(self, place: Place, message: Message, failed: bool, sent: bool, delayed: bool) -> None:
        message.holder = message.transaction = None
        message.deliveries += sent
        message.failures += failed
        if delayed and place.delay_us:
            message.state = DELAYED
            message.due_us = self.now_us + place.delay_us
            return
        self._judge(place, message)

    def _judge(self, place: Place, message: Message) -> None:
        if 0 <= place.limit < message.failures:
            self.dead_letter(place, message)
            return
        message.state = AVAILABLE
        if not message.order:
            message.order = self.next_rank()
        if message.expired(self.now_us):
            self.end(place, message, Outcome.EXPIRED)

    def dead_letter(self, place: Place, message: Message) -> None:
        target = self.places.get(place.dead_letters)
        if target is None:
            self.end(place, message, Outcome.DISCARDED)
            return
        child = Message(message.body, message.priority, message.durable, 0)
        self.arrive(target, child, 0)
        self.end(place, message, Outcome.DEAD_LETTERED)

    def pass_time(self, now_us: int) -> None:
        """Everything that is due, and everything whose time is over."""
        self.now_us = now_us
        for place in self.places.values():
            for message in list(place.messages):
                waiting = message.state in (AVAILABLE, UNBORN, DELAYED)
                over = 0 <= place.limit < message.failures and message.due_us <= now_us
                if waiting and message.expired(now_us) and not (message.state == DELAYED and over):
                    self.end(place, message, Outcome.EXPIRED)
            due = [m for m in place.messages if m.state in (UNBORN, DELAYED) and m.due_us <= now_us]
            for message in sorted(due, key=lambda m: (m.due_us, m.serial)):
                self._judge(place, message)

    def commit(self, transaction: object) -> None:
        for place in self.places.values():
            for message in self.of(place, transaction, PUT_IN_TRANSACTION):
                message.transaction = None
                message.state = UNBORN
                if message.due_us <= self.now_us:
                    self._judge(place, message)
                elif message.expired(self.now_us):
                    self.end(place, message, Outcome.EXPIRED)
        for place in self.places.values():
            for message in self.of(place, transaction, GOT_IN_TRANSACTION):
                self.settle(place, message, message.verb)

    def rollback(self, transaction: object) -> None:
        for place in self.places.values():
            for message in self.of(place, transaction, PUT_IN_TRANSACTION):
                self.end(place, message, Outcome.ROLLED_BACK)
            for message in self.of(place, transaction, GOT_IN_TRANSACTION):
                if message.settled or _is_gone(message.holder):
                    self.come_back(place, message, True, True, True)
                else:
                    message.state, message.transaction = HELD, None

    @staticmethod
    def of(place: Place, transaction: object, state: str) -> list[Message]:
        return [m for m in place.messages if m.transaction is transaction and m.state == state]

    def settle(self, place: Place, message: Message, verb: str) -> None:
        if verb == "accept":
            self.end(place, message, Outcome.CONSUMED)
        elif verb == "release":
            self.come_back(place, message, False, False, False)
        elif verb == "fail":
            self.come_back(place, message, True, True, True)
        else:
            self.dead_letter(place, message)

    def restart(self) -> None:
        for place in self.places.values():
            place.ended.clear()
            place.received = 0
            for message in list(place.messages):
                if message.state == PUT_IN_TRANSACTION:
                    self.end(place, message, Outcome.ROLLED_BACK)
                elif not message.durable:
                    self.end(place, message, Outcome.LOST)
                elif message.state in (HELD, GOT_IN_TRANSACTION):
                    message.holder = message.transaction = None
                    message.deliveries += 1
                    message.state = AVAILABLE
        self.pass_time(self.now_us)
