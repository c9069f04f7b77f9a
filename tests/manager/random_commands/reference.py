"""The rules once more, as plainly as can be: lists and loops, no ledger, no packing, no increments.

The random tests compare the queue manager with this, after every command.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from postroom.model.codes import Outcome
from tests.manager.random_commands.reference_destination import (
    AVAILABLE,
    DELAYED,
    GOT,
    GOT_BY_ID,
    GOT_BY_LOCK,
    HELD,
    LOCKED,
    ORDERED,
    PARKED,
    PUT,
    PUT_BY_ID,
    REQUESTED_DELAY_US,
    UNBORN,
    Message,
    Place,
    TopicPlace,
)
from tests.manager.random_commands.reference_quotas import Lines, Pool, Waiting, charges

STORE_HELD = (PUT_BY_ID, GOT_BY_ID, GOT_BY_LOCK, LOCKED)


@dataclass(eq=False)
class Lock:
    """A browse lock."""

    confirm: int
    until_us: int
    over: bool = False


@dataclass
class Answers:
    """What senders were told."""

    accepted: list[int] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)


class Reference:
    """All destinations, who waits for room, the locks, and the clock."""

    def __init__(self, places: list[Place], topics: list[TopicPlace]) -> None:
        self.places = {place.name: place for place in places}
        for place in places:
            if place.pool is not None:
                place.pool.places.append(place)
        self.topics = {topic.name: topic for topic in topics}
        self.lines = Lines()
        self.locks: dict[int, Lock] = {}
        self.answers = Answers()
        self.now_us = 0
        self._ranks = 0
        self._serials = 0
        self._tie = 0
        """While time passes: the rank of what comes to one queue from several, which has no order among
        itself."""

    def all_places(self) -> list[Place]:
        return list(self.places.values())

    def next_rank(self, place: Place) -> int:
        if self._tie and place.takes_children:
            return self._tie
        self._ranks += 1
        return self._ranks

    def last_rank(self) -> int:
        return self._ranks

    # Coming.

    def arrive(self, place: Place, message: Message) -> None:
        """A new entry; its state says by what right it is there."""
        self._serials += 1
        message.serial = self._serials
        place.arrived(message, self.now_us)
        if message.state == AVAILABLE:
            if message.due_us > self.now_us:
                message.state = UNBORN
            else:
                message.order = self.next_rank(place)

    def takers(self, waiting: Waiting) -> list[Place]:
        """Where the message goes."""
        if isinstance(waiting.to, Place):
            return [waiting.to]
        return [p for p in self.subscriptions(waiting.to) if p.wants(waiting.message, waiting.client)]

    def send(self, waiting: Waiting) -> None:
        """A producer puts or publishes: refused, blocked or taken."""
        if isinstance(waiting.to, Place) and waiting.to.closed():
            self.answers.rejected.append(waiting.token)
            return
        lacks = self.lines.lacks(self.takers(waiting), None)
        if lacks is None and not self.lines.of_link(waiting.link):
            self._take(waiting)
            return
        if waiting.at_once:
            self.answers.rejected.append(waiting.token)
            return
        waiting.pool = lacks or waiting.to.pool
        self.lines.all.append(waiting)
        waiting.to.blocked += 1
        waiting.to.blocked_total += 1

    def _take(self, waiting: Waiting) -> None:
        takers = self.takers(waiting)
        never = any(count > pool.most for pool, count in charges(takers).items())
        if waiting.to.closed() or any(place.closed() for place in takers) or never:
            self.answers.rejected.append(waiting.token)
            return
        if isinstance(waiting.to, TopicPlace):
            waiting.to.received += 1
            waiting.to.received_bytes += len(waiting.message.body)
            waiting.to.unrouted += not takers
        for place in takers:
            self.arrive(place, waiting.message.copy())
        self.answers.accepted.append(waiting.token)

    def let_in(self) -> None:
        """Until nobody can go in any more."""
        while any(self._goes_on(waiting) for waiting in list(self.lines.all)):
            pass

    def _goes_on(self, waiting: Waiting) -> bool:
        """Whether it goes in, or to the line of another pool."""
        if not self.lines.turn_of(waiting):
            return False
        lacks = self.lines.lacks(self.takers(waiting), waiting)
        if lacks is None:
            self.leave(waiting)
            self._take(waiting)
        elif lacks is not waiting.pool:
            waiting.pool = lacks
        else:
            return False
        return True

    def leave(self, waiting: Waiting) -> None:
        self.lines.all.remove(waiting)
        waiting.to.blocked -= 1
        waiting.to.blocked_us += self.now_us - waiting.since_us

    def refuse(self, found: list[Waiting]) -> None:
        for waiting in found:
            self.leave(waiting)
            self.answers.rejected.append(waiting.token)

    def waiting_for(self, to: Place | TopicPlace) -> list[Waiting]:
        return [waiting for waiting in self.lines.all if waiting.to is to]

    def blocked_in(self, transaction: object) -> list[Waiting]:
        return [waiting for waiting in self.lines.all if waiting.message.transaction is transaction]

    def subscriptions(self, topic: TopicPlace) -> Iterator[Place]:
        return (place for place in self.all_places() if place.matches(topic.name))

    # Going.

    def got(self, message: Message, transaction: object, verb: str, settled: bool) -> None:
        """A delivery is settled in a transaction."""
        self._serials += 1
        message.receipt = self._serials
        message.state, message.transaction = GOT, transaction
        message.settled, message.verb = settled, verb

    def end(self, place: Place, message: Message, outcome: Outcome) -> None:
        place.ended_one(message, outcome, self.now_us)

    def come_back(self, place: Place, message: Message, failed: bool, sent: bool, delay_us: int = 0) -> None:
        message.holder = message.transaction = None
        message.confirm = message.lock = 0
        message.deliveries += sent
        message.failures += failed
        if delay_us > 0:
            message.state, message.due_us = DELAYED, self.now_us + delay_us
        elif place.insertion:
            self._park(place, message)
        else:
            self._judge(place, message)

    def _park(self, place: Place, message: Message) -> None:
        message.state, message.due_us = PARKED, 0
        message.parked = self.next_rank(place)

    def _judge(self, place: Place, message: Message) -> None:
        """Nothing holds it any more: to its place, or out."""
        if place.over_limit(message):
            self.dead_letter(place, message)
            return
        message.state = AVAILABLE
        if not message.order:
            message.order = self.next_rank(place)
        if message.expired(self.now_us):
            self.expire(place, message)

    def expire(self, place: Place, message: Message) -> None:
        target = self.places.get(place.redirect)
        if target is not None:
            self._child(place, target, message)
        self.end(place, message, Outcome.EXPIRED if target is None else Outcome.REDIRECTED)

    def dead_letter(self, place: Place, message: Message) -> None:
        target = self.places.get(place.dead_letters)
        if target is not None:
            self._child(place, target, message)
        self.end(place, message, Outcome.DISCARDED if target is None else Outcome.DEAD_LETTERED)

    def _child(self, place: Place, target: Place, parent: Message) -> None:
        child = parent.child(place, 0)
        if target.insertion:
            child.state = PARKED
            child.parked = self.next_rank(target)
        self.arrive(target, child)

    def subscription(self, client: str, title: str, durable: bool) -> Place | None:
        """The one that is known by that."""
        known = (p for p in self.all_places() if p.pattern and not p.dismissed and p.title == title)
        return next((p for p in known if title and (p.client, not p.temporary) == (client, durable)), None)

    def add_subscription(self, place: Place) -> None:
        """Those to patterns have no topic's definition for a template."""
        topic = self.topics.get(place.pattern)
        if topic is not None:
            place.production, place.insertion = topic.production, topic.insertion
            place.consumption = topic.consumption
            place.limit, place.dead_letters = topic.limit, topic.dead_letters
            place.pool = topic.quota or (Pool(topic.most_each) if topic.most_each >= 0 else None)
        if place.pool is not None:
            place.pool.places.append(place)
        self.places[place.name] = place

    def remove(self, place: Place) -> None:
        """It is deleted with everything on it."""
        place.messages.clear()
        del self.places[place.name]
        if place.pool is not None:
            place.pool.places.remove(place)

    def switch(self, name: str, switch: str, on: bool) -> None:
        """Pause or resume a queue, or a topic with the subscriptions to it."""
        topic = self.topics.get(name)
        if topic is not None:
            setattr(topic, switch, on)
        for place in self.all_places():
            if place.name == name or (place.pattern == name and not place.dismissed):
                setattr(place, switch, on)
                if switch == "insertion" and not on:
                    self._release(place)

    def make_again(self, place: Place) -> None:
        """It was deleted with everything on it and about it, and another like it is there."""
        self.refuse(self.waiting_for(place))
        place.messages.clear()
        place.start_again()
        place.life += 1

    def purge(self, place: Place, outcome: Outcome) -> None:
        for message in list(place.messages):
            if message.state in (AVAILABLE, UNBORN, DELAYED, PARKED, ORDERED):
                self.end(place, message, outcome)

    def _release(self, place: Place) -> None:
        parked = sorted((m for m in place.messages if m.state == PARKED), key=lambda m: m.parked)
        ranks: dict[int, int] = {}
        for message in parked:
            if not message.order and not place.over_limit(message) and not message.expired(self.now_us):
                if message.parked not in ranks:
                    ranks[message.parked] = self.next_rank(place)
                message.order = ranks[message.parked]
            self._judge(place, message)

    # Time.

    def rest(self) -> None:
        """What is due at this moment, until nothing is."""
        self._ranks += 1
        self._tie = self._ranks
        for place in self.all_places():
            was = len(place.messages)
            self._end_delays(place)
            self._expire(place)
            self._end_leases(place)
            self.give_turns(place)
            if len(place.messages) < was and self.lines.all:
                self.let_in()  # before the next place: what ends there at this moment, too, comes too late
        self._tie = 0
        self.let_in()
        self.refuse([each for each in self.lines.all if each.due_us <= self.now_us])
        self.let_in()
        for place in self.all_places():
            self.give_turns(place)
        if any(place.expired(self.now_us) for place in self.all_places()):
            self.rest()

    def give_turns(self, place: Place) -> None:
        """Members of a unit of order wait from their being available until they are its first."""
        for message in sorted(place.messages, key=lambda m: m.serial):
            has_turn = place.has_turn(message)
            if message.state == AVAILABLE and not has_turn:
                message.state, message.due_us = ORDERED, 0
            elif message.state == ORDERED and has_turn:
                self._end_delay(place, message)

    def _end_delays(self, place: Place) -> None:
        waiting = [m for m in place.messages if m.state in (UNBORN, DELAYED, PARKED, ORDERED)]
        for message in sorted(waiting, key=lambda m: (m.moment_us(), m.serial)):
            if message.moment_us() <= self.now_us:
                self._end_delay(place, message)

    def _end_delay(self, place: Place, message: Message) -> None:
        if message.due_us > self.now_us:
            self.expire(place, message)
        elif place.over_limit(message):
            self.dead_letter(place, message)
        elif message.expired(self.now_us):
            self.expire(place, message)
        elif place.insertion:
            self._park(place, message)
        else:
            self._judge(place, message)

    def _expire(self, place: Place) -> None:
        for message in list(place.messages):
            if message.state == AVAILABLE and message.expired(self.now_us):
                self.expire(place, message)

    def _end_leases(self, place: Place) -> None:
        for id, lock in self.locks.items():
            if lock.until_us <= self.now_us and not lock.over:
                lock.over = True
                for message in [m for m in place.messages if m.state == LOCKED and m.lock == id]:
                    self.come_back(place, message, False, False)
        for message in list(place.messages):
            if message.state in STORE_HELD and message.expired(self.now_us):
                self.end(place, message, Outcome.EXPIRED)

    # Transactions.

    def commit(self, transaction: object) -> None:
        for place in self.all_places():
            for message in self.of(place, transaction, PUT):
                message.transaction = None
                self.complete(place, message)
        for place, message in self._receipts(transaction):
            self.settle(place, message, message.verb)

    def complete(self, place: Place, message: Message) -> None:
        """A put is confirmed: there, still to be born, or held back by a pause. It may expire next."""
        message.confirm = 0
        if message.due_us > self.now_us:
            message.state = UNBORN
        elif place.insertion:
            self._park(place, message)
        else:
            message.state, message.order = AVAILABLE, self.next_rank(place)

    def rollback(self, transaction: object) -> None:
        self.refuse(self.blocked_in(transaction))
        for place in self.all_places():
            for message in self.of(place, transaction, PUT):
                self.end(place, message, Outcome.ROLLED_BACK)
        for place, message in self._receipts(transaction):
            if message.settled or _is_gone(message.holder):
                self.come_back(place, message, True, True, place.delay_for(message))
            else:
                message.state, message.transaction = HELD, None

    def _receipts(self, transaction: object) -> list[tuple[Place, Message]]:
        """What was got in it, in the order in which it was settled."""
        got = [(p, m) for p in self.all_places() for m in self.of(p, transaction, GOT)]
        return sorted(got, key=lambda found: found[1].receipt)

    @staticmethod
    def of(place: Place, transaction: object, state: str) -> list[Message]:
        return [m for m in place.messages if m.transaction is transaction and m.state == state]

    def settle(self, place: Place, message: Message, verb: str) -> None:
        if verb == "accept":
            self.end(place, message, Outcome.CONSUMED)
        elif verb in ("release", "not here"):
            if verb == "not here" and message.holder in place.takers.present:
                message.not_for.append(message.holder)
            self.come_back(place, message, False, False)
        elif verb == "fail":
            self.come_back(place, message, True, True, place.delay_for(message))
        elif verb == "fail later":
            self.come_back(place, message, True, True, REQUESTED_DELAY_US)
        else:
            self.dead_letter(place, message)

    # The message store.

    def undo(self, place: Place, message: Message) -> None:
        if message.state == PUT_BY_ID:
            self.end(place, message, Outcome.ROLLED_BACK)
        elif message.state == GOT_BY_ID:
            self.come_back(place, message, place.undo_counts, True)
        elif message.state == LOCKED:
            self.come_back(place, message, False, False)
        else:
            message.state, message.confirm = LOCKED, 0
            if self.locks[message.lock].over:
                self.come_back(place, message, False, False)

    # Starting again.

    def restart(self) -> None:
        self.lines.all.clear()
        self.answers = Answers()
        for place in self.all_places():
            is_kept = any(_is_of_sink(message) for message in place.messages)
            if place.temporary and not is_kept:
                self.remove(place)
                continue
            place.start_again()
            for message in list(place.messages):
                self._restart_one(place, message)
            if place.temporary:
                self.purge(place, Outcome.DELETED)
                place.dismissed = True
            self._release(place)
        for topic in self.topics.values():
            topic.start_again()

    def _restart_one(self, place: Place, message: Message) -> None:
        message.parked = message.serial
        if _is_of_sink(message):
            return
        if message.state == PUT:
            self.end(place, message, Outcome.ROLLED_BACK)
        elif not message.durable and not message.in_pieces:
            self.end(place, message, Outcome.LOST)
        elif message.state in (HELD, GOT) and not message.spark:
            message.holder = message.transaction = None
            message.deliveries += 1
            message.state = AVAILABLE


def _is_of_sink(message: Message) -> bool:
    """Whether it lies in the branch of a Spark sink, which goes by its name."""
    return message.state == PUT and isinstance(message.transaction, str)


def _is_gone(holder: object) -> bool:
    return getattr(holder, "closed", False) or getattr(holder, "suspended", False)
