"""The lives of traced messages as spans, from ledgers of the real queue manager."""

from pathlib import Path

from postroom.ledger.reading.reader import LedgerReader
from postroom.manager.kernel.trace_contexts import TraceContexts
from postroom.server.tracing.lives import MAX_EVENTS, Lives
from postroom.server.tracing.spans import INTERNAL, SERVER, Span
from tests.manager import messages
from tests.manager.over_ledger import LedgerWorld
from tests.manager.store_face import StoreFace
from tests.manager.topic_world import TopicWorld

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{SPAN}-01"


class TracedWorld(LedgerWorld, TopicWorld):
    """A queue manager that notes contexts, and what follows its ledger."""

    def __init__(self, folder: Path, max_messages: int = 100) -> None:
        super().__init__()
        self.folder = folder
        self.contexts = TraceContexts(1.0, 100)
        self.manager.core.trace_contexts = self.contexts
        self.lives = Lives(b"l" * 16, max_messages)
        self.read_through = 0

    def spans(self) -> list[Span]:
        """Those that have ended since the last time."""
        self.write_out(self.folder)
        reader = LedgerReader(self.folder)
        self.lives.note(self.contexts.take())
        found = []
        for segment, source, chunk in reader.chunks(self.read_through + 1, reader.durable_through):
            found += self.lives.read(chunk, source.definitions(segment.last_position))
        self.read_through = reader.durable_through
        return found


def names(spans: list[Span]) -> list[str]:
    return [span.name for span in spans]


def test_a_message_that_is_put_delivered_and_accepted(tmp_path: Path) -> None:
    world = TracedWorld(tmp_path)
    queue = world.queue()
    messages.put(world, queue, "one", traceparent=SAMPLED, head={"message_id": b"m1", "message_id_type": 1})
    messages.put(world, queue, "not traced")
    world.turn()
    world.turn(1000)
    consumer = world.consumer(queue, 10)
    world.turn(500)
    for entry in world.held(consumer):
        world.accept(consumer, entry)
    world.turn()
    put, wait, deliver, settle = world.spans()
    assert names([put, wait, deliver, settle]) == ["put q", "wait q", "deliver q", "settle q"]
    assert {each.trace_id.hex() for each in (put, wait, deliver, settle)} == {TRACE}
    assert {each.parent_id.hex() for each in (put, wait, deliver)} == {SPAN}
    assert settle.parent_id == deliver.span_id
    assert put.end_us == put.start_us == wait.start_us
    assert wait.end_us - wait.start_us == 1_000_000 == deliver.start_us - put.start_us
    assert deliver.end_us - deliver.start_us == 500_000
    assert [each.kind for each in (put, wait, deliver, settle)] == [SERVER, INTERNAL, SERVER, SERVER]
    assert put.attributes["messaging.message.id"] == "m1"
    assert put.attributes["messaging.system"] == "postroom"
    assert deliver.attributes["postroom.outcome"] == "consumed"
    assert deliver.attributes["postroom.holder"] == "consumer"
    assert not any(each.error for each in (put, wait, deliver, settle))
    assert world.lives.is_idle


def test_a_failed_delivery_waits_again_with_its_delay(tmp_path: Path) -> None:
    world = TracedWorld(tmp_path)
    queue = world.queue(redelivery_delay_ms=100)
    messages.put(world, queue, "one", traceparent=SAMPLED)
    consumer = world.consumer(queue, 10)
    world.turn()
    world.fail(consumer, world.held(consumer)[0])
    world.turn()
    world.turn(200)
    world.accept(consumer, world.held(consumer)[0])
    spans = world.spans()
    assert names(spans)[2:] == ["deliver q", "settle q", "wait q", "deliver q", "settle q"]
    failed, wait, again = spans[2], spans[4], spans[5]
    assert failed.error == "fail" == failed.attributes["error.type"]
    assert [event.name for event in wait.events] == ["delayed: redelivery_delay", "due"]
    assert wait.end_us - wait.start_us == 200_000
    assert (
        failed.attributes["postroom.delivery.attempt"],
        again.attributes["postroom.delivery.attempt"],
    ) == (1, 2)


def test_a_put_lasts_until_its_transaction_is_decided(tmp_path: Path) -> None:
    world = TracedWorld(tmp_path)
    queue = world.queue()
    for ending in (world.manager.commit, world.manager.rollback):
        transaction = world.manager.begin(world.now_us)
        messages.put(world, queue, "in it", transaction=transaction, traceparent=SAMPLED)
        world.turn(300)
        ending(transaction, world.now_us)
        world.turn()
    committed, rolled_back = world.spans()
    assert committed.end_us - committed.start_us == 300_000 == rolled_back.end_us - rolled_back.start_us
    assert (committed.error, rolled_back.error) == ("", "rolled_back")
    assert len(world.lives.messages) == 1


def test_a_settlement_lasts_until_its_transaction_is_decided(tmp_path: Path) -> None:
    world = TracedWorld(tmp_path)
    queue = world.queue()
    messages.put(world, queue, "one", traceparent=SAMPLED)
    consumer = world.consumer(queue, 10)
    world.turn()
    transaction = world.manager.begin(world.now_us)
    world.accept(consumer, world.held(consumer)[0], transaction)
    world.turn(700)
    world.manager.commit(transaction, world.now_us)
    world.turn()
    settle = world.spans()[-1]
    assert settle.name == "settle q" and settle.end_us - settle.start_us == 700_000


def test_a_dead_letter_goes_on_in_the_trace(tmp_path: Path) -> None:
    world = TracedWorld(tmp_path)
    dead = world.queue("dead")
    queue = world.queue(dead_letter_queue="dead")
    messages.put(world, queue, "one", traceparent=SAMPLED, head={"message_id": b"m1", "message_id_type": 1})
    consumer = world.consumer(queue, 10)
    world.turn()
    world.manager.reject(consumer, world.held(consumer)[0], "app:bad", "no good", world.now_us)
    world.turn()
    spans = {span.name: span for span in world.spans()}
    made, left = spans["dead_letter dead"], spans["deliver q"]
    assert made.link_id == left.span_id and made.parent_id.hex() == SPAN
    assert left.error == "dead_letter" and left.attributes["postroom.outcome"] == "dead_lettered"
    assert made.attributes["messaging.message.id"] == "m1"
    reader = world.consumer(dead, 1)
    world.turn()
    world.accept(reader, world.held(reader)[0])
    assert names(world.spans()) == ["wait dead", "deliver dead", "settle dead"]
    assert world.lives.is_idle


def test_one_that_expires_and_one_that_is_taken_settled(tmp_path: Path) -> None:
    world = TracedWorld(tmp_path)
    queue = world.queue()
    messages.put(world, queue, "one", traceparent=SAMPLED, head={"ttl_ms": 50})
    world.turn()
    world.turn(100)
    _, wait = world.spans()
    assert wait.error == "expire" and wait.attributes["postroom.outcome"] == "expired"
    messages.put(world, queue, "two", traceparent=SAMPLED)
    world.consumer(queue, 10, presettled=True)
    world.turn()
    assert names(world.spans()) == ["put q", "wait q", "deliver q", "settle q"]
    assert world.lives.is_idle


def test_a_publish_has_a_life_for_each_subscription(tmp_path: Path) -> None:
    world = TracedWorld(tmp_path)
    topic = world.topic()
    messages.put(world, topic, "nobody wants it", traceparent=SAMPLED)
    world.turn()
    assert world.spans() == [] and world.lives.is_idle
    for name in ("a", "b"):
        world.subscribe(name=name)
    messages.put(world, topic, "one", traceparent=SAMPLED)
    world.turn()
    spans = world.spans()
    assert names(spans) == ["put news", "put news"]
    assert len({span.span_id for span in spans}) == 2
    assert len({span.attributes["messaging.destination.subscription.name"] for span in spans}) == 2


def test_too_many_messages_that_live_are_counted_and_not_traced(tmp_path: Path) -> None:
    world = TracedWorld(tmp_path, max_messages=2)
    queue = world.queue()
    for _ in range(5):
        messages.put(world, queue, "one", traceparent=SAMPLED)
    world.turn()
    assert len(world.spans()) == 2
    assert world.lives.dropped == 3 and len(world.lives.messages) == 2


def test_events_of_one_span_are_bounded(tmp_path: Path) -> None:
    world = TracedWorld(tmp_path)
    face = StoreFace(world)
    messages.put(world, face.queue, "one", traceparent=SAMPLED)
    world.turn()
    for _ in range(MAX_EVENTS):
        face.unlock(face.lock()[0])
    world.turn()
    assert names(world.spans()) == ["put q"]
    world.consumer(face.queue, 1)
    world.turn()
    (wait,) = world.spans()
    assert [event.name for event in wait.events] == ["lock", "unlock"] * (MAX_EVENTS // 2)


def test_the_same_records_make_the_same_ids(tmp_path: Path) -> None:
    world = TracedWorld(tmp_path)
    queue = world.queue()
    messages.put(world, queue, "one", traceparent=SAMPLED)
    world.consumer(queue, 1)
    world.turn()
    notes = world.contexts.take()
    found = []
    for _ in range(2):
        world.lives, world.read_through = Lives(b"l" * 16, 10), 0
        world.lives.note(notes)
        found.append([span.span_id for span in world.spans()])
    assert found[0] == found[1] and len(set(found[0])) == 2
