"""The acts of the demo: each is a few things that real clients do, told as they happen."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from proton import Message as ProtonMessage
from proton.reactor import AtLeastOnce
from proton.utils import BlockingConnection
from rich.console import Console

from demo.broker import Broker
from demo.narrator import Narrator
from demo.tally import Tally
from postroom.client import (
    AcknowledgeMode,
    ConnectionFactory,
    ConnectionLostException,
    Message,
    MessageConsumer,
    Session,
    aio,
)

QUEUE_TYPE = "postroom.queue"
ORDERS = 300
ALERTS = 20
CRASH_HELD, CRASH_DONE = 30, 12
PAYMENTS, BAD_PAYMENT_EVERY = 100, 10
OFFERS, OFFER_TTL_MS = 40, 200
TELEMETRY, TELEMETRY_READ = 500, 200
STORM = 10_000
KILL_AFTER_S = 0.003  # long enough for the next messages to be under way
DRAIN_S = 5.0
BLOB_BYTES = 5 * 1024 * 1024


class Story(Narrator):
    """One run: the broker, what the clients say they did, and where to tell of it."""

    def __init__(self, broker: Broker, console: Console) -> None:
        self.broker = broker
        super().__init__(console)
        self.tally = Tally()
        self.random = random.Random(1)

    # --- helpers

    @contextmanager
    def session(self, mode: AcknowledgeMode = AcknowledgeMode.INDIVIDUAL) -> Iterator[Session]:
        """A session of our own client, on a connection of its own."""
        with ConnectionFactory(self.broker.url).create_connection() as connection:
            yield connection.create_session(mode)

    def consume(self, queue: str, count: int | None = None) -> list[Message]:
        """Receive and accept with our own client; without a count, all that there is."""
        messages: list[Message] = []
        with self.session(AcknowledgeMode.AUTO) as session:
            consumer = session.create_consumer(queue, prefetch=1_000 if count is None else 0)
            while count is None or len(messages) < count:
                message = consumer.receive_no_wait()
                if message is None:
                    break
                messages.append(message)
            consumer.close()
        self.tally.add(queue, "consumed", len(messages))
        return messages

    # --- acts

    def play(self) -> None:
        """All acts in order."""
        self.create_queues()
        self.produce_and_consume()
        self.priorities()
        self.crash_of_a_consumer()
        self.rejected_messages()
        self.expired_messages()
        self.kill_of_the_broker()

    def create_queues(self) -> None:
        self.title("Queues, over the management node")
        with ConnectionFactory(self.broker.url).create_connection() as connection:
            management = connection.create_management()
            management.create(QUEUE_TYPE, "payments", {"dead_letter_queue": "payments.dead"})
            for name in ("orders", "alerts", "offers", "telemetry", "storm"):
                management.create(QUEUE_TYPE, name)
            rows = management.query(QUEUE_TYPE, ["name", "dynamic"])
            names = [str(row["name"]) for row in rows if not row["dynamic"]]
        self.narrate(f"created {', '.join(names)}")

    def produce_and_consume(self) -> None:
        self.title("Qpid Proton produces, our own client browses and consumes")
        connection = BlockingConnection(self.broker.url)
        sender = connection.create_sender("orders", options=AtLeastOnce())
        for number in range(ORDERS):
            sender.send(ProtonMessage(id=f"order-{number}", durable=True, body=f"order {number}"))
        blob = bytes(BLOB_BYTES)
        sender.send(ProtonMessage(id="order-large", durable=True, inferred=True, body=blob))
        connection.close()
        self.narrate(
            f"sent {ORDERS} persistent orders and one of {BLOB_BYTES // 1024**2} MiB;"
            " each was accepted, so is on disk"
        )
        with self.session() as session:
            seen = [message.message_id for message in session.create_browser("orders")]
        self.narrate(f"browsed {len(seen)}, first {seen[0]!r}, last {seen[-1]!r}; they are all still there")
        taken = self.consume("orders", ORDERS // 2)
        self.narrate(f"consumed {len(taken)}: {taken[0].body} to {taken[-1].body}")

    def priorities(self) -> None:
        self.title("Priorities")
        priorities = [number % 10 for number in range(ALERTS)]
        self.random.shuffle(priorities)
        with self.session() as session:
            producer = session.create_producer("alerts")
            producer.send_all(Message(f"alert {priority}", priority=priority) for priority in priorities)
        connection = BlockingConnection(self.broker.url)
        receiver = connection.create_receiver("alerts", credit=ALERTS)
        got = []
        for _ in range(ALERTS):
            got.append(receiver.receive(timeout=10).priority)
            receiver.accept()
        connection.close()
        self.tally.add("alerts", "consumed", ALERTS)
        self.narrate(f"our client sent    {' '.join(map(str, priorities))}")
        self.narrate(f"Proton received    {' '.join(map(str, got))}")

    def crash_of_a_consumer(self) -> None:
        self.title("A consumer process crashes with messages in its hands")
        command = [sys.executable, "-m", "demo.crashing_consumer", self.broker.url, "orders"]
        command += [str(CRASH_HELD), str(CRASH_DONE)]
        crashed = subprocess.run(command, capture_output=True, text=True, check=False)
        self.tally.add("orders", "consumed", CRASH_DONE)
        self.narrate(f"the consumer {crashed.stdout.strip()}, and was killed by signal {-crashed.returncode}")
        rest = self.consume("orders")
        again = [message for message in rest if message.redelivered]
        self.narrate(
            f"another consumer gets the remaining {len(rest)}; the first {len(again)} of them are the"
            " crashed one's, back in their places and flagged as redelivered"
        )

    def rejected_messages(self) -> None:
        self.title("Messages that a consumer rejects")
        with self.session() as session:
            producer = session.create_producer("payments")
            bodies = (
                "not a number" if number % BAD_PAYMENT_EVERY == 0 else number for number in range(PAYMENTS)
            )
            producer.send_all(Message(body) for body in bodies)
            consumer = session.create_consumer("payments")
            outcomes = Counter(self.judge(consumer) for _ in range(PAYMENTS))
            consumer.close()
        for fate, count in outcomes.items():
            self.tally.add("payments", fate, count)
        self.tally.add("payments.dead", "held", outcomes["dead_lettered"])
        self.narrate(
            f"accepted {outcomes['consumed']}, rejected {outcomes['dead_lettered']} with amqp:decode-error"
        )
        with self.session() as session:
            dead = [message.body for message in session.create_browser("payments.dead")]
        self.narrate(f"waiting in payments.dead: {len(dead)} × {dead[0]!r}")

    def judge(self, consumer: MessageConsumer) -> str:
        """Take one payment; its fate."""
        message = consumer.receive(DRAIN_S)
        assert message is not None
        if isinstance(message.body, int):
            consumer.accept(message)
            return "consumed"
        consumer.reject(message, "amqp:decode-error", f"{message.body!r} is no amount")
        return "dead_lettered"

    def expired_messages(self) -> None:
        self.title("Messages that nobody wants in time")
        with self.session() as session:
            producer = session.create_producer("offers")
            producer.send_all(Message(f"offer {number}", ttl_ms=OFFER_TTL_MS) for number in range(OFFERS))
            producer.send(Message("offer without end"))
            waiting = len(list(session.create_browser("offers")))
            time.sleep(2 * OFFER_TTL_MS / 1000)
            left = [message.body for message in session.create_browser("offers")]
        self.tally.add("offers", "expired", OFFERS)
        self.tally.add("offers", "held")
        self.narrate(f"{waiting} offers, {OFFERS} of them good for {OFFER_TTL_MS} ms; a little later: {left}")

    def kill_of_the_broker(self) -> None:
        self.title("The broker is killed in the middle of a storm of sends")
        self.send_telemetry()
        accepted, unanswered = asyncio.run(self.storm())
        self.narrate(
            f"SIGKILL with {STORM:,} persistent messages under way: {len(accepted):,} had been accepted,"
            f" {len(unanswered):,} had no answer yet"
        )
        started = time.monotonic()
        self.broker.start()
        self.narrate(f"restarted on the same data in {time.monotonic() - started:.1f} s")
        lost = TELEMETRY - TELEMETRY_READ
        found = len(self.consume("telemetry"))
        self.tally.add("telemetry", "lost", lost)
        self.narrate(
            f"non-persistent messages that nobody had read: {lost} before, {found} after:"
            " lost, and the ledger says so"
        )
        self.send_again(accepted, unanswered)

    def send_telemetry(self) -> None:
        with self.session() as session:
            producer = session.create_producer("telemetry")
            producer.send_all(Message(number, durable=False) for number in range(TELEMETRY))
        self.consume("telemetry", TELEMETRY_READ)
        self.narrate(f"{TELEMETRY} non-persistent readings sent, {TELEMETRY_READ} of them read")

    async def storm(self) -> tuple[set[str], set[str]]:
        """Send many at once, kill the broker after a third of the answers; ids with and without an answer."""
        accepted: set[str] = set()

        async def send(producer: aio.MessageProducer, message_id: str) -> None:
            await producer.send(Message(message_id, message_id=message_id))
            accepted.add(message_id)
            if len(accepted) == STORM // 3:
                asyncio.get_running_loop().call_later(KILL_AFTER_S, self.broker.kill)

        connection = await aio.ConnectionFactory(self.broker.url).create_connection()
        producer = await (await connection.create_session()).create_producer("storm")
        ids = [f"storm-{number}" for number in range(STORM)]
        sending = [asyncio.create_task(send(producer, message_id)) for message_id in ids]
        for ended in await asyncio.gather(*sending, return_exceptions=True):
            if isinstance(ended, BaseException) and not isinstance(ended, ConnectionLostException):
                raise ended
        await connection.close()
        return accepted, set(ids) - accepted

    def send_again(self, accepted: set[str], unanswered: set[str]) -> None:
        """As a JMS producer does after a fail-over: what had no answer goes once more."""
        with self.session() as session:
            producer = session.create_producer("storm")
            producer.send_all(Message(message_id, message_id=message_id) for message_id in sorted(unanswered))
        received = Counter(str(message.message_id) for message in self.consume("storm"))
        missing = accepted - received.keys()
        twice = {message_id for message_id, count in received.items() if count > 1}
        self.narrate(
            f"the {len(unanswered):,} without an answer were sent again; {sum(received.values()):,} messages"
            f" consumed: {len(missing)} of the accepted are missing, {len(twice & accepted)} came twice"
        )
        if twice:
            self.narrate(
                f"({len(twice):,} had been stored without an answer: they came twice, with one message id)"
            )
        if missing or twice & accepted:
            raise AssertionError(f"accepted messages missing: {missing}, or twice: {twice & accepted}")
