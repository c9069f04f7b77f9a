"""Rules of the random test: the verbs of the message store, on the queue "plain"."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from postroom.manager.kernel.errors import DestinationPaused, NoMatchingMessage
from postroom.manager.message_store.verbs import Get
from postroom.model.codes import Outcome
from tests.manager.random_commands.machine import Machine
from tests.manager.random_commands.reference import Lock
from tests.manager.random_commands.reference_destination import (
    AVAILABLE,
    GOT_BY_ID,
    GOT_BY_LOCK,
    LOCKED,
    PUT_BY_ID,
    Message,
    Place,
)
from tests.manager.random_commands.send_rules import heads, numbers, sizes
from tests.manager.store_face import Recorder, a_filter, rows_of
from tests.manager.world import MS


def _through(message: Message) -> int:
    """The lock that it was got through; 0 none."""
    return message.lock if message.state == GOT_BY_LOCK else 0


confirm_ids = st.integers(0, 2)
LEASES_MS = st.sampled_from([5, 1000])


class Storing(Machine):
    def plain(self) -> Place:
        return self.reference.places["plain"]

    def store(self, verb: Callable[[], Any], possible: bool) -> Any:
        """Do it; there is nothing that it could mean unless ``possible``."""
        if possible:
            return verb()
        with pytest.raises(NoMatchingMessage):
            verb()
        return None

    @rule(confirm=confirm_ids, head=heads, number=numbers, size=sizes)
    def store_put(self, confirm: int, head: dict[str, Any], number: int, size: int) -> None:
        place = self.plain()
        message = self.a_message(number, size, place=place, **head)
        if place.closed():
            with pytest.raises(DestinationPaused):
                self.face.put(message.body, confirm, **head)
            return
        message.uid = self.face.put(message.body, confirm, **head)
        message.state, message.confirm = PUT_BY_ID if confirm else AVAILABLE, confirm
        self.reference.arrive(place, message)
        self.rest()

    store_put_1 = store_put

    @rule(data=st.data())
    def store_confirm_put(self, data: st.DataObject) -> None:
        put = [message for message in self.plain().messages if message.state == PUT_BY_ID]
        if put:
            message = data.draw(st.sampled_from(put))
            assert message.uid is not None
            self.face.confirm_put(message.uid, message.confirm)
            self.reference.complete(self.plain(), message)
            self.rest()

    @rule(confirm=confirm_ids)
    def store_get(self, confirm: int) -> None:
        place = self.plain()
        waiting = [] if place.consumption else place.available()
        got = self.store(lambda: self.face.get(confirm), bool(waiting))
        if got is not None:
            assert got[1] == waiting[0].body
            self._got(waiting[0], got[0], confirm)
        self.rest()

    def _got(self, message: Message, uid: tuple[str, int], confirm: int) -> None:
        message.uid = uid
        if confirm == 0:
            self.reference.end(self.plain(), message, Outcome.CONSUMED)
        else:
            message.state = GOT_BY_LOCK if message.state == LOCKED else GOT_BY_ID
            message.confirm = confirm

    @rule(confirm=confirm_ids, lease_ms=LEASES_MS)
    def store_lock(self, confirm: int, lease_ms: int) -> None:
        waiting = self.plain().available()
        lock, found = self.face.lock(confirm, lease_ms)
        if not waiting:
            assert (lock, found) == (0, [])
        else:
            assert [body for _, body in found] == [message.body for message in waiting]
            self.reference.locks[lock] = Lock(confirm, self.world.now_us + lease_ms * MS)
            for message, (uid, _) in zip(waiting, found, strict=True):
                message.state, message.lock, message.uid = LOCKED, lock, uid
        self.rest()

    def _locked(self, data: st.DataObject) -> list[Message]:
        """What one of the locks holds, in order."""
        locked = [message for message in self.plain().messages if message.state == LOCKED]
        lock = data.draw(st.sampled_from(sorted({message.lock for message in locked}))) if locked else 0
        return sorted((message for message in locked if message.lock == lock), key=Message.rank)

    @rule(data=st.data(), confirm=confirm_ids)
    def store_get_locked(self, data: st.DataObject, confirm: int) -> None:
        locked = self._locked(data)
        if locked:
            got = self.store(
                lambda: self.face.get(confirm, lock=locked[0].lock), not self.plain().consumption
            )
            if got is not None:
                assert got[1] == locked[0].body
                self._got(locked[0], got[0], confirm)
            self.rest()

    @rule(data=st.data(), all_of_it=st.booleans(), delete=st.booleans())
    def store_unlock_or_delete(self, data: st.DataObject, all_of_it: bool, delete: bool) -> None:
        locked = self._locked(data)
        if not locked:
            return
        chosen = locked if all_of_it and not delete else [data.draw(st.sampled_from(locked))]
        lock, uid = chosen[0].lock, chosen[0].uid
        if delete:
            self.face.delete(uid, lock)
            self.reference.end(self.plain(), chosen[0], Outcome.DELETED)
        else:
            self.face.unlock(lock, None if len(chosen) > 1 else uid)
            for message in chosen:
                self.reference.come_back(self.plain(), message, False, False)
        self.rest()

    @rule(data=st.data())
    def store_confirm_get(self, data: st.DataObject) -> None:
        got = [m for m in self.plain().messages if m.state in (GOT_BY_ID, GOT_BY_LOCK)]
        if got:
            message = data.draw(st.sampled_from(got))
            assert message.uid is not None
            self.face.confirm_get(message.uid, message.confirm)
            self.reference.end(self.plain(), message, Outcome.CONSUMED)
            self.rest()

    @rule(confirm=st.integers(1, 2))
    def store_confirm(self, confirm: int) -> None:
        held = [message for message in self.plain().messages if message.confirm == confirm]
        count = self.store(lambda: self.face.confirm(confirm), bool(held))
        assert count is None or count == len(held)
        for message in sorted(held, key=lambda m: m.serial):
            if message.state == PUT_BY_ID:
                self.reference.complete(self.plain(), message)
            else:
                self.reference.end(self.plain(), message, Outcome.CONSUMED)
        self.rest()

    @rule(confirm=st.integers(1, 2))
    def store_undo(self, confirm: int) -> None:
        held = [message for message in self.plain().messages if self._means(message, confirm)]
        count = self.store(lambda: self.face.undo(confirm), bool(held))
        assert count is None or count == len(held)
        for message in held:
            self.reference.undo(self.plain(), message)
        self.rest()

    @rule(data=st.data())
    def store_end(self, data: st.DataObject) -> None:
        """An administrator ends a confirm id or a lock."""
        holders = self.face.holders()
        if not holders:
            with pytest.raises(NoMatchingMessage):
                self.face.end(1 << 40)
            return
        holder = data.draw(st.sampled_from(sorted(holders)))
        confirm, lock = holders[holder]
        if confirm == 0:
            self.reference.locks[lock].over = True
            held = [m for m in self.plain().messages if m.state == LOCKED and m.lock == lock]
        else:
            held = [m for m in self.plain().messages if m.confirm == confirm and _through(m) == lock]
        assert self.face.end(holder) == len(held)
        for message in held:
            self.reference.undo(self.plain(), message)
        self.rest()

    def _means(self, message: Message, confirm: int) -> bool:
        by_lock = message.state == LOCKED and self.reference.locks[message.lock].confirm == confirm
        return message.confirm == confirm or by_lock

    @rule(just_ids=st.booleans())
    def store_browse(self, just_ids: bool) -> None:
        """Everything that is available, in order."""
        found = self.face.browse_ids() if just_ids else self.face.browse()
        expected = self.plain().in_sight()
        assert [body for _, body in found] == [b"" if just_ids else message.body for message in expected]
        assert all(message.uid in (None, uid) for message, (uid, _) in zip(expected, found, strict=True))

    @rule()
    def store_listen(self) -> None:
        """What has become available since the listener has heard last, and is still there."""
        position, rank = self.heard
        answer = self.face.listen(position).result()
        expected = [m for m in self.plain().in_sight() if m.order > rank] if position >= 0 else []
        assert sorted(row.priority for row in answer.rows) == sorted(m.priority for m in expected)
        self.heard = (int(answer.after[0]), self.reference.last_rank())

    @rule(confirm=st.integers(1, 2))
    def store_wait(self, confirm: int) -> None:
        """For a message, if there is none; but not for long."""
        asker = Recorder()
        request = Get(self.face.queue, asker, a_filter(), confirm, self.world.now_us + MS)
        self.world.manager.submit_request(request, self.world.now_us)
        self.world.turn()
        waiting = [] if self.plain().consumption else self.plain().available()
        if waiting:
            ((uid, body),) = rows_of(asker.result())
            assert body == waiting[0].body
            self._got(waiting[0], uid, confirm)
        else:
            self.world.manager.cancel_request(request)
        self.rest()
        assert waiting or asker.answer is None
