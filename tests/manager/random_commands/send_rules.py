"""Rules of the random test: puts, publishes, and what transactions make of them."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from postroom.manager.kernel.errors import ManagerError, TransactionRolledBack
from postroom.manager.queues.queue import Queue
from tests.manager.random_commands.machine import (
    FAVOURED,
    FAVOURED_TOPICS,
    LINKS,
    PUBLISHERS,
    QUEUES,
    SEND_TIMEOUT_MS,
    STEP_US,
    TOPICS,
    WITH_QUOTA,
    Machine,
    again,
)
from tests.manager.random_commands.reference_consumers import BUCKETS
from tests.manager.random_commands.reference_destination import PUT, Message, Place, TopicPlace
from tests.manager.random_commands.reference_quotas import Waiting
from tests.manager.world import MS, a_head

heads = st.fixed_dictionaries(
    {
        "priority": st.sampled_from([0, 4, 4, 4, 9]),
        "durable": st.sampled_from([True, True, True, False]),
        "ttl_ms": st.sampled_from([-1, -1, -1, 3, 20]),
        "delay_ms": st.sampled_from([0, 0, 0, 4]),
        "message_id": st.sampled_from(["", "", "id 1", "id 2"]),
    }
)
NO_LINK = -1
groups = st.sampled_from(["", "", *BUCKETS])
sizes = st.integers(4, 60)
numbers = st.integers(0, 2)


class Sending(Machine):
    @rule(
        name=st.sampled_from([*QUEUES, *FAVOURED]),
        head=heads,
        number=numbers,
        size=sizes,
        within=st.booleans(),
        members=st.lists(groups, min_size=1, max_size=4),
    )
    def put(
        self, name: str, head: dict[str, Any], number: int, size: int, within: bool, members: list[str]
    ) -> None:
        """One or several, of groups or of none."""
        name = self.chosen(name)
        for group in members:
            self._put("groups" if name in WITH_QUOTA else name, head, number, size, within, group)

    locals().update(again(put, 8))

    @rule(head=heads, number=numbers, group=groups)
    def close_group(self, head: dict[str, Any], number: int, group: str) -> None:
        """The next of the group may go to anybody."""
        self._put("groups", head, number, 4, False, group, True)

    def _put(
        self,
        name: str,
        head: dict[str, Any],
        number: int,
        size: int,
        within: bool,
        group: str = "",
        closes: bool = False,
    ) -> None:
        place, transaction = self.reference.places[name], self.a_transaction(within)
        message = self.a_message(number, size, place=place, group=group, closes=closes, **head)
        producer = self.world._producer
        token = self.hand_over(self.queue(name), message, producer, transaction, head, number == 2)
        if transaction is not None:
            message.state, message.transaction = PUT, transaction
        self.reference.send(Waiting(token, LINKS, place, message))
        self.rest()

    @rule(
        link=st.sampled_from([*range(LINKS), *PUBLISHERS.values()]),
        crowded=st.integers(0, 3),
        head=heads,
        size=sizes,
        within=st.booleans(),
    )
    def send(self, link: int, crowded: int, head: dict[str, Any], size: int, within: bool) -> None:
        """On a link whose sends wait for room, and for each other."""
        name = ("small" if link < LINKS else "roomy") if crowded else "strict"
        message = self.a_message(2 * (crowded % 2), size, place=self.reference.places[name], **head)
        self._send(self.queue(name), self.reference.places[name], link, message, head, within)

    locals().update(again(send, 5))

    def _send(
        self,
        queue: Queue,
        to: Place | TopicPlace,
        link: int,
        message: Message,
        head: dict[str, Any],
        within: bool,
    ) -> None:
        transaction, now_us = self.a_transaction(within), self.world.now_us
        if transaction is not None:
            message.state, message.transaction = PUT, transaction
        producer = self.links[link]
        token = self.hand_over(queue, message, producer, transaction, head, message.number == 2)
        due_us = now_us + SEND_TIMEOUT_MS * MS + STEP_US
        client = producer.container
        self.reference.send(Waiting(token, link, to, message, due_us, now_us, client))
        self.rest()

    @rule(link=st.sampled_from([*range(LINKS), *PUBLISHERS.values()]), close=st.booleans())
    def lose_link(self, link: int, close: bool) -> None:
        gone = self.reference.lines.of_link(link)
        if close:
            self.world.manager.close_producer(self.links[link], self.world.now_us)
            self.open_link(link)
        else:
            tokens = self.world.manager.withdraw_sends(self.links[link], self.world.now_us)
            assert sorted(tokens) == [waiting.token for waiting in gone]
        for waiting in gone:
            self.reference.leave(waiting)
        self.rest()

    @rule(
        name=st.sampled_from([*TOPICS, *FAVOURED_TOPICS]),
        head=heads,
        number=numbers,
        size=sizes,
        within=st.booleans(),
        client=st.sampled_from(list(PUBLISHERS)),
    )
    def publish(
        self, name: str, head: dict[str, Any], number: int, size: int, within: bool, client: str
    ) -> None:
        name = self.chosen_topic(name)
        message = self.a_message(number, size, place=None, **head)
        topic = self.reference.topics[name]
        self._send(self.world.manager.topic(name), topic, PUBLISHERS[client], message, head, within)

    locals().update(again(publish, 6))

    @rule(
        name=st.sampled_from([*TOPICS, *FAVOURED_TOPICS]),
        head=heads,
        number=numbers,
        size=sizes,
        client=st.sampled_from(list(PUBLISHERS)),
    )
    def publish_at_once(self, name: str, head: dict[str, Any], number: int, size: int, client: str) -> None:
        """Without a link that could wait for room."""
        name, now_us = self.chosen_topic(name), self.world.now_us
        message = self.a_message(number, size, place=None, **head)
        producer, topic = self.links[PUBLISHERS[client]], self.world.manager.topic(name)
        token = self.world.new_token()
        to, client = self.reference.topics[name], producer.container
        waiting = Waiting(token, NO_LINK, to, message, client=client, at_once=True)
        takers, answers = len(self.reference.takers(waiting)), self.reference.answers
        self.reference.send(waiting)
        try:
            found = self.world.manager.publish(producer, topic, a_head(**head), message.body, now_us)
        except ManagerError:
            answers.rejected.remove(token)
        else:
            answers.accepted.remove(token)
            assert found == takers
        self.rest()

    @rule(name=st.sampled_from([*QUEUES, "attached", "attached"]), head=heads, delete=st.integers(0, 3))
    def attach(self, name: str, head: dict[str, Any], delete: int) -> None:
        """Who attaches to a queue that isn't there has it made, and sends to it; or it is deleted again."""
        if name == "attached" and name in self.reference.places and delete == 0:
            self.world.manager.delete_queue(name, True, False, self.world.now_us)
            self.reference.refuse(self.reference.waiting_for(self.reference.places[name]))
            self.reference.remove(self.reference.places[name])
            self.rest()
            return
        queue = self.world.manager.queue_for_attach(name, self.world.now_us)
        place = self.reference.places.setdefault(name, Place(name))
        assert queue is self.queue(name)
        if name == "attached":
            message = self.a_message(0, 4, place=place, **head)
            self._send(queue, place, 0, message, head, False)

    @rule(name=st.sampled_from([*TOPICS, "news.attached"]), head=heads, delete=st.integers(0, 3))
    def attach_topic(self, name: str, head: dict[str, Any], delete: int) -> None:
        """The same with a topic, to which nobody subscribes but by patterns."""
        topics, manager, now_us = self.reference.topics, self.world.manager, self.world.now_us
        if name == "news.attached" and name in topics and delete == 0:
            manager.delete_topic(name, True, now_us)
            self.reference.refuse(self.reference.waiting_for(topics.pop(name)))
            self.rest()
            return
        node = manager.topic_for_attach(name, now_us)
        topic = topics.setdefault(name, TopicPlace(name))
        assert node is manager.topic(name)
        if name == "news.attached":
            message = self.a_message(0, 4, place=None, **head)
            self._send(node, topic, PUBLISHERS["me"], message, head, False)

    @rule(link=st.integers(0, LINKS - 1))
    def abort_upload(self, link: int) -> None:
        """Nothing is left of a body that isn't finished."""
        manager = self.world.manager
        upload = manager.begin_upload(self.links[link])
        manager.upload_chunk(upload, b"half", self.world.now_us)
        manager.abort_upload(upload)
        self.rest()

    @rule(link=st.integers(0, LINKS - 1))
    def refused(self, link: int) -> None:
        """What is refused before a queue is asked changes nothing."""
        producer, now_us = self.links[link], self.world.now_us
        self.world.manager.refused(producer, "nowhere", 4, "amqp:not-found", "there is no queue", now_us)
        self.rest()

    @precondition(lambda self: self.transactions)
    @rule(data=st.data())
    def spoil(self, data: st.DataObject) -> None:
        """Something of a transaction was lost before it came here: it can only be rolled back."""
        transaction = data.draw(st.sampled_from(self.transactions))
        self.transactions.remove(transaction)
        self.world.manager.spoil(transaction, "lost", self.world.now_us)
        with pytest.raises(TransactionRolledBack):
            self.world.manager.commit(transaction, self.world.now_us)
        self.reference.rollback(transaction)
        self.decided()

    @precondition(lambda self: len(self.transactions) < 2)
    @rule()
    def begin(self) -> None:
        self.transactions.append(self.world.manager.begin(self.world.now_us))

    @precondition(lambda self: self.transactions)
    @rule(data=st.data(), commit=st.booleans())
    def decide(self, data: st.DataObject, commit: bool) -> None:
        self.decide_one(data.draw(st.sampled_from(self.transactions)), commit)
