"""The source postroom.messages in Spark, beside the queue's consumers, and what its how-to shows."""

import io
import re
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from postroom.amqp.encoding.types import Byte, Symbol
from postroom.amqp.message.sections import Data, Message, Properties, Value
from postroom.spark.messages.schema import MESSAGES_SCHEMA
from tests.ledger.ledger_maker import LedgerMaker
from tests.spark.session.batch_sink import Sink

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

HOW_TO = Path(__file__).parents[3] / "docs" / "howto" / "queue-bodies-in-spark.md"
PLACE = '"/var/lib/postroom"'

PAYMENT = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Payment",
        "fields": [{"name": "account", "type": "string"}, {"name": "cents", "type": "long"}],
    }
)


def avro(**payment: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, PAYMENT, payment)
    return out.getvalue()


def text(body: str) -> Message:
    return Message(
        message_annotations={Symbol("x-opt-jms-msg-type"): Byte(5)},
        properties=Properties(message_id=f"ID:{body}"),
        application_properties={"n": 5, "none": None},
        body=Value(body),
    )


def data(body: bytes, content_type: str) -> Message:
    return Message(properties=Properties(content_type=content_type), body=Data([body]))


SENT: list[Message | bytes] = [
    text('{"id": 1, "amount": 2.5}'),
    data(b'{"id": 2, "amount": 3}', "application/json"),
    text("no json"),
    data(b"\xff\xfe{", "application/json"),
    data(avro(account="a", cents=5), "avro/binary"),
    data(b"\x08", "avro/binary"),
    text("cut").encode()[:-1],
]


def put(maker: LedgerMaker, *messages: Message | bytes, **more: Any) -> None:
    for message in messages:
        maker.put(1, body=message if isinstance(message, bytes) else message.encode(), **more)
        maker.commit()
    maker.marker()


@pytest.fixture
def maker(tmp_path: Path) -> LedgerMaker:
    maker = LedgerMaker(tmp_path / "data")
    maker.queue("orders")
    return maker


def messages(spark: SparkSession, folder: Path, **options: str) -> DataFrame:
    return spark.read.format("postroom.messages").options(**options).load(str(folder))


def test_spark_finds_the_source_and_has_all_columns(spark: SparkSession, maker: LedgerMaker) -> None:
    put(maker, *SENT)
    maker.put(1, body=None, durable=False)
    put(maker)
    frame = messages(spark, maker.folder, queues="orders", partitionRecords="3")
    assert frame.columns == MESSAGES_SCHEMA.names
    rows = frame.orderBy("position").collect()
    assert [row["text"] for row in rows[:3]] == ['{"id": 1, "amount": 2.5}', None, "no json"]
    assert rows[0]["application_properties"]["n"].asDict() == {"type": "long", "value": "5"}
    assert rows[0]["application_properties"]["none"].asDict() == {"type": "null", "value": None}
    assert (rows[0]["message_id"], rows[0]["jms_type"]) == ('ID:{"id": 1, "amount": 2.5}', "text")
    assert bytes(rows[3]["body"]) == b"\xff\xfe{"
    cut = rows[6]
    assert "at byte" in cut["_corrupt"]
    assert bytes(cut["body"]) == SENT[6]
    assert frame.where("body_state = 'present'").count() == len(SENT)


def test_columns_are_chosen_by_the_schema_and_the_whole_message_is_one(
    spark: SparkSession, maker: LedgerMaker
) -> None:
    put(maker, SENT[0])
    reader = spark.read.format("postroom.messages").schema("sections binary, queue string")
    (row,) = reader.load(str(maker.folder)).collect()
    assert isinstance(SENT[0], Message)
    assert (bytes(row["sections"]), row["queue"]) == (SENT[0].encode(), "orders")


@pytest.mark.parametrize(
    ("schema", "options", "error"),
    [
        ("nothing string", {}, "messages have no columns nothing"),
        ("position string", {}, "column position is bigint, not string"),
        ("position long not null, text string not null", {}, "column text can be null: leave NOT NULL away"),
        ("position long", {"mode": "eat"}, "tap or consume"),
        ("position long", {"lease": "a", "broker": "amqp://b", "queues": "q"}, "is of a stream"),
    ],
)
def test_mistakes_are_told_before_any_task_starts(
    spark: SparkSession, maker: LedgerMaker, schema: str, options: dict[str, str], error: str
) -> None:
    put(maker, SENT[0])
    with pytest.raises(PySparkException, match=error):
        spark.read.format("postroom.messages").schema(schema).options(**options).load(
            str(maker.folder)
        ).collect()


def stream(spark: SparkSession, folder: Path, **options: str) -> DataFrame:
    reader = spark.readStream.format("postroom.messages").schema("position long, text string")
    return reader.options(**options).load(str(folder))


def test_a_stream_has_each_message_once_over_restarts_and_a_lost_batch_comes_again(
    spark: SparkSession, maker: LedgerMaker, tmp_path: Path
) -> None:
    sink = Sink(tmp_path)
    put(maker, *(text(f"{number}") for number in range(5)))
    sink.run(stream(spark, maker.folder, maxRows="4"))
    assert [len(batch) for batch in sink.batches.values()] == [0, 3, 2]
    maker.next_file(new_epoch=True)
    put(maker, *(text(f"{number}") for number in range(3)))
    maker.seal(1)
    sink.run(stream(spark, maker.folder))
    before = sink.positions
    assert len(before) == len(set(before)) == 8
    sink.lose_last_commit()
    sink.run(stream(spark, maker.folder))
    assert sink.positions == before


def test_a_ledger_that_was_restored_stops_the_query(
    spark: SparkSession, maker: LedgerMaker, tmp_path: Path
) -> None:
    put(maker, text("a"))
    shutil.copytree(maker.folder, tmp_path / "backup")
    put(maker, text("b"))
    sink = Sink(tmp_path)
    sink.run(stream(spark, maker.folder))
    shutil.rmtree(maker.folder)
    shutil.copytree(tmp_path / "backup", maker.folder)
    with pytest.raises(StreamingQueryException, match="it was restored from an older copy"):
        sink.run(stream(spark, maker.folder))


def steps() -> Iterator[str]:
    """The code of the how-to."""
    yield from re.findall(r"```python\n(.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)


def test_the_how_to_does_what_it_says(spark: SparkSession, maker: LedgerMaker) -> None:
    put(maker, *SENT)
    names: dict[str, Any] = {"spark": spark, "__name__": "__main__"}
    with redirect_stdout(io.StringIO()):
        for code in steps():
            exec(code.replace(PLACE, repr(str(maker.folder))), names)
    orders = names["orders"].orderBy("position").collect()
    assert [(row["id"], row["amount"]) for row in orders] == [(1, 2.5), (2, 3.0)]
    unreadable = names["unreadable"].orderBy("position").collect()
    assert [row["text"] for row in unreadable][:2] == ["no json", None]
    assert unreadable[-1]["_corrupt"] is not None
    payments = names["payments"].orderBy("position").collect()
    assert [(row["account"], row["cents"]) for row in payments] == [("a", 5), (None, None)]
    assert payments[1]["error"].startswith("EOFError")
    assert names["stream"].isStreaming
