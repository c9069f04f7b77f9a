"""The message store of MQ Everyplace: every row of its state table, and what holds around it."""

from collections.abc import Callable

import pytest

from postroom.manager.kernel.errors import DuplicateMessage, NoMatchingMessage, NotAllowed
from postroom.manager.kernel.options import ManagerOptions
from postroom.model.codes import Outcome, State
from tests.manager.store_face import StoreFace, Uid
from tests.manager.world import UNREADABLE, UNREADABLE_DELAY_MS, World

C, OTHER = 7, 8
"""Confirm ids."""


class Case:
    """One message on a queue, brought into a state."""

    def __init__(self, state: str, ttl_ms: int = -1) -> None:
        self.ttl_ms = ttl_ms
        self.world = World()
        self.face = StoreFace(self.world)
        self.uid: Uid = ("QM1", 1)
        self.lock = 0
        getattr(self, "_" + state)()
        self.state = State[_NAMES[state]]
        assert self.now() == self.state

    def _put_unconfirmed(self) -> None:
        self.face.put(uid=self.uid, confirm=C, ttl_ms=self.ttl_ms)

    def _unlocked(self) -> None:
        self.face.put(uid=self.uid, ttl_ms=self.ttl_ms)

    def _locked(self) -> None:
        self._unlocked()
        self.lock, _ = self.face.lock(confirm=C)

    def _got(self) -> None:
        self._unlocked()
        self.face.get(confirm=C)

    def _got_through_lock(self) -> None:
        self._unlocked()
        self.lock, _ = self.face.lock(confirm=OTHER)
        self.face.get(confirm=C, lock=self.lock)

    def now(self) -> State:
        """The state that the message is in."""
        counts = self.face.queue.statistics
        if counts.depth == 0:
            return State.DELETED
        store = self.face.queue.store
        if store is not None and store.held:
            (entry,) = store.held.values()
            return State(entry.state)
        assert counts.current == 1
        return State.AVAILABLE


_NAMES = {
    "put_unconfirmed": "PUT_UNCONFIRMED",
    "unlocked": "AVAILABLE",
    "locked": "LOCKED_FOR_BROWSE",
    "got": "GET_UNCONFIRMED",
    "got_through_lock": "BROWSE_GET_UNCONFIRMED",
}
_NO_MATCH = NoMatchingMessage
_DELETED, _AVAILABLE = State.DELETED, State.AVAILABLE

Verb = Callable[[Case], object]

VERBS: dict[str, Verb] = {
    "put again": lambda c: c.face.put(uid=c.uid),
    "put again, confirm id": lambda c: c.face.put(uid=c.uid, confirm=OTHER),
    "put again, resend": lambda c: c.face.put(b"again", uid=c.uid, confirm=C, resend=True),
    "confirmPut": lambda c: c.face.confirm_put(c.uid, C),
    "confirmPut, wrong id": lambda c: c.face.confirm_put(c.uid, 99),
    "confirmPut, no id": lambda c: c.face.confirm_put(c.uid),
    "get": lambda c: c.face.get(uid=c.uid),
    "get, confirm id": lambda c: c.face.get(confirm=C, uid=c.uid),
    "get, lock": lambda c: c.face.get(lock=c.lock or 1),
    "get, lock and confirm id": lambda c: c.face.get(lock=c.lock or 1, confirm=C),
    "get, wrong lock": lambda c: c.face.get(lock=999),
    "confirmGet": lambda c: c.face.confirm_get(c.uid, C),
    "confirmGet, wrong id": lambda c: c.face.confirm_get(c.uid, 99),
    "confirmGet, no id": lambda c: c.face.confirm_get(c.uid),
    "confirm": lambda c: c.face.confirm(C),
    "confirm, wrong id": lambda c: c.face.confirm(99),
    "undo": lambda c: c.face.undo(C),
    "undo, wrong id": lambda c: c.face.undo(99),
    "browse": lambda c: _browsed(c),
    "lock": lambda c: _locked(c),
    "unlock": lambda c: c.face.unlock(c.lock or 1, c.uid),
    "unlock, wrong lock": lambda c: c.face.unlock(999, c.uid),
    "delete": lambda c: c.face.delete(c.uid),
    "delete, lock": lambda c: c.face.delete(c.uid, c.lock or 1),
    "delete, wrong lock": lambda c: c.face.delete(c.uid, 999),
    "wait": lambda c: _waited(c),
    "queue deleted": lambda c: c.world.manager.delete_queue("q", False, False, c.world.now_us),
}


def _browsed(case: Case) -> None:
    if not case.face.browse(uid=case.uid):
        raise NoMatchingMessage("a browse that finds nothing")


def _locked(case: Case) -> None:
    if case.face.lock(uid=case.uid) == (0, []):
        raise NoMatchingMessage("a browse that finds nothing, and locks nothing")


def _waited(case: Case) -> None:
    pending = case.face.wait(10, uid=case.uid)
    case.world.turn(20)
    pending.result()


TABLE: dict[str, dict[str, State | type[Exception]]] = {
    "put_unconfirmed": {
        "put again": DuplicateMessage,
        "put again, confirm id": DuplicateMessage,
        "put again, resend": State.PUT_UNCONFIRMED,
        "confirmPut": _AVAILABLE,
        "confirm": _AVAILABLE,
        "undo": _DELETED,
    },
    "unlocked": {
        "put again": DuplicateMessage,
        "put again, confirm id": DuplicateMessage,
        "put again, resend": State.PUT_UNCONFIRMED,
        "confirmPut": _AVAILABLE,
        "confirmPut, wrong id": _AVAILABLE,
        "confirmPut, no id": _AVAILABLE,
        "get": _DELETED,
        "get, confirm id": State.GET_UNCONFIRMED,
        "browse": _AVAILABLE,
        "lock": State.LOCKED_FOR_BROWSE,
        "delete": _DELETED,
        "wait": _DELETED,
    },
    "locked": {
        "put again": DuplicateMessage,
        "put again, confirm id": DuplicateMessage,
        "put again, resend": DuplicateMessage,
        "get, lock": _DELETED,
        "get, lock and confirm id": State.BROWSE_GET_UNCONFIRMED,
        "undo": _AVAILABLE,
        "unlock": _AVAILABLE,
        "delete, lock": _DELETED,
    },
    "got": {
        "put again": DuplicateMessage,
        "put again, confirm id": DuplicateMessage,
        "put again, resend": DuplicateMessage,
        "confirmGet": _DELETED,
        "confirm": _DELETED,
        "undo": _AVAILABLE,
    },
    "got_through_lock": {
        "put again": DuplicateMessage,
        "put again, confirm id": DuplicateMessage,
        "put again, resend": DuplicateMessage,
        "confirmGet": _DELETED,
        "confirm": _DELETED,
        "undo": State.LOCKED_FOR_BROWSE,
    },
}
"""State → verb → what follows; a verb that is missing finds no matching message. A queue can always go."""


def _expected(state: str, verb: str) -> State | type[Exception]:
    return _DELETED if verb == "queue deleted" else TABLE[state].get(verb, _NO_MATCH)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", TABLE)
def test_every_row_of_the_state_table(state: str, verb: str) -> None:
    case = Case(state)
    queue, statistics = case.face.queue, case.face.queue.statistics
    expected = _expected(state, verb)
    if isinstance(expected, State):
        VERBS[verb](case)
        if verb == "queue deleted":
            assert queue.deleted and statistics.depth == 0
            assert statistics.ended[Outcome.DELETED] == 1
        else:
            assert case.now() == expected
        return
    with pytest.raises(expected):
        VERBS[verb](case)
    assert case.now() == case.state, "what is refused changes nothing"


@pytest.mark.parametrize("state", TABLE)
def test_expiry_ends_a_message_in_every_state(state: str) -> None:
    case = Case(state, ttl_ms=50)
    case.world.turn(49)
    assert case.now() == case.state
    case.world.turn(600)
    assert case.now() == _DELETED
    assert case.face.queue.statistics.ended[Outcome.EXPIRED] == 1
    store = case.face.queue.store
    assert store is None or not (store.held or store.holders or store.locks)


@pytest.mark.parametrize("state", TABLE)
@pytest.mark.parametrize("verb", ["confirmPut", "confirmGet", "confirm", "undo", "get, lock", "delete, lock"])
def test_expiry_is_noticed_by_whoever_comes_first(state: str, verb: str) -> None:
    case = Case(state, ttl_ms=50)
    case.world.now_us += 50_000  # and no turn yet
    with pytest.raises(NoMatchingMessage):
        VERBS[verb](case)
    case.world.turn(600)
    assert case.now() == _DELETED


def unread(live_head: int) -> tuple[World, StoreFace]:
    """Three messages whose bodies have to be read, the first of them damaged."""
    world = World(ManagerOptions(body_cache_bytes=0, live_head=live_head))
    face = StoreFace(world)
    for number in range(3):
        face.put(b"%d" % number)
    world.turn()
    world.damaged.add(int(world.arrivals[0]["position"]))
    return world, face


@pytest.mark.parametrize("live_head", [0, 100])
def test_a_damaged_message_is_discarded_when_it_is_to_be_got(live_head: int) -> None:
    world, face = unread(live_head)
    assert face.get()[1] == b"1"
    assert world.events(face.queue)[0] == ("DISCARD", "DELETED", "DISCARDED")
    assert (face.queue.statistics.depth, face.queue.bodies.missing) == (1, live_head // 100)


@pytest.mark.parametrize("live_head", [0, 100])
def test_a_message_that_the_disk_does_not_give_is_left_where_it_is(live_head: int) -> None:
    world, face = unread(live_head)
    world.damage = UNREADABLE
    assert face.get()[1] == b"1"
    assert face.queue.statistics.depth == 2
    world.damaged.clear()
    world.turn(UNREADABLE_DELAY_MS)
    assert face.get()[1] == b"0"


def test_a_damaged_message_that_is_locked_stays_so() -> None:
    _, face = unread(100)
    lock, _ = face.lock()
    with pytest.raises(NotAllowed, match=r"the body of message \d+ is damaged"):
        face.get(lock=lock)
    face.unlock(lock)
    assert [face.get()[1] for _ in range(2)] == [b"1", b"2"]


@pytest.mark.parametrize(("verb", "available"), [("confirm", 3), ("undo", 0)])
def test_a_confirm_id_is_for_all_that_was_put_under_it(verb: str, available: int) -> None:
    face = StoreFace(World())
    for number in range(3):
        face.put(uid=("QM1", number), confirm=C)
    getattr(face, verb)(C)
    counts = face.queue.statistics
    assert (counts.depth, counts.current) == (available, available)
