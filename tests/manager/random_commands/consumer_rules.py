"""Rules of the random test: consumers, browsers, subscriptions, and what is said to deliveries."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from postroom.manager.consuming.settlement import Modification
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import AccessRefused
from postroom.manager.kernel.transaction import Transaction
from tests.manager.random_commands.machine import FAVOURED, QUEUES, TEXTS, WITH_QUOTA, Machine, again
from tests.manager.random_commands.reference_destination import REQUESTED_DELAY_US
from tests.manager.world import MS, TestSink

CREDITS = st.sampled_from([0, 1, 2, 5, 20, 20])
wanted = st.sampled_from([None, None, 0, 1])


class Taking(Machine):
    @precondition(lambda self: len(self.consumers) < 8)
    @rule(
        name=st.sampled_from([*QUEUES, *FAVOURED]),
        credit=CREDITS,
        wanted=wanted,
        delay_ms=st.sampled_from([0, 0, 3]),
        presettled=st.integers(0, 5),
        alone=st.integers(0, 9),
    )
    def open(
        self, name: str, credit: int, wanted: int | None, delay_ms: int, presettled: int, alone: int
    ) -> None:
        """One of them wants to be alone; where it can't be, or there are enough, it is refused."""
        name = self.chosen(name)
        options: dict[str, Any] = {"selector": TEXTS[wanted], "redelivery_delay_ms": delay_ms}
        options["presettled"] = presettled == 0 and name not in WITH_QUOTA
        options["exclusive"] = alone == 0
        if self.reference.places[name].takers.refuses(alone == 0):
            with pytest.raises(AccessRefused):
                self.world.consumer(self.queue(name), credit, **options)
        else:
            self.open_one(name, credit, **options)

    locals().update(again(open, 10))

    @rule(standby=st.booleans(), most=st.integers(1, 3))
    def change_access(self, standby: bool, most: int) -> None:
        """Who may come from now on; those who are there stay."""
        definition = replace(self.queue("single").definition, standby=standby, max_consumers=most)
        self.world.manager.update_queue(definition, self.world.now_us)
        takers = self.reference.places["single"].takers
        takers.standby, takers.most = standby, most
        self.rest()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), credit=CREDITS, drain=st.booleans())
    def credit(self, data: st.DataObject, credit: int, drain: bool) -> None:
        self.world.credit(data.draw(st.sampled_from(self.consumers)), credit, drain)
        self.rest()

    locals().update(again(credit, 4))

    @precondition(lambda self: any(c.held and not c.suspended for c in self.consumers))
    @rule(
        data=st.data(),
        verb=st.sampled_from(["accept", "accept", "release", "fail", "fail later", "not here", "reject"]),
        within=st.booleans(),
        settled=st.booleans(),
    )
    def settle(self, data: st.DataObject, verb: str, within: bool, settled: bool) -> None:
        consumer = data.draw(st.sampled_from([c for c in self.consumers if c.held and not c.suspended]))
        entry = data.draw(st.sampled_from(self.world.held(consumer)))
        transaction = self.a_transaction(within)
        self._settle(verb, consumer, entry, -1 if settled else 1, transaction)
        message = self.entries[entry]
        if transaction is None:
            del self.entries[entry]
            self.reference.settle(self.place_of(entry), message, verb)
        else:
            self.reference.got(message, transaction, verb, settled)
        self.rest()

    locals().update(again(settle, 20))

    @precondition(lambda self: any(c.held and not c.suspended for c in self.consumers))
    @rule(data=st.data(), verb=st.sampled_from(["accept", "fail", "reject"]))
    def settle_all(self, data: st.DataObject, verb: str) -> None:
        """Everything that a consumer holds, in order."""
        consumer = data.draw(st.sampled_from([c for c in self.consumers if c.held and not c.suspended]))
        for entry in self.world.held(consumer):
            self._settle(verb, consumer, entry, 1, None)
            self.reference.settle(self.place_of(entry), self.entries.pop(entry), verb)
            self.rest()

    locals().update(again(settle_all, 6))

    def _settle(
        self, verb: str, consumer: Consumer, entry: Entry, token: int, transaction: Transaction | None
    ) -> None:
        manager, now_us = self.world.manager, self.world.now_us
        if verb == "accept":
            manager.accept(consumer, entry, now_us, token, transaction)
        elif verb == "release":
            manager.release(consumer, entry, now_us, token, transaction)
        elif verb == "fail":
            manager.modify(consumer, entry, Modification(True), now_us, token, transaction)
        elif verb == "fail later":
            manager.modify(
                consumer, entry, Modification(True, delay_us=REQUESTED_DELAY_US), now_us, token, transaction
            )
        elif verb == "not here":
            manager.modify(consumer, entry, Modification(False, True), now_us, token, transaction)
        else:
            manager.reject(consumer, entry, "app:bad", "", now_us, token, transaction)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), lost=st.booleans())
    def close(self, data: st.DataObject, lost: bool) -> None:
        self.close_one(data.draw(st.sampled_from(self.consumers)), lost)

    @precondition(lambda self: any(not c.presettled for c in self.consumers))
    @rule(data=st.data(), timeout_ms=st.sampled_from([3, 10_000]))
    def suspend_or_resume(self, data: st.DataObject, timeout_ms: int) -> None:
        consumer = data.draw(st.sampled_from([c for c in self.consumers if not c.presettled]))
        takers = self.reference.places[consumer.queue.name].takers
        if consumer.suspended:
            self.world.manager.resume_consumer(consumer, TestSink(), self.world.now_us)
            takers.come_back(consumer)
        else:
            assert self.world.manager.suspend_consumer(consumer, timeout_ms * MS - 750, self.world.now_us)
            takers.leave_for_a_while(consumer)
        self.rest()
