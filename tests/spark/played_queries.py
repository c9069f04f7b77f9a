"""Queries without Spark's engine: a source is asked as Spark asks it, in Spark's order, beside a broker of
the test; the process may die at any point, and the newest entries of the checkpoint may be lost."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from postroom.client import Connection, ConnectionFactory, ManagementClient, Message
from postroom.server.configuration.listening import ListenConfig
from postroom.spark.consume.foreach_batch import append_once, confirm
from postroom.spark.message_source import MessagesDataSource
from postroom.spark.messages.schema import MESSAGES_SCHEMA, messages_struct
from tests.server.harness import BrokerThread, make_config

QUEUE = "orders"
SUBSCRIPTION = "lake"
NOUN = "postroom.spark-subscription"
COLUMNS = ("ledger_id", "position", "ordinal", "queue", "body_state", "text")


class Died(Exception):
    """The process dies here."""


class Station:
    """A broker with a queue and its Spark subscription, in a folder, and a client."""

    def __init__(self, folder: Path, window: int = 100) -> None:
        self.folder = folder
        self.window = window
        self.sent: list[str] = []
        self._thread: BrokerThread | None = None
        self._connection: Connection | None = None
        self._management: ManagementClient | None = None
        self._port = 0

    def __enter__(self) -> "Station":
        self.start()
        self.create()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """On the port that it had before."""
        listen = [ListenConfig(address=f"127.0.0.1:{self._port}")]
        self._thread = BrokerThread(make_config((QUEUE,), listen=listen), folder=self.folder)
        self._thread.__enter__()
        self._port = self._thread.port
        self._connection = ConnectionFactory(self.url).create_connection()

    def stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._thread is not None:
            self._thread.__exit__(None, None, None)
        self._connection = self._management = self._thread = None

    @property
    def url(self) -> str:
        assert self._thread is not None
        return self._thread.url

    @property
    def connection(self) -> Connection:
        assert self._connection is not None
        return self._connection

    @property
    def management(self) -> ManagementClient:
        """One for every question: each has a session of its own."""
        if self._management is None:
            self._management = self.connection.create_management()
        return self._management

    def restart(self) -> None:
        """The broker goes down and comes back."""
        self.stop()
        self.start()

    def create(self, name: str = SUBSCRIPTION, **more: object) -> None:
        fields = {"queue": QUEUE, "window": self.window} | more
        self.management.create(NOUN, name, fields)

    def send(self, count: int, priority: int = 4, durable: bool = True) -> list[str]:
        """So many messages more; their texts."""
        texts = [f"m{len(self.sent) + number}" for number in range(count)]
        with self.connection.create_session() as session:
            producer = session.create_producer(QUEUE)
            for text in texts:
                producer.send(Message(text, priority=priority, durable=durable))
        self.sent += texts
        return texts

    def state(self, name: str = SUBSCRIPTION) -> dict[str, Any]:
        """What the broker says of the subscription."""
        return self.management.read(NOUN, name)

    def sessions(self) -> list[int]:
        """How many each connection has."""
        assert self._thread is not None
        return self._thread.call(lambda broker: [len(each.engine.sessions()) for each in broker.connections])

    def on_queue(self) -> int:
        """Messages on the queue, those held included."""
        answer = self.management.read("postroom.queue", QUEUE)
        return int(answer["messages_current"]) + int(answer["messages_pending"])  # type: ignore[call-overload]


@contextmanager
def station(window: int = 100) -> Iterator[Station]:
    with tempfile.TemporaryDirectory() as folder, Station(Path(folder), window) as one:
        yield one


class Sink(Protocol):
    """Where a query's rows go."""

    def take(self, batch_id: int, rows: list[dict[str, Any]], query: "Played") -> None: ...


@dataclass
class Played:
    """A query with a checkpoint. `run` does what Spark does with ``Trigger.AvailableNow``.

    `dies`: the name of a point at which the process dies, once.
    """

    options: Mapping[str, str]
    sink: Sink
    checkpoint: Path
    columns: tuple[str, ...] = COLUMNS
    dies: str = ""
    reached: list[str] = field(default_factory=list)
    meanwhile: dict[str, Callable[[], None]] = field(default_factory=dict)
    """What happens at a point, once."""

    def run(self) -> bool:
        """Everything that is there now; False if it died."""
        try:
            self._run()
        except Died:
            return False
        return True

    def point(self, name: str) -> None:
        """A place at which a process may die."""
        self.reached.append(name)
        if name == self.dies:
            self.dies = ""
            raise Died(name)
        if name in self.meanwhile:
            self.meanwhile.pop(name)()

    def _run(self) -> None:
        reader = self._reader()
        try:
            self._drain(reader)
        finally:
            reader.stop()

    def _drain(self, reader: DataSourceStreamReader) -> None:
        reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
        offsets, commits = self._log("offsets"), self._log("commits")
        number = max(offsets, default=-1)
        committed = offsets.get(number - 1)
        if number >= 0 and number not in commits:
            self._batch(reader, number, committed, offsets[number])
        committed = offsets.get(number)
        while True:
            start = reader.initialOffset() if committed is None else committed
            end = reader.latestOffset(start, ReadAllAvailable())  # type: ignore[call-arg]
            end = json.loads(json.dumps(end))
            if end == committed:
                return
            number += 1
            self._write("offsets", number, end)
            self._batch(reader, number, committed, end)
            committed = end

    def _batch(
        self, reader: DataSourceStreamReader, number: int, start: dict[str, Any] | None, end: dict[str, Any]
    ) -> None:
        if start is None:
            self.point("before-register")
        partitions = reader.partitions(reader.initialOffset() if start is None else start, end)
        rows = [row for part in partitions for batch in reader.read(part) for row in _rows(batch)]
        self.point("after-read")
        self.sink.take(number, rows, self)
        self.point("before-spark-commit-log")
        self._write("commits", number, {})
        self.point("before-next-plan")

    def _reader(self) -> DataSourceStreamReader:
        source = MessagesDataSource(dict(self.options))
        return source.streamReader(chosen(self.columns))

    # --- the checkpoint

    def _log(self, name: str) -> dict[int, dict[str, Any]]:
        files = (self.checkpoint / name).glob("*")
        return {int(path.name): json.loads(path.read_text().splitlines()[-1]) for path in files}

    def _write(self, name: str, number: int, fields: dict[str, Any]) -> None:
        folder = self.checkpoint / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(number)).write_text(f"v1\n{{}}\n{json.dumps(fields)}")

    def lose_last(self) -> None:
        """The newest entries of both logs are gone, as after a power cut."""
        number = max(self._log("offsets"))
        for name in ("offsets", "commits"):
            (self.checkpoint / name / str(number)).unlink(missing_ok=True)

    def lose_checkpoint(self) -> None:
        shutil.rmtree(self.checkpoint)


def chosen(columns: tuple[str, ...]) -> StructType:
    """Some columns of messages."""
    return messages_struct(pa.schema([MESSAGES_SCHEMA.field(name) for name in columns]))


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return list(batch.to_pylist())


@dataclass
class Appending:
    """A sink that only appends: what comes twice is there twice. `confirms`: it says so to the broker."""

    station: Station
    confirms: bool = False
    texts: list[str] = field(default_factory=list)

    def take(self, batch_id: int, rows: list[dict[str, Any]], query: Played) -> None:
        self.write(batch_id, rows, query)
        query.point("after-table-commit")
        if self.confirms and batch_id:
            query.point("before-confirm")
            confirm(
                None,  # type: ignore[arg-type]  # a DataFrame only says where the checkpoint is
                batch_id,
                broker=self.station.url,
                subscription=SUBSCRIPTION,
                checkpoint=str(query.checkpoint),
            )
            query.point("after-confirm")

    def write(self, batch_id: int, rows: list[dict[str, Any]], query: Played) -> None:
        self.texts += [row["text"] for row in rows]

    def has(self) -> list[str]:
        """Everything that is in it."""
        return self.texts


class KeyedByBatch(Appending):
    """A sink that passes over a batch id that it has, as Spark's own file sink does."""

    seen: set[int]

    def write(self, batch_id: int, rows: list[dict[str, Any]], query: Played) -> None:
        self.seen = getattr(self, "seen", set())
        if batch_id not in self.seen:
            self.seen.add(batch_id)
            super().write(batch_id, rows, query)


class Table(Appending):
    """A Delta table by `append_once`; made with `at`."""

    spark: Any
    uri: str

    def at(self, spark: Any, uri: str) -> "Table":
        self.spark, self.uri = spark, uri
        return self

    def write(self, batch_id: int, rows: list[dict[str, Any]], query: Played) -> None:
        batch = self.spark.createDataFrame(rows, chosen(query.columns)).repartition(1)
        append_once(batch, batch_id, self.uri, "lake", checkpoint=str(query.checkpoint))

    def has(self) -> list[str]:
        return list(DeltaTable(self.uri).to_pyarrow_table(columns=["text"])["text"].to_pylist())
