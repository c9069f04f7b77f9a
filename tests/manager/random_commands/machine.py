"""The queue manager over the real ledger beside its reference: what the rules of the random test work on."""

import dataclasses
import sys
from itertools import count
from types import FunctionType
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RULE_MARKER, RuleBasedStateMachine, initialize, invariant

from postroom.manager.kernel.consumer import Consumer, Producer
from postroom.manager.kernel.effects import Delivery
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import NotAllowed
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.message_store.pending_requests import StoreRequest
from postroom.manager.queues.message_groups import FIRST_IN_GROUP
from postroom.manager.queues.queue import Queue
from postroom.model.codes import Outcome
from tests.manager.over_ledger import LedgerWorld
from tests.manager.random_commands.machine_queues import a_body, define
from tests.manager.random_commands.reference_destination import GOT, HELD, Message, Place, TopicPlace
from tests.manager.recount import BALANCED, check_counters, check_history
from tests.manager.store_face import Recorder, StoreFace
from tests.manager.world import MS, TestSink, a_head

QUEUES = ("plain", "strict", "late", "units", "groups", "single", "small", "roomy", "dead", "spent")
FAVOURITE = "favourite"
WITH_QUOTA = ("small", "roomy")
CHILDREN = ("dead", "spent")
"""Where dead letters and expired messages go."""
TOPICS = ("news", "news.sport", "tight", "each")
FAVOURED = [FAVOURITE] * 2 * len(QUEUES)
"""Among all queues: two times of three."""
FAVOURED_TOPICS = [FAVOURITE] * 2 * len(TOPICS)
TEXTS = {None: "", 0: "n = 0", 1: "n = 1"}
LINKS = 2
PUBLISHERS = {"me": LINKS + 1, "you": LINKS + 2}
"""The links of those who publish, by their client."""
SEND_TIMEOUT_MS = 8
STEP_US = 500
MAX_STEPWISE_MS = 40
SMALL = ManagerOptions(
    live_head=3,
    delayed_head=3,
    min_live_head=1,
    fetch_entries=2,
    fetch_bytes=200,
    body_cache_bytes=300,
    max_deliveries_per_turn=3,
    max_judgements_per_turn=7,
    expiry_scan_ms=0,
    release_backoff_ms=1,
    max_release_backoff_ms=4,
    transaction_timeout_ms=0,
    max_moved_entries=6,
    max_searched_per_turn=3,
    max_message_cursors=2,
    max_assigned_per_turn=4,
    packed_run_entries=1,
    auto_created_idle_ms=3_600_000,
)


def again(step: Any, times: int) -> dict[str, Any]:
    """Copies of a rule, by names of their own, so that it is chosen more often.

    Hypothesis leaves out some rules in each run, by the names of their functions: what everything else builds
    on has several.
    """
    known, copies = getattr(step, RULE_MARKER), {}
    for number in range(times):
        code, space = known.function.__code__, known.function.__globals__
        copy = FunctionType(code, space, f"{code.co_name}_{number}")

        def repeated(*args: Any, **named: Any) -> Any:
            return step(*args, **named)

        setattr(repeated, RULE_MARKER, dataclasses.replace(known, function=copy))
        copies[copy.__name__] = repeated
    return copies


class Machine(RuleBasedStateMachine):
    """Each rule does one thing to both, lets the queue manager come to rest, and compares."""

    favourite = "plain"
    """The queue or topic that is used most, so that much comes together."""

    @initialize(delay_ms=st.sampled_from([-1, 0, 5]), preemptive=st.booleans(), company=st.booleans())
    def start(self, delay_ms: int, preemptive: bool, company: bool) -> None:
        """``company``: the favourite has two who consume or subscribe from the beginning."""
        self.world = LedgerWorld(SMALL)
        self.reference = define(self.world, delay_ms, preemptive)
        self.reference.now_us = self.world.now_us
        self.face = StoreFace(self.world, "plain")
        self.transactions: list[Transaction] = []
        self.heard = (-1, 0)
        """Up to where the listener of the queue "plain" has heard: position, and rank in the reference."""
        self.bodies = count(1)
        self._come_up()
        for number in range(2 if company else 0):
            self.keep_company(number)

    def keep_company(self, number: int) -> None:
        """Somebody comes to the favourite."""

    def _come_up(self) -> None:
        """The process has started: nobody is connected."""
        self.sink = TestSink()
        self.consumers: list[Consumer] = []
        self.entries: dict[Entry, Message] = {}
        self.cursors: list[Any] = []
        """Of queries."""
        self.transactions.clear()
        self.seen = 0
        self.rank_before = 0
        """The last rank before the queue manager came to rest: what stands behind it comes at this moment."""
        self.crowded = False
        """Sends waited for room before the queue manager came to rest."""
        self.links: dict[int, Producer] = {}
        for number in (*range(LINKS), *PUBLISHERS.values()):
            self.open_link(number)

    def open_link(self, number: int) -> None:
        """A producer whose sends wait for room."""
        client = next((name for name, link in PUBLISHERS.items() if link == number), "sender")
        opened = self.world.manager.open_producer(f"link {number}", client, "", SEND_TIMEOUT_MS)
        opened.send_timeout_us += STEP_US
        self.links[number] = opened

    def queue(self, name: str) -> Queue:
        return self.world.manager.queue(name)

    def chosen(self, name: str) -> str:
        """A queue by name; FAVOURITE is the one of this run."""
        favourite = "plain" if self.favourite in TOPICS else self.favourite
        return favourite if name == FAVOURITE else name

    def chosen_topic(self, name: str) -> str:
        favourite = self.favourite if self.favourite in TOPICS else "news"
        return favourite if name == FAVOURITE else name

    def place_of(self, entry: Entry) -> Place:
        return self.reference.places[entry.queue.name]

    def a_transaction(self, within: bool) -> Transaction | None:
        return self.transactions[-1] if within and self.transactions else None

    def a_message(
        self,
        number: int,
        size: int,
        priority: int,
        durable: bool,
        ttl_ms: int,
        delay_ms: int,
        message_id: str,
        place: Place | None,
        group: str = "",
        closes: bool = False,
    ) -> Message:
        """What the reference makes of a message that is put now."""
        if place is not None and place.priority_override >= 0:
            priority = place.priority_override
        if place is not None and place.ttl_override_ms >= 0:
            ttl_ms = place.ttl_override_ms
        expiry_us = self.world.now_us + ttl_ms * MS if ttl_ms > 0 else 0
        due_us = self.world.now_us + delay_ms * MS if delay_ms else 0
        body = a_body(number, next(self.bodies), size, message_id, group, closes)
        made = Message(body, number, priority, durable, expiry_us, due_us)
        made.id, made.group, made.closes = message_id, group, closes
        return made

    def perform(self, request: StoreRequest) -> Any:
        """A request to the queue manager, to the end; the answer, or why it was refused."""
        recorder = request.target
        assert isinstance(recorder, Recorder)
        self.world.manager.submit_request(request, self.world.now_us)
        self.world.turn()
        return recorder.answer

    def hand_over(
        self,
        queue: Queue,
        message: Message,
        producer: Producer,
        transaction: Transaction | None,
        head: dict[str, Any],
        in_pieces: bool,
    ) -> int:
        """Send it, whole or in pieces; returns the token."""
        if not in_pieces:
            return self.world.put(queue, message.body, self.sink, transaction, producer, **head)
        manager, now_us = self.world.manager, self.world.now_us
        message.in_pieces = True
        upload = manager.begin_upload(producer)
        manager.upload_chunk(upload, message.body[:-2], now_us)  # all sections before the body come at once
        manager.upload_chunk(upload, message.body[-2:], now_us)
        token = self.world.new_token()
        manager.finish_upload(upload, queue, a_head(**head), self.sink, token, now_us, transaction)
        return token

    # Coming to rest.

    def rest(self) -> None:
        """Let everything come to rest; every delivery must be the next that the reference has."""
        waited = list(self.reference.lines.all)
        self.rank_before, self.crowded = self.reference.last_rank(), bool(waited)
        self.world.turn()
        self.reference.rest()
        self.adopt_assigned()
        for delivery in self.world.delivered[self.seen :]:
            if isinstance(delivery.consumer, Consumer):
                self.adopt_before(delivery.entry)
                self._check_delivery(delivery)
        self.check_assigned()
        self.seen = len(self.world.delivered)
        self.reference.rest()
        if any(waiting.message.expired(self.world.now_us) for waiting in waited):
            self.adopt_all_peaks()  # it came in and ended, before or after others came

    def adopt_assigned(self) -> None:
        """What Spark subscriptions were given is theirs in the reference, too."""

    def adopt_before(self, entry: Entry) -> None:
        """``entry`` was delivered: where order matters between those who take, what they had before it is."""

    def check_assigned(self) -> None:
        """They were given what came first."""

    def start_spark_again(self) -> None:
        """The reference has started again."""

    def drop_spark(self, queue: str) -> bool:
        """A queue is about to be deleted; whether Spark subscriptions go with it."""
        return False

    def _check_delivery(self, delivery: Delivery) -> None:
        entry, consumer = delivery.entry, delivery.consumer
        place = self.place_of(entry)
        assert not place.consumption, "a paused queue gave something out"
        self.reference.give_turns(place)
        waiting = place.available_to(consumer, self.wanted_by(consumer))
        assert waiting, f"{place.name} gave out what the reference does not have"
        unordered = self.crowded or place.takes_children
        message = self._next_with(delivery.body, waiting, unordered)
        assert message is not None, (place.name, delivery.body, waiting[0].body)
        assert delivery.delivery_count == message.deliveries
        first = place.takers.given(consumer, message.group, message.closes)
        assert (FIRST_IN_GROUP in (delivery.annotations or {})) == first
        if consumer.presettled:
            self.reference.end(place, message, Outcome.CONSUMED)
        else:
            message.state, message.holder = HELD, consumer
            self.entries[entry] = message

    def _next_with(self, body: bytes, waiting: list[Message], unordered: bool) -> Message | None:
        """The one with that body, if none stands before it.

        ``unordered``: what is let in, or comes from other queues, at this moment may do so before or after
        something of another priority is given out.
        """

        def counts(each: Message, priority: int) -> bool:
            return not unordered or each.order <= self.rank_before or each.priority == priority

        for message in [each for each in waiting if each.body == body]:
            if all(message.rank() <= each.rank() for each in waiting if counts(each, message.priority)):
                return message
        return None

    @staticmethod
    def wanted_by(consumer: Consumer) -> int | None:
        return next(number for number, text in TEXTS.items() if text == consumer.options.selector)

    # What is compared.

    @invariant()
    def everything_agrees(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.manager.set_time_us(self.world.now_us)
        check_counters(self.world.manager.core)
        assert set(self.world.manager.queues) == set(self.reference.places)
        for place in self.reference.all_places():
            self._check_place(place)
        for topic in self.reference.topics.values():
            self._check_topic(topic)
        assert sorted(self.sink.accepted) == sorted(self.reference.answers.accepted)
        rejected = sorted(each[0] for each in self.sink.rejected)
        expected = sorted(self.reference.answers.rejected)
        assert rejected == expected, (self.sink.rejected, expected)

    def _check_place(self, place: Place) -> None:
        queue = self.queue(place.name)
        shown, expected = queue.statistics.snapshot(), place.snapshot(self.world.now_us)
        for name in BALANCED:
            del shown[name]
        different = {name: (shown[name], expected[name]) for name in shown if shown[name] != expected[name]}
        assert not different and shown.keys() == expected.keys(), (place.name, different)
        if place.takers.exclusive:
            active = [consumer for consumer in place.takers.present if consumer.active]
            assert active == [each for each in [place.takers.active] if each is not None]
        if not place.consumption:
            for consumer in place.takers.present:
                left = place.available_to(consumer, self.wanted_by(consumer))
                unable = consumer.credit == 0 or consumer.backoff_us != 0
                assert unable or not left, f"someone waits on {place.name} beside what he could have"

    def _check_topic(self, topic: TopicPlace) -> None:
        node = self.world.manager.topic(topic.name)
        statistics = node.statistics
        shown = [statistics.received, statistics.received_bytes]
        shown += [statistics.blocked, statistics.blocked_total, statistics.blocked_us]
        expected = [topic.received, topic.received_bytes]
        expected += [topic.blocked, topic.blocked_total, topic.blocked_us]
        assert shown == expected, topic.name
        assert node.unrouted == topic.unrouted
        assert node.statistics.depth == 0

    def teardown(self) -> None:
        """Everything that is left comes out, in order, and the ledger tells the same story."""
        if sys.exc_info()[0] is not None:
            return  # a step has failed, perhaps half done: what follows from that would hide it
        for transaction in list(self.transactions):
            self.decide_one(transaction, False)
        for name in QUEUES:
            for switch in ("production", "insertion", "consumption"):
                self.turn_switch(name, switch, False)
        self.pass_time(400_000)
        for consumer in list(self.consumers):
            self.close_one(consumer, False)
        queues = [place for place in self.reference.all_places() if not place.pattern]
        for place in queues:
            self.open_one(place.name, 10_000, presettled=True)
        self.rest()
        held_by_ids = [m for m in self.reference.places["plain"].messages if m.confirm or m.lock]
        left = [message for place in queues for message in place.messages]
        assert left == held_by_ids, "what nobody holds stays"
        self.everything_agrees()
        check_history(self.world)

    # What several rules do.

    def pass_time(self, ms: int) -> None:
        """A step at a time while sends or links may time out, so that this falls together with no expiry."""
        until_us = self.world.now_us + ms * MS
        stepwise_us = min(until_us, self.world.now_us + MAX_STEPWISE_MS * MS)
        while self.world.now_us < stepwise_us and self._times_out():
            self._tick(self.world.now_us + STEP_US)
        self._tick(until_us)

    def _times_out(self) -> bool:
        return bool(self.reference.lines.all) or any(consumer.suspended for consumer in self.consumers)

    def _tick(self, now_us: int) -> None:
        """Links that were not resumed in time are lost; then whatever is due."""
        self.world.now_us = now_us
        self.reference.now_us = self.world.now_us
        crowded = bool(self.reference.lines.all)
        for consumer in list(self.consumers):
            if consumer.suspended and consumer.suspended_until_us <= self.world.now_us:
                self.gone(consumer, True)
        self.rest()
        if crowded:
            self.adopt_all_peaks()
        else:
            for name in CHILDREN:
                self.adopt_peaks(name)  # what came there before something else of the same moment ended

    def adopt_all_peaks(self) -> None:
        for name in self.reference.places:
            self.adopt_peaks(name)

    def adopt_peaks(self, name: str) -> None:
        """What comes and goes within one command may be counted for a moment, in either order."""
        place, statistics = self.reference.places[name], self.queue(name).statistics
        assert len(place.messages) <= statistics.high
        place.high, place.high_bytes = int(statistics.high), int(statistics.high_bytes)
        meter = statistics.meter
        if meter is not None and place.high_mark >= 0:
            armed = meter.armed
            assert armed or len(place.messages) <= place.high_mark
            assert not armed or len(place.messages) >= place.low_mark
            place.armed_us = (place.armed_us or self.world.now_us) if armed else None

    def open_one(self, name: str, credit: int, **options: Any) -> None:
        consumer = self.world.consumer(self.queue(name), credit, **options)
        self.consumers.append(consumer)
        self.reference.places[name].opened(consumer)
        self.rest()

    def close_one(self, consumer: Consumer, lost: bool) -> None:
        lost = lost or consumer.suspended
        held = self.world.held(consumer)
        self.world.close(consumer, lost)
        self._return(consumer, held, lost)
        self.rest()

    def gone(self, consumer: Consumer, lost: bool) -> None:
        self._return(consumer, self.world.held(consumer), lost)

    def _return(self, consumer: Consumer, held: list[Entry], lost: bool) -> None:
        self.consumers.remove(consumer)
        place = self.reference.places[consumer.queue.name]
        place.closed_by(consumer)
        for entry in sorted(held, key=lambda e: (-e.place, -e.ordinal)):
            charged = lost and place.lost_link_counts
            self.reference.come_back(place, self.entries.pop(entry), charged, lost)
        if place.temporary and not place.consumers:
            self.forsake(place)

    def forsake(self, place: Place) -> None:
        """A subscription without consumers ends; at the latest when transactions let go what is on it."""
        self.reference.purge(place, Outcome.DELETED)
        place.dismissed = True
        if not place.messages:
            self.reference.remove(place)

    def decide_one(self, transaction: Transaction, commit: bool) -> None:
        if commit and self.reference.blocked_in(transaction):
            with pytest.raises(NotAllowed):
                self.world.manager.commit(transaction, self.world.now_us)
            self.rest()
            return
        self.transactions.remove(transaction)
        if commit:
            self.world.manager.commit(transaction, self.world.now_us)
            self.reference.commit(transaction)
        else:
            self.world.manager.rollback(transaction, self.world.now_us)
            self.reference.rollback(transaction)
        self.decided()

    def decided(self) -> None:
        """Subscriptions that waited for it end."""
        for place in self.reference.all_places():
            if place.dismissed and not any(m.state in (GOT, "put in a transaction") for m in place.messages):
                self.forsake(place)
        self.rest()

    def turn_switch(self, name: str, switch: str, on: bool) -> None:
        manager, now_us = self.world.manager, self.world.now_us
        node = manager.topic(name) if name in TOPICS else manager.queue(name)
        (manager.pause if on else manager.resume)(node, switch, now_us)
        self.reference.switch(name, switch, on)
        self.rest()
