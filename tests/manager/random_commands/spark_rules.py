"""Rules of the random test: Spark subscriptions, which compete, and say by position what they have taken."""

import struct
import sys
from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from postroom.ledger.storage.body_requests import BodyPlace
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import (
    AccessRefused,
    CheckpointReplaced,
    PositionRefused,
    SparkSubscriptionNotFound,
    SubscriptionEnded,
)
from postroom.manager.spark.subscription import SparkSubscription, SparkSubscriptionDefinition
from postroom.model.codes import Outcome
from postroom.model.packed import PackedEntry
from tests.manager.random_commands.machine import FAVOURED, QUEUES, TEXTS, Machine, again
from tests.manager.random_commands.reference_destination import AVAILABLE, HELD, ORDERED, Message, Place

NAMES = ("s0", "s1")
LEASES_S = (1, 86_400)
MARK = struct.Struct("<qq")
"""Position, and the end of what was assigned there."""
Assigned = tuple[int, int, Message]
"""Position, serial, and what the reference has of it."""


class SparkRules(Machine):
    """In the reference a Spark subscription is a consumer whose deliveries are known by their positions."""

    def _come_up(self) -> None:
        super()._come_up()
        if not hasattr(self, "assigned"):
            self.assigned: dict[str, list[Assigned]] = {}
            """What each holds, by name, in order of assignment."""
            self.last_position = dict.fromkeys(NAMES, 0)
            """At which each was assigned something last."""

    def start_spark_again(self) -> None:
        """The reference has started again: they come back as the first, with what is stored of what they
        had."""
        for name, held in self.assigned.items():
            spark = self._the(name)
            assert spark.consumer is not None
            self._place(spark).opened(spark.consumer)
            for _, _, message in held:
                message.holder = spark.consumer
            self.assigned[name] = [each for each in held if each[2] in self._place(spark).messages]

    def _the(self, name: str) -> SparkSubscription:
        return self.world.manager.spark_subscriptions.find(name)

    def _place(self, spark: SparkSubscription) -> Place:
        return self.reference.places[spark.queue.name]

    def _consumer(self, name: str) -> Consumer:
        consumer = self._the(name).consumer
        assert consumer is not None
        return consumer

    # Rules.

    @precondition(lambda self: len(self.assigned) < len(NAMES))
    @rule(
        name=st.sampled_from([*QUEUES, *FAVOURED]),
        wanted=st.sampled_from([None, None, 0]),
        window=st.sampled_from([1, 3, 50]),
        window_bytes=st.sampled_from([60, 10_000]),
        lease_s=st.sampled_from(LEASES_S),
    )
    def subscribe_spark(
        self, name: str, wanted: int | None, window: int, window_bytes: int, lease_s: int
    ) -> None:
        name = self.chosen(name)
        title = next(each for each in NAMES if each not in self.assigned)
        spark_subscriptions, now_us = self.world.manager.spark_subscriptions, self.world.now_us
        if title in spark_subscriptions.all:
            with pytest.raises(SubscriptionEnded):
                spark_subscriptions.plan(title, "", now_us)
            self.delete_ended(title)
        definition = SparkSubscriptionDefinition(title, name, window, window_bytes, lease_s, TEXTS[wanted])
        place = self.reference.places[name]
        if place.takers.refuses(False):
            with pytest.raises(AccessRefused):
                spark_subscriptions.create(definition, now_us)
            return
        spark = spark_subscriptions.create(definition, now_us)
        assert spark_subscriptions.create(definition, now_us) is spark
        assert spark.consumer is not None
        place.opened(spark.consumer)
        self.assigned[title] = []
        self.rest()

    locals().update(again(subscribe_spark, 6))

    def delete_ended(self, title: str) -> None:
        self.world.manager.spark_subscriptions.delete(title, self.world.now_us)
        self.rest()

    @precondition(lambda self: self.assigned)
    @rule(data=st.data(), again=st.booleans(), behind=st.booleans())
    def confirm(self, data: st.DataObject, again: bool, behind: bool) -> None:
        """All up to a position of its own, or behind it; once more changes nothing."""
        name = data.draw(st.sampled_from(sorted(self.assigned)))
        held, spark = self.assigned[name], self._the(name)
        spark_subscriptions, now_us = self.world.manager.spark_subscriptions, self.world.now_us
        with pytest.raises(PositionRefused):
            spark_subscriptions.confirm(name, spark.checkpoint, spark.assigned + 1, now_us)
        positions = sorted({position for position, _, _ in held})
        position = data.draw(st.sampled_from([*positions, int(spark.confirmed)]))
        later = [each for each in [*positions, int(spark.assigned)] if each > position]
        if behind and later:
            position = min(later) - 1
        ended = [each for each in held if each[0] <= position]
        assert spark_subscriptions.confirm(name, spark.checkpoint, position, now_us) == len(ended)
        for _, _, message in ended:
            self.reference.end(self._place(spark), message, Outcome.CONSUMED)
        self.assigned[name] = [each for each in held if each[0] > position]
        self.rest()
        if again:
            assert spark_subscriptions.confirm(name, spark.checkpoint, position, now_us) == 0

    locals().update(again(confirm, 6))

    @precondition(lambda self: self.assigned)
    @rule(data=st.data(), checkpoint=st.sampled_from(["a", "b"]))
    def plan_and_register(self, data: st.DataObject, checkpoint: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.assigned)))
        spark_subscriptions, now_us = self.world.manager.spark_subscriptions, self.world.now_us
        registered = self._the(name).checkpoint
        if registered not in ("", checkpoint):
            with pytest.raises(CheckpointReplaced):
                spark_subscriptions.plan(name, checkpoint, now_us)
            with pytest.raises(CheckpointReplaced):
                spark_subscriptions.register(name, checkpoint, False, now_us)
        spark = spark_subscriptions.plan(name, checkpoint, now_us, "confirmed")
        assert (spark.held.count, spark.checkpoint) == (len(self.assigned[name]), registered)
        assert spark.assigned == max(self.last_position[name], int(spark.confirmed))
        assert not spark_subscriptions.is_filling(spark) or spark.room() > 0
        waiting = [m for m in self._place(spark).messages if m.state in (AVAILABLE, ORDERED)]
        assert (spark_subscriptions.oldest_waiting(spark) > 0) == bool(waiting)
        assert spark_subscriptions.register(name, checkpoint, True, now_us).checkpoint == checkpoint

    @precondition(lambda self: self.assigned)
    @rule(data=st.data(), window=st.sampled_from([1, 2, 50]))
    def change_window(self, data: st.DataObject, window: int) -> None:
        spark = self._the(data.draw(st.sampled_from(sorted(self.assigned))))
        self.world.manager.spark_subscriptions.update(
            replace(spark.definition, window=window), self.world.now_us
        )
        self.rest()

    @precondition(lambda self: self.assigned)
    @rule(data=st.data())
    def delete_spark(self, data: st.DataObject) -> None:
        self.delete_one(data.draw(st.sampled_from(sorted(self.assigned))))

    def delete_one(self, name: str) -> None:
        spark, held = self._the(name), len(self.assigned[name])
        consumer = self._consumer(name)
        assert self.world.manager.spark_subscriptions.delete(name, self.world.now_us) == held
        self._spark_over(name, spark, consumer)
        with pytest.raises(SparkSubscriptionNotFound):
            self._the(name)
        self.rest()

    @precondition(lambda self: self.assigned)
    @rule(reason=st.sampled_from(["bytes", "space"]))
    def let_history_go(self, reason: str) -> None:
        """The one that is farthest behind ends."""
        name = min(self.assigned, key=lambda each: (self._the(each).confirmed, self._the(each).id))
        spark, consumer = self._the(name), self._consumer(name)
        self.world.manager.spark_subscriptions.let_history_go(reason, self.world.now_us)
        self._spark_over(name, spark, consumer)
        self.rest()
        with pytest.raises(SubscriptionEnded) as refused:
            self.world.manager.spark_subscriptions.plan(name, "", self.world.now_us)
        assert refused.value.info["reason"] == reason

    def teardown(self) -> None:
        if sys.exc_info()[0] is None and hasattr(self, "world"):
            for name in list(self.assigned):
                self.delete_one(name)
        super().teardown()

    # What befalls them.

    def drop_spark(self, queue: str) -> bool:
        """Its queue is about to be deleted; whether there was any. What they hold goes back before: what has
        expired meanwhile is redirected, and the rest goes with the queue."""
        found = list(self.world.manager.spark_subscriptions.all.values())
        names = [spark.name for spark in found if spark.queue.name == queue]
        for name in names:
            if name in self.assigned:
                self._spark_over(name, self._the(name), self._consumer(name))
            self.last_position[name] = 0
        return bool(names)

    def _tick(self, now_us: int) -> None:
        self.reference.now_us = now_us
        for name in list(self.assigned):
            spark = self._the(name)
            if spark.until_us <= now_us:
                self._spark_over(name, spark, self._consumer(name))
        super()._tick(now_us)

    def _spark_over(self, name: str, spark: SparkSubscription, consumer: Consumer) -> None:
        """It holds nothing any more: in the reference, the last goes back first."""
        place = self._place(spark)
        place.closed_by(consumer)
        for _, _, message in reversed(self.assigned.pop(name)):
            message.spark = False
            self.reference.come_back(place, message, False, False)
        self.last_position[name] = 0

    # What they were given.

    def adopt_assigned(self) -> None:
        self.fresh: list[tuple[Consumer, Place, Message]] = []
        self.unadopted: list[tuple[str, int, Entry]] = []
        """On places with groups: a group may have gone from one to the other in between."""
        for name in self.assigned:
            spark = self._the(name)
            known = {serial for _, serial, _ in self.assigned[name]}
            held = self._held(spark)
            assert [serial for _, serial in map(_key, held)][: len(known)] == [
                serial for _, serial, _ in self.assigned[name]
            ]
            for position, entry in held[len(known) :]:
                if self._place(spark).takers.grouped:
                    self.unadopted.append((name, position, entry))
                else:
                    self._adopt(name, spark, position, entry)

    def adopt_before(self, entry: Entry) -> None:
        before = [each for each in self.unadopted if each[2].queue is entry.queue]
        before = [each for each in before if _rank(each[2]) < _rank(entry)]
        self.unadopted = [each for each in self.unadopted if each not in before]
        for name, position, assigned in before:
            self._adopt(name, self._the(name), position, assigned)

    def _held(self, spark: SparkSubscription) -> list[tuple[int, Entry]]:
        """(position, entry) of all that it holds, in order."""
        found: list[tuple[int, Entry]] = []
        for chunk in spark.held.seen():
            for index in range(chunk.head, chunk.end):
                position = next(at for at, end in MARK.iter_unpack(chunk.marks) if index < end)
                found.append((position, chunk.entry(index, spark.queue, PackedEntry())))
        return found

    def _adopt(self, name: str, spark: SparkSubscription, position: int, entry: Entry) -> None:
        place, consumer = self._place(spark), self._consumer(name)
        body = self._body(entry)
        free = [each for each in place.messages if each.state in (AVAILABLE, ORDERED)]
        same = [each for each in free if each.body == body]
        assert same, f"{name} was assigned what the reference does not have"
        message = min(same, key=Message.rank)
        assert place.takers.is_active(consumer) and not place.consumption
        assert self.wanted_by(consumer) in (None, message.number)
        assert consumer not in message.not_for
        assert place.takers.may_have(consumer, message.group)
        place.takers.given(consumer, message.group, message.closes)
        message.state, message.holder, message.spark = HELD, consumer, True
        assert position > 0 and position >= self.last_position[name]
        self.last_position[name] = position
        self.assigned[name].append((position, int(entry.serial), message))
        self.fresh.append((consumer, place, message))

    def _body(self, entry: Entry) -> bytes:
        if entry.body is not None:
            return entry.body
        where: BodyPlace = (int(entry.body_serial), int(entry.body_offset), int(entry.body_len))
        (body,) = self.world._read([where])
        assert isinstance(body, bytes)
        return body

    def check_assigned(self) -> None:
        for name, position, entry in self.unadopted:
            self._adopt(name, self._the(name), position, entry)
        for consumer, place, message in self.fresh:
            assert place.has_turn(message), "what it waited for has been consumed at this moment"
            if place.takes_children or self.crowded:
                continue
            for other in place.available_to(consumer, self.wanted_by(consumer)):
                before = other.order <= self.rank_before and message.order <= self.rank_before
                assert not before or message.rank() <= other.rank(), (message, other)


def _rank(entry: Entry) -> tuple[int, int, int]:
    return (-int(entry.priority), int(entry.place), int(entry.ordinal))


def _key(found: tuple[int, Entry]) -> tuple[int, int]:
    return (found[0], int(found[1].serial))
