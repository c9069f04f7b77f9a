"""Rules of the random test: what administrators and time do."""

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from postroom.manager.kernel.errors import QueueInUse, QuotaInUse, QuotaNotFound
from postroom.manager.kernel.quota_definition import QuotaDefinition
from postroom.model.codes import Outcome
from tests.manager.random_commands.machine import QUEUES, TOPICS, Machine

switches = st.sampled_from(["production", "insertion", "insertion", "consumption"])


class Administering(Machine):
    @rule(ms=st.sampled_from([1, 2, 5, 30]))
    def wait(self, ms: int) -> None:
        self.pass_time(ms)

    wait_1 = wait_2 = wait

    @rule(name=st.sampled_from([*QUEUES, *TOPICS]), switch=switches)
    def turn_over(self, name: str, switch: str) -> None:
        """Pause what runs, resume what is paused."""
        where = self.reference.topics.get(name) or self.reference.places[name]
        self.turn_switch(name, switch, not getattr(where, switch))

    @rule(name=st.sampled_from(QUEUES))
    def purge(self, name: str) -> None:
        place = self.reference.places[name]
        before = len(place.messages)
        ended = self.world.manager.purge_queue(name, self.world.now_us)
        self.reference.purge(place, Outcome.PURGED)
        assert ended == before - len(place.messages)
        self.rest()

    @rule(name=st.sampled_from(["plain", "strict", "late", "units", "groups", "single", "small", "roomy"]))
    def delete(self, name: str) -> None:
        """Delete a queue with what is on it, and make another like it."""
        place = self.reference.places[name]
        definition = self.queue(name).definition
        if any(message.transaction is not None for message in place.messages):
            with pytest.raises(QueueInUse):
                self.world.manager.delete_queue(name, False, False, self.world.now_us)
            return
        for consumer in [c for c in self.consumers if c.queue.name == name]:
            self.gone(consumer, True)
        forced = self.drop_spark(name)
        if forced:
            with pytest.raises(QueueInUse):
                self.world.manager.delete_queue(name, False, False, self.world.now_us)
        self.world.manager.delete_queue(name, False, False, self.world.now_us, forced)
        self.world.manager.create_queue(definition, self.world.now_us)
        self.reference.make_again(place)
        self.rest()

    @rule(names=st.sets(st.sampled_from([*QUEUES, *TOPICS]), max_size=4))
    def name_in_leases(self, names: set[str]) -> None:
        """Bodies of non-persistent messages are stored, too, which nobody sees who isn't a reader of the
        ledger."""
        self.world.manager.set_leased(frozenset(names))

    @rule(maximum=st.integers(2, 5))
    def change_quota(self, maximum: int) -> None:
        definition = self.queue("small").definition
        self.world.manager.update_queue(replace(definition, max_messages=maximum), self.world.now_us)
        pool = self.reference.places["small"].pool
        assert pool is not None
        pool.most = maximum
        self.rest()

    @rule(maximum=st.integers(1, 6))
    def change_room(self, maximum: int) -> None:
        """Of the quota that a queue and the subscriptions to a topic share."""
        manager, now_us = self.world.manager, self.world.now_us
        with pytest.raises(QuotaInUse):
            manager.delete_quota("room", now_us)
        definition = replace(manager.quota("room").definition, messages_maximum=maximum)
        manager.update_quota(definition, now_us)
        pool = self.reference.places["roomy"].pool
        assert pool is not None
        pool.most = maximum
        self.rest()

    @rule()
    def make_or_delete_quota(self) -> None:
        """One that nobody is under."""
        manager, now_us = self.world.manager, self.world.now_us
        if "spare" in manager.quotas:
            manager.delete_quota("spare", now_us)
            with pytest.raises(QuotaNotFound):
                manager.quota("spare")
        else:
            made = manager.create_quota(QuotaDefinition("spare"), now_us)
            assert manager.create_quota(QuotaDefinition("spare"), now_us) is made
        self.rest()

    @rule(name=st.sampled_from(QUEUES))
    def reset_statistics(self, name: str) -> None:
        self.queue(name).statistics.reset(self.world.now_us)
        self.reference.places[name].reset(self.world.now_us)

    @rule()
    def restart(self) -> None:
        self.world.restart()
        self._come_up()
        self.reference.restart()
        self.start_spark_again()
        self.rest()
        self.adopt_all_peaks()
