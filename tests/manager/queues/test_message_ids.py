"""The index of ids: exact answers, no body read for them, bounded memory."""

import numpy as np
import pytest

from postroom.ledger.reading.message_id_hash import hash_id
from postroom.manager.kernel.errors import DuplicateMessage, NoMatchingMessage
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.queues.message_ids import YOUNG_ENTRIES, IdIndex
from postroom.model.ids import CORRELATION_ID, MESSAGE_ID, UNIQUE_ID, MessageIds, pack_unique_id
from tests.manager.over_ledger import LedgerWorld
from tests.manager.store_face import StoreFace
from tests.manager.world import TestSink, World, a_head

STRING = 1
BYTES_AN_ID = 16


def a_backlog(world: World, count: int) -> StoreFace:
    """Messages from an ordinary producer, each with ids of its own, nearly all of them packed."""
    face = StoreFace(world)
    for number in range(count):
        head = a_head(priority=4 + number % 2)
        head.message_id, head.message_id_type = b"m%d" % number, STRING
        head.correlation_id, head.correlation_id_type = b"c%d" % (number % 10), STRING
        if number % 3 == 0:
            head.unique_id = pack_unique_id("QM1", number)
        world.manager.put(
            world._producer, face.queue, head, b"body %d" % number, TestSink(), number, world.now_us
        )
        if number % 200 == 0:
            world.turn()
    world.turn()
    return face


def packed_world() -> LedgerWorld:
    return LedgerWorld(ManagerOptions(live_head=16, min_live_head=8, body_cache_bytes=0))


def test_no_body_is_read_to_answer_by_ids_and_priority() -> None:
    world = packed_world()
    face = a_backlog(world, 1500)
    world.fetches = 0
    (uid, _), *rest = face.browse_ids(message_id="m1200")
    assert (uid, rest) == (("QM1", 1200), [])
    assert len(face.browse_ids(correlation_id="c7")) == 150
    assert len(face.browse_ids(correlation_id="c7", priority=5)) == 150
    assert face.browse_ids(correlation_id="c7", priority=4) == []
    assert face.browse_ids(uid=("QM1", 300))[0][0] == ("QM1", 300)
    lock, _ = face.lock_ids(correlation_id="c8")
    assert face.unlock(lock, face.browse_ids(lock=lock)[0][0]) == 1
    face.delete(("QM1", 300))
    with pytest.raises(NoMatchingMessage):
        face.delete(("QM1", 300))
    assert world.fetches == 0
    assert face.get(message_id="m777")[1] == b"body 777"
    assert world.fetches == 1, "the one that is got"


def test_an_id_that_very_many_share_is_answered_in_order() -> None:
    world = packed_world()
    face = a_backlog(world, 6000)
    with_objects = face.put(b"last", correlation_id="c7", priority=5)
    found = face.browse_ids(correlation_id="c7")
    assert len(found) == 601 and found[-1][0] == with_objects
    assert [uid for uid, _ in found] == [uid for uid, _ in face.lock_ids(correlation_id="c7")[1]]
    assert face.browse_ids(correlation_id="c7") == []
    first, _ = face.get(correlation_id="c8", confirm=3)
    face.undo(3)
    assert face.get(correlation_id="c8")[0] == first, "it has come back to its place"


def test_the_index_is_built_once_and_follows_what_comes() -> None:
    world = packed_world()
    face = a_backlog(world, 600)
    face.browse_ids(message_id="m1")
    assert world.id_reads == 2, "all that was there, and the ids of the one to tell of"
    uid = face.put(b"new", message_id="fresh", uid=("QM9", 1))
    assert face.get(message_id="fresh", confirm=3) == (uid, b"new")
    assert world.id_reads == 2
    with pytest.raises(DuplicateMessage):
        face.put(b"again", uid=("QM9", 1))
    with pytest.raises(DuplicateMessage):
        face.put(b"again", uid=("QM1", 597))


def test_what_has_ended_in_the_middle_is_not_indexed() -> None:
    world = packed_world()
    face = a_backlog(world, 400)
    for number in range(100, 300):
        face.get(message_id=f"m{number}")
    face.queue.ids = None
    face.browse_ids(message_id="m1")
    index = face.queue.ids
    assert index is not None and index.hashed == 200 * 2 + 68


def test_a_derived_unique_id_needs_no_index() -> None:
    world = packed_world()
    face = a_backlog(world, 600)
    found = face.browse_ids(message_id="m1")[0][0]
    assert found[0] == "postroom"
    assert face.get(uid=found)[1] == b"body 1"


def test_the_answers_are_the_same_after_a_restart() -> None:
    world = packed_world()
    face = a_backlog(world, 900)
    before = face.browse_ids(correlation_id="c3")
    world.restart()
    assert face.browse_ids(correlation_id="c3") == before


def test_a_hash_is_only_a_guess() -> None:
    """An entry whose hash is the wanted one, but not its id, is not it."""
    world = World()
    face = StoreFace(world)
    uid = face.put(b"other", message_id="other")
    face.browse_ids(message_id="other")
    index = face.queue.ids
    assert index is not None
    hashes = np.array([hash_id(b"wanted", STRING)], np.uint64)
    empty = (np.empty(0, np.uint64), np.empty(0, np.uint64))
    index.learn([[empty, (hashes, np.array([uid[1]], np.uint64)), empty]])
    assert index.candidates(MESSAGE_ID, b"wanted", STRING).tolist() == [uid[1]]
    assert face.browse_ids(message_id="wanted") == []


def test_old_entries_are_hashes_of_sixteen_bytes() -> None:
    index = IdIndex()
    count = 10 * YOUNG_ENTRIES
    for serial in range(1, count + 1):
        ids = MessageIds(pack_unique_id("QM", serial), b"m%d" % serial, STRING, b"c%d" % (serial % 7), STRING)
        index.add(serial, ids)
    assert len(index.young) <= YOUNG_ENTRIES
    assert index.hashed == 3 * (count - len(index.young))
    columns = [column for segment in index._segments for columns in segment for column in columns]
    assert sum(column.nbytes for column in columns) == BYTES_AN_ID * index.hashed
    for serial in (1, 2, count // 2, count):
        assert index.candidates(MESSAGE_ID, b"m%d" % serial, STRING).tolist() == [serial]
        assert index.candidates(UNIQUE_ID, pack_unique_id("QM", serial), 0).tolist() == [serial]
    assert index.candidates(MESSAGE_ID, b"m1", 2).tolist() == [], "of another type it is another id"
    assert len(index.candidates(CORRELATION_ID, b"c3", STRING)) == len(range(3, count + 1, 7))
    assert index.too_large(1000) and not index.too_large(count)


def test_an_index_of_what_has_ended_is_dropped_and_built_again() -> None:
    world = packed_world()
    face = a_backlog(world, 50)
    face.browse_ids(message_id="m1")
    index = face.queue.ids
    assert index is not None
    hashes = np.arange(6 * (YOUNG_ENTRIES + 100), dtype=np.uint64)
    empty = (np.empty(0, np.uint64), np.empty(0, np.uint64))
    index.learn([[empty, (hashes, hashes), empty]])
    assert len(face.browse_ids(message_id="m1")) == 1
    assert face.queue.ids is not index


def test_what_is_made_of_others_is_found_by_the_ids_that_they_came_with() -> None:
    world = packed_world()
    world.queue("dead")
    dead = StoreFace(world, "dead")
    dead.put(b"first", message_id="first")
    assert dead.browse_ids(message_id="first")
    world.queue("source", expiry_queue="dead", expiration_policy="redirect")
    source = StoreFace(world, "source")
    for number in range(30):
        source.put(
            b"%d" % number, uid=("QM1", number), message_id=f"m{number}", correlation_id="c", ttl_ms=10
        )
    world.turn(2000)
    assert dead.queue.statistics.current == 31
    reads, world.fetches = world.id_reads, 0
    assert dead.browse_ids(message_id="m7")[0][0] == ("QM1", 7)
    assert len(dead.browse_ids(correlation_id="c")) == 30
    assert world.fetches == 0
    assert world.id_reads <= reads + 3, "those that have come are read once, together"
    with pytest.raises(DuplicateMessage):
        dead.put(b"again", uid=("QM1", 7))
