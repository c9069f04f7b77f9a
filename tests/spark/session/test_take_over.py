"""Spark beside a replicated queue manager whose active member is killed: queries and the pipeline read at the
member that takes over, and everything is there once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from tools.peers.nats import NatsCluster
from tools.peers.ports import free_port

from postroom.client import ConnectionFactory, Message
from postroom.server.http.tokens import TOKENS_NAME, Right, add_token
from postroom.spark.consume.foreach_batch import append_once
from postroom.spark.store import open_store, read_folded
from tests.clients.broker import BrokerProcess
from tests.replication.members import member
from tests.spark.local_pipeline import assert_whole

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.timeout(900)]
WAIT_S = 240.0
POLL_S = 0.1
HALF = 200
"""Messages before the kill, and as many beyond."""
FORMAT = "postroom.messages"
TAPPED = "tapped"


@dataclass
class Pair:
    """Two members, the first of which is active, and what readers need to know of them."""

    first: BrokerProcess
    second: BrokerProcess
    http: str
    """The URLs of both."""
    token: str
    sent: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"failover:({self.first.url},{self.second.url})"

    def send(self, kill_at: int = 0) -> None:
        """As many messages again; the active member is killed when so many of them are accepted."""
        with ConnectionFactory(self.url).create_connection() as connection:
            producer = connection.create_session().create_producer("q")
            for number in range(HALF):
                if kill_at and number == kill_at:
                    self.first.kill()
                text = f"m{len(self.sent)}"
                producer.send(Message(text, message_id=text))
                self.sent.append(text)

    def taken(self, queue: str) -> list[str]:
        """Everything that lies on a queue."""
        found: list[str] = []
        with ConnectionFactory(self.url).create_connection() as connection:
            consumer = connection.create_session().create_consumer(queue)
            while (message := consumer.receive_no_wait()) is not None:
                found.append(str(message.body))
        return found


@contextmanager
def pair(folder: Path) -> Iterator[Pair]:
    """Running; the token opens the ledger and bodies at both."""
    ports = [free_port(), free_port()]
    with NatsCluster(folder / "nats") as nats:
        made = [
            member(folder, name, nats, "spark", f'[http]\naddress = "127.0.0.1:{port}"')
            for name, port in zip("ab", ports, strict=True)
        ]
        first, second = made
        for each in made:
            each.folder.mkdir()
        token = add_token(first.folder / TOKENS_NAME, "spark", [Right.LEDGER, Right.BODIES])
        shutil.copy(first.folder / TOKENS_NAME, second.folder / TOKENS_NAME)
        try:
            first.start()
            second.launch()
            yield Pair(first, second, ",".join(f"http://127.0.0.1:{port}" for port in ports), token)
        finally:
            for each in made:
                each.kill()


def wait_until(holds: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end_s, f"in vain: {what}"
        time.sleep(POLL_S)


def rows(table: Path) -> list[str]:
    """The texts in a table; none before it is there."""
    if not (table / "_delta_log").exists():
        return []
    found: list[str] = DeltaTable(str(table)).to_pyarrow_table(columns=["text"])["text"].to_pylist()
    return found


def test_queries_go_on_at_the_member_that_takes_over(spark: SparkSession, tmp_path: Path) -> None:
    """A tap with a lease into a table, and a query that consumes the queue and sends to another: each message
    is once in the table, and once on the other queue."""
    table, checkpoints = tmp_path / "table", tmp_path / "checkpoints"
    with pair(tmp_path) as two:
        with ConnectionFactory(two.url).create_connection() as connection:
            fields = {"queue": "q", "window": 50}
            connection.create_management().create("postroom.spark-subscription", "moving", fields)
        common = {"token": two.token, "cache": str(tmp_path / "cache"), "broker": two.url}

        def read(**options: str) -> DataFrame:
            return spark.readStream.format(FORMAT).options(**common, **options).load(two.http)

        def append(batch: DataFrame, batch_id: int) -> None:
            append_once(batch.select("ledger_id", "position", "text"), batch_id, str(table), TAPPED)

        tap = read(queues="q", lease=TAPPED).writeStream.foreachBatch(append)
        move = read(mode="consume", subscription="moving", confirm="spark").writeStream.format(FORMAT)
        move = move.options(broker=two.url, queue="done", app="moving")
        queries = [
            writer.option("checkpointLocation", str(checkpoints / name)).start()
            for name, writer in (("tap", tap), ("move", move))
        ]

        def has(count: int) -> bool:
            for query in queries:
                if (failure := query.exception()) is not None:
                    raise failure
            return len(rows(table)) >= count and depth(two) >= count

        try:
            two.send()
            wait_until(lambda: has(HALF), "rows before the take-over")
            two.send(kill_at=HALF // 2)
            wait_until(lambda: has(2 * HALF), "rows after the take-over")
        finally:
            for query in queries:
                query.stop()
        assert sorted(rows(table)) == sorted(two.sent)
        assert sorted(two.taken("done")) == sorted(two.sent)
        assert two.taken("q") == []


def depth(two: Pair) -> int:
    """How many messages lie on the queue that is sent to."""
    with ConnectionFactory(two.url).create_connection() as connection:
        return int(str(connection.create_management().read("postroom.queue", "done")["messages_current"]))


@contextmanager
def following(command: list[str], token: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that goes on until it is ended."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stderr=out, env={**os.environ, "POSTROOM_TOKEN": token})
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def entries(tables: Path) -> int:
    """How many messages of the queue the table of entries has."""
    store = open_store(str(tables), "entries")
    if store.state().version < 0:
        return 0
    return read_folded(store, ["queue"])["queue"].to_pylist().count("q")


@pytest.mark.long
def test_the_pipeline_goes_on_at_the_member_that_takes_over(tmp_path: Path) -> None:
    """Its tables are one fold of the ledger of the one that took over."""
    tables, log = tmp_path / "tables", tmp_path / "pipeline.log"
    command = [sys.executable, "-m", "postroom.cli", "pipeline", "run", "--tables", str(tables)]
    with pair(tmp_path) as two:
        continuous = [*command, "--continuous", "--interval-ms", "200", "--data", two.http]
        with following(continuous, two.token, log) as process:

            def has(count: int) -> bool:
                assert process.poll() is None, log.read_text()
                return entries(tables) >= count

            two.send()
            wait_until(lambda: has(HALF), "tables before the take-over")
            two.send(kill_at=HALF // 2)
            wait_until(lambda: has(2 * HALF), "tables after the take-over")
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_S) == 0
        two.second.stop()
        subprocess.run([*command, "--data", str(two.second.folder)], check=True, capture_output=True)
        assert_whole(tables, two.second.folder)
