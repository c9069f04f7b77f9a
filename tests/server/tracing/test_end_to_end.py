"""From a real client's context to the collector: one message, whole."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection

from postroom.server.configuration.config import QueueConfig
from postroom.server.configuration.http import HttpConfig
from postroom.server.configuration.tracing import TracingConfig
from postroom.server.exits import Exit
from tests.server.broker_process import Process, begin
from tests.server.harness import BrokerThread, make_config
from tests.server.http_client import get
from tests.server.tracing.otlp_collector import Collector, attributes_of

pytestmark = pytest.mark.sockets

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{SPAN}-01"
LIFE = ["put orders", "wait orders", "deliver orders", "settle orders"]
DEAD = ["dead_letter dead", "wait dead", "deliver dead", "settle dead"]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


def traced(collector: Collector, **settings: object) -> BrokerThread:
    tracing = TracingConfig(endpoint=collector.endpoint, interval_s=0.05, **settings)  # type: ignore[arg-type]
    queues = [QueueConfig(name="orders", dead_letter_queue="dead"), QueueConfig(name="dead")]
    return BrokerThread(make_config(queue=queues, tracing=tracing, http=HttpConfig(address="127.0.0.1:0")))


def test_a_message_from_its_sender_to_the_dead_letters_and_out(collector: Collector) -> None:
    with traced(collector) as broker:
        connection = BlockingConnection(broker.url, timeout=15)
        properties = {"traceparent": SAMPLED, "tracestate": "vendor=1"}
        connection.create_sender("orders").send(
            Message(id="m1", body="one", durable=True, properties=properties, correlation_id="c1")
        )
        receiver = connection.create_receiver("orders", credit=1)
        receiver.receive(15)
        receiver.reject()
        dead = connection.create_receiver("dead", credit=1)
        letter = dead.receive(15)
        assert letter.properties == properties, "as it was sent"
        dead.accept()
        container = connection.container.container_id
        connection.close()
        spans = collector.wait_for(LIFE + DEAD)
    by_name = {span.name: span for span in spans}
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    assert {span.trace_state for span in spans} == {"vendor=1"}
    settles = [by_name["settle orders"], by_name["settle dead"]]
    assert [span.parent_span_id for span in settles] == [
        by_name["deliver orders"].span_id,
        by_name["deliver dead"].span_id,
    ]
    others = [span for span in spans if span not in settles]
    assert {span.parent_span_id.hex() for span in others} == {SPAN}
    (link,) = by_name["dead_letter dead"].links
    assert link.span_id == by_name["deliver orders"].span_id
    assert by_name["deliver orders"].status.code == 2, "an error: it was rejected"
    assert by_name["deliver dead"].status.code == 0
    put = attributes_of(by_name["put orders"].attributes)
    assert put["messaging.message.id"] == "m1" and put["messaging.message.conversation_id"] == "c1"
    assert put["messaging.client.id"] == container and put["messaging.destination.name"] == "orders"
    assert collector.resources[0]["service.name"] == "postroom"
    assert collector.resources[0]["service.instance.id"] == "postroom"


def test_only_what_its_sender_samples_is_traced(collector: Collector) -> None:
    with traced(collector, service_name="shop") as broker:
        connection = BlockingConnection(broker.url, timeout=15)
        sender = connection.create_sender("orders")
        for parent in (SAMPLED[:-1] + "0", SAMPLED):
            sender.send(Message(body="one", properties={"traceparent": parent}))
        sender.send(Message(body="none"))
        receiver = connection.create_receiver("orders", credit=3)
        for _ in range(3):
            receiver.receive(15)
            receiver.accept()
        connection.close()
        collector.wait_for(LIFE)
    collector.wait_for(LIFE)
    assert collector.resources[0]["service.name"] == "shop"


def test_headers_go_with_each_request(collector: Collector, tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer secret\n\nX-Tenant: shop\n")
    with traced(collector, headers_file=str(headers)) as broker:
        connection = BlockingConnection(broker.url, timeout=15)
        connection.create_sender("orders").send(Message(body="one", properties={"traceparent": SAMPLED}))
        collector.wait_for(["put orders"])
        connection.close()
    sent = {name.lower(): value for name, value in collector.headers[0].items()}
    assert sent["authorization"] == "Bearer secret" and sent["x-tenant"] == "shop"


def test_a_collector_that_is_away_harms_nobody(collector: Collector) -> None:
    collector.status = 503
    with traced(collector, max_spans=4, timeout_ms=300) as broker:
        connection = BlockingConnection(broker.url, timeout=15)
        sender = connection.create_sender("orders")
        for _ in range(20):
            sender.send(Message(body="one", properties={"traceparent": SAMPLED}))
        collector.wait(lambda: len(collector.headers) > 0)
        assert metric(broker, "postroom_trace_messages") == 20
        assert metric(broker, 'postroom_trace_spans_dropped_total{reason="no-room"}') == 16
        assert metric(broker, "postroom_trace_spans_waiting") == 4
        connection.close()


def metric(broker: BrokerThread, name: str) -> float:
    """As soon as the follower is at the end."""
    for _ in range(400):
        text = get(broker.http_urls[0], "/metrics").body.decode()
        found = {
            line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
            for line in text.splitlines()[:]
            if line[0] != "#"
        }
        if found["postroom_trace_behind_records"] == 0 and found["postroom_trace_messages"] > 0:
            return found[name]
    raise AssertionError("the follower doesn't come to the end")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_trace_goes_on_after_a_restart(
    start: list[Process], tmp_path: Path, collector: Collector, number: int
) -> None:
    config = tmp_path / "postroom.toml"
    config.write_text(f'[tracing]\nendpoint = "{collector.endpoint}"\ninterval_s = 0.05\n')
    options = ("--config", str(config), "--listen", "127.0.0.1:0")
    broker = begin(start, tmp_path, *options)
    connection = BlockingConnection(broker.ready(), timeout=15)
    message = Message(body="one", durable=True, properties={"traceparent": SAMPLED})
    connection.create_sender("orders").send(message)
    collector.wait_for(["put orders"])
    broker.end(number)
    again = begin(start, tmp_path, *options)
    connection = BlockingConnection(again.ready(), timeout=15)
    receiver = connection.create_receiver("orders", credit=1)
    receiver.receive(15)
    receiver.accept()
    connection.close()
    assert again.end() == Exit.STOPPED
    ids = {span.span_id for span in collector.spans}
    assert len(ids) == 4 and {span.name for span in collector.spans} == set(LIFE)
