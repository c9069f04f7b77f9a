"""The context that a sender gives goes on unchanged, whatever way a message takes, and its trace with it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from proton import Message, symbol
from proton.utils import BlockingConnection, BlockingReceiver

from postroom.server.configuration.channels import ChannelConfig
from postroom.server.configuration.config import QueueConfig, TopicConfig
from postroom.server.configuration.tracing import TracingConfig
from tests.server.harness import BrokerThread, make_config
from tests.server.management_peer import Manager
from tests.server.tracing.otlp_collector import Collector, attributes_of

pytestmark = pytest.mark.sockets

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PROPERTIES = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}
ANNOTATIONS = {
    symbol("traceparent"): f"00-{TRACE}-{'1' * 16}-01",
    symbol("x-opt-qpid-tracestate"): {"traceparent": f"00-{TRACE}-{'2' * 16}-01"},
}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@contextmanager
def connected(broker: BrokerThread) -> Iterator[BlockingConnection]:
    opened = BlockingConnection(broker.url, timeout=15)
    yield opened
    opened.close()


def a_broker(stack: ExitStack, collector: Collector, **config: object) -> BrokerThread:
    tracing = TracingConfig(endpoint=collector.endpoint, interval_s=0.05)
    return stack.enter_context(BrokerThread(make_config(tracing=tracing, **config)))


def send(connection: BlockingConnection, address: str, **more: object) -> None:
    connection.create_sender(address).send(
        Message(body="one", durable=True, properties=PROPERTIES, annotations=ANNOTATIONS, **more)
    )


def check(receiver: BlockingReceiver) -> None:
    """That what comes has the context as it was sent; accept it."""
    message = receiver.receive(15)
    assert message.properties == PROPERTIES
    assert ANNOTATIONS.items() <= message.annotations.items()
    receiver.accept()


def test_through_a_queue_and_a_topic(stack: ExitStack) -> None:
    collector = stack.enter_context(Collector())
    topic = [TopicConfig(name="news")]
    broker = a_broker(stack, collector, queue=[QueueConfig(name="orders")], topic=topic)
    with connected(broker) as connection:
        receivers = [
            connection.create_receiver(name, credit=1, name=link)
            for name, link in (("orders", "a"), ("news", "b"), ("news", "c"))
        ]
        for address in ("orders", "news"):
            send(connection, address)
        for receiver in receivers:
            check(receiver)
    spans = collector.wait_for(
        [
            f"{what} {where}"
            for where in ("orders", "news", "news")
            for what in ("put", "wait", "deliver", "settle")
        ]
    )
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    parents = {span.parent_span_id.hex() for span in spans if not span.name.startswith("settle")}
    assert parents == {"1" * 16}, "annotations count before properties"


def test_through_expiry_and_a_move(stack: ExitStack) -> None:
    collector = stack.enter_context(Collector())
    queues = [
        QueueConfig(name="orders", expiration_policy="redirect", expiry_queue="late"),
        *[QueueConfig(name=name) for name in ("late", "other")],
    ]
    broker = a_broker(stack, collector, queue=queues)
    with connected(broker) as connection:
        send(connection, "orders", ttl=0.05)
        broker.wait_until(lambda each: each.manager.queues["late"].statistics.depth == 1)
        kind = {"type": "postroom.message", "name": "late"}
        reply = Manager(connection).request("MOVE-MESSAGES", {"to": "other"}, **kind)
        assert reply.properties["statusCode"] == 200, reply.properties
        check(connection.create_receiver("other", credit=1))
    spans = collector.wait_for(
        [
            *("put orders", "wait orders", "redirect late", "wait late"),
            *("move other", "wait other", "deliver other", "settle other"),
        ]
    )
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    by_name = {span.name: span for span in spans}
    for made, left in (("redirect late", "wait orders"), ("move other", "wait late")):
        assert [link.span_id for link in by_name[made].links] == [by_name[left].span_id]


@pytest.mark.parametrize("foreign", [False, True])
def test_through_a_channel(stack: ExitStack, foreign: bool) -> None:
    collector = stack.enter_context(Collector())
    receiving = [] if foreign else [ChannelConfig(name="A.B", type="receiver")]
    there = a_broker(stack, collector, container_id="B", queue=[QueueConfig(name="in")], channel=receiving)
    kind = {"protocol": "amqp", "remote_address": "in"} if foreign else {}
    channel = ChannelConfig(name="A.B", type="sender", transmission_queue="B", connection=there.url, **kind)
    transmission = [QueueConfig(name="B", usage="transmission")]
    here = a_broker(stack, collector, container_id="A", queue=transmission, channel=[channel])
    with connected(here) as near, connected(there) as far:
        here.turn(lambda broker, now_us: broker.channels.find("A.B").start(now_us))
        send(near, "in@B")
        check(far.create_receiver("in", credit=1))
    names = ["put B", "wait B", "forward B", "settle B", "put in", "wait in", "deliver in", "settle in"]
    spans = {span.name: span for span in collector.wait_for(names)}
    assert {span.trace_id.hex() for span in spans.values()} == {TRACE}
    forward = attributes_of(spans["forward B"].attributes)
    assert forward["postroom.channel"] == "A.B" and forward["postroom.outcome"] == "forwarded"
    if not foreign:
        assert attributes_of(spans["put in"].attributes)["postroom.channel"] == "A.B"
