"""Rules of the random test: subscriptions and topics, coming and going."""

from contextlib import suppress

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.errors import (
    ManagerError,
    NotAllowed,
    QueueExists,
    QueueInUse,
    QueueNotFound,
    SubscriptionInUse,
)
from postroom.manager.kernel.options import QueueDefinition
from tests.manager.random_commands.consumer_rules import CREDITS, wanted
from tests.manager.random_commands.machine import FAVOURED_TOPICS, TEXTS, TOPICS, Machine, again
from tests.manager.random_commands.machine_queues import TOPIC_SETTINGS
from tests.manager.random_commands.reference_destination import Place, TopicPlace

MAX_SUBSCRIPTIONS = 6


class SubscribingRules(Machine):
    def subscriptions(self) -> list[Place]:
        return [place for place in self.reference.all_places() if place.pattern]

    @precondition(lambda self: len(self.consumers) < 8 and len(self.subscriptions()) < MAX_SUBSCRIPTIONS)
    @rule(
        pattern=st.sampled_from([*TOPICS, *FAVOURED_TOPICS, "news.*", "#", "*"]),
        durable=st.booleans(),
        shared=st.booleans(),
        own=st.booleans(),
        wanted=wanted,
        no_local=st.booleans(),
        credit=CREDITS,
        title=st.sampled_from(["a", "b"]),
        joins=st.booleans(),
    )
    def subscribe(
        self,
        pattern: str,
        durable: bool,
        shared: bool,
        own: bool,
        wanted: int | None,
        no_local: bool,
        credit: int,
        title: str,
        joins: bool,
    ) -> None:
        """Durable and shared ones have a name and are found again; those that are not durable live as long as
        somebody consumes from them. Shared ones may belong to all clients."""
        pattern = self.chosen_topic(pattern)
        others = [place for place in self.subscriptions() if place.shared and not place.dismissed]
        if joins and others:
            there = others[-1]
            pattern, durable, shared, own = there.pattern, not there.temporary, True, there.client == "me"
            wanted, no_local, title = there.wanted, there.no_local, there.title
        if pattern == "each":  # so that it is one line in which everybody waits, though for several pools
            wanted, no_local = None, False
        title = title if durable or shared else ""
        client = "me" if own or not shared else ""
        request = Subscribing(pattern, client, title, durable, shared, TEXTS[wanted], no_local)
        place = Place("", pattern=pattern, wanted=wanted, client=client, title=title)
        place.no_local, place.shared, place.temporary = no_local, shared, not durable
        known = self.reference.subscription(client, title, durable)
        error = self._why_not(place, known)
        if error is not None:
            with pytest.raises(error):
                self.world.manager.subscribe(request, self.world.now_us)
            self.rest()
            return
        queue = self.world.manager.subscribe(request, self.world.now_us)
        if known is None or not _same(known, place):
            if known is not None:
                self.reference.remove(known)  # another one of that name takes its place
            place.name = queue.name
            self.reference.add_subscription(place)
        else:
            assert queue.name == known.name
        if durable:
            assert self.world.manager.durable_subscription(client, title) is queue
        self.open_one(queue.name, credit)

    locals().update(again(subscribe, 5))

    def _why_not(self, place: Place, known: Place | None) -> type[ManagerError] | None:
        """Why nobody can subscribe so."""
        if known is not None:
            same = _same(known, place)
            if known.shared != place.shared:
                return NotAllowed
            if known.consumers and not (same and place.shared):
                return SubscriptionInUse
            if same:
                return None
            if _is_held(known):
                return QueueInUse
        name = f"{place.pattern}::{place.client + '/' if place.client else ''}"
        name += place.title if not place.temporary else f"~{place.title}"
        there = self.reference.places.get(name)  # one that only waits for a transaction
        return QueueExists if place.title and there is not None and there is not known else None

    @precondition(lambda self: self.subscriptions())
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(self.subscriptions()))
        manager, queue, now_us = self.world.manager, self.queue(place.name), self.world.now_us
        if place.consumers or _is_held(place):
            with pytest.raises(SubscriptionInUse if place.consumers else QueueInUse):
                manager.unsubscribe(queue, now_us)
            return
        manager.unsubscribe(queue, now_us)
        self.reference.remove(place)
        if not place.temporary:
            with pytest.raises(QueueNotFound):
                manager.durable_subscription(place.client, place.title)
        self.rest()

    @precondition(lambda self: self.subscriptions())
    @rule(data=st.data())
    def forsake_subscription(self, data: st.DataObject) -> None:
        """It ends unless somebody consumes, at the latest when transactions let go what is on it."""
        place = data.draw(st.sampled_from(self.subscriptions()))
        self.world.manager.forsake(self.queue(place.name), self.world.now_us)
        if not place.consumers:
            place.temporary = True
            self.forsake(place)
        self.rest()

    @rule(name=st.sampled_from(TOPICS), if_unused=st.booleans())
    def delete_topic(self, name: str, if_unused: bool) -> None:
        """With the subscriptions to it, not those to patterns; and make another like it."""
        manager, now_us = self.world.manager, self.world.now_us
        ended = [p for p in self.subscriptions() if p.pattern == name and not p.dismissed]
        if (if_unused and any(place.consumers for place in ended)) or any(map(_is_held, ended)):
            with pytest.raises(QueueInUse):
                manager.delete_topic(name, if_unused, now_us)
            return
        topic = self.reference.topics[name]
        self.reference.refuse(self.reference.waiting_for(topic))
        for place in ended:
            for consumer in [each for each in self.consumers if each.queue.name == place.name]:
                self.gone(consumer, True)
            if place.name in self.reference.places:
                self.reference.remove(place)
        assert manager.delete_topic(name, if_unused, now_us) == len(ended)
        with suppress(QueueNotFound):
            manager.topic(name)
            raise AssertionError("the topic is still there")
        manager.create_queue(QueueDefinition(name=name, kind="topic", **TOPIC_SETTINGS[name]), now_us)
        quota, each = topic.quota, topic.most_each
        another = TopicPlace(
            name, limit=topic.limit, dead_letters=topic.dead_letters, quota=quota, most_each=each
        )
        self.reference.topics[name] = another
        self.rest()


def _same(known: Place, place: Place) -> bool:
    return (known.pattern, known.wanted, known.no_local) == (place.pattern, place.wanted, place.no_local)


def _is_held(place: Place) -> bool:
    return any(message.transaction is not None for message in place.messages)
