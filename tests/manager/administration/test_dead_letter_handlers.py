"""What a dead-letter queue handler asks for: what is new, one message somewhere else, one message away."""

import json
from pathlib import Path
from typing import Any

import pytest

from postroom.amqp.encoding.types import Int, Symbol
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Data, Message, Properties, decode_message
from postroom.ledger.format.records import CHUNK_BODY_BYTES
from postroom.manager.administration.dead_letter_handlers import (
    MANY_KNOWN,
    MAX_NOTICED,
    RECHECK_US,
    Discard,
    NoticeNew,
    Passed,
    Relay,
    without_header,
)
from postroom.manager.consuming.settlement import Modification
from postroom.manager.headers.dead_letter_header import DEAD_LETTER
from postroom.manager.headers.transmission_header import take_transmission
from postroom.manager.kernel.errors import (
    DestinationPaused,
    LimitExceeded,
    NameUnknown,
    NoMatchingMessage,
    QueueNotFound,
    RequestInvalid,
)
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.queues.queue import Queue
from tests.manager.over_ledger import LedgerWorld
from tests.manager.store_face import Recorder, perform
from tests.manager.world import MS, TestSink, World, recount

DETAIL = b'{"rule":7}'
SMALL: dict[str, Any] = {"live_head": 8, "min_live_head": 4, "queue_manager": "HERE"}


@pytest.fixture(params=[World, LedgerWorld])
def world(request: pytest.FixtureRequest) -> World:
    made = request.param(ManagerOptions(**SMALL, max_searched_per_turn=16, fetch_entries=8))
    assert isinstance(made, World)
    return made


def put(world: World, queue: Queue, text: str = "text", size: int = 0, **head: Any) -> None:
    """A dead letter with an annotation of its own."""
    header = {"reason": Int(2053), "queue": "orders", "queue-manager": "HERE"}
    message = Message(
        message_annotations={Symbol(DEAD_LETTER): header, Symbol("x-opt-own"): "kept"},
        properties=Properties(message_id=f"id-{text}", correlation_id="c", reply_to="replies"),
        application_properties={"n": 7},
        body=Data([text.encode() + b"." * size]),
    )
    payload = message.encode()
    scanned = scan_head(payload)
    scanned.durable = True
    for name, value in head.items():
        setattr(scanned, name, value)
    sections = payload[scanned.bare_offset :]
    if size <= CHUNK_BODY_BYTES:
        world.manager.put(world._producer, queue, scanned, sections, TestSink(), 1, world.now_us, None)
        return
    upload = world.manager.begin_upload(world._producer)
    for at in range(0, len(sections), CHUNK_BODY_BYTES):
        world.manager.upload_chunk(upload, sections[at : at + CHUNK_BODY_BYTES], world.now_us)
    world.manager.finish_upload(upload, queue, scanned, TestSink(), 1, world.now_us, None)


def page(world: World, queue: Queue, known: set[int]) -> list[int]:
    return [int(noticed.serial) for noticed in perform(world, NoticeNew(queue, Recorder(), known, Passed()))]


def serials(world: World, queue: Queue) -> list[int]:
    """Everything that is there, as one hears of it."""
    found: list[int] = []
    while True:
        try:
            found += page(world, queue, set(found))
        except NoMatchingMessage:
            return found


def only(world: World, queue: Queue) -> int:
    (serial,) = page(world, queue, set())
    return serial


def relay(world: World, queue: Queue, serial: int, to: str, manager: str = "", keeps: bool = False) -> Any:
    return perform(world, Relay(queue, Recorder(), serial, (to, manager), keeps, DETAIL))


def taken(world: World, queue: Queue) -> Message:
    consumer = world.consumer(queue, 1)
    (body,) = world.turn()
    (entry,) = world.held(consumer)
    world.accept(consumer, entry)
    world.close(consumer)
    world.turn()
    return decode_message(body)


def annotations(message: Message) -> set[str]:
    return {str(key) for key in message.message_annotations}


# -- what is new


def test_what_is_there_is_noticed_and_what_is_known_is_not(world: World) -> None:
    queue = world.queue()
    for number in range(30):
        put(world, queue, f"{number}")
    found = serials(world, queue)
    assert len(found) == 30 and found == sorted(found)
    assert page(world, queue, set(found[:-1])) == found[-1:]
    with pytest.raises(NoMatchingMessage):
        page(world, queue, set(found))


def test_much_comes_in_pieces() -> None:
    world = LedgerWorld(ManagerOptions(**SMALL))
    queue = world.queue()
    for number in range(2 * MAX_NOTICED + 10):
        put(world, queue, f"{number}")
    assert len(page(world, queue, set())) == MAX_NOTICED
    assert len(set(serials(world, queue))) == 2 * MAX_NOTICED + 10


def test_much_that_is_left_alone_is_not_looked_at_each_time() -> None:
    world = World(ManagerOptions(**SMALL))
    queue, passed, known = world.queue(), Passed(), set(range(100_000, 100_000 + MANY_KNOWN))

    def found() -> list[str]:
        asker = Recorder()
        world.manager.submit_request(NoticeNew(queue, asker, known, passed), world.now_us)
        world.turn()
        if isinstance(asker.answer, NoMatchingMessage):
            return []
        assert isinstance(asker.answer, list)
        known.update(int(noticed.serial) for noticed in asker.answer)
        return [str(noticed.fields.value("amqp.message_id")) for noticed in asker.answer]

    put(world, queue, "held", priority=2)
    consumer = world.consumer(queue, 1)
    world.turn()
    put(world, queue, "a", priority=2)
    put(world, queue, "b", priority=7)
    assert found() == ["id-b", "id-a"]
    world.close(consumer)
    put(world, queue, "c", priority=2)
    put(world, queue, "d", priority=9)
    world.turn()
    assert found() == ["id-d", "id-c"]  # what came back stands before what was looked at
    assert found() == []
    world.turn(RECHECK_US // MS)
    assert found() == ["id-held"]


def test_it_waits_for_something_to_come(world: World) -> None:
    queue = world.queue()
    asker = Recorder()
    request = NoticeNew(queue, asker, set(), Passed())
    request.until_us = world.now_us + 1000 * MS
    world.manager.submit_request(request, world.now_us)
    world.turn(500)
    assert asker.answer is None
    put(world, queue, "a", priority=9)
    world.turn()
    assert isinstance(asker.answer, list) and len(asker.answer) == 1
    (noticed,) = asker.answer
    assert noticed.fields.application_property("n") == 7
    assert noticed.fields.annotation("x-opt-own") == "kept"
    assert noticed.fields.durable


def test_the_time_is_up(world: World) -> None:
    request = NoticeNew(world.queue(), asker := Recorder(), set(), Passed())
    request.until_us = world.now_us + 1000 * MS
    world.manager.submit_request(request, world.now_us)
    world.turn(1000)
    assert isinstance(asker.answer, NoMatchingMessage)


def test_what_has_expired_or_is_held_is_not_noticed(world: World) -> None:
    queue = world.queue()
    put(world, queue, "expires", ttl_ms=10)
    consumer = world.consumer(queue)
    world.turn()
    world.now_us += 20 * MS
    put(world, queue, "stays")
    put(world, queue, "held")
    assert len(serials(world, queue)) == 2
    world.credit(consumer, 1)
    world.turn()
    assert len(serials(world, queue)) == 1


# -- somewhere else


def test_with_its_header_it_shares_its_body(world: World) -> None:
    queue, target = world.queue(), world.queue("target")
    put(world, queue)
    assert relay(world, queue, only(world, queue), "target", keeps=True) == "target"
    assert queue.is_empty()
    message = taken(world, target)
    assert annotations(message) == {DEAD_LETTER, "x-opt-own"}


@pytest.mark.parametrize("size", [0, 3 * CHUNK_BODY_BYTES])
@pytest.mark.parametrize("durable", [True, False])
def test_without_its_header_the_rest_is_as_it_was(world: World, size: int, durable: bool) -> None:
    queue, target = world.queue(), world.queue("target")
    put(world, queue, size=size, durable=durable, priority=7, ttl_ms=60_000)
    relay(world, queue, only(world, queue), "target", "HERE")
    (row,) = [noticed.fields for noticed in perform(world, NoticeNew(target, Recorder(), set(), Passed()))]
    assert (row.priority, row.durable) == (7, durable)
    message = taken(world, target)
    assert annotations(message) == {"x-opt-own"}
    assert message.properties == Properties(message_id="id-text", correlation_id="c", reply_to="replies")
    assert message.application_properties == {"n": 7}
    assert isinstance(message.body, Data) and message.body.joined() == b"text" + b"." * size


def test_it_keeps_its_expiry(world: World) -> None:
    queue, target = world.queue(), world.queue("target")
    put(world, queue, ttl_ms=1000)
    relay(world, queue, only(world, queue), "target")
    world.turn(2000)
    with pytest.raises(NoMatchingMessage):
        only(world, target)


def test_to_another_queue_manager_it_gets_a_transmission_header(world: World) -> None:
    queue, transmission = world.queue(), world.queue("THERE", usage="transmission")
    put(world, queue)
    assert relay(world, queue, only(world, queue), "orders", "THERE", keeps=True) == "orders@THERE"
    (entry,) = [entry for band in transmission.bands for entry in band.waiting()]
    assert entry.body is not None
    header, stored = take_transmission(entry.body)
    assert header is not None and (header.queue, header.queue_manager) == ("orders", "THERE")
    message = decode_message(stored)
    assert annotations(message) == {DEAD_LETTER, "x-opt-own"}
    assert message.properties is not None and message.properties.reply_to == "replies@HERE"


def test_annotations_that_outcomes_have_added_go_with_it(world: World) -> None:
    queue, target = world.queue(), world.queue("target")
    put(world, queue)
    consumer = world.consumer(queue, 1)
    world.turn()
    (entry,) = world.held(consumer)
    world.manager.modify(consumer, entry, Modification(False, False, {"x-opt-more": 1}), world.now_us)
    world.close(consumer)
    world.turn()
    relay(world, queue, only(world, queue), "target")
    assert annotations(taken(world, target)) == {"x-opt-own", "x-opt-more"}


def test_what_is_refused_changes_nothing(world: World) -> None:
    queue = world.queue()
    world.queue("full", max_messages=0)
    paused = world.queue("paused")
    world.manager.pause(paused, "production", world.now_us)
    put(world, queue)
    serial = only(world, queue)
    for to, manager, refusal in [
        ("full", "", LimitExceeded),
        ("paused", "", DestinationPaused),
        ("nowhere", "", NameUnknown),
        ("orders", "NOWHERE", NameUnknown),
        ("q", "", RequestInvalid),
    ]:
        with pytest.raises(refusal):
            relay(world, queue, serial, to, manager)
    assert only(world, queue) == serial
    assert queue.statistics.current == recount(queue)["current"] == 1


def test_a_message_that_is_gone(world: World) -> None:
    queue = world.queue()
    world.queue("target")
    put(world, queue)
    serial = only(world, queue)
    consumer = world.consumer(queue, 1)
    world.turn()
    with pytest.raises(NoMatchingMessage):
        relay(world, queue, serial, "target")
    with pytest.raises(NoMatchingMessage):
        perform(world, Discard(queue, Recorder(), serial, DETAIL))
    world.close(consumer)
    world.turn()
    assert only(world, queue) == serial
    world.manager.delete_queue("q", False, False, world.now_us)
    with pytest.raises(QueueNotFound):
        relay(world, queue, serial, "target")


def test_one_message_away(world: World) -> None:
    queue = world.queue()
    put(world, queue)
    assert perform(world, Discard(queue, Recorder(), only(world, queue), DETAIL)) is True
    assert queue.is_empty()


# -- in the ledger


def test_the_ledger_is_whole_and_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    world = LedgerWorld(ManagerOptions(**SMALL))
    queue, target = world.queue(), world.queue("target")
    transmission = world.queue("THERE", usage="transmission")
    for number in range(40):
        put(world, queue, f"{number}", size=2 * CHUNK_BODY_BYTES if number == 5 else 0)
    numbers = serials(world, queue)
    for serial in numbers[:10]:
        relay(world, queue, serial, "target")
    for serial in numbers[10:20]:
        relay(world, queue, serial, "target", keeps=True)
    for serial in numbers[20:30]:
        relay(world, queue, serial, "orders", "THERE")
    perform(world, Discard(queue, Recorder(), numbers[30], DETAIL))
    for _ in range(2):
        world.restart()
        queue, target, transmission = (world.manager.queues[each] for each in ("q", "target", "THERE"))
        assert [int(each.statistics.depth) for each in (queue, target, transmission)] == [9, 20, 10]
        world.maintain()
    (first, *_) = (
        noticed.fields for noticed in perform(world, NoticeNew(target, Recorder(), set(), Passed()))
    )
    assert first.annotation("x-opt-own") == "kept" and first.annotation(DEAD_LETTER) is None
    world.check_whole(tmp_path)


def test_the_event_says_why() -> None:
    world = World(ManagerOptions(**SMALL))
    queue = world.queue()
    world.queue("target")
    put(world, queue, "a")
    put(world, queue, "b")
    first, second = serials(world, queue)
    relay(world, queue, first, "target")
    perform(world, Discard(queue, Recorder(), second, DETAIL))
    fields = [json.loads(detail) for detail in world.details if detail.startswith(b'{"rule"')]
    assert fields == [{"rule": 7}, {"rule": 7}]


def test_every_mark_of_a_dead_letter_goes() -> None:
    keys = (
        "x-opt-dead-letter-reason",
        "x-opt-dead-letter-description",
        "x-opt-dead-letter-queue",
        "x-opt-own",
    )
    payload = Message(message_annotations={Symbol(key): "x" for key in keys}, body=Data([b"a"])).encode()
    assert annotations(decode_message(without_header(payload))) == {"x-opt-own"}
