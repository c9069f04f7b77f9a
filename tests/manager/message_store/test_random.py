"""The message store against a model of it that fits on a page: random verbs, restarts included."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from postroom.amqp.message.sections import Data, Message
from postroom.manager.kernel.errors import DuplicateMessage, ManagerError, NoMatchingMessage
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.message_store.verbs import Delete, Get, Undo
from postroom.model.codes import State
from tests.manager.over_ledger import LedgerWorld
from tests.manager.store_face import Recorder, StoreFace, Uid, a_filter
from tests.sampling import examples

PUT, FREE, LOCKED, GOT, THROUGH = (
    State.PUT_UNCONFIRMED,
    State.AVAILABLE,
    State.LOCKED_FOR_BROWSE,
    State.GET_UNCONFIRMED,
    State.BROWSE_GET_UNCONFIRMED,
)
SLOTS = {PUT: "uncommitted_put", FREE: "current", LOCKED: "browse_locked", GOT: "unacknowledged"}

UIDS = [("QM1", 1), ("QM1", 2), ("QM2", 1)]
confirm_ids = st.integers(0, 3)
FILTERS: list[dict[str, Any]] = [
    {},
    {"uid": UIDS[0]},
    {"uid": UIDS[1]},
    {"message_id": "m1"},
    {"correlation_id": "c1", "priority": 4},
    {"priority": 5},
    {"number": 1},
    {"message_id": "m1", "number": 1},
]
MARKS = [("", "", 0), ("m1", "", 1), ("m1", "c1", 0), ("", "c1", 1)]
"""Message id, correlation id, application property."""

wanted = st.sampled_from(FILTERS)


@dataclass
class Stored:
    """One message of the model."""

    uid: Uid
    body: bytes
    place: int
    priority: int
    durable: bool
    message_id: str
    correlation_id: str
    number: int
    state: State
    confirm: int = 0
    lock: int = 0


class Model:
    """What is on the queue, in whatever state."""

    def __init__(self) -> None:
        self.all: list[Stored] = []
        self.locks: dict[int, int] = {}
        self.confirmed: dict[Uid, int] = {}
        """Gets that were confirmed since the start."""
        """Lock id → confirm id of its browse."""
        self.places = 0

    def next_place(self) -> int:
        self.places += 1
        return self.places

    def of(self, uid: Uid) -> Stored | None:
        return next((each for each in self.all if each.uid == uid), None)

    def found(self, state: State, lock: int = 0, **wanted: Any) -> list[Stored]:
        fitting = [
            each
            for each in self.all
            if each.state == state
            and (state != LOCKED or each.lock == lock)
            and all(getattr(each, name) == value for name, value in wanted.items())
        ]
        return sorted(fitting, key=lambda each: (-each.priority, each.place))

    def one(self, state: State, lock: int = 0, **wanted: Any) -> Stored:
        found = self.found(state, lock, **wanted)
        if not found:
            raise NoMatchingMessage("the model has none")
        return found[0]

    def put(self, message: Stored, resend: bool) -> None:
        earlier = self.of(message.uid)
        if earlier is not None:
            if not resend or earlier.state not in (PUT, FREE):
                raise DuplicateMessage("the model has it")
            self.all.remove(earlier)
        self.all.append(message)

    def take(self, message: Stored, confirm: int) -> None:
        if confirm == 0:
            self.all.remove(message)
        else:
            message.state = THROUGH if message.state == LOCKED else GOT
            message.confirm = confirm

    def confirm_put(self, message: Stored) -> None:
        message.state, message.place, message.confirm = FREE, self.next_place(), 0

    def confirm_get(self, message: Stored) -> None:
        self.confirmed[message.uid] = message.confirm
        self.all.remove(message)

    def undo(self, message: Stored) -> None:
        if message.state == PUT:
            self.all.remove(message)
        elif message.state == THROUGH:
            message.state, message.confirm = LOCKED, 0
        else:
            message.state, message.confirm, message.lock = FREE, 0, 0


class StoreMachine(RuleBasedStateMachine):
    """Runs each verb on both and compares what the caller is told."""

    @initialize(live_head=st.sampled_from([2, 8192]))
    def begin(self, live_head: int) -> None:
        self.world = LedgerWorld(ManagerOptions(live_head=live_head, min_live_head=1))
        self.face = StoreFace(self.world)
        self.model = Model()
        self.bodies = 0
        for number in range(6):
            uid = UIDS[number] if number < len(UIDS) else None
            self.put(uid, number % 3, 3 + number % 3, True, False, MARKS[number % len(MARKS)])

    def both(self, real: Any, model: Any) -> tuple[Any, Any] | None:
        """What the two say; None if both refuse alike."""
        try:
            expected = model()
        except ManagerError as error:
            with pytest.raises(type(error)):
                real()
            return None
        return real(), expected

    @rule(
        uid=st.sampled_from([None, *UIDS]),
        confirm=confirm_ids,
        priority=st.integers(3, 5),
        durable=st.booleans(),
        resend=st.booleans(),
        marks=st.sampled_from(MARKS),
    )
    def put(
        self,
        uid: Uid | None,
        confirm: int,
        priority: int,
        durable: bool,
        resend: bool,
        marks: tuple[str, str, int],
    ) -> None:
        self.bodies += 1
        message_id, correlation_id, number = marks
        body = a_body(self.bodies, number)
        place = self.model.next_place()
        state = PUT if confirm else FREE
        message = Stored(
            uid or ("new", self.bodies),
            body,
            place,
            priority,
            durable,
            message_id,
            correlation_id,
            number,
            state,
            confirm,
        )
        answer = self.both(
            lambda: self.face.put(
                body,
                confirm,
                uid,
                resend,
                message_id,
                correlation_id,
                priority=priority,
                durable=durable,
            ),
            lambda: self.model.put(message, resend),
        )
        if answer is not None:
            message.uid = answer[0]
            assert uid is None or answer[0] == uid

    def _some(self, data: st.DataObject, *states: State) -> tuple[Uid, int]:
        """(unique id, confirm id) of a message in one of these states, or at times of another."""
        fitting = [each for each in self.model.all if each.state in states] or self.model.all
        if not fitting or data.draw(st.integers(0, 7)) == 0:
            return data.draw(st.sampled_from(UIDS)), data.draw(confirm_ids)
        chosen = data.draw(st.sampled_from(fitting))
        return chosen.uid, chosen.confirm

    def _confirm_id(self, data: st.DataObject) -> int:
        """A confirm id that is in use, or at times another."""
        used = {each.confirm for each in self.model.all} | set(self.model.locks.values())
        return data.draw(st.sampled_from(sorted({1, *used} - {0})))

    def _lock(self, data: st.DataObject) -> int:
        """A lock id under which something is locked, or at times another."""
        used = {each.lock for each in self.model.all if each.state == LOCKED}
        return data.draw(st.sampled_from(sorted(used) or [1, *self.model.locks]))

    @rule(data=st.data())
    def confirm_put(self, data: st.DataObject) -> None:
        uid, confirm = self._some(data, PUT)

        def model() -> None:
            message = self.model.of(uid)
            if message is not None and message.state == PUT and message.confirm == confirm:
                self.model.confirm_put(message)
            elif message is None or message.state != FREE:
                raise NoMatchingMessage("the model has none")

        self.both(lambda: self.face.confirm_put(uid, confirm), model)

    @rule(wanted=wanted, confirm=confirm_ids)
    def get(self, wanted: dict[str, Any], confirm: int) -> None:
        def model() -> tuple[Uid, bytes]:
            message = self.model.one(FREE, **wanted)
            self.model.take(message, confirm)
            return message.uid, message.body

        pending = self.both(lambda: self.face.get(confirm, **wanted), model)
        assert pending is None or pending[0] == pending[1]

    @rule(confirm=confirm_ids, data=st.data())
    def get_locked(self, confirm: int, data: st.DataObject) -> None:
        lock = self._lock(data)
        by = data.draw(st.sampled_from(FILTERS[:4]))

        def model() -> tuple[Uid, bytes]:
            message = self.model.one(LOCKED, lock, **by)
            self.model.take(message, confirm)
            return message.uid, message.body

        pending = self.both(lambda: self.face.get(confirm, lock=lock, **by), model)
        assert pending is None or pending[0] == pending[1]

    @rule(data=st.data())
    def confirm_get(self, data: st.DataObject) -> None:
        uid, confirm = self._some(data, GOT, THROUGH)

        def model() -> int:
            message = self.model.of(uid)
            if (message is None or message.state == FREE) and self.model.confirmed.get(uid, 0) == confirm > 0:
                return 0
            if message is None or message.state not in (GOT, THROUGH) or message.confirm != confirm:
                raise NoMatchingMessage("the model has none")
            self.model.confirm_get(message)
            return 1

        answer = self.both(lambda: self.face.confirm_get(uid, confirm), model)
        assert answer is None or answer[0] == answer[1]

    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        confirm = self._confirm_id(data)

        def model() -> int:
            held = [each for each in self.model.all if each.confirm == confirm]
            if not held:
                raise NoMatchingMessage("the model has none")
            puts = sorted((each for each in held if each.state == PUT), key=lambda each: each.place)
            for message in puts:
                self.model.confirm_put(message)
            for message in held:
                if message not in puts:
                    self.model.confirm_get(message)
            return len(held)

        answer = self.both(lambda: self.face.confirm(confirm), model)
        assert answer is None or answer[0] == answer[1]

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        confirm = self._confirm_id(data)

        def model() -> int:
            held = [
                each
                for each in self.model.all
                if each.confirm == confirm
                or (each.state == LOCKED and self.model.locks[each.lock] == confirm)
            ]
            if not held:
                raise NoMatchingMessage("the model has none")
            for message in held:
                self.model.undo(message)
            return len(held)

        answer = self.both(lambda: self.face.undo(confirm), model)
        assert answer is None or answer[0] == answer[1]

    @rule(wanted=wanted)
    def browse(self, wanted: dict[str, Any]) -> None:
        expected = [(each.uid, each.body) for each in self.model.found(FREE, **wanted)]
        assert self.face.browse(**wanted) == expected

    @rule(wanted=wanted, confirm=confirm_ids)
    def lock(self, wanted: dict[str, Any], confirm: int) -> None:
        found = self.model.found(FREE, **wanted)
        if not found:
            assert self.face.lock(confirm, **wanted) == (0, [])
            return
        lock, record = self.face.lock(confirm, **wanted)
        assert record == [(each.uid, each.body) for each in found]
        self.model.locks[lock] = confirm
        for message in found:
            message.state, message.lock = LOCKED, lock

    @rule(data=st.data(), all_of_it=st.booleans())
    def unlock(self, data: st.DataObject, all_of_it: bool) -> None:
        lock = self._lock(data)
        uid = None if all_of_it else self._some(data, LOCKED)[0]

        def model() -> int:
            by: dict[str, Any] = {"uid": uid} if uid else {}
            found = self.model.found(LOCKED, lock, **by)
            if not found:
                raise NoMatchingMessage("the model has none")
            for message in found:
                self.model.undo(message)
            return len(found)

        answer = self.both(lambda: self.face.unlock(lock, uid), model)
        assert answer is None or answer[0] == answer[1]

    @rule(data=st.data(), with_lock=st.booleans())
    def delete(self, data: st.DataObject, with_lock: bool) -> None:
        lock = self._lock(data) if with_lock else 0
        uid, _ = self._some(data, LOCKED if with_lock else FREE)

        def model() -> None:
            state = LOCKED if lock else FREE
            self.model.all.remove(self.model.one(state, lock, uid=uid))

        self.both(lambda: self.face.delete(uid, lock), model)

    @rule()
    def restart(self) -> None:
        self.world.restart()
        self.model.confirmed.clear()
        self.model.all = [each for each in self.model.all if each.durable]

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """What has no answer yet has not been."""
        queue, uid = self.face.queue, data.draw(st.sampled_from(UIDS))
        confirm = self._confirm_id(data)
        asker = [Recorder() for _ in range(3)]
        for request in (
            Undo(queue, asker[0], confirm),
            Get(queue, asker[1], a_filter(), confirm, 0),
            Delete(queue, asker[2], a_filter(uid)),
        ):
            self.world.manager.submit_request(request, self.world.now_us)
        self.world.crash()
        self.model.confirmed.clear()
        assert [each.answer for each in asker] == [None] * 3
        self.model.all = [each for each in self.model.all if each.durable]

    @invariant()
    def statistics_agree(self) -> None:
        if not hasattr(self, "face"):
            return
        statistics = self.face.queue.statistics
        counted = {state: sum(each.state == state for each in self.model.all) for state in State}
        slots = statistics.slots()
        for state, slot in SLOTS.items():
            also = counted[THROUGH] if state == GOT else 0
            assert slots[slot][0] == counted[state] + also
        assert statistics.depth == len(self.model.all)
        store = self.face.queue.store
        if store is not None:
            assert len(store.held) == len(self.model.all) - counted[FREE]
            assert len(store.serials) + len(store.unread) >= len(store.held)


def a_body(count: int, number: int) -> bytes:
    """Stored sections: an application property, and which message it is."""
    return Message(application_properties={"number": number}, body=Data([b"%d" % count])).encode()


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
