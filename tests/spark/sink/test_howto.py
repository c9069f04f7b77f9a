"""The programs of the how-to pages table → queue and queue → queue do what the pages say."""

import asyncio
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from postroom.client import Message
from postroom.client.aio import ConnectionFactory
from postroom.server.configuration.listening import ListenConfig
from tests.server.harness import BrokerThread, make_config
from tests.spark.sink.sink_tasks import shown

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

HOWTO = Path(__file__).resolve().parents[3] / "docs" / "howto"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DAY = 20261122


def programs(page: str) -> list[str]:
    return PROGRAM.findall((HOWTO / page).read_text())


def run(program: str, **constants: object) -> None:
    """Run a program of a page with other constants than it has."""
    for name in constants:
        assert re.search(rf"^[A-Z, ]*\b{name}\b[A-Z, ]* = ", program, re.MULTILINE), name
    first, _, rest = program.partition("\nspark = ")
    names: dict[str, Any] = {}
    exec(compile(first, "page", "exec"), names)
    names |= constants
    exec(compile("\nspark = " + rest, "page", "exec"), names)


async def _all(url: str, queue: str) -> list[Message]:
    async with await ConnectionFactory(url).create_connection() as connection:
        consumer = await (await connection.create_session()).create_consumer(queue)
        found = []
        while (message := await consumer.receive_no_wait()) is not None:
            found.append(message)
        return found


def messages(broker: BrokerThread, queue: str) -> list[Message]:
    """What is in a queue; it is empty then."""
    return asyncio.run(_all(broker.url, queue))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    folder = tmp_path / "ledger"
    folder.mkdir()
    with BrokerThread(make_config(listen=[ListenConfig(address="127.0.0.1:0")]), folder=folder) as running:
        yield running


def prices(spark: SparkSession, folder: Path, *rows: tuple[int, str, float, str]) -> None:
    """More rows of the table."""
    schema = "day int, article string, price double, currency string"
    spark.createDataFrame(list(rows), schema).coalesce(1).write.mode("append").parquet(str(folder))


def test_a_table_once_a_day(spark: SparkSession, broker: BrokerThread, tmp_path: Path) -> None:
    daily, _ = programs("table-to-queue.md")
    table = tmp_path / "prices"
    prices(spark, table, (DAY, "pear", 2.0, "EUR"), (DAY, "apple", 1.5, "CHF"), (DAY - 1, "old", 9.0, "EUR"))
    for _ in range(2):
        run(daily, BROKER=broker.url, TABLE=str(table), DAY=DAY)
    found = {message.group_id: message for message in messages(broker, "prices")}
    assert {key: json.loads(str(message.body)) for key, message in found.items()} == {
        "apple": {"article": "apple", "price": 1.5},
        "pear": {"article": "pear", "price": 2.0},
    }
    assert found["apple"].properties["currency"] == "CHF"
    assert all(message.durable for message in found.values())
    assert shown(broker, "daily-prices")["batch_id"] == DAY


def test_a_table_as_rows_come(spark: SparkSession, broker: BrokerThread, tmp_path: Path) -> None:
    _, stream = programs("table-to-queue.md")
    table, checkpoint = tmp_path / "prices", tmp_path / "checkpoint"
    stream = stream.replace("/data/checkpoints/new-prices", str(checkpoint))
    prices(spark, table, (DAY, "pear", 2.0, "EUR"))
    run(stream, BROKER=broker.url, TABLE=str(table))
    prices(spark, table, (DAY, "apple", 1.5, "EUR"))
    run(stream, BROKER=broker.url, TABLE=str(table))
    assert [message.group_id for message in messages(broker, "prices")] == ["pear", "apple"]
    shutil.rmtree(checkpoint)
    with pytest.raises(Exception, match="QueryReplaced"):
        run(stream, BROKER=broker.url, TABLE=str(table))
    assert messages(broker, "prices") == []


ARTICLES = ("apple", "pear", "fig")


async def _orders(url: str, first: int, last: int) -> None:
    async with await ConnectionFactory(url).create_connection() as connection:
        producer = await (await connection.create_session()).create_producer("orders")
        for number in range(first, last + 1):
            text = json.dumps({"article": ARTICLES[number % 3]})
            await producer.send(
                Message(
                    text if number % 2 else text.encode(),
                    message_id=f"ID:{number}",
                    correlation_id=f"c{number}",
                    reply_to="answers",
                    properties={"number": number},
                    group_id=f"g{number % 2}",
                )
            )


async def _subscribe(url: str) -> None:
    async with await ConnectionFactory(url).create_connection() as connection:
        management = await connection.create_management()
        await management.create("postroom.queue", "orders")
        await management.create("postroom.spark-subscription", "pricing", {"queue": "orders"})


def test_one_queue_into_another(spark: SparkSession, broker: BrokerThread, tmp_path: Path) -> None:
    """Run twice as orders come; then with the checkpoint lost, as the page says how."""
    [enrich] = programs("enrich-a-queue.md")
    prices(spark, tmp_path / "prices", (DAY, "apple", 1.5, "EUR"), (DAY, "pear", 2.0, "EUR"))
    checkpoint = tmp_path / "checkpoint"
    constants = {
        "BROKER": broker.url,
        "LEDGER": str(tmp_path / "ledger"),
        "PRICES": str(tmp_path / "prices"),
        "CHECKPOINT": str(checkpoint),
    }
    asyncio.run(_subscribe(broker.url))
    asyncio.run(_orders(broker.url, 1, 10))
    run(enrich, **constants)
    asyncio.run(_orders(broker.url, 11, 15))
    run(enrich, **constants)
    shutil.rmtree(checkpoint)
    asyncio.run(_orders(broker.url, 16, 20))
    with pytest.raises(Exception, match="CheckpointReplaced"):
        run(enrich, **constants)
    run(
        enrich.replace('.option("confirm", ', '.option("onNewCheckpoint", "confirmed").option("confirm", '),
        **constants,
    )
    found = messages(broker, "orders-priced")
    numbers = [int(str(message.message_id)[3:]) for message in found]
    assert numbers == [*range(1, 21)]
    for message in found:
        number = int(str(message.message_id)[3:])
        fields = {"article": ARTICLES[number % 3]} | {0: {"price": 1.5}, 1: {"price": 2.0}, 2: {}}[number % 3]
        assert json.loads(str(message.body)) == fields
        assert (message.correlation_id, message.reply_to) == (f"c{number}", "answers")
        assert message.properties == {"number": number}
