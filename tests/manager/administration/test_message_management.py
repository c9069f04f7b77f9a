"""Message management: queries with cursors, deletion, atomic moves, replays of dead letters, imports."""

from random import Random
from typing import Any

import pytest

from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Data, Message, Properties
from postroom.manager.administration.message_import import Imported, ImportMessages
from postroom.manager.administration.message_moves import Changed, DeleteMessages, MoveMessages, Replay
from postroom.manager.administration.message_queries import CloseCursor, OpenCursor, ReadCursor, ShowMessage
from postroom.manager.administration.message_search import Wanted
from postroom.manager.administration.message_states import VISIBLE, mask_of, named, states_of
from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.errors import (
    CursorUnknown,
    DestinationPaused,
    LimitExceeded,
    ManagerError,
    MessageTooLarge,
    NoMatchingMessage,
    NotAllowed,
    OriginGone,
    QueueNotFound,
    RequestInvalid,
    SelectorRefused,
)
from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.manager.names.remote_queues import ResolvedName
from postroom.manager.queues.queue import Queue
from postroom.manager.queues.units_of_order import PROPERTY
from tests.manager.administration.message_management import (
    SMALL,
    check_counts,
    dead_letters,
    dead_letters_on,
    found,
    numbered,
    query,
    wanted,
)
from tests.manager.messages import put, text_of, texts
from tests.manager.over_ledger import LedgerWorld
from tests.manager.store_face import Recorder, StoreFace, perform
from tests.manager.world import MS, TestSink, World, a_head


@pytest.fixture(params=[World, LedgerWorld])
def world(request: pytest.FixtureRequest) -> World:
    made = request.param(ManagerOptions(**SMALL, max_searched_per_turn=16, fetch_entries=8))
    assert isinstance(made, World)
    return made


def by_id(message_id: str) -> Wanted:
    return wanted(message_id=message_id.encode(), message_id_type=1)


def delete(world: World, queue: Queue, selector: str = "", if_paused: bool = False) -> int:
    done = perform(world, DeleteMessages(queue, Recorder(), wanted(selector), if_paused))
    assert isinstance(done, Changed)
    return int(done.count)


def move(world: World, queue: Queue, to: Queue, selector: str = "", **options: Any) -> Changed:
    options = {"if_paused": False, "in_pieces": False, **options}
    done = perform(
        world, MoveMessages(queue, Recorder(), wanted(selector), ResolvedName(to, None), **options)
    )
    assert isinstance(done, Changed)
    return done


def replay(world: World, queue: Queue, to: str = "", which: Wanted | None = None, **options: Any) -> Changed:
    options = {"if_paused": False, "in_pieces": False, **options}
    done = perform(world, Replay(queue, Recorder(), which or wanted(), to, **options))
    assert isinstance(done, Changed)
    return done


# -- queries


def test_a_query_finds_by_selector_in_the_order_of_delivery(world: World) -> None:
    queue = world.queue()
    numbered(world, queue)
    put(world, queue, "first", head={"priority": 9}, n=40)
    assert found(world, queue, "n >= 40") == ["first", *(f"{number}" for number in range(40, 50))]
    assert len(found(world, queue)) == 51
    assert found(world, queue, "n > 100") == []
    assert found(world, queue, "JMSPriority = 9") == ["first"]


def test_a_query_takes_nothing(world: World) -> None:
    queue = world.queue()
    numbered(world, queue, 20)
    query(world, queue, "n < 10")
    consumer = world.consumer(queue, 100)
    assert len(texts(world.turn())) == 20 and not world.held(consumer)[0].delivery_count


def test_every_state_has_its_name(world: World) -> None:
    face = StoreFace(world, "q", redelivery_delay_ms=60_000)
    queue = face.queue
    consumer = world.consumer(queue)
    put(world, queue, "received")
    world.credit(consumer, 1)
    world.turn()
    put(world, queue, "delayed by a failure", head={"priority": 9})
    world.credit(consumer, 1)
    world.turn()
    world.fail(consumer, world.held(consumer)[0])
    transaction = world.manager.begin(world.now_us)
    put(world, queue, "uncommitted", transaction=transaction)
    put(world, queue, "unborn", head={"delivery_delay_ms": 60_000})
    put(world, queue, "locked")
    world.turn()
    face.lock()
    put(world, queue, "visible")
    world.turn()
    states = {text_of(row.body): named(row.states) for row in query(world, queue)}
    assert states == {
        "received": ["receive"],
        "delayed by a failure": ["delayed"],
        "uncommitted": ["send", "transaction"],
        "unborn": ["delayed"],
        "locked": ["locked"],
        "visible": ["visible"],
    }
    mask = mask_of(["TRANSACTION", "locked"])
    assert sorted(found(world, queue, states=mask)) == ["locked", "uncommitted"]
    world.manager.pause(queue, "consumption", world.now_us)
    (row,) = query(world, queue, states=VISIBLE)
    assert named(row.states) == ["visible", "paused"]


def test_an_expired_message_that_nobody_has_noticed() -> None:
    world = World()
    queue = world.queue(redelivery_limit=0)
    put(world, queue, "expired", head={"ttl_ms": 1})
    world.turn()
    (entry,) = queue.bands[4].waiting()
    core = world.manager.core
    core.begin(world.now_us + 2 * MS)
    assert named(states_of(core, entry)) == ["expired"]
    entry.failure_count = 1
    assert named(states_of(core, entry)) == ["expired", "redelivery_count_exceeded"]


def test_a_state_that_there_is_not() -> None:
    with pytest.raises(RequestInvalid, match="'born'"):
        mask_of(["visible", "born"])


def test_a_bad_selector_is_refused() -> None:
    with pytest.raises(SelectorRefused, match="character 5"):
        wanted("a = ")


def test_what_has_ended_since_the_query_is_told_as_gone(world: World) -> None:
    queue = world.queue()
    numbered(world, queue, 3)
    opened = perform(world, OpenCursor(queue, Recorder(), wanted(), 0))
    consumer = world.consumer(queue, 1)
    world.turn()
    world.accept(consumer, world.held(consumer)[0])
    world.turn()
    page = perform(world, ReadCursor(queue, Recorder(), opened.cursor, 0, 10, True))
    assert [row.entry is None for row in page.rows] == [True, False, False]


def test_a_cursor_runs_out(world: World) -> None:
    queue = world.queue()
    numbered(world, queue, 3)
    opened = perform(world, OpenCursor(queue, Recorder(), wanted(), 1000 * MS))
    world.turn(999)
    perform(world, ReadCursor(queue, Recorder(), opened.cursor, 0, 1, False))
    world.turn(999)
    perform(world, ReadCursor(queue, Recorder(), opened.cursor, 0, 1, False))
    world.turn(1001)
    with pytest.raises(CursorUnknown, match="time-out"):
        perform(world, ReadCursor(queue, Recorder(), opened.cursor, 0, 1, False))


def test_bounds_of_cursors() -> None:
    world = World(ManagerOptions(max_message_cursors=2, max_cursor_entries=5))
    queue = world.queue()
    numbered(world, queue, 6)
    with pytest.raises(LimitExceeded, match="max_cursor_entries"):
        perform(world, OpenCursor(queue, Recorder(), wanted(), 0))
    few = [perform(world, OpenCursor(queue, Recorder(), wanted("n < 2"), 0)) for _ in range(2)]
    with pytest.raises(LimitExceeded, match="max_message_cursors"):
        perform(world, OpenCursor(queue, Recorder(), wanted("n < 2"), 0))
    perform(world, CloseCursor(queue, Recorder(), few[0].cursor))
    perform(world, OpenCursor(queue, Recorder(), wanted("n < 2"), 0))


def test_a_cursor_belongs_to_its_queue(world: World) -> None:
    queue, other = world.queue(), world.queue("other")
    opened = perform(world, OpenCursor(queue, Recorder(), wanted(), 0))
    with pytest.raises(CursorUnknown):
        perform(world, ReadCursor(other, Recorder(), opened.cursor, 0, 1, False))


def test_one_message_by_id_or_serial(world: World) -> None:
    face = StoreFace(world)
    face.put(b"a", message_id="m1")
    face.put(b"b", message_id="m2", correlation_id="c")
    (row,) = perform(world, ShowMessage(face.queue, Recorder(), by_id("m2"), True)).rows
    assert (row.body, row.ids.correlation_id) == (b"b", b"c")
    (same,) = perform(world, ShowMessage(face.queue, Recorder(), wanted(serial=int(row.serial)), False)).rows
    assert same.ids.message_id == b"m2" and same.body is None
    with pytest.raises(NoMatchingMessage):
        perform(world, ShowMessage(face.queue, Recorder(), by_id("m3"), True))


# -- deleting


def test_deletion_by_selector(world: World) -> None:
    queue = world.queue()
    numbered(world, queue)
    put(world, queue, "unborn", head={"delivery_delay_ms": 1000}, n=7)
    assert delete(world, queue, "n < 45") == 46
    assert found(world, queue) == ["45", "46", "47", "48", "49"]
    assert queue.statistics.snapshot()["messages_deleted"] == 46
    check_counts(queue)


def test_what_stands_behind_packed_ones_that_were_deleted_goes_out(world: World) -> None:
    """Though what stood before those has expired, so that nothing else leads there."""
    queue = world.queue()
    numbered(world, queue, SMALL["live_head"], ttl_ms=5)
    put(world, queue, "packed and deleted", n=100)
    assert delete(world, queue, "n = 100") == 1
    put(world, queue, "packed behind it", n=101)
    world.turn(ms=5)
    world.consumer(queue, 10)
    assert texts(world.turn()) == ["packed behind it"]


def test_what_is_held_is_not_deleted(world: World) -> None:
    queue = world.queue()
    numbered(world, queue, 5)
    consumer = world.consumer(queue, 2)
    world.turn()
    assert delete(world, queue) == 3
    assert len(world.held(consumer)) == 2
    check_counts(queue)


def test_the_precondition_of_weblogic_if_asked_for(world: World) -> None:
    queue = world.queue()
    numbered(world, queue, 2)
    with pytest.raises(NotAllowed, match="not paused"):
        delete(world, queue, if_paused=True)
    world.manager.pause(queue, "consumption", world.now_us)
    assert delete(world, queue, if_paused=True) == 2


# -- moving


def test_a_move_keeps_what_a_message_is(world: World) -> None:
    face = StoreFace(world, "q")
    source = face.queue
    target = world.queue("target", ttl_override_ms=5, priority_override=1, time_to_deliver_ms=99_000)
    face.put(b"plain", uid=("QM", 5), message_id="m1", correlation_id="c1", priority=7, ttl_ms=60_000)
    face.put(b"later", message_id="m2", delay_ms=2000)
    face.put(b"volatile", message_id="m3", durable=False)
    assert move(world, source, target).count == 3
    assert source.is_empty()
    rows = {row.body: row for row in query(world, target)}
    plain, later = rows[b"plain"], rows[b"later"]
    assert (plain.ids.message_id, plain.ids.correlation_id) == (b"m1", b"c1")
    assert plain.entry.priority == 7 and plain.entry.expiry_us > world.now_us + 50_000 * MS
    assert plain.parent_queue == "q"
    assert named(later.states) == ["delayed"]
    assert not rows[b"volatile"].entry.flags & 1
    (arrival,) = [row for row in getattr(world, "arrivals", []) if row["priority"] == 7][1:] or [None]
    if arrival is not None:
        assert arrival["message_id_len"] == 2
    (shown,) = perform(world, ShowMessage(target, Recorder(), by_id("m1"), True)).rows
    assert shown.body == b"plain"
    consumer = world.consumer(target, 10)
    assert sorted(world.turn()) == [b"plain", b"volatile"]
    assert world.turn(2001) == [b"later"]
    for entry in world.held(consumer):
        world.accept(consumer, entry)
    world.turn()
    assert target.is_empty() and source.statistics.snapshot()["messages_moved"] == 3
    check_counts(source)
    check_counts(target)


def test_a_move_to_where_its_message_id_is_leaves_both(world: World) -> None:
    source, target = StoreFace(world, "a"), StoreFace(world, "b")
    source.put(b"moved", message_id="m")
    target.put(b"there", message_id="m")
    assert move(world, source.queue, target.queue).count == 1
    assert [row.body for row in query(world, target.queue)] == [b"there", b"moved"]


def test_a_move_goes_through_the_packed_backlog(world: World) -> None:
    source, target = world.queue("a"), world.queue("b")
    numbered(world, source, 200)
    assert move(world, source, target, "n >= 50 AND n < 150").count == 100
    assert found(world, target) == [str(number) for number in range(50, 150)]
    assert len(found(world, source)) == 100
    check_counts(source)
    check_counts(target)
    if isinstance(world, LedgerWorld):
        world.restart()
        assert found(world, world.manager.queue("b")) == [str(number) for number in range(50, 150)]
        assert len(found(world, world.manager.queue("a"))) == 100


def test_what_a_transaction_put_is_moved_and_deleted(world: World) -> None:
    source, target = world.queue("a"), world.queue("b")
    for first in (0, 20):
        transaction = world.manager.begin(world.now_us)
        for number in range(first, first + 20):
            put(world, source, f"{number}", transaction=transaction, n=number)
        world.turn()
        world.manager.commit(transaction, world.now_us)
        world.turn()
    consumer = world.consumer(source, 3)
    world.turn()
    for entry in world.held(consumer):
        world.release(consumer, entry)
    world.close(consumer)
    assert move(world, source, target, "n < 10").count == 10
    assert delete(world, source, "n < 35") == 25
    assert found(world, target) == [str(number) for number in range(10)]
    assert found(world, source) == [str(number) for number in range(35, 40)]
    check_counts(source)


def test_moved_messages_wake_consumers(world: World) -> None:
    source, target = world.queue("a"), world.queue("b")
    numbered(world, source, 3)
    world.consumer(target, 10)
    asker = Recorder()
    request = MoveMessages(source, asker, wanted(), ResolvedName(target, None), False, False)
    world.manager.submit_request(request, world.now_us)
    assert texts(world.turn()) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("definition", "error", "text"),
    [
        ({"max_message_bytes": 3}, MessageTooLarge, "3 bytes"),
        ({"max_messages": 3}, LimitExceeded, "has no room for 4 messages"),
        ({"persistent": False}, NotAllowed, "no store"),
    ],
)
def test_a_move_that_the_target_refuses_moves_nothing(
    world: World, definition: dict[str, Any], error: type[ManagerError], text: str
) -> None:
    source, target = world.queue("a"), world.queue("b", **definition)
    numbered(world, source, 4)
    with pytest.raises(error, match=text):
        move(world, source, target)
    assert (len(found(world, source)), len(found(world, target))) == (4, 0)


@pytest.mark.parametrize("switch", ["production", "insertion"])
def test_a_move_to_a_paused_target_is_refused(world: World, switch: str) -> None:
    source, target = world.queue("a"), world.queue("b")
    numbered(world, source, 1)
    world.manager.pause(target, switch, world.now_us)
    with pytest.raises(DestinationPaused, match=switch):
        move(world, source, target)
    with pytest.raises(NotAllowed, match="not paused"):
        move(world, source, target, if_paused=True)


def test_a_move_onto_itself_or_a_topic_is_refused(world: World) -> None:
    source = world.queue("a")
    world.queue("t", kind="topic")
    with pytest.raises(RequestInvalid, match="where the messages are"):
        move(world, source, source)
    with pytest.raises(QueueNotFound, match="'t'"):
        world.manager.names.taker("t")


def test_ordered_members_can_be_moved_and_deleted(world: World) -> None:
    queue, target = world.queue(unit_of_order=True), world.queue("b", unit_of_order=True)
    for number in range(4):
        properties: dict[str, Any] = {"n": number, PROPERTY: "u"}
        put(world, queue, f"{number}", **properties)
    consumer = world.consumer(queue, 10)
    assert texts(world.turn()) == ["0"]
    assert found(world, queue, states=mask_of(["ordered"])) == ["1", "2", "3"]
    assert move(world, queue, target, "n = 1").count == 1
    assert delete(world, queue, "n = 2") == 1
    world.accept(consumer, world.held(consumer)[0])
    assert texts(world.turn()) == ["3"]
    world.consumer(target, 10)
    assert texts(world.turn()) == ["1"]
    check_counts(queue)
    check_counts(target)


@pytest.mark.parametrize("durable", [True, False])
def test_a_large_body_is_moved_with_its_message(durable: bool) -> None:
    world = LedgerWorld()
    source, target = world.queue("a"), world.queue("b")
    upload = world.manager.begin_upload(world._producer)
    for part in (b"one,", b"two"):
        world.manager.upload_chunk(upload, part, world.now_us)
    head = a_head(durable=durable)
    world.manager.finish_upload(upload, source, head, TestSink(), 1, world.now_us)
    world.turn()
    assert move(world, source, target).count == 1
    if durable:
        world.restart()
    assert [row.body for row in query(world, world.manager.queue("b"))] == [b"one,two"]


def test_a_subscription_is_moved_from_and_to(world: World) -> None:
    world.queue("news", kind="topic")
    wanted_one = Subscribing(topic="news", client="c", name="s", durable=True)
    subscription = world.manager.subscribe(wanted_one, world.now_us)
    other = world.manager.subscribe(
        Subscribing(topic="news", client="c", name="t", durable=True), world.now_us
    )
    queue = world.queue()
    put(world, world.manager.topic("news"), "story")
    world.turn()
    assert move(world, subscription, queue).count == 1
    assert (found(world, queue), found(world, other)) == (["story"], ["story"])
    assert replay(world, queue).count == 1
    assert (found(world, subscription), found(world, other)) == (["story"], ["story"])
    for each in (subscription, other, queue):
        check_counts(each)


def test_more_than_one_move_takes() -> None:
    world = World(ManagerOptions(**SMALL, max_moved_entries=10, max_searched_per_turn=16, fetch_entries=8))
    source, target = world.queue("a"), world.queue("b")
    numbered(world, source, 25)
    with pytest.raises(LimitExceeded, match="max_moved_entries"):
        move(world, source, target)
    assert len(found(world, source)) == 25
    counts = []
    more = True
    while more:
        done = move(world, source, target, in_pieces=True)
        counts.append(done.count)
        more = done.more
    assert counts == [10, 10, 5]
    assert found(world, target) == [str(number) for number in range(25)]


@pytest.mark.parametrize("seed", range(12))
def test_after_a_crash_all_or_nothing_has_been_moved(seed: int) -> None:
    world = LedgerWorld(ManagerOptions(**SMALL))
    source, target = world.queue("a"), world.queue("b")
    numbered(world, source, 40)
    put(world, source, "unborn", head={"delivery_delay_ms": 60_000}, n=1)
    world.turn()
    asker = Recorder()
    world.manager.submit_request(
        MoveMessages(source, asker, wanted(), ResolvedName(target, None), False, False), world.now_us
    )
    effects = world.manager.take_effects()
    world._commit()
    for read in effects.id_reads:
        world.manager.ids_read(read, world._read_ids(read), world.now_us)
    assert not world.builder.empty(), "the move is written, not yet durable"
    world.disk.crash_at_operation = world.disk.operations + seed % 4
    try:
        world.ledger.flush()
    except Exception:
        assert world.disk.dead
    world.disk = world.disk.crash(Random(seed))
    world.delivered.clear()
    world._open()
    there = [len(found(world, world.manager.queue(name))) for name in ("a", "b")]
    assert there in ([41, 0], [0, 41])


# -- replaying


def test_dead_letters_go_back_to_their_origin(world: World) -> None:
    origin, dead = dead_letters(world)
    (row, *_) = query(world, dead)
    assert row.parent_queue == "orders"
    assert replay(world, dead).count == 3
    assert dead.is_empty() and found(world, origin) == ["0", "1", "2"]
    consumer = world.consumer(origin, 10)
    world.turn()
    first = world.held(consumer)[0]
    assert (first.failure_count, first.annotations) == (0, None)
    check_counts(origin)


def test_one_dead_letter_and_some_by_selector(world: World) -> None:
    origin, dead = dead_letters(world, 6)
    serial = int(query(world, dead, "n = 4")[0].serial)
    assert replay(world, dead, which=wanted(serial=serial)).count == 1
    assert found(world, origin) == ["4"]
    assert replay(world, dead, which=wanted("n < 2")).count == 2
    assert found(world, dead) == ["2", "3", "5"]


def test_an_origin_that_is_ending(world: World) -> None:
    definition = QueueDefinition(name="news", kind="topic", dead_letter_queue="dead")
    topic = world.manager.create_queue(definition, world.now_us)
    subscription = world.manager.subscribe(Subscribing(topic="news", client="me"), world.now_us)
    consumer = world.consumer(subscription, 2)
    for text in ("rejected", "held"):
        put(world, topic, text)
    world.turn()
    rejected, held = world.held(consumer)
    world.manager.reject(consumer, rejected, "app:bad", "", world.now_us)
    world.accept(consumer, held, world.manager.begin(world.now_us))
    world.close(consumer)
    world.turn()
    assert not subscription.deleted
    with pytest.raises(OriginGone):
        replay(world, world.manager.queue("dead"))


def test_an_origin_that_is_gone(world: World) -> None:
    _, dead = dead_letters(world)
    world.manager.delete_queue("orders", False, False, world.now_us)
    with pytest.raises(OriginGone, match="deleted"):
        replay(world, dead)
    assert len(found(world, dead)) == 3
    with pytest.raises(QueueNotFound):
        replay(world, dead, to="nowhere")
    world.queue("elsewhere")
    assert replay(world, dead, to="elsewhere").count == 3


def test_what_was_put_on_the_dead_letter_queue_stays(world: World) -> None:
    origin, dead = dead_letters(world, 1)
    put(world, dead, "put here")
    done = replay(world, dead)
    assert (done.count, done.without_origin) == (1, 1)
    assert (found(world, dead), found(world, origin)) == (["put here"], ["0"])


def test_a_replay_in_pieces_passes_over_what_has_no_origin() -> None:
    world = World(ManagerOptions(**SMALL, max_moved_entries=4, max_searched_per_turn=4, fetch_entries=2))
    world.queue("dead")
    numbered(world, world.manager.queue("dead"), 30)
    _, dead = dead_letters_on(world, 10)
    counts = [replay(world, dead, in_pieces=True) for _ in range(3)]
    assert [(done.count, done.more) for done in counts] == [(4, True), (4, True), (2, False)]
    assert counts[-1].without_origin == 30 and len(found(world, dead)) == 30
    assert replay(world, dead, in_pieces=True).count == 0


def test_a_replay_after_a_restart() -> None:
    world = LedgerWorld(ManagerOptions(**SMALL))
    dead_letters(world)
    world.restart()
    dead = world.manager.queue("dead")
    assert replay(world, dead).count == 3
    world.restart()
    assert found(world, world.manager.queue("orders")) == ["0", "1", "2"]


@pytest.mark.parametrize("durable", [True, False])
def test_a_dead_letter_is_found_by_its_message_id(durable: bool) -> None:
    world = LedgerWorld()
    dead = world.queue("dead")
    face = StoreFace(world, "q", dead_letter_queue="dead")
    face.put(b"x", message_id="m1", durable=durable)
    with pytest.raises(NoMatchingMessage):  # the index of ids is there, and learns of what comes
        perform(world, ShowMessage(dead, Recorder(), by_id("m1"), False))
    consumer = world.consumer(face.queue, 1)
    world.turn()
    world.manager.reject(consumer, world.held(consumer)[0], "", "", world.now_us)
    world.turn()
    (row,) = perform(world, ShowMessage(dead, Recorder(), by_id("m1"), True)).rows
    assert (row.body, row.parent_queue) == (b"x", "q")


# -- importing


def imported(world: World, queue: Queue, *given: tuple[str, str], overrides: bool = False) -> Imported:
    messages = []
    for message_id, text in given:
        payload = Message(properties=Properties(message_id=message_id), body=Data([text.encode()])).encode()
        head = scan_head(payload)
        head.durable = True
        messages.append((head, payload[head.bare_offset :]))
    done = perform(world, ImportMessages(queue, Recorder(), world._producer, messages, overrides))
    assert isinstance(done, Imported)
    return done


def test_an_import_creates_or_replaces(world: World) -> None:
    queue = world.queue()
    done = imported(world, queue, ("m1", "a"), ("m2", "b"))
    assert (done.created, done.replaced) == (2, 0)
    done = imported(world, queue, ("m2", "changed"), ("m3", "c"))
    assert (done.created, done.replaced) == (1, 1)
    assert found(world, queue) == ["a", "changed", "c"]


def test_an_import_with_and_without_overrides(world: World) -> None:
    queue = world.queue(priority_override=8)
    imported(world, queue, ("m1", "a"))
    imported(world, queue, ("m2", "b"), overrides=True)
    assert {text_of(row.body): int(row.entry.priority) for row in query(world, queue)} == {"a": 4, "b": 8}


def test_an_import_while_production_or_insertion_is_paused(world: World) -> None:
    queue = world.queue()
    world.manager.pause(queue, "production", world.now_us)
    assert imported(world, queue, ("m1", "a")).created == 1
    world.manager.pause(queue, "insertion", world.now_us)
    with pytest.raises(DestinationPaused, match="insertion"):
        imported(world, queue, ("m2", "a"))


def test_what_was_imported_before_a_refusal_is_delivered(world: World) -> None:
    queue = world.queue(max_messages=1)
    world.consumer(queue, credit=5)
    with pytest.raises(LimitExceeded):
        imported(world, queue, ("m1", "a"), ("m2", "b"))
    assert texts([delivery.body for delivery in world.delivered]) == ["a"]


def test_an_import_into_a_full_queue_stops_there(world: World) -> None:
    queue = world.queue(max_messages=1)
    with pytest.raises(LimitExceeded):
        imported(world, queue, ("m1", "a"), ("m2", "b"))
    assert found(world, queue) == ["a"]


def test_an_import_stays_within_the_bounds_of_sends() -> None:
    world = World(ManagerOptions(max_volatile_bytes=1))
    units = world.queue("units", unit_of_order=True, max_unit_members=0)
    with pytest.raises(LimitExceeded, match="max_unit_members"):
        imported(world, units, ("m1", "a"))
    plain = world.queue()
    head, body = a_head(durable=False), Message(body=Data([b"x"])).encode()
    with pytest.raises(LimitExceeded, match="max_volatile_bytes"):
        perform(world, ImportMessages(plain, Recorder(), world._producer, [(head, body)], False))
    small = world.queue("small", max_message_bytes=1)
    with pytest.raises(MessageTooLarge):
        imported(world, small, ("m1", "a"))
    unstored = world.queue("unstored", persistent=False)
    with pytest.raises(NotAllowed, match="store"):
        imported(world, unstored, ("m1", "a"))
