"""Requests to the message store that wait, listen, or meet a bound."""

from typing import Any

import pytest

from postroom.amqp.message.sections import Data, Message
from postroom.manager.kernel.errors import (
    DestinationPaused,
    LimitExceeded,
    NoMatchingMessage,
    QueueInUse,
    QueueNotFound,
    RequestInvalid,
)
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.message_store.browsing import Browse
from postroom.manager.message_store.pending_requests import store_requests_of
from postroom.manager.queues.store_holders import NO_CONFIRM_ID
from postroom.model.codes import State
from tests.manager.over_ledger import LedgerWorld
from tests.manager.store_face import Recorder, StoreFace, a_filter, rows_of
from tests.manager.world import World


def waiting(world: World) -> int:
    return int(store_requests_of(world.manager.core).count)


def test_who_waits_gets_the_first_that_matches(world: World, face: StoreFace) -> None:
    high, any_one = face.wait(1000, priority=9), face.wait(1000)
    face.put(b"low", priority=1)
    assert rows_of(any_one.result())[0][1] == b"low"
    assert high.answer is None
    uid = face.put(b"high", priority=9)
    assert rows_of(high.result()) == [(uid, b"high")]
    assert waiting(world) == 0


def test_waiting_ends_with_its_time(world: World, face: StoreFace) -> None:
    pending = face.wait(50)
    world.turn(49)
    assert pending.answer is None
    world.turn(1)
    with pytest.raises(NoMatchingMessage):
        pending.result()
    assert not face.queue.schedule.watched


def test_a_message_that_comes_back_is_given_to_who_waits(world: World, face: StoreFace) -> None:
    uid = face.put(b"x")
    face.get(confirm=3)
    pending = face.wait(1000, confirm=4)
    face.undo(3)
    assert rows_of(pending.result()) == [(uid, b"x")]
    assert face.queue.statistics.slots()["unacknowledged"] == (1, 1)


def test_consumers_come_before_who_waits(world: World, face: StoreFace) -> None:
    pending = face.wait(1000)
    world.consumer(face.queue, credit=1)
    world.put(face.queue, b"1")
    assert world.turn() == [b"1"]
    assert pending.answer is None
    world.put(face.queue, b"2")
    world.turn()
    assert rows_of(pending.result())[0][1] == b"2"


def test_who_has_gone_takes_nothing(world: World, face: StoreFace) -> None:
    pending = face.wait(1000)
    (request,) = store_requests_of(world.manager.core).waiting[int(face.queue.id)]
    world.manager.cancel_request(request)
    face.put(b"x")
    assert pending.answer is None and face.queue.statistics.current == 1
    world.turn(2000)
    assert pending.answer is None and waiting(world) == 0


def test_a_deleted_queue_is_told_to_who_waits(world: World, face: StoreFace) -> None:
    pending = face.wait(1000)
    world.manager.delete_queue("q", False, False, world.now_us)
    world.turn()
    with pytest.raises(QueueNotFound):
        pending.result()


def test_requests_that_wait_are_bounded() -> None:
    world = World(ManagerOptions(max_store_requests=2))
    face = StoreFace(world)
    face.wait(1000), face.wait(1000)
    with pytest.raises(LimitExceeded, match="max_store_requests"):
        face.put(b"x")


def test_one_read_serves_a_message_that_is_not_durable_yet() -> None:
    """A get may come in the turn of the put: it waits for the block, and reads what was not kept."""
    world = LedgerWorld(ManagerOptions(body_cache_bytes=0))
    face = StoreFace(world)
    world.put(face.queue, b"fresh")
    pending = face.wait(0)
    world.turn()
    assert rows_of(pending.result())[0][1] == b"fresh"


def test_pausing_holds_for_the_store_as_for_others(world: World, face: StoreFace) -> None:
    uid = face.put(b"1", confirm=3)
    for switch in ("consumption", "insertion"):
        world.manager.pause(face.queue, switch, world.now_us)
    with pytest.raises(DestinationPaused, match="paused"):
        face.put(b"2")
    face.confirm_put(uid, 3)
    assert face.browse() == []
    pending = face.wait(1000)
    world.manager.resume(face.queue, "insertion", world.now_us)
    world.turn()
    assert face.browse() == [(uid, b"1")]
    assert pending.answer is None
    world.manager.resume(face.queue, "consumption", world.now_us)
    world.turn()
    assert rows_of(pending.result()) == [(uid, b"1")]


# Listening.


def position_of(requested: Recorder) -> int:
    return requested.result().after[0]


def listened(requested: Recorder) -> list[tuple[str, int]]:
    return [uid for uid, _ in rows_of(requested.result())]


def test_a_listener_hears_what_becomes_available(world: World, face: StoreFace) -> None:
    face.put(b"before")
    start = position_of(face.listen(-1))
    pending = face.listen(start, 1000)
    world.turn()
    assert pending.answer is None
    late = face.put(b"held", confirm=3)
    assert pending.answer is None
    face.confirm_put(late, 3)
    assert listened(pending) == [late]
    world.turn()
    again = face.listen(position_of(pending), 10)
    world.turn(10)
    assert listened(again) == []


def test_a_listener_hears_only_what_it_wants(world: World, face: StoreFace) -> None:
    start = position_of(face.listen(-1))
    pending = face.listen(start, 1000, priority=9)
    face.put(b"low")
    assert pending.answer is None
    uid = face.put(b"high", priority=9)
    assert listened(pending) == [uid]


def test_a_listener_hears_of_many_in_pages() -> None:
    world = LedgerWorld(ManagerOptions(store_page_entries=10, live_head=8, min_live_head=4))
    face = StoreFace(world)
    position = position_of(face.listen(-1))
    sent = [face.put(b"%d" % number, priority=number % 3) for number in range(45)]
    heard: list[Any] = []
    while len(heard) < len(sent):
        pending = face.listen(position)
        world.turn()
        heard += listened(pending)
        position = position_of(pending)
    assert heard == sent


# Locks, bounds, and what a caller must say.


def test_a_lock_ends_with_its_lease_and_what_was_got_through_it_comes_back_unlocked(world: World) -> None:
    face = StoreFace(world)
    first, second = face.put(b"1"), face.put(b"2")
    lock, _ = face.lock(confirm=5, lease_ms=100)
    face.get(lock=lock, uid=first, confirm=6)
    world.turn(99)
    assert face.browse() == []
    world.turn(1)
    assert face.browse() == [(second, b"2")]
    with pytest.raises(NoMatchingMessage):
        face.unlock(lock)
    face.undo(6)
    assert face.browse() == [(first, b"1"), (second, b"2")]
    assert face.queue.store is not None and not face.queue.store.locks


def test_a_lease_is_at_most_that_of_the_queue_manager() -> None:
    world = World(ManagerOptions(browse_lock_ms=50))
    face = StoreFace(world)
    face.put()
    face.lock(lease_ms=10_000)
    world.turn(50)
    assert len(face.browse()) == 1


def test_one_browse_locks_a_bounded_number() -> None:
    world = World(ManagerOptions(max_browse_lock_entries=3))
    face = StoreFace(world)
    for number in range(4):
        face.put(b"%d" % number, priority=number)
    with pytest.raises(LimitExceeded, match="max_browse_lock_entries"):
        face.lock()
    assert len(face.browse()) == 4
    assert len(face.lock(priority=2)[1]) == 1


def test_one_confirm_id_holds_a_bounded_number() -> None:
    world = World(ManagerOptions(max_confirm_id_entries=1))
    face = StoreFace(world)
    face.put(b"1", confirm=3)
    with pytest.raises(LimitExceeded, match="max_confirm_id_entries"):
        face.put(b"2", confirm=3)
    face.put(b"2", confirm=4)
    face.confirm(4)
    with pytest.raises(LimitExceeded):
        face.get(confirm=3)
    assert len(face.browse()) == 1


def test_bodies_that_one_request_compares_are_bounded() -> None:
    world = World(ManagerOptions(max_scanned_entries=5))
    face = StoreFace(world)
    body = Message(application_properties={"n": 1}, body=Data([b"x"])).encode()
    for _ in range(8):
        face.put(body)
    assert len(face.browse(n=1)) == 8
    with pytest.raises(LimitExceeded, match="max_scanned_entries"):
        face.get(n=2)


def test_properties_are_compared_with_bodies_read_in_batches() -> None:
    world = LedgerWorld(ManagerOptions(live_head=4, min_live_head=2, body_cache_bytes=0, fetch_entries=16))
    face = StoreFace(world)
    for number in range(100):
        body = Message(application_properties={"n": number}, body=Data([b"x"])).encode()
        face.put(body, priority=4 + number % 2)
    world.fetches = 0
    assert face.get(n=98)[1] is not None
    assert world.fetches <= 100 // 16 + 3, "each body once"


def test_pages_of_a_browse(world: World) -> None:
    face = StoreFace(world)
    sent = [face.put(b"%d" % number, priority=4 + number % 2) for number in range(7)]
    expected = sent[1::2] + sent[0::2]
    seen: list[Any] = []
    after: list[int] = []
    while True:
        recorder = Recorder()
        face.begin(Browse(face.queue, recorder, a_filter(), True, after, 2), recorder)
        world.turn()
        seen += [uid for uid, _ in rows_of(recorder.result())]
        after = recorder.result().after
        if not after:
            break
    assert seen == expected


def test_a_page_is_bounded_in_bytes() -> None:
    world = World(ManagerOptions(store_page_bytes=100))
    face = StoreFace(world)
    for _ in range(5):
        face.put(bytes(60))
    recorder = Recorder()
    face.begin(Browse(face.queue, recorder, a_filter(), False, [], 1000), recorder)
    world.turn()
    assert len(rows_of(recorder.result())) == 1 and recorder.result().after


@pytest.mark.parametrize("verb", ["confirm_put", "confirm_get", "delete"])
def test_these_need_a_unique_id(face: StoreFace, verb: str) -> None:
    with pytest.raises(RequestInvalid, match="unique id"):
        getattr(face, verb)(None)


@pytest.mark.parametrize("verb", ["confirm", "undo"])
def test_these_need_a_confirm_id(face: StoreFace, verb: str) -> None:
    with pytest.raises(RequestInvalid, match="greater than 0"):
        getattr(face, verb)(NO_CONFIRM_ID)


def test_without_confirm_ids_the_lenient_rule_of_the_documentation(world: World) -> None:
    face = StoreFace(world, confirm_id_required=False)
    uid = face.put(b"x", confirm=3)
    face.confirm_put(uid)
    face.get(confirm=4)
    face.confirm_get(uid)
    assert face.queue.is_empty()


def test_an_unborn_message_is_confirmed_before_its_birth(world: World) -> None:
    face = StoreFace(world)
    uid = face.put(b"x", confirm=3, delay_ms=100)
    assert face.confirm_put(uid, 3) == 1
    assert face.queue.statistics.slots()["unborn"][0] == 1
    assert face.confirm_put(uid, 3) == 0, "again: ignored"
    with pytest.raises(NoMatchingMessage):
        face.get()
    world.turn(100)
    assert face.get() == (uid, b"x")


def test_a_queue_with_transacted_messages_stays_whatever_confirm_ids_hold(world: World) -> None:
    face = StoreFace(world)
    face.put(b"1", confirm=3)
    transaction = world.manager.begin(world.now_us)
    world.put(face.queue, transaction=transaction)
    with pytest.raises(QueueInUse, match="1 messages held by transactions"):
        world.manager.delete_queue("q", False, False, world.now_us)
    assert face.confirm(3) == 1


def test_a_full_queue_counts_every_state(world: World) -> None:
    face = StoreFace(world, max_messages=3)
    face.put(b"1", confirm=3)
    face.put(b"2")
    face.put(b"3")
    face.get(confirm=4)
    face.lock()
    with pytest.raises(LimitExceeded, match="Except_Q_Full"):
        face.put(b"4")
    face.confirm(4)
    face.put(b"4")


def test_holders_are_in_the_ledger_only_while_they_hold(world: World, face: StoreFace) -> None:
    face.put(b"1", confirm=3)
    face.confirm(3)
    lock, _ = face.lock()
    face.unlock(lock)
    assert [kind for _, kind in world.holder_events() if kind != "NONE"] == [
        "CONFIRM_ID",
        "CONFIRM_ID",
        "BROWSE_LOCK",
        "BROWSE_LOCK",
    ]
    assert State.LOCKED_FOR_BROWSE.name in [to for _, to, _ in world.events()]


def test_only_so_many_requests_have_bodies_in_memory() -> None:
    world = LedgerWorld(ManagerOptions(max_store_readers=1, body_cache_bytes=0))
    face = StoreFace(world)
    for number in range(4):
        face.put(b"%d" % number)
    world.fetches = 0
    recorders = []
    for _ in range(3):
        recorders.append(Recorder())
        face.begin(Browse(face.queue, recorders[-1], a_filter(), False, [], 1000), recorders[-1])
    got = face.wait(1000, confirm=3, priority=9)
    core = world.manager.core
    assert (int(store_requests_of(core).readers), len(store_requests_of(core).stood_back)) == (1, 2)
    world.turn()
    assert [len(rows_of(each.result())) for each in recorders] == [4, 4, 4]
    assert got.answer is None and store_requests_of(core).readers == 0
    world.turn(1000)
    assert store_requests_of(core).count == 0
