"""A message's trace context in a DataFrame, and from there into a queue."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from postroom.amqp.encoding.types import Symbol
from postroom.amqp.message.sections import Data, Message
from postroom.client import connect
from tests.ledger.ledger_maker import LedgerMaker
from tests.server.harness import BrokerThread, make_config

SOURCE = "postroom.messages"
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ANNOTATED = "00-0af7651916cd43dd8448eb211c80319c-1111111111111111-01"
SENT = Message(
    message_annotations={Symbol("traceparent"): ANNOTATED},
    application_properties={"traceparent": PARENT, "tracestate": "vendor=1"},
    body=Data([b"one"]),
)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(make_config()) as running:
        yield running


def test_from_a_queue_to_a_dataframe_to_another_queue(
    spark: SparkSession, broker: BrokerThread, app: str, tmp_path: Path
) -> None:
    maker = LedgerMaker(tmp_path / "data")
    maker.queue("orders")
    maker.put(1, body=SENT.encode())
    maker.commit()
    maker.marker()
    frame = spark.read.format(SOURCE).load(str(maker.folder))
    annotated, given = (
        f"{section}['traceparent'].value" for section in ("message_annotations", "application_properties")
    )
    chosen = frame.selectExpr(f"coalesce({annotated}, {given})", given)
    assert [tuple(row) for row in chosen.collect()] == [(ANNOTATED, PARENT)]
    passed_on = frame.select("body", "application_properties", "message_annotations")
    own = frame.selectExpr("body", f"map('traceparent', {given}) as application_properties")
    for number, written in enumerate((passed_on, own)):
        queue = f"{app}-{number}"
        sink = written.write.format("postroom.messages").mode("append")
        sink.option("broker", broker.url).option("queue", queue).save()
        with connect(broker.url) as connection, connection.consumer(queue) as consumer:
            message = consumer.receive(20)
            assert message is not None
            consumer.accept(message)
        assert message.properties["traceparent"] == PARENT
        assert message.annotations.get("traceparent") == (ANNOTATED if number == 0 else None)
