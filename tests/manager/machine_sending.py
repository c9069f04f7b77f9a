"""Rules of the random test: puts, publishes, and what transactions make of them."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.manager.machine import FAVOURED, LINKS, QUEUES, SEND_TIMEOUT_MS, STEP_US, TOPICS, Machine
from tests.manager.reference import Waiting
from tests.manager.reference_place import PUT
from tests.manager.reference_takers import BUCKETS
from tests.manager.world import MS

heads = st.fixed_dictionaries(
    {
        "priority": st.sampled_from([0, 4, 4, 4, 9]),
        "durable": st.sampled_from([True, True, True, False]),
        "ttl_ms": st.sampled_from([-1, -1, -1, 3, 20]),
        "delay_ms": st.sampled_from([0, 0, 0, 4]),
        "message_id": st.sampled_from(["", "", "id 1", "id 2"]),
    }
)
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
            self._put("groups" if name == "small" else name, head, number, size, within, group)

    put_1 = put_2 = put_3 = put

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
        token = self.world.put(self.queue(name), message.body, self.sink, transaction, **head)
        if transaction is not None:
            message.state, message.transaction = PUT, transaction
        self.reference.send(Waiting(token, LINKS, place, message, 0, 0))
        self.rest()

    @rule(link=st.integers(0, LINKS - 1), to_small=st.integers(0, 3), head=heads, size=sizes)
    def send(self, link: int, to_small: int, head: dict[str, Any], size: int) -> None:
        """On a link whose sends wait for room, and for each other."""
        name = "small" if to_small else "strict"
        place, now_us = self.reference.places[name], self.world.now_us
        message = self.a_message(0, size, place=place, **head)
        queue, producer = self.queue(name), self.link(link)
        token = self.world.put(queue, message.body, self.sink, producer=producer, **head)
        due_us = now_us + SEND_TIMEOUT_MS * MS + STEP_US
        self.reference.send(Waiting(token, link, place, message, due_us, now_us))
        self.rest()

    send_1 = send_2 = send

    @rule(link=st.integers(0, LINKS - 1))
    def lose_link(self, link: int) -> None:
        gone = [waiting for waiting in self.reference.line if waiting.link == link]
        tokens = self.world.manager.withdraw_sends(self.link(link), self.world.now_us)
        assert sorted(tokens) == [waiting.token for waiting in gone]
        for waiting in gone:
            self.reference.leave(waiting)
        self.rest()

    @rule(
        name=st.sampled_from(TOPICS),
        head=heads,
        number=numbers,
        size=sizes,
        within=st.booleans(),
        local=st.booleans(),
    )
    def publish(
        self, name: str, head: dict[str, Any], number: int, size: int, within: bool, local: bool
    ) -> None:
        transaction = self.a_transaction(within)
        message = self.a_message(number, size, place=None, **head)
        if transaction is not None:
            message.state, message.transaction = PUT, transaction
        topic = self.world.manager.topic(name)
        producer = self.publisher if local else None
        token = self.world.put(topic, message.body, self.sink, transaction, producer, **head)
        self.reference.publish(self.reference.topics[name], token, message, "me" if local else "test")
        self.rest()

    publish_1 = publish_2 = publish

    @precondition(lambda self: len(self.transactions) < 2)
    @rule()
    def begin(self) -> None:
        self.transactions.append(self.world.manager.begin(self.world.now_us))

    @precondition(lambda self: self.transactions)
    @rule(data=st.data(), commit=st.booleans())
    def decide(self, data: st.DataObject, commit: bool) -> None:
        self.decide_one(data.draw(st.sampled_from(self.transactions)), commit)
