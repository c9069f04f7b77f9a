"""Large bodies: written as they arrive, whole or not at all."""

import pytest

from postroom.manager.kernel.errors import MessageTooLarge, NotAllowed
from postroom.manager.kernel.options import ManagerOptions
from tests.manager.world import TestSink, World, a_head


@pytest.mark.parametrize("durable", [True, False])
def test_a_body_in_chunks_is_put_when_it_is_whole(world: World, durable: bool) -> None:
    queue, sink = world.queue(), TestSink()
    upload = world.manager.begin_upload(world.manager.open_producer("p", "c", "u"))
    for part in (b"one,", b"two,", b"three"):
        world.manager.upload_chunk(upload, part, world.now_us)
        world.turn()
    assert queue.statistics.depth == 0
    world.manager.finish_upload(upload, queue, a_head(durable=durable), sink, 1, world.now_us)
    world.consumer(queue, credit=1)
    assert world.turn() == [b"one,two,three"]
    assert (sink.accepted, queue.statistics.received_bytes) == ([1], 13)


def test_an_upload_can_be_part_of_a_transaction(world: World) -> None:
    queue = world.queue()
    world.consumer(queue, credit=1)
    upload = world.manager.begin_upload(world.manager.open_producer("p", "c", "u"))
    world.manager.upload_chunk(upload, b"large", world.now_us)
    transaction = world.manager.begin(world.now_us)
    world.manager.finish_upload(upload, queue, a_head(), TestSink(), 1, world.now_us, transaction)
    assert world.turn() == []
    world.manager.commit(transaction, world.now_us)
    assert world.turn() == [b"large"]


def test_an_aborted_upload_leaves_nothing(world: World) -> None:
    upload = world.manager.begin_upload(world.manager.open_producer("p", "c", "u"))
    world.manager.upload_chunk(upload, b"part", world.now_us)
    world.manager.abort_upload(upload)
    world.manager.abort_upload(upload)
    with pytest.raises(NotAllowed, match="finished or aborted"):
        world.manager.upload_chunk(upload, b"more", world.now_us)


def test_a_refused_upload_is_answered_and_aborted(world: World) -> None:
    queue, sink = world.queue(max_message_bytes=3), TestSink()
    upload = world.manager.begin_upload(world.manager.open_producer("p", "c", "u"))
    world.manager.upload_chunk(upload, b"four", world.now_us)
    world.manager.finish_upload(upload, queue, a_head(), sink, 9, world.now_us)
    world.turn()
    assert [(token, condition) for token, condition, _ in sink.rejected] == [
        (9, "amqp:link:message-size-exceeded")
    ]
    assert upload.over


def test_an_upload_past_the_limit_stops_at_once() -> None:
    world = World(ManagerOptions(max_message_bytes=10))
    upload = world.manager.begin_upload(world.manager.open_producer("p", "c", "u"))
    world.manager.upload_chunk(upload, bytes(10), world.now_us)
    with pytest.raises(MessageTooLarge):
        world.manager.upload_chunk(upload, b"x", world.now_us)


def test_an_empty_upload_is_an_empty_message(world: World) -> None:
    queue = world.queue()
    upload = world.manager.begin_upload(world.manager.open_producer("p", "c", "u"))
    world.manager.finish_upload(upload, queue, a_head(), TestSink(), 1, world.now_us)
    world.consumer(queue, credit=1)
    assert world.turn() == [b""]
