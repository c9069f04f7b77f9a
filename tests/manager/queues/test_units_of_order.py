"""Unit of order: the members of a unit are processed one after another, in the order of their arrival."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.amqp.encoding.types import Symbol
from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Data, Message
from postroom.manager.administration.message_moves import DeleteMessages, MoveMessages
from postroom.manager.administration.message_search import Wanted
from postroom.manager.administration.message_states import ALL_STATES, mask_of
from postroom.manager.destinations.switches import INSERTION
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import DefinitionInvalid, QueueInUse
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.queues.queue import Queue
from postroom.manager.queues.units_of_order import ANNOTATION
from tests.manager.messages import got, member, put, text_of, texts, turn
from tests.manager.over_ledger import LedgerWorld
from tests.manager.store_face import Recorder, StoreFace, perform
from tests.manager.world import TestSink, World
from tests.sampling import examples

TINY = ManagerOptions(live_head=4, delayed_head=4, min_live_head=2, body_cache_bytes=60, fetch_entries=3)


@pytest.fixture(params=[ManagerOptions(), TINY], ids=["in memory", "packed"])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def slots(queue: Queue) -> tuple[int, int]:
    """Messages that are current, and ordered."""
    shown = queue.statistics.snapshot()
    return shown["messages_current"], shown["messages_ordered"]


def test_one_after_another_whoever_consumes(world: World) -> None:
    queue = world.queue(unit_of_order=True)
    first, second = world.consumer(queue, credit=10), world.consumer(queue, credit=10)
    for number in range(5):
        member(world, queue, str(number))
    put(world, queue, "free")
    seen = turn(world)
    assert sorted(seen) == ["0", "free"]
    assert slots(queue) == (0, 4)
    for number in range(1, 5):
        for consumer, entry in [(each, entry) for each in (first, second) for entry in world.held(each)]:
            world.accept(consumer, entry)
        assert turn(world) == [str(number)]
    assert slots(queue) == (0, 0)
    assert sorted(got(world, first) + got(world, second)) == ["0", "1", "2", "3", "4", "free"]


def test_the_annotation_names_the_unit_too(world: World) -> None:
    queue = world.queue(unit_of_order=True)
    for text in ("1", "2"):
        annotated = Message(message_annotations={Symbol(ANNOTATION): "u"}, body=Data([text.encode()]))
        payload = annotated.encode()
        world.manager.put(world._producer, queue, scan_head(payload), payload, TestSink(), 1, world.now_us)
    world.consumer(queue, credit=10)
    assert turn(world) == ["1"]


def test_a_redelivery_delay_keeps_the_others_waiting(world: World) -> None:
    queue = world.queue(unit_of_order=True, redelivery_delay_ms=1000)
    consumer = world.consumer(queue, credit=10)
    for number in range(3):
        member(world, queue, str(number))
    assert turn(world) == ["0"]
    world.fail(consumer, world.held(consumer)[0])
    assert turn(world, 500) == []
    assert turn(world, 600) == ["0"]
    world.accept(consumer, world.held(consumer)[0])
    assert turn(world) == ["1"]


def test_what_is_released_comes_first_again(world: World) -> None:
    queue = world.queue(unit_of_order=True)
    consumer = world.consumer(queue, credit=10)
    for number in range(3):
        member(world, queue, str(number))
    world.turn()
    world.release(consumer, world.held(consumer)[0])
    assert turn(world, 100) == ["0"]


def test_uncommitted_receipts_and_sends_hold_the_others_back(world: World) -> None:
    queue = world.queue(unit_of_order=True)
    consumer = world.consumer(queue, credit=10)
    sends = world.manager.begin(world.now_us)
    member(world, queue, "0", transaction=sends)
    member(world, queue, "1")
    assert turn(world) == []
    world.manager.commit(sends, world.now_us)
    assert turn(world) == ["0"]
    receipts = world.manager.begin(world.now_us)
    world.accept(consumer, world.held(consumer)[0], receipts)
    assert turn(world) == []
    world.manager.commit(receipts, world.now_us)
    assert turn(world) == ["1"]


def test_a_send_that_is_rolled_back_lets_the_others_go(world: World) -> None:
    queue = world.queue(unit_of_order=True)
    world.consumer(queue, credit=10)
    sends = world.manager.begin(world.now_us)
    member(world, queue, "never", transaction=sends)
    member(world, queue, "1")
    assert turn(world) == []
    world.manager.rollback(sends, world.now_us)
    assert turn(world) == ["1"]


def test_an_unborn_member_holds_the_later_ones_back(world: World) -> None:
    queue = world.queue(unit_of_order=True)
    consumer = world.consumer(queue, credit=10)
    member(world, queue, "late", head={"delivery_delay_ms": 1000})
    member(world, queue, "waits")
    assert turn(world) == []
    assert turn(world, 1100) == ["late"]
    world.accept(consumer, world.held(consumer)[0])
    assert turn(world) == ["waits"]


def test_priority_does_not_change_the_order_of_a_unit(world: World) -> None:
    queue = world.queue(unit_of_order=True)
    member(world, queue, "low", head={"priority": 1})
    member(world, queue, "high", head={"priority": 9})
    put(world, queue, "free", head={"priority": 5})
    consumer = world.consumer(queue, credit=10)
    assert turn(world) == ["free", "low"]
    for entry in world.held(consumer):
        world.accept(consumer, entry)
    assert turn(world) == ["high"]


def test_a_member_that_no_selector_wants_stops_its_unit(world: World) -> None:
    """WebLogic's documented trap: it must be consumed, expire or be deleted first."""
    queue = world.queue(unit_of_order=True)
    consumer = world.consumer(queue, selector="color = 'red'", credit=10)
    for number, color in enumerate(("red", "blue", "red")):
        member(world, queue, str(number), color=color)
    assert turn(world) == ["0"]
    world.accept(consumer, world.held(consumer)[0])
    assert turn(world) == []
    plain = world.consumer(queue, credit=1)
    assert turn(world) == ["1"]
    world.accept(plain, world.held(plain)[0])
    assert turn(world) == ["2"] and got(world, consumer) == ["0", "2"]


def test_a_held_back_member_expires_in_time(world: World) -> None:
    queue = world.queue(unit_of_order=True)
    consumer = world.consumer(queue, credit=10)
    member(world, queue, "0")
    member(world, queue, "1", head={"ttl_ms": 100})
    member(world, queue, "2")
    assert turn(world) == ["0"]
    world.turn(2000)
    assert queue.statistics.snapshot()["messages_expired"] == 1
    world.accept(consumer, world.held(consumer)[0])
    assert turn(world) == ["2"]


def test_a_dead_letter_lets_the_next_go(world: World) -> None:
    queue = world.queue(unit_of_order=True, redelivery_limit=0, dead_letter_queue="dead")
    consumer = world.consumer(queue, credit=10)
    member(world, queue, "0")
    member(world, queue, "1")
    world.turn()
    world.fail(consumer, world.held(consumer)[0])
    assert turn(world) == ["1"]


def test_moved_members_keep_their_order() -> None:
    world = World()
    dead = world.queue("dead", unit_of_order=True)
    queue = world.queue(dead_letter_queue="dead")
    for number in range(3):
        member(world, queue, str(number))
    world.turn()
    consumer = world.consumer(queue, credit=10)
    world.turn()
    for entry in world.held(consumer):
        world.manager.reject(consumer, entry, "amqp:not-allowed", "no", world.now_us)
    reader = world.consumer(dead, credit=10)
    assert turn(world) == ["0"]
    world.accept(reader, world.held(reader)[0])
    assert turn(world) == ["1"]


def test_purging_and_deleting_leave_nothing_behind(world: World) -> None:
    queue = world.queue(unit_of_order=True)
    consumer = world.consumer(queue, credit=1)
    for number in range(20):
        member(world, queue, str(number), unit=f"u{number % 3}")
    assert turn(world) == ["0"]
    assert world.manager.purge_queue("q", world.now_us) == 19
    world.accept(consumer, world.held(consumer)[0])
    world.turn()
    assert queue.units is not None and not queue.units._by_serial and not queue.units._by_name
    member(world, queue, "next", unit="u1")
    world.credit(consumer, 5)
    assert turn(world) == ["next"]


def test_many_that_wait_are_packed_and_hold_nobody_else_back() -> None:
    world = World(TINY)
    queue = world.queue(unit_of_order=True)
    for number in range(3000):
        member(world, queue, str(number))
    put(world, queue, "free")
    assert slots(queue) == (2, 2999)
    assert queue.delayed.object_count() == TINY.delayed_head
    consumer = world.consumer(queue)
    world.credit(consumer, 10, drain=True)
    assert turn(world) == ["0", "free"] and world.drained == [consumer]
    assert slots(queue) == (0, 2999)


def test_more_members_than_can_be_kept_in_mind_are_refused() -> None:
    world = World()
    queue = world.queue(unit_of_order=True, max_unit_members=2)
    sink = TestSink()
    for number in range(2):
        world.put(queue, b"", sink)
        member(world, queue, str(number))
    assert queue.statistics.depth == 4
    world.put(queue, b"x", sink)
    world.turn()
    assert "max_unit_members" in sink.rejected[0][2]


def test_paused_insertion_keeps_whose_turn_has_come(world: World) -> None:
    queue = world.queue(unit_of_order=True)
    consumer = world.consumer(queue, credit=10)
    for number in range(3):
        member(world, queue, str(number))
    assert turn(world) == ["0"]
    world.manager.pause(queue, INSERTION, world.now_us)
    world.accept(consumer, world.held(consumer)[0])
    assert turn(world) == []
    world.manager.resume(queue, INSERTION, world.now_us)
    assert turn(world) == ["1"]


def test_the_option_changes_only_on_an_empty_queue(world: World) -> None:
    from dataclasses import replace

    queue = world.queue()
    world.put(queue)
    with pytest.raises(QueueInUse, match="unit_of_order"):
        world.manager.update_queue(replace(queue.definition, unit_of_order=True), world.now_us)
    with pytest.raises(DefinitionInvalid):
        replace(queue.definition, name="t", kind="topic", unit_of_order=True).check()


@pytest.mark.parametrize("options", [None, TINY])
def test_order_survives_a_restart(options: ManagerOptions | None) -> None:
    world = LedgerWorld(options)
    world.queue(unit_of_order=True)
    queue = world.manager.queue("q")
    consumer = world.consumer(queue, credit=2)
    for number in range(6):
        member(world, queue, f"{number % 2}:{number}", unit=f"u{number % 2}")
    assert texts(world.turn()) == ["0:0", "1:1"]
    world.restart()
    queue = world.manager.queue("q")
    consumer = world.consumer(queue, credit=10)
    seen = texts(world.turn())
    assert sorted(seen) == ["0:0", "1:1"]
    for _ in range(2):
        for entry in world.held(consumer):
            world.accept(consumer, entry)
        seen += texts(world.turn())
    assert sorted(seen, key=lambda text: int(text[2:])) == ["0:0", "1:1", "0:2", "1:3", "0:4", "1:5"]
    assert [text for text in seen if text[0] == "0"] == ["0:0", "0:2", "0:4"]


COMMANDS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 2), st.integers(3, 5)),
        st.tuples(st.just("unborn"), st.integers(0, 2), st.integers(1, 30)),
        st.tuples(st.just("transacted"), st.integers(0, 2), st.integers(0, 1)),
        st.tuples(st.just("credit"), st.integers(0, 2), st.integers(1, 3)),
        st.tuples(st.sampled_from(["accept", "release", "fail"]), st.integers(0, 2), st.integers(0, 5)),
        st.tuples(st.just("reopen"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("wait"), st.just(0), st.integers(0, 40)),
    ),
    max_size=60,
)


@settings(max_examples=examples(150), deadline=None)
@given(st.booleans(), COMMANDS)
def test_random_use_keeps_every_unit_in_order(packed: bool, commands: list[tuple[str, int, int]]) -> None:
    world = World(TINY if packed else None)
    queue = world.queue(unit_of_order=True, redelivery_delay_ms=10, group_buckets=4)
    wanted = ["", "unit_number < 2", ""]
    consumers = [world.consumer(queue, selector=each) for each in wanted]
    done: list[tuple[int, int]] = []
    sent = 0
    for command, who, number in commands:
        consumer = consumers[who]
        if command in ("put", "unborn", "transacted"):
            transaction = world.manager.begin(world.now_us) if command == "transacted" else None
            head = {"priority": number} if command == "put" else {}
            if command == "unborn":
                head = {"delivery_delay_ms": number}
            group = None if who == 0 else f"g{who}"
            member(
                world, queue, str(sent), f"u{who}", group=group, transaction=transaction, head=head,
                unit_number=who, number=sent,
            )  # fmt: skip
            sent += 1
            if transaction is not None and number:
                world.manager.rollback(transaction, world.now_us)
            elif transaction is not None:
                world.manager.commit(transaction, world.now_us)
        elif command == "credit":
            world.credit(consumer, number)
        elif command == "reopen":
            world.close(consumer, lost=True)
            consumers[who] = world.consumer(queue, selector=wanted[who])
        elif command == "wait":
            world.turn(number)
        elif consumer.held:
            held = world.held(consumer)
            settle(world, consumer, held[number % len(held)], command, done)
        world.turn()
        check_one_at_a_time(world, consumers)
    drain(world, consumers, done)
    assert queue.statistics.depth == 0
    for unit in range(3):
        mine = [serial for each, serial in done if each == unit]
        assert mine == sorted(mine)


def settle(
    world: World,
    consumer: Consumer,
    entry: Entry,
    command: str,
    done: list[tuple[int, int]],
) -> None:
    if command == "accept":
        done.append((unit_number(world, entry), int(entry.serial)))
        world.accept(consumer, entry)
    elif command == "release":
        world.release(consumer, entry)
    else:
        world.fail(consumer, entry)


def unit_number(world: World, entry: Entry) -> int:
    fields = MessageFields(0, False, 0, world.bodies[entry.serial], None)
    number = fields.application_property("unit_number")
    assert isinstance(number, int)
    return int(number)


def check_one_at_a_time(world: World, consumers: list[Consumer]) -> None:
    held = [unit_number(world, entry) for consumer in consumers for entry in consumer.held]
    assert len(held) == len(set(held))


def drain(world: World, consumers: list[Consumer], done: list[tuple[int, int]]) -> None:
    """Consume everything that is left, without selectors."""
    for consumer in consumers:
        world.close(consumer)
    last = world.consumer(world.manager.queue("q"))
    for _ in range(200):
        world.credit(last, 5)
        world.turn(50)
        for entry in world.held(last):
            settle(world, last, entry, "accept", done)
    world.turn(1000)


RESTARTS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 2), st.integers(3, 5)),
        st.tuples(st.just("held"), st.integers(0, 2), st.integers(0, 1)),
        st.tuples(st.just("credit"), st.just(0), st.integers(1, 4)),
        st.tuples(st.sampled_from(["accept", "fail"]), st.just(0), st.integers(0, 5)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


class Life:
    """A queue that is started again now and then, and what has become of its messages."""

    def __init__(self, packed: bool) -> None:
        self.world = LedgerWorld(TINY if packed else None)
        self.world.queue(unit_of_order=True, redelivery_delay_ms=5)
        self.consumer = self.world.consumer(self.queue)
        self.sent: list[str] = []
        self.done: list[str] = []
        self.texts: dict[int, str] = {}

    @property
    def queue(self) -> Queue:
        return self.world.manager.queue("q")

    def put(self, unit: int, priority: int) -> None:
        self.sent.append(f"{unit}:{len(self.sent)}")
        member(self.world, self.queue, self.sent[-1], f"u{unit}", head={"priority": priority})

    def put_held(self, unit: int, rolled_back: int) -> None:
        manager, now_us = self.world.manager, self.world.now_us
        transaction = manager.begin(now_us)
        text = f"{unit}:{len(self.sent)}"
        member(self.world, self.queue, text, f"u{unit}", transaction=transaction)
        if rolled_back:
            manager.rollback(transaction, now_us)
        else:
            self.sent.append(text)
            manager.commit(transaction, now_us)

    def restart(self) -> None:
        self.turn()
        self.world.restart()
        self.consumer = self.world.consumer(self.queue)

    def turn(self) -> None:
        self.world.turn(10)
        for each in self.world.delivered:
            self.texts[int(each.entry.serial)] = text_of(each.body)

    def held(self) -> list[Entry]:
        """What has been delivered, and not only assigned."""
        return [entry for entry in self.world.held(self.consumer) if int(entry.serial) in self.texts]

    def accept(self, number: int) -> None:
        held = self.held()
        if held:
            entry = held[number % len(held)]
            self.done.append(self.texts[int(entry.serial)])
            self.world.accept(self.consumer, entry)

    def fail(self, number: int) -> None:
        held = self.held()
        if held:
            self.world.fail(self.consumer, held[number % len(held)])

    def finish(self) -> None:
        self.restart()
        while self.queue.statistics.depth > 0:
            self.world.credit(self.consumer, 5)
            self.turn()
            assert self.consumer.held
            for _ in self.held():
                self.accept(0)
            self.turn()


@settings(max_examples=examples(60), deadline=None)
@given(st.booleans(), RESTARTS)
def test_random_use_with_restarts(packed: bool, commands: list[tuple[str, int, int]]) -> None:
    life = Life(packed)
    for command, unit, number in commands:
        if command == "put":
            life.put(unit, number)
        elif command == "held":
            life.put_held(unit, number)
        elif command == "credit":
            life.world.credit(life.consumer, number)
        elif command == "restart":
            life.restart()
        elif command == "accept":
            life.accept(number)
        else:
            life.fail(number)
        life.turn()
    life.finish()
    assert sorted(life.done) == sorted(life.sent)
    for unit in range(3):
        mine = [int(text[2:]) for text in life.done if text.startswith(f"{unit}:")]
        assert mine == sorted(mine)


def test_what_ends_before_its_unit_is_read_after_a_restart_holds_nobody_back() -> None:
    world = LedgerWorld()
    queue = world.queue("q", unit_of_order=True)
    for text in ("a", "b"):
        member(world, queue, text)
    world.turn()
    world.restart()
    queue = world.manager.queue("q")
    consumer = world.consumer(queue, credit=10)  # has the bodies read, whose units aren't known yet
    assert world.manager.purge_queue("q", world.now_us) == 2
    member(world, queue, "c")
    assert turn(world) == ["c"]
    assert consumer.held


def test_a_delayed_member_that_is_moved_is_a_member_there() -> None:
    """It may still be unborn; once it is born it waits for its turn all the same."""
    world = World()
    source, queue = world.queue("source"), world.queue("units", unit_of_order=True)
    consumer = world.consumer(queue, credit=10)
    member(world, queue, "first")
    assert turn(world) == ["first"]
    member(world, source, "unborn", head={"delivery_delay_ms": 1000})
    world.turn()
    where = world.manager.names.taker("units")
    perform(world, MoveMessages(source, Recorder(), Wanted(ALL_STATES), where, False, False))
    assert turn(world, 1100) == []
    assert slots(queue) == (0, 1)
    world.accept(consumer, world.held(consumer)[0])
    assert turn(world) == ["unborn"]


def test_members_that_a_lock_held_when_units_were_read_after_a_restart_keep_their_order() -> None:
    world = LedgerWorld(TINY)
    queue = world.queue("q", unit_of_order=True)
    for text in ("a", "b"):
        member(world, queue, text)
    for _ in range(30):
        put(world, queue, "free", head={"priority": 9})  # are read first
    world.turn()
    world.restart()
    queue = world.manager.queue("q")
    store = StoreFace(world, "q")
    lock, locked = store.lock()
    assert len(locked) == 31
    store.unlock(lock)
    world.consumer(queue, credit=100)
    assert turn(world) == [*["free"] * 30, "a"]


def test_a_member_that_was_born_and_waits_for_its_turn_waits_for_no_time_after_a_restart() -> None:
    """Its time of birth has passed: it is its unit's end that lets it go, and nothing else."""
    world = LedgerWorld()
    queue = world.queue("q", unit_of_order=True)
    consumer = world.consumer(queue, credit=1)
    member(world, queue, "first")
    assert turn(world) == ["first"]
    member(world, queue, "unborn", head={"delivery_delay_ms": 1000})
    world.consumer(queue, credit=10)
    assert turn(world, 1100) == []
    assert slots(queue) == (0, 1)
    world.fail(consumer, world.held(consumer)[0])
    world.turn()
    world.restart()
    queue = world.manager.queue("q")
    first, second = (world.consumer(queue, credit=1) for _ in range(2))
    assert [entry.due_us for entry in queue.delayed.entries()] == [0]
    assert turn(world, 100) == ["first"]
    assert slots(queue) == (0, 1)
    (holder,) = (each for each in (first, second) if each.held)
    world.accept(holder, world.held(holder)[0])
    assert turn(world) == ["unborn"]


def test_who_waits_is_counted_so_without_a_look(world: World) -> None:
    queue = world.queue(unit_of_order=True)
    member(world, queue, "unborn", head={"delivery_delay_ms": 1000})
    for number in range(9):
        member(world, queue, str(number), head={"priority": number})
        put(world, queue, "free")
    member(world, queue, "another", unit="v")
    assert slots(queue) == (10, 9)
    world.turn(1100)
    assert slots(queue) == (11, 9)
    assert world.manager.purge_queue("q", world.now_us) == 20
    assert slots(queue) == (0, 0)


def test_the_end_of_a_member_counts_the_next_as_current(world: World) -> None:
    queue = world.queue(unit_of_order=True)
    member(world, queue, "brief", head={"ttl_ms": 100})
    member(world, queue, "briefer", head={"ttl_ms": 50})
    for number in range(9):
        member(world, queue, str(number))
    assert slots(queue) == (1, 10)
    world.turn(60)
    assert slots(queue) == (1, 9)
    world.turn(2000)
    assert slots(queue) == (1, 8)
    world.manager.pause(queue, "consumption", world.now_us)
    perform(world, DeleteMessages(queue, Recorder(), Wanted(mask_of(["visible"])), False))
    world.turn()
    assert slots(queue) == (1, 7)


def test_a_commit_counts_only_the_first_of_its_members_as_current(world: World) -> None:
    queue = world.queue(unit_of_order=True)
    transaction = world.manager.begin(world.now_us)
    for number in range(9):
        member(world, queue, str(number), transaction=transaction)
    member(world, queue, "later")
    assert slots(queue) == (0, 1)
    world.manager.commit(transaction, world.now_us)
    assert slots(queue) == (1, 9)
    consumer = world.consumer(queue, credit=20)
    seen = turn(world)
    while consumer.held:
        world.accept(consumer, world.held(consumer)[0])
        seen += turn(world)
    assert seen == [*(str(number) for number in range(9)), "later"]


@pytest.mark.parametrize("options", [None, TINY])
def test_who_waits_is_counted_so_after_a_restart(options: ManagerOptions | None) -> None:
    world = LedgerWorld(options)
    queue = world.queue(unit_of_order=True)
    member(world, queue, "unborn", head={"delivery_delay_ms": 1000})
    transaction = world.manager.begin(world.now_us)
    for number in range(4):
        member(world, queue, str(number), transaction=transaction if number % 2 else None)
    world.manager.commit(transaction, world.now_us)
    put(world, queue, "free")
    assert slots(queue) == (1, 4)
    for _ in range(2):
        world.turn()
        world.maintain()
        world.restart()
        queue = world.manager.queue("q")
        assert slots(queue) == (1, 4)
        assert queue.delayed.object_count() == 0
    member(world, queue, "last")
    world.turn()
    assert slots(queue) == (1, 5)
    world.turn(1100)
    assert slots(queue) == (2, 5)
    consumer = world.consumer(queue, credit=20)
    seen = turn(world)
    while consumer.held:
        for entry in world.held(consumer):
            world.accept(consumer, entry)
        seen += turn(world)
    assert seen == ["free", "unborn", "0", "1", "2", "3", "last"]


def test_a_moved_member_whose_body_must_be_read_waits_too() -> None:
    world = World(TINY)
    source, queue = world.queue("source"), world.queue("units", unit_of_order=True)
    for number in range(20):
        member(world, source, str(number))
    where = world.manager.names.taker("units")
    perform(world, MoveMessages(source, Recorder(), Wanted(ALL_STATES), where, False, False))
    member(world, queue, "last")
    world.turn()
    assert slots(queue) == (1, 20)
