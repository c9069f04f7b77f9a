"""The client's instrumentation: what is sent, what is received, and the spans around both."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from postroom.client import ClientOptions, Connection, JMSException, Message, TextMessage, connect
from postroom.client.aio import connect as connect_async
from postroom.client.tracing import OpenTelemetryTracing
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets

OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TIMEOUT_S = 20.0


class Traced:
    """A provider whose spans are kept, and the client's instrumentation with it."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracing = OpenTelemetryTracing(self.provider)
        self.options = ClientOptions(tracing=self.tracing)
        self.tracer = self.provider.get_tracer("test")

    def spans(self) -> dict[str, ReadableSpan]:
        """The last of each name."""
        return {span.name: span for span in self._kept.get_finished_spans()}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(make_config()) as running:
        yield running


@pytest.fixture
def traced() -> Traced:
    return Traced()


@pytest.fixture
def connection(broker: BrokerThread, traced: Traced) -> Iterator[Connection]:
    with connect(broker.url, options=traced.options) as opened:
        yield opened


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def traceparent(span: ReadableSpan) -> str:
    trace_id, span_id = ids(span)
    return f"00-{trace_id:032x}-{span_id:016x}-"


def links(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def exchange(connection: Connection, queue: str, message: Message | str) -> Message:
    """Send it, receive what comes, accept that."""
    with connection.producer(queue) as producer:
        producer.send(message)
    with connection.consumer(queue) as consumer:
        received = consumer.receive(TIMEOUT_S)
        assert received is not None
        consumer.accept(received)
    return received


def test_a_send_and_a_receive(connection: Connection, traced: Traced) -> None:
    with traced.tracer.start_as_current_span("application"):
        received = exchange(connection, "a", "one")
    spans = traced.spans()
    send, receive = spans["send a"], spans["receive a"]
    assert str(received.properties["traceparent"]).startswith(traceparent(send))
    assert send.parent is not None and send.parent.span_id == ids(spans["application"])[1]
    assert (send.kind, receive.kind) == (SpanKind.PRODUCER, SpanKind.CLIENT)
    assert links(receive) == [ids(send)]
    assert send.attributes is not None and receive.attributes is not None
    assert dict(send.attributes) == {
        "messaging.system": "postroom",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "a",
        "messaging.client.id": connection.client_id,
        "messaging.message.id": received.message_id,
    }
    assert receive.attributes["messaging.message.id"] == received.message_id


def test_many_messages_have_one_span(connection: Connection, traced: Traced) -> None:
    with connection.producer("b") as producer:
        assert producer.send_all(str(number) for number in range(3)) == 3
    send = traced.spans()["send b"]
    assert send.attributes is not None and send.attributes["messaging.batch.message_count"] == 3
    with connection.consumer("b") as consumer:
        for _ in range(3):
            received = consumer.receive(TIMEOUT_S)
            assert received is not None
            assert str(received.properties["traceparent"]).startswith(traceparent(send))
            consumer.accept(received)


def test_a_context_of_the_application_is_kept_and_linked_to(connection: Connection, traced: Traced) -> None:
    message = TextMessage("one")
    message.properties["traceparent"] = OTHER
    received = exchange(connection, "c", message)
    assert received.properties["traceparent"] == OTHER
    span_id = int(OTHER.split("-")[2], 16)
    assert [link[1] for link in links(traced.spans()["send c"])] == [span_id]
    assert [link[1] for link in links(traced.spans()["receive c"])] == [span_id]


def test_a_message_that_is_sent_again_gets_a_new_context(connection: Connection, traced: Traced) -> None:
    message = TextMessage("one")
    first = exchange(connection, "d", message).properties["traceparent"]
    second = exchange(connection, "d", message).properties["traceparent"]
    assert first != second
    assert links(traced.spans()["send d"]) == []


def test_a_received_message_goes_on_with_an_annotation(connection: Connection, traced: Traced) -> None:
    received = exchange(connection, "e", "one")
    first = traced.spans()["send e"]
    again = exchange(connection, "f", received)
    second = traced.spans()["send f"]
    assert str(again.properties["traceparent"]).startswith(traceparent(first)), "as it was sent first"
    assert str(again.annotations["traceparent"]).startswith(traceparent(second))
    assert links(second) == [ids(first)]
    assert links(traced.spans()["receive f"]) == [ids(second)]


def test_a_listener_runs_in_a_span_of_the_senders_trace(connection: Connection, traced: Traced) -> None:
    with connection.producer("g") as producer:
        producer.send("one")
    inside: list[trace.SpanContext] = []
    done = threading.Event()

    def listener(message: Message) -> None:
        inside.append(trace.get_current_span().get_span_context())
        done.set()

    with connection.create_session() as session:
        session.create_consumer("g").set_message_listener(listener)
        assert done.wait(TIMEOUT_S)
    spans = traced.spans()
    send, process = spans["send g"], spans["process g"]
    assert inside[0].span_id == ids(process)[1], "also in the listener's thread"
    assert process.kind == SpanKind.CONSUMER and links(process) == [ids(send)]
    assert ids(process)[0] == ids(send)[0]
    assert process.parent is not None and process.parent.span_id == ids(send)[1]


def test_work_at_a_message_under_a_span_of_the_application(connection: Connection, traced: Traced) -> None:
    received = exchange(connection, "h", "one")
    with traced.tracer.start_as_current_span("application"), traced.tracing.processing(received):
        pass
    spans = traced.spans()
    process = spans["process h"]
    assert process.parent is not None and process.parent.span_id == ids(spans["application"])[1]
    assert links(process) == [ids(spans["send h"])]


def test_what_fails_says_how(connection: Connection, traced: Traced) -> None:
    with connection.producer() as producer, pytest.raises(JMSException):
        producer.send("one", destination="$nowhere")
    send = traced.spans()["send $nowhere"]
    assert send.status.status_code == StatusCode.ERROR
    assert send.attributes is not None and str(send.attributes["error.type"]).endswith("Exception")


def test_without_the_option_nothing_is_added(broker: BrokerThread, traced: Traced) -> None:
    with traced.tracer.start_as_current_span("application"), connect(broker.url) as plain:
        received = exchange(plain, "i", "one")
    assert "traceparent" not in received.properties
    assert list(traced.spans()) == ["application"]


def test_in_asyncio(broker: BrokerThread, traced: Traced) -> None:
    async def talk() -> Message | None:
        async with await connect_async(broker.url, options=traced.options) as connection:
            async with await connection.producer("j") as producer:
                await producer.send("one")
            async with await connection.consumer("j") as consumer:
                received = await consumer.receive(TIMEOUT_S)
                assert received is not None
                with traced.tracing.processing(received):
                    await consumer.accept(received)
                return received

    assert asyncio.run(talk()) is not None
    spans = traced.spans()
    assert links(spans["receive j"]) == links(spans["process j"]) == [ids(spans["send j"])]
