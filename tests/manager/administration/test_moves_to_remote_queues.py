"""Moves and replays by an administrator to queues at other queue managers: over the real ledger."""

from pathlib import Path
from typing import Any

import pytest

from postroom.amqp.message.sections import Data, Message, Properties, decode_message
from postroom.ledger.format.records import MAX_BLOCK_BYTES
from postroom.manager.administration.message_moves import MAX_ONWARD_BYTES, Changed, MoveMessages, Replay
from postroom.manager.administration.message_search import Wanted
from postroom.manager.administration.message_states import ALL_STATES
from postroom.manager.kernel.errors import LimitExceeded, NameUnknown, QueueNotFound
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.names.remote_queue_definition import RemoteQueueDefinition
from postroom.manager.queues.queue import Queue
from postroom.model.codes import Outcome
from tests.manager.over_ledger import LedgerWorld
from tests.manager.store_face import Recorder

BIG = 300 << 10


class World(LedgerWorld):
    """With a queue, and a name that leads elsewhere."""

    def __init__(self) -> None:
        super().__init__(ManagerOptions(queue_manager="QM1"))
        self.source = self.queue("source", dead_letter_queue="dead")
        self.queue("QM2", usage="transmission")
        definition = RemoteQueueDefinition("REMOTE", "Q", "QM2")
        self.manager.names.define(definition, self.now_us)

    def fill(self, *bodies: bytes, **head: Any) -> None:
        for body in bodies:
            self.put(self.source, message(body), **head)
        self.turn()

    def move(self, to: str, in_pieces: bool = False) -> Changed:
        destination = self.manager.names.taker(to)
        return self.perform(
            MoveMessages(self.source, Recorder(), Wanted(ALL_STATES), destination, False, in_pieces)
        )

    def replay(self, queue: Queue, to: str) -> Changed:
        return self.perform(Replay(queue, Recorder(), Wanted(ALL_STATES), to, False, False))

    def perform(self, request: Any) -> Changed:
        self.manager.submit_request(request, self.now_us)
        self.turn()
        answer = request.target.answer
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Changed)
        return answer

    def waiting(self) -> list[Message]:
        """What is on the transmission queue, taken from it."""
        consumer = self.consumer(self.manager.queue("QM2"), 1000)
        found = [decode_message(body) for body in self.turn()]
        for entry in list(consumer.held):
            self.accept(consumer, entry)
        self.close(consumer)
        self.turn()
        return found


def message(body: bytes) -> bytes:
    return Message(
        message_annotations={"kept": 1}, properties=Properties(reply_to="ANSWERS"), body=Data([body])
    ).encode()


def texts(found: list[Message]) -> list[bytes]:
    return [each.body.joined() for each in found if isinstance(each.body, Data)]


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("to", ["REMOTE", "Q@QM2"])
def test_a_move_puts_the_header_on(world: World, to: str, restarted: bool) -> None:
    world.fill(b"a", b"b")
    if restarted:
        world.restart()
        world.source = world.manager.queue("source")
    done = world.move(to)
    assert (int(done.count), done.more, int(world.source.statistics.depth)) == (2, False, 0)
    if restarted:
        world.restart()
    found = world.waiting()
    assert texts(found) == [b"a", b"b"]
    for each in found:
        assert each.message_annotations == {"kept": 1, "x-opt-transmission": ["Q", "QM2", 1]}
        assert each.properties is not None and each.properties.reply_to == "ANSWERS@QM1"
    assert world.manager.queue("QM2").statistics.depth == 0


def test_priority_expiry_and_birth_go_with_it(world: World) -> None:
    world.fill(b"late", delay_ms=5000)
    world.fill(b"short", ttl_ms=1000, priority=7)
    world.move("REMOTE")
    queue = world.manager.queue("QM2")
    assert (int(queue.statistics.depth), int(queue.bands[7].live_count())) == (2, 1)
    world.turn(2000)
    assert int(queue.statistics.ended[int(Outcome.EXPIRED)]) == 1
    assert texts(world.waiting()) == []
    world.turn(3500)
    assert texts(world.waiting()) == [b"late"]


def test_a_message_that_was_not_stored_moves_too(world: World) -> None:
    world.fill(b"light", durable=False)
    world.move("REMOTE")
    assert texts(world.waiting()) == [b"light"]


def test_many_bytes_move_in_pieces(world: World) -> None:
    count = 2 * MAX_ONWARD_BYTES // BIG
    bodies = [bytes([number]) * BIG for number in range(count)]
    world.fill(*bodies)
    with pytest.raises(LimitExceeded, match="in pieces"):
        world.move("REMOTE")
    assert world.source.statistics.depth == count, "nothing was moved"
    pieces = 1
    while world.move("REMOTE", in_pieces=True).more:
        pieces += 1
    assert 1 < pieces < count
    assert texts(world.waiting()) == bodies


def test_one_large_message_moves_alone(world: World, tmp_path: Path) -> None:
    """Larger than a block of the ledger."""
    large = b"x" * (2 * MAX_BLOCK_BYTES)
    world.fill(large, b"small")
    done = world.move("REMOTE", in_pieces=True)
    assert (int(done.count), done.more) == (1, True)
    assert int(world.move("REMOTE").count) == 1
    world.restart()
    assert texts(world.waiting()) == [large, b"small"]
    world.check_whole(tmp_path)


def test_dead_letters_are_replayed_to_elsewhere(world: World) -> None:
    world.fill(b"bad")
    consumer = world.consumer(world.source, 1)
    world.turn()
    for entry in list(consumer.held):
        world.manager.reject(consumer, entry, "amqp:internal-error", "no", world.now_us)
    world.turn()
    dead = world.manager.queue("dead")
    assert dead.statistics.depth == 1
    assert int(world.replay(dead, "REMOTE").count) == 1
    (found,) = world.waiting()
    assert texts([found]) == [b"bad"]
    assert found.message_annotations["x-opt-transmission"] == ["Q", "QM2", 1]


def test_between_transmission_queues_the_header_stays(world: World) -> None:
    """How an administrator sends what waits another way."""
    world.fill(b"a")
    world.move("Q@QM2")
    world.source = world.manager.queue("QM2")
    other = world.queue("OTHER", usage="transmission")
    world.move("OTHER")
    consumer = world.consumer(other, 10)
    (body,) = world.turn()
    assert decode_message(body).message_annotations["x-opt-transmission"] == ["Q", "QM2", 1]
    world.close(consumer)


def test_names_that_lead_nowhere(world: World) -> None:
    world.fill(b"a")
    with pytest.raises(NameUnknown):
        world.move("Q@QM9")
    with pytest.raises(QueueNotFound):
        world.move("nothing")
    with pytest.raises(NameUnknown):
        world.replay(world.source, "Q@QM9")
    assert world.source.statistics.depth == 1
