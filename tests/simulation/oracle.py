"""What must be true of every message, whatever happened: the promises of the design, kept beside the broker.

The oracle hears what clients did and what they were told, and nothing of how the broker works. Each message
has an id of its own in its body. A `Broken` promise names the message and what was seen.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from postroom.amqp.message.sections import Header

NEVER_US = 1 << 62
REMADE = "remade"
"""The queue that is deleted, past transactions too, and created anew."""
OVER = ("accepted", "pre-settled", "deleted")
"""Outcomes after which there is nothing more."""
Line = tuple[tuple[str, int], str]


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
    sightings: int = 0
    """How often somebody saw it: deliveries, and what the message store and browsers show."""
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
    failed_until_us: int = 0
    """Somebody who is still there has given it back as failed: not to be delivered before; 0 at once."""
    failed_us: int = -1
    """When somebody gave it back as failed last; -1 nobody has."""
    copies: "list[Fate]" = field(default_factory=list)
    """Of a publish: its entries on the other subscriptions."""
    has_dead_letters: bool = True
    """Whether it is kept when it is rejected."""
    withheld_until_us: int = 0
    """Whatever was answered and whatever was not: until then a confirm id or a lock keeps it from others, or
    it is gone."""
    kept_by: int = 0
    """The confirm id that it came under last."""
    unconfirmed: bool = False
    """Put under a confirm id that cannot have been confirmed."""
    holder: str = ""
    """Who has been given it and has neither settled it nor gone."""
    may_go_back: bool = False
    """Its transaction has something of a queue that is deleted by force, and may be rolled back at any
    time."""
    failures: int = 0
    """Times that it was given back as failed, and that was answered."""
    published: bool = False
    accepted_at: int = 0
    """When its sender knew that it was accepted, by `Oracle.moment`; 0 before."""
    sent_at: int = 0
    changed_by: str = ""
    """Who is about to delete or move it."""
    may_be_on: list[str] = field(default_factory=list)
    """Where it may have been moved to."""
    acquired: bool = False
    """Whether a link has been given it."""
    moved: bool = False
    left: list[str] = field(default_factory=list)
    """Where it was before it was moved: somebody may have been shown it there, and hear of it later."""


@dataclass(eq=False)
class Subscribed:
    """A subscription that lives no longer than its links."""

    name: str
    requested_at: int
    """When its first link requested it, by `Oracle.moment`."""
    number: int | None
    """What its selector wants; None everything."""
    links: int = 0
    attached: int = 0
    """Links that know of it: what is published is for it, too."""
    excludes: str = ""
    """Whose messages are not for it."""

    def wants(self, fate: Fate) -> bool:
        if fate.stream[0] == self.excludes:
            return False
        return self.number is None or fate.id % 3 == self.number


@dataclass(eq=False)
class Unit:
    """A transaction: its messages stand or fall together."""

    decision: str = "open"
    """open, committing, committed, rolled back, unknown; of a branch also prepared (or about to be), and
    deciding: then no crash decides it"""
    sent: list[Fate] = field(default_factory=list)
    received: list[Fate] = field(default_factory=list)
    """Accepted in it."""
    sightings: dict[int, int] = field(default_factory=dict)
    """Of what was received, by id: how often it had been seen until then."""

    touched: list[Fate] = field(default_factory=list)
    """Sent, received, or acquired in it."""
    may_be_forced: bool = False
    """Some of them are on a queue that is deleted by force."""

    def touch(self, fate: Fate) -> None:
        self.touched.append(fate)
        self.may_be_forced = self.may_be_forced or fate.queue == REMADE
        if self.may_be_forced:
            for each in self.touched:
                each.may_go_back = each.order_perturbed = each.released = True

    def receive(self, fate: Fate) -> None:
        self.touch(fate)
        self.received.append(fate)
        self.sightings[fate.id] = fate.sightings


class Oracle:
    """Judges one run."""

    def __init__(self, dead_letter_queue: str, judges_order: bool) -> None:
        self.judges_order = judges_order
        self.may_refuse = False
        """Sends can be refused, so that a transaction may hold less than was sent in it."""
        self.pauses = False
        """Somebody may pause consumption: a get finds nothing then."""
        self.fates: dict[tuple[int, str], Fate] = {}
        """By id and queue."""
        self._first: dict[int, Fate] = {}
        self.life = 1
        """Counts the broker's processes: each crash ends one."""
        self.dead_letter_queue = dead_letter_queue
        self._newest: dict[tuple[str, str, Line], int] = {}
        self.checks = 0
        self.moment = 0
        """Counts what is sent and answered."""
        self.subscribed: dict[str, Subscribed] = {}
        """Subscriptions that are not durable, by what `Fate.queue` calls them."""
        self.together: dict[str, str] = {}
        """Queues whose messages belong together: "groups" go to one consumer, "units" come one by one, of an
        "exclusive" one all go to one consumer."""
        self.redelivery_limits: dict[str, int] = {}
        self.replays = False
        """Dead letters may come back."""
        self.presettled: Counter[str] = Counter()
        """Consumers of each queue that take pre-settled: what is on its way to one has ended unseen."""

    def sent(
        self, queue: str, stream: tuple[str, int], durable: bool, expiry_us: int, unit: Unit | None
    ) -> Fate:
        self.moment += 1
        fate = Fate(len(self._first) + 1, queue, stream, durable, expiry_us, unit, sent_at=self.moment)
        self.fates[fate.id, queue] = self._first[fate.id] = fate
        if unit is not None:
            unit.sent.append(fate)
            unit.touch(fate)
        return fate

    def published(self, first: Fate, subscriptions: list[str]) -> None:
        """``first`` was sent to a topic: it has a copy on each further subscription."""
        first.published, first.has_dead_letters = True, False
        for name in subscriptions:
            self._copy(first, name)
        for subscribed in self.subscribed.values():
            if subscribed.attached and subscribed.wants(first):
                self._copy(first, subscribed.name)

    def _copy(self, first: Fate, name: str) -> Fate:
        copy = replace(first, queue=name, **_nothing_happened())
        self.fates[first.id, name] = copy
        first.copies.append(copy)
        if first.unit is not None:
            first.unit.sent.append(copy)
        return copy

    def fate_of(self, id: int, queue: str) -> Fate | None:
        """What is known of the message ``id`` that is on ``queue``, perhaps as a dead letter, or moved."""
        fate = self.fates.get((id, queue))
        if fate is None:
            first = self._first.get(id)
            if first is not None and queue in (self.dead_letter_queue, *first.may_be_on, *first.left):
                return first
            if first is not None and queue in self.subscribed:
                return self._late_copy(first, self.subscribed[queue])
        return fate

    def sender_of(self, id: int) -> str:
        """Who has sent it; "" nobody."""
        first = self._first.get(id)
        return first.stream[0] if first is not None else ""

    def set_back(self, now_us: int) -> None:
        """The clock was set back: what was born by then stays so, what had expired by then may be gone."""
        for fate in self.fates.values():
            fate.due_us, fate.failed_until_us = min(fate.due_us, now_us), min(fate.failed_until_us, now_us)
            fate.expiry_us = min(fate.expiry_us, now_us)

    def _late_copy(self, first: Fate, subscribed: Subscribed) -> Fate | None:
        """A subscription may get what was under way when somebody subscribed."""
        under_way = first.accepted_at == 0 or first.accepted_at > subscribed.requested_at
        return self._copy(first, subscribed.name) if first.published and under_way else None

    def subscribe(self, subscribed: Subscribed) -> None:
        self.subscribed[subscribed.name] = subscribed

    def check_all_came(self, subscribed: Subscribed) -> None:
        """Its links have taken all that there is: is there anything that was for it and did not come?"""
        for fate in self.fates.values():
            if fate.queue == subscribed.name:
                self._check_final(fate, [], NEVER_US)

    def unsubscribed(self, subscribed: Subscribed) -> None:
        """No link of it that it was answered to is left: what it has is nowhere."""
        subscribed.attached = 0
        for fate in self.fates.values():
            if fate.queue == subscribed.name:
                fate.lost_possible = True

    def answered(self, fate: Fate, answer: Answer) -> None:
        self.moment += 1
        for one in (fate, *fate.copies):
            one.answer = answer
            one.accepted_in_life = self.life
            one.accepted_at = self.moment

    def seen(self, id: int, queue: str, now_us: int, since_us: int = NEVER_US) -> Fate:
        """Somebody saw message ``id`` on ``queue``: it was there, and may be elsewhere by now. What was only
        looked at was there at some time since ``since_us``: it may have failed after that."""
        self.checks += 1
        fate = self.fate_of(id, queue)
        if fate is None:
            raise Broken(f"message {id} was seen on {queue} and never sent there")
        if queue not in (fate.queue, self.dead_letter_queue, *fate.may_be_on, *fate.left):
            raise Broken(f"message {id} was sent to {fate.queue} and seen on {queue}")
        early_us = max(fate.due_us, fate.failed_until_us) - now_us
        if early_us > 0 and fate.failed_us < since_us:
            raise Broken(f"message {id} was seen {early_us} us before its time")
        if fate.unconfirmed:
            raise Broken(f"message {id} was seen on {queue} and its put is not confirmed")
        if fate.answer in (Answer.REFUSED, Answer.ROLLED_BACK):
            raise Broken(f"message {id} was seen though it was {fate.answer.value}")
        if fate.unit is not None and fate.unit.decision in ("open", "prepared", "rolled back"):
            raise Broken(f"message {id} was seen though its transaction is {fate.unit.decision}")
        fate.sightings += 1
        return fate

    def taken(self, id: int, queue: str, now_us: int, by: str) -> Fate:
        """``by`` was given message ``id`` for its own."""
        fate = self.seen(id, queue, now_us)
        if queue not in (fate.queue, self.dead_letter_queue, *fate.may_be_on):
            raise Broken(f"message {id} was given to {by} from {queue}, and had been moved from there")
        if now_us < fate.withheld_until_us and not fate.may_go_back:
            raise Broken(f"message {id} was given to {by} from {queue} while somebody else holds it")
        if fate.holder and not fate.may_go_back:
            raise Broken(f"message {id} was given to {by} from {queue} while {fate.holder} has it")
        if fate.settled_by in OVER:
            raise Broken(f"message {id} was given to {by} though {fate.settled_by} had been answered")
        if fate.settled_by == "rejected" and queue == fate.queue and not self.replays:
            raise Broken(f"message {id} was given to {by} though it is a dead letter")
        return fate

    def delivered(
        self, id: int, queue: str, header: Header, consumer: str, now_us: int, settled: bool = False
    ) -> Fate:
        """``consumer`` was given message ``id`` with this header. ``settled``: it had ended when it
        left, so that the next of its kin may have arrived before it."""
        fate = self.taken(id, queue, now_us, consumer)
        if header.first_acquirer and fate.acquired:
            raise Broken(f"message {id} came to {consumer} as its first acquirer, and was delivered before")
        fate.acquired = True
        if queue == fate.queue:
            self._check_counts(fate, header.delivery_count)
            self._check_order(fate, header.delivery_count, consumer)
            if not settled:
                self._check_together(fate, consumer)
            fate.deliveries += 1
        fate.holder = consumer
        return fate

    def _check_counts(self, fate: Fate, count: int) -> None:
        limit = self.redelivery_limits.get(fate.queue)
        if limit is not None and self.replays:
            return  # it may have been a dead letter meanwhile
        if fate.deliveries and count == 0 and not fate.released:
            raise Broken(f"message {fate.id} was delivered again with a delivery count of 0")
        if limit is not None and fate.failures > limit:
            raise Broken(
                f"message {fate.id} was delivered after {fate.failures} failures: {limit} are allowed"
            )

    def _check_together(self, fate: Fate, consumer: str) -> None:
        how = self.together.get(fate.queue)
        if how is None or consumer.startswith("reader"):
            return
        others = [
            one
            for one in self.fates.values()
            if one.queue == fate.queue and one is not fate and (how == "exclusive" or is_kin(one, fate))
        ]
        for one in others:
            if one.holder and one.holder != consumer and not (one.may_be_on or one.may_go_back):
                raise Broken(f"message {fate.id} went to {consumer} while {one.holder} has message {one.id}")
            if (
                how == "units"
                and one.accepted_at
                and one.accepted_at < fate.sent_at
                and self._must_be_there(one)
            ):
                raise Broken(f"message {fate.id} came before message {one.id} of its unit had ended")

    def _must_be_there(self, fate: Fate) -> bool:
        """Whether it is certain that it has not ended, and stands where it was sent to."""
        if self.presettled[fate.queue]:
            return False
        certain = fate.answer is Answer.ACCEPTED and not (fate.given or fate.lost_possible or fate.expiry_us)
        return certain and not (fate.moved or fate.withheld_until_us or fate.settled_by)

    def _check_order(self, fate: Fate, count: int, consumer: str) -> None:
        first_time = not (fate.deliveries or count or fate.order_perturbed)
        if not (self.judges_order and first_time and fate.unit is None):
            return
        key = (consumer, fate.queue, self._line(fate))
        newest = self._newest.get(key, 0)
        if fate.id < newest:
            raise Broken(f"message {fate.id} of {key} came for the first time after message {newest}")
        self._newest[key] = fate.id

    def _line(self, fate: Fate) -> "Line":
        """Messages of one line are in order; between units of order there is none."""
        return fate.stream, kin_of(fate) if self.together.get(fate.queue) == "units" else ""

    def gave(self, fate: Fate, outcome: str) -> None:
        fate.given.add(outcome)
        if outcome == "rejected" and self.replays:
            self._forget_counts(fate)

    def settled(self, fate: Fate, outcome: str) -> None:
        """The broker has answered a consumer's outcome: it holds from now on."""
        fate.settled_by = outcome

    def about_to_change(self, fate: Fate, by: str, how: str, to: str = "") -> None:
        """``by`` has asked for its deletion, or for its move to a queue."""
        fate.changed_by = by
        fate.order_perturbed = True
        if to:
            fate.may_be_on.append(to)
            self._forget_counts(fate)
        else:
            self.gave(fate, how)

    def _forget_counts(self, fate: Fate) -> None:
        """It may be moved: its deliveries and failures are counted anew, and it stands behind others."""
        fate.moved = fate.released = fate.order_perturbed = True
        fate.failures = -NEVER_US

    def changed(self, fate: Fate, how: str, to: str, done: bool) -> None:
        """What `about_to_change` told of was answered."""
        fate.changed_by = ""
        if not to:
            if done and fate.settled_by in OVER:
                raise Broken(f"message {fate.id} was {how} though {fate.settled_by} had been answered")
            if done:
                self.settled(fate, how)
            elif fate.settled_by != how:
                fate.given.discard(how)
            return
        fate.may_be_on.remove(to)
        if done:
            del self.fates[fate.id, fate.queue]
            fate.left.append(fate.queue)
            fate.queue = to
            self.fates[fate.id, to] = fate

    def change_unanswered(self, fate: Fate) -> None:
        """Nobody will learn whether it was deleted or moved."""
        fate.changed_by = ""
        if "deleted" in fate.given:
            fate.given.add("perhaps deleted")

    def purged(self, queue: str) -> None:
        """Everything that waits on ``queue`` is to be ended."""
        for fate in self.fates.values():
            if fate.queue == queue or queue in fate.may_be_on:
                fate.given.add("purged")

    def perturbed(self, queue: str) -> None:
        """Something of the queue was held, nobody knows what: it may come after newer ones."""
        for fate in self.fates.values():
            if fate.queue == queue or queue in fate.may_be_on:
                fate.order_perturbed = True

    def deliveries_returned(self, queue: str, lost: bool) -> None:
        """What was on its way to a consumer goes back unseen, so it may come after newer ones.

        ``lost``: the consumer is gone and took pre-settled, so what was on its way is nowhere.
        """
        for fate in self.fates.values():
            if queue in (fate.queue, self.dead_letter_queue, *fate.may_be_on) and not fate.settled_by:
                fate.order_perturbed = True
                fate.lost_possible = fate.lost_possible or lost

    def crashed(self) -> None:
        """The process is gone: what was unanswered stays unknown, non-persistent messages may be lost."""
        self.life += 1
        self._newest.clear()
        for fate in self.fates.values():
            fate.order_perturbed = True
            fate.holder = ""
            if not fate.durable or fate.queue in self.subscribed:
                fate.lost_possible = True
            if fate.unit is not None and fate.unit.decision in ("open", "committing"):
                self._end_unit(fate.unit)

    def _end_unit(self, unit: Unit) -> None:
        if unit.decision == "open":
            unit.decision = "rolled back"
            for fate in unit.sent:
                fate.answer = Answer.ROLLED_BACK
        else:
            self.undecided(unit)

    def decided(self, unit: Unit, committed: bool) -> None:
        """The coordinator has answered."""
        unit.decision = "committed" if committed else "rolled back"
        for fate in unit.sent:
            if fate.answer is not Answer.REFUSED:
                self.answered(fate, Answer.ACCEPTED if committed else Answer.ROLLED_BACK)
        if committed:
            for fate in unit.received:
                self.settled(fate, "accepted")
        for fate in unit.received:
            fate.holder = ""

    def undecided(self, unit: Unit) -> None:
        """Nobody will learn how it was discharged."""
        unit.decision = "unknown"
        for fate in unit.received:
            fate.holder = ""
            fate.order_perturbed = True

    def final(self, remaining: dict[str, list[int]], now_us: int) -> None:
        """Everything that was left on the queues has been read: does it add up?"""
        places: dict[tuple[int, str], list[str]] = {}
        for queue, ids in remaining.items():
            for id in ids:
                fate = self.fate_of(id, queue)
                if fate is None:
                    raise Broken(f"message {id} is on {queue} and was never sent there")
                if queue not in (fate.queue, self.dead_letter_queue, *fate.may_be_on):
                    raise Broken(f"message {id} is on {queue} and had been moved from there")
                places.setdefault((id, fate.queue), []).append(queue)
        for fate in self.fates.values():
            self._check_final(fate, places.get((fate.id, fate.queue), []), now_us)
        for queue, ids in remaining.items():
            if queue != self.dead_letter_queue:
                self._check_places(queue, ids)
        for unit in {fate.unit for fate in self.fates.values() if fate.unit is not None}:
            if not self.may_refuse:
                self._check_unit(unit, remaining)

    def _check_places(self, queue: str, ids: list[int]) -> None:
        """What came back came back to its place: one reader of a quiet queue sees the order of sending."""
        newest: dict[Line, int] = {}
        for id in ids:
            fate = self.fates.get((id, queue))
            if fate is None or fate.due_us or fate.moved:
                continue
            line = self._line(fate)
            if fate.unit is None and id < newest.get(line, 0):
                raise Broken(f"message {id} of {line} stands on {queue} behind {newest[line]}")
            newest[line] = max(id, newest.get(line, 0))

    def _check_final(self, fate: Fate, places: list[str], now_us: int) -> None:
        self.checks += 1
        if len(places) > 1:
            raise Broken(f"message {fate.id} is on {places}: it was made twice")
        if fate.answer is not Answer.ACCEPTED or places:
            return
        given = fate.given - {"rejected"} if fate.has_dead_letters else fate.given
        excused = given or fate.lost_possible or (fate.expiry_us and now_us >= fate.expiry_us)
        if not excused:
            raise Broken(
                f"message {fate.id} was accepted for {fate.queue} in life {fate.accepted_in_life} and is lost"
            )
        if (
            fate.settled_by == "rejected"
            and fate.has_dead_letters
            and not (fate.lost_possible or self.replays or "purged" in fate.given)
        ):
            raise Broken(f"message {fate.id} was rejected and is not on {self.dead_letter_queue}")

    def _check_unit(self, unit: Unit, remaining: dict[str, list[int]]) -> None:
        """All or nothing, also where nobody knows which."""
        if unit.decision != "unknown":
            return
        left = {id for ids in remaining.values() for id in ids}
        sent = [fate for fate in unit.sent if self._is_evidence(fate)]
        seen = [fate.id in left or fate.sightings > 0 for fate in sent]
        if any(seen) and not all(seen):
            raise Broken(f"of a transaction's messages {ids_of(unit.sent)} only some are there: {seen}")
        for fate in unit.received:
            back = fate.id in remaining.get(fate.queue, ()) or fate.sightings > unit.sightings[fate.id]
            if seen and self._is_evidence(fate) and not fate.moved and back == any(seen):
                what = f"messages {ids_of(unit.sent)} are {'' if back else 'not '}there"
                raise Broken(
                    f"message {fate.id} is {'' if back else 'not '}back, and its transaction's {what}"
                )

    def _is_evidence(self, fate: Fate) -> bool:
        """Whether it being gone proves that somebody has seen it."""
        unseen = {"deleted", "perhaps deleted", "purged"} & fate.given
        return not (fate.lost_possible or fate.expiry_us or unseen or fate.queue in self.subscribed)


def _nothing_happened() -> dict[str, Any]:
    """Of a message that stands on one more subscription: what is its own."""
    nothing: dict[str, Any] = {"copies": [], "given": set(), "may_be_on": [], "left": []}
    nothing |= {"deliveries": 0, "sightings": 0, "failures": 0, "holder": "", "settled_by": ""}
    return nothing | {"lost_possible": False, "released": False, "acquired": False}


def is_kin(one: Fate, other: Fate) -> bool:
    """Whether two messages are of one group or unit of order."""
    return kin_of(one) == kin_of(other)


def kin_of(fate: Fate) -> str:
    """The group and the unit of order that a message is a member of."""
    return f"kin {fate.id % 2}"


def ids_of(fates: Iterable[Fate]) -> list[int]:
    return [fate.id for fate in fates]
