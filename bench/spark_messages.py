"""Queues as Spark's source and sink, on local[2], beside what they are measured by.

    python -m bench.spark_messages [--messages 600000] [--rounds 3] [--parts sink,tap,…] [--json]

- *sink*: a stream of micro-batches of 1 KB messages into a queue; beside it two processes of our own client
  that send in transactions, and the C client, both with as many messages in each transaction as a task of the
  sink has in a batch. Their time is from the first send to the answer of the last commit; that of the sink is
  of whole micro-batches, with all that Spark does for one.
- *tap*, *consume*: the messages of a queue, all columns, into nothing; beside them all columns of the ledger
  source over the same positions, read in the same way.

- *triage*: a plan for all messages of a queue by rules that look into the bodies, and carrying it out.

In turns, on brokers that begin empty.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from tools.peers import Postroom
from tools.peers.postroom import COMPILED, INTERPRETED

from bench import loadtool
from bench.command import add_arguments, print_report, scratch
from bench.progress import show_progress
from bench.spark import CORES, Report, attempt, session
from postroom.client import AcknowledgeMode, Message
from postroom.client.aio import ConnectionFactory, ManagementClient
from postroom.spark.jobs.execution import carry_out
from postroom.spark.jobs.jobs import Where, new_job_id, plan_of, plan_triage
from postroom.spark.jobs.plan import Manifest
from postroom.spark.jobs.rules import parse_rules
from postroom.spark.places.uris import place_of

MESSAGES: Final = 600_000
ROUNDS: Final = 3
PARTS: Final = ("sink", "tap", "consume", "triage")
SENDERS: Final = 2
"""As many as Spark has tasks."""
BATCHES: Final = 3
"""That a timed run of the sink has, after those that warm it up."""
WARM_UP_BATCHES: Final = 2
BODY_BYTES: Final = 1024
QUEUE: Final = "bench"
OTHER_QUEUE: Final = "bench.other"
RULES: Final = f"""
[[rule]]
name = "of nothing"
when = "length(body) = 0"
action = "discard"

[[rule]]
name = "of zeros"
when = "substring(body, 1, 1) = X'00'"
action = "forward"
to = "{OTHER_QUEUE}"

[[rule]]
name = "of letters"
when = "length(body) > 0"
action = "forward"
to = "{OTHER_QUEUE}"
"""
IN_FLIGHT: Final = 1
"""Requests at a time, as `postroom job act` has unless told otherwise."""
SUBSCRIPTION: Final = "bench"
WINDOW_BYTES: Final = 1 << 34
MB: Final = 1e6
NS_A_S: Final = 1e9
POLL_S: Final = 0.05
LIMIT_S: Final = 600.0


@dataclass
class Bench:
    """What the parts share."""

    scratch: Path
    messages: int
    rounds: int
    source: Path
    """Of the broker's code."""
    report: Report = field(default_factory=dict)

    @contextmanager
    def broker(self) -> Iterator[Postroom]:
        """One without messages."""
        with (
            tempfile.TemporaryDirectory(dir=self.scratch) as folder,
            Postroom(Path(folder), self.source) as it,
        ):
            yield it

    def in_turns(self, works: Mapping[str, Callable[[], float]]) -> dict[str, float]:
        """Medians of what each gives, without a first round."""
        seen: dict[str, list[float]] = {name: [] for name in works}
        for turn in range(self.rounds + 1):
            for name, work in works.items():
                rate = work()
                show_progress(f"{name}: {rate:,.0f}/s{'' if turn else ' (warm-up)'}")
                if turn:
                    seen[name].append(rate)
        return {name: statistics.median(rates) for name, rates in seen.items()}


def url(broker: Postroom) -> str:
    return f"amqp://127.0.0.1:{broker.port}"


async def _manage(broker: Postroom, *steps: Callable[[ManagementClient], object]) -> list[object]:
    async with await ConnectionFactory(url(broker)).create_connection() as connection:
        management = await connection.create_management()
        return [await step(management) for step in steps]  # type: ignore[misc]


def manage(broker: Postroom, *steps: Callable[[ManagementClient], object]) -> list[object]:
    """Requests to the management node, one after the other."""
    return asyncio.run(_manage(broker, *steps))


# --- sending --------------------------------------------------------------------------------------


def messages_a_batch(spark: SparkSession, rows: int) -> DataFrame:
    """A stream of so many messages in each micro-batch, with ids as clients give them."""
    frame = (
        spark.readStream.format("rate-micro-batch").options(rowsPerBatch=rows, numPartitions=SENDERS).load()
    )
    return frame.selectExpr(
        f"cast(rpad(cast(value AS string), {BODY_BYTES}, 'x') AS binary) AS body",
        "concat('ID:', uuid()) AS message_id",
        "current_timestamp() AS creation_time",
    )


def sink_rate(bench: Bench, spark: SparkSession) -> float:
    """Messages a second of the sink, over whole micro-batches."""
    rows = bench.messages // BATCHES
    with bench.broker() as broker, tempfile.TemporaryDirectory(dir=bench.scratch) as checkpoint:
        writer = messages_a_batch(spark, rows).writeStream.format("postroom.messages")
        options = {"broker": url(broker), "queue": QUEUE, "app": "bench", "checkpointLocation": checkpoint}
        query = writer.options(**options).start()
        try:
            wait_for_batch(query, WARM_UP_BATCHES + BATCHES - 1)
        finally:
            query.stop()
        done = [one for one in query.recentProgress if one["batchId"] >= WARM_UP_BATCHES][:BATCHES]
    return rate_of(done)


def wait_for_batch(query: StreamingQuery, batch_id: int) -> None:
    """Until a batch is done; raises what the query failed with."""
    end_s = time.monotonic() + LIMIT_S
    while query.lastProgress is None or query.lastProgress["batchId"] < batch_id:
        if not query.isActive or time.monotonic() > end_s:
            query.awaitTermination(0)
            raise RuntimeError(f"batch {batch_id} was not done in {LIMIT_S:.0f} s")
        time.sleep(POLL_S)


def rate_of(done: Sequence[StreamingQueryProgress]) -> float:
    """Rows a second of micro-batches, by Spark's own account of them."""
    with_rows = [one for one in done if one["numInputRows"]]
    took_ms = float(sum(one["durationMs"]["triggerExecution"] for one in with_rows))
    return float(sum(one["numInputRows"] for one in with_rows)) * 1e3 / took_ms


def client_rate(bench: Bench) -> float:
    """Messages a second of processes of our client, each with its share in every transaction."""
    share = bench.messages // SENDERS
    with bench.broker() as broker:
        command = [sys.executable, "-m", "bench.spark_messages", "--send", str(share)]
        command += ["--to", url(broker), "--transaction", str(transaction(bench))]
        senders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(SENDERS)]
        reports = [json.loads(sender.communicate()[0]) for sender in senders]
    return _together(share, [one[0] for one in reports], [one[1] for one in reports])


def transaction(bench: Bench) -> int:
    """Messages in each: as many as one task of the sink has in a batch."""
    return bench.messages // BATCHES // SENDERS


def _together(share: int, starts_ns: list[int], ends_ns: list[int]) -> float:
    return share * SENDERS * NS_A_S / (max(ends_ns) - min(starts_ns))


async def send(to: str, messages: int, transaction: int) -> tuple[int, int]:
    """What one process of our client does; when it began to send, and when the last commit was answered."""
    body = bytes(BODY_BYTES)
    async with await ConnectionFactory(to).create_connection() as connection:
        session = await connection.create_session(AcknowledgeMode.SESSION_TRANSACTED)
        producer = await session.create_producer(QUEUE)
        start_ns = time.monotonic_ns()
        for _ in range(messages // transaction):
            await producer.send_all(Message(body) for _ in range(transaction))
            await session.commit()
        return start_ns, time.monotonic_ns()


def c_rate(bench: Bench) -> float:
    """The same of the C client."""
    share = bench.messages // SENDERS
    with bench.broker() as broker:
        options = {"messages": share, "transaction": transaction(bench), "body_bytes": BODY_BYTES}
        start_s = time.monotonic()
        senders = [loadtool.start(broker, "send", QUEUE, run=number, **options) for number in range(SENDERS)]
        for sender in senders:
            loadtool.read_report(*sender.communicate())
        return share * SENDERS / (time.monotonic() - start_s)


def sink(bench: Bench) -> None:
    """The sink beside clients."""
    with session(bench.scratch) as spark:
        works = {
            "sink": partial(sink_rate, bench, spark),
            "client": partial(client_rate, bench),
            "c_client": partial(c_rate, bench),
        }
        for name, rate in bench.in_turns(works).items():
            bench.report[f"{name}_messages_per_s"] = rate
    report = bench.report
    report["sink_of_client"] = report["sink_messages_per_s"] / report["client_messages_per_s"]
    report["sink_of_c_client"] = report["sink_messages_per_s"] / report["c_client_messages_per_s"]


# --- reading --------------------------------------------------------------------------------------


@contextmanager
def filled(bench: Bench) -> Iterator[Postroom]:
    """A broker with all the messages in one queue."""
    with bench.broker() as broker:
        show_progress(f"sending {bench.messages:,} messages")
        loadtool.run(broker, "send", QUEUE, messages=bench.messages, body_bytes=BODY_BYTES, id_bytes=40)
        yield broker


def durable(broker: Postroom) -> int:
    """The ledger's last position that is durable."""
    return place_of(str(broker.data)).snapshot().durable_through


def to_nothing(frame: DataFrame, rows: int) -> float:
    """Rows a second of a batch read."""
    start_s = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return rows / (time.perf_counter() - start_s)


def stream_to_nothing(bench: Bench, frame: DataFrame, wanted: int) -> float:
    """Rows a second of a stream in few batches, by Spark's own account of them."""
    with tempfile.TemporaryDirectory(dir=bench.scratch) as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        rows = sum(one["numInputRows"] for one in query.recentProgress)
        if rows != wanted:
            raise RuntimeError(f"{rows:,} rows were read, not {wanted:,}")
        return rate_of(query.recentProgress)


def tap(bench: Bench) -> None:
    """What became available, beside the events of the same positions."""
    with filled(bench) as broker, session(bench.scratch) as spark:
        last = durable(broker)
        bounds = {"path": str(broker.data), "toPosition": str(last)}
        messages = spark.read.format("postroom.messages").options(**bounds).load()
        events = spark.read.format("postroom").options(**bounds).load()
        works = {
            "tap": partial(to_nothing, messages, bench.messages),
            "tap_yardstick": partial(to_nothing, events, events.count()),
        }
        seen = bench.in_turns(works)
    _report(bench, "tap", seen)


def consume(bench: Bench) -> None:
    """What was assigned to a Spark subscription, beside the events of the same positions; as streams, each
    round with a new checkpoint."""
    with filled(bench) as broker, session(bench.scratch) as spark:
        before = durable(broker)
        assign(broker, bench.messages)
        last = durable(broker)
        common = {"path": str(broker.data)}
        subscription = {"mode": "consume", "broker": url(broker), "subscription": SUBSCRIPTION}
        options = common | subscription | {"confirm": "call", "onNewCheckpoint": "confirmed"}
        consumed = spark.readStream.format("postroom.messages").options(**options).load()
        bounds = common | {"fromPosition": str(before + 1), "toPosition": str(last)}
        events = spark.readStream.format("postroom").options(**bounds).load()
        count = spark.read.format("postroom").options(**bounds).load().count()
        works = {
            "consume": partial(stream_to_nothing, bench, consumed, bench.messages),
            "consume_yardstick": partial(stream_to_nothing, bench, events, count),
        }
        seen = bench.in_turns(works)
    _report(bench, "consume", seen)


def assign(broker: Postroom, messages: int) -> None:
    """All messages of the queue are a Spark subscription's."""
    kind = "postroom.spark-subscription"
    wanted = {"queue": QUEUE, "window": messages, "window_bytes": WINDOW_BYTES}
    manage(broker, lambda management: management.create(kind, SUBSCRIPTION, wanted))
    end_s = time.monotonic() + LIMIT_S
    while time.monotonic() < end_s:
        [attributes] = manage(broker, lambda management: management.read(kind, SUBSCRIPTION))
        if isinstance(attributes, dict) and attributes["held"] == messages:
            return
        time.sleep(POLL_S)
    raise RuntimeError(f"not all of {messages:,} messages were assigned in {LIMIT_S:.0f} s")


def _report(bench: Bench, name: str, seen: dict[str, float]) -> None:
    rows = seen[name]
    bench.report |= {
        f"{name}_rows_per_s": rows,
        f"{name}_mb_per_s": rows * BODY_BYTES / MB,
        f"{name}_yardstick_rows_per_s": seen[f"{name}_yardstick"],
        f"{name}_of_yardstick": rows / seen[f"{name}_yardstick"],
    }


# --- jobs -----------------------------------------------------------------------------------------


def triage(bench: Bench) -> None:
    """A plan for every message of a queue, by rules that look into the bodies; then what it says is done."""
    rules = parse_rules(RULES, "the benchmark's rules")
    with filled(bench) as broker, session(bench.scratch) as spark:
        manage(broker, lambda management: management.create("postroom.queue", OTHER_QUEUE))
        plans: list[tuple[Where, Manifest]] = []

        def planned() -> float:
            where = Where(str(broker.data), "", QUEUE, str(bench.scratch / "plans"), new_job_id())
            start_s = time.perf_counter()
            manifest = plan_triage(spark, where, rules)
            rate = bench.messages / (time.perf_counter() - start_s)
            plans.append((where, manifest))
            return rate

        bench.report["triage_messages_per_s"] = bench.in_turns({"triage": planned})["triage"]
        where, manifest = plans[-1]
        plan = plan_of(where)
        assert plan is not None  # it has a folder
        start_s = time.perf_counter()
        results = carry_out(plan, manifest, url(broker), IN_FLIGHT, None)
        bench.report["act_messages_per_s"] = bench.messages / (time.perf_counter() - start_s)
    if manifest.rows() != bench.messages or results.not_done():
        raise RuntimeError(f"{manifest.rows():,} messages were planned, {results.not_done():,} not done")


# --- all ------------------------------------------------------------------------------------------

WORKS: Final[dict[str, Callable[[Bench], None]]] = {
    "sink": sink,
    "tap": tap,
    "consume": consume,
    "triage": triage,
}


def measure(bench: Bench, parts: tuple[str, ...]) -> Report:
    """The figures of these parts."""
    loadtool.build()
    bench.report |= {"messages": float(bench.messages), "cores": CORES}
    for part in parts:
        attempt(part, partial(WORKS[part], bench), bench.report)
    return bench.report


def main() -> int:
    """Measure and print."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("--messages", type=int, default=MESSAGES)
    command.add_argument("--rounds", type=int, default=ROUNDS)
    command.add_argument("--parts", default=",".join(PARTS))
    command.add_argument("--interpreted", action="store_true", help="the broker, too, is interpreted")
    add_arguments(command)
    command.add_argument("--send", type=int, help=argparse.SUPPRESS)
    command.add_argument("--to", help=argparse.SUPPRESS)
    command.add_argument("--transaction", type=int, help=argparse.SUPPRESS)
    options = command.parse_args()
    if options.send:
        print(json.dumps(asyncio.run(send(options.to, options.send, options.transaction))))
        return 0
    with scratch(options.folder) as folder:
        source = INTERPRETED if options.interpreted else COMPILED
        bench = Bench(folder, options.messages, options.rounds, source)
        report = measure(bench, tuple(options.parts.split(",")))
    print_report(report, options.json, 2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
