"""Rules of the random test: a Spark job that writes, in branches that are kept whatever fails."""

import sys
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from postroom.manager.kernel.errors import SinkBranchUnknown, SinkFenced
from postroom.manager.queues.queue import Queue
from tests.manager.random_commands.machine import (
    FAVOURED,
    FAVOURED_TOPICS,
    LINKS,
    PUBLISHERS,
    QUEUES,
    TOPICS,
    Machine,
)
from tests.manager.random_commands.reference_destination import PUT, Message, Place, TopicPlace
from tests.manager.random_commands.reference_quotas import Waiting
from tests.manager.random_commands.send_rules import heads, numbers, sizes
from tests.manager.sink_world import Job

MAX_BRANCHES = 3


class SinkRules(Machine):
    """In the reference a branch is a transaction that goes by its name."""

    def _come_up(self) -> None:
        super()._come_up()
        if not hasattr(self, "job"):
            self.job, self.batch_id = Job(self.world), 0
            self.sealed: dict[str, bool] = {}
            """Undecided branches by name."""
        apps = self.world.manager.sinks.all()
        known = set(apps[0].branches) if apps else set()
        for name in set(self.sealed) - known:
            assert not self.sealed[name] and not self._count(name), "only what is empty goes with a restart"
            del self.sealed[name]

    @precondition(lambda self: len(self.sealed) < MAX_BRANCHES)
    @rule()
    def begin_branch(self) -> None:
        branch = self.job.opened(self.batch_id, len(self.sealed))
        sinks = self.world.manager.sinks
        assert sinks.holder_of("app", branch.name) == branch.transaction.id
        assert {row.name for row in sinks.branches(sinks.find("app"))} == {*self.sealed, branch.name}
        self.sealed[branch.name] = False

    @precondition(lambda self: self.sealed)
    @rule(
        data=st.data(),
        name=st.sampled_from([*QUEUES, *FAVOURED]),
        head=heads,
        number=numbers,
        size=sizes,
    )
    def write(self, data: st.DataObject, name: str, head: dict[str, Any], number: int, size: int) -> None:
        name = self.chosen(name)
        place = self.reference.places[name]
        message = self.a_message(number, size, place=place, **head)
        self._write(data, self.queue(name), place, message, head, "sender")

    @precondition(lambda self: self.sealed)
    @rule(
        data=st.data(),
        name=st.sampled_from([*TOPICS, *FAVOURED_TOPICS]),
        head=heads,
        number=numbers,
        size=sizes,
        client=st.sampled_from(list(PUBLISHERS)),
    )
    def write_to_topic(
        self,
        data: st.DataObject,
        name: str,
        head: dict[str, Any],
        number: int,
        size: int,
        client: str,
    ) -> None:
        name = self.chosen_topic(name)
        message = self.a_message(number, size, place=None, **head)
        self._write(data, self.world.manager.topic(name), self.reference.topics[name], message, head, client)

    def _write(
        self,
        data: st.DataObject,
        queue: Queue,
        to: Place | TopicPlace,
        message: Message,
        head: dict[str, Any],
        client: str,
    ) -> None:
        """It never waits; whatever its mode, it is stored. A branch that is sealed takes nothing."""
        branch = data.draw(st.sampled_from(list(self.sealed)))
        message.state, message.transaction = PUT, branch
        transaction = self.world.manager.sinks.find("app").branches[branch].transaction
        producer = self.links.get(PUBLISHERS.get(client, -1), self.world._producer)
        token = self.hand_over(queue, message, producer, transaction, head, message.number == 2)
        message.in_pieces = True
        if self.sealed[branch]:
            self.reference.answers.rejected.append(token)
        else:
            link = PUBLISHERS.get(client, LINKS)
            self.reference.send(Waiting(token, link, to, message, client=client, at_once=True))
        self.rest()

    @precondition(lambda self: self.sealed)
    @rule(data=st.data())
    def seal_branch(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(list(self.sealed)))
        sealed = self.world.manager.sinks.seal("app", name, self.world.now_us)
        assert len(sealed.transaction.puts) == self._count(name)
        self.sealed[name] = True

    def _count(self, branch: str) -> int:
        return sum(len(self.reference.of(place, branch, PUT)) for place in self.reference.all_places())

    @precondition(lambda self: any(self.sealed.values()))
    @rule(data=st.data())
    def commit_batch(self, data: st.DataObject) -> None:
        """Some win, in any order; the others lose. Asked again it is the same."""
        sealed = [name for name, is_sealed in self.sealed.items() if is_sealed]
        winners = data.draw(st.lists(st.sampled_from(sealed), unique=True))
        count = sum(self._count(name) for name in winners)
        assert self.job.commit(*winners, batch_id=self.batch_id) == (True, count)
        for name in winners:
            self.reference.commit(name)
        self._all_lost([name for name in self.sealed if name not in winners])
        assert self.job.commit(batch_id=self.batch_id) == (False, 0)
        assert self.job.begin(self.batch_id) is None
        self.batch_id += 1

    def _all_lost(self, names: list[str]) -> None:
        for name in names:
            self.reference.rollback(name)
        self.sealed.clear()
        self.decided()
        for name in names:
            with pytest.raises(SinkBranchUnknown):
                self.world.manager.sinks.seal("app", name, self.world.now_us)

    @precondition(lambda self: self.sealed)
    @rule()
    def next_run(self) -> None:
        before, names = self.job, list(self.sealed)
        self.job = before.next_run(before.run_id + "'")
        name = self.job.opened(self.batch_id).name
        self._all_lost(names)
        self.sealed[name] = False
        with pytest.raises(SinkFenced):
            before.begin(self.batch_id)

    @precondition(lambda self: self.sealed)
    @rule(data=st.data())
    def roll_branch_back(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(list(self.sealed)))
        assert self.world.manager.sinks.rollback("app", name, self.world.now_us) == 1
        del self.sealed[name]
        self.reference.rollback(name)
        self.decided()

    @precondition(lambda self: self.world.manager.sinks.all())
    @rule()
    def forget_sink(self) -> None:
        """What it has decided is known no more."""
        names = list(self.sealed)
        assert self.world.manager.sinks.forget("app", self.world.now_us) == len(names)
        self._all_lost(names)
        self.batch_id = 0

    def teardown(self) -> None:
        if sys.exc_info()[0] is None and hasattr(self, "world") and self.world.manager.sinks.all():
            self.forget_sink()
        super().teardown()
