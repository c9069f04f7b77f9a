"""Clients of Apache Kafka for one event loop: settings of a connection, a producer, a partition's reader.

The library's clients have threads of their own and call back in whichever thread polls them: each one here
has one such thread, and hands what it gets to the loop. The library's own asyncio producer gathers messages
for batches of its own before it sends them, which a log whose every append is waited for has no use for.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import urlsplit

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from postroom.replication.options import ReplicationOptions, read_password

PARTITION: Final = 0
"""The only one of each topic."""
DEFAULT_PORT: Final = 9092
MECHANISM: Final = "SCRAM-SHA-512"
"""By which a user signs in unless the configuration names another."""
MOST_BYTES: Final = (1 << 20) - 1024
"""Larger entries aren't made."""
MOST_MESSAGE_BYTES: Final = 1 << 20
"""An entry with what Kafka puts around it."""
REQUEST_MS: Final = 3000
"""One question to a node; then the leader is looked up again."""
BACKOFF_MS: Final = 50
"""Before what failed is tried again, at first."""
MOST_BACKOFF_MS: Final = 1000
FETCH_WAIT_MS: Final = 500
"""A fetch that finds nothing is answered after so long."""
FETCH_BYTES: Final = 4 << 20
"""What is fetched in one go."""
QUEUED_KIB: Final = 16 << 10
"""Fetched and not yet read."""
PRODUCER_KIB: Final = (1 << 31) - 1
PRODUCER_ENTRIES: Final = 1 << 17
"""More than one append has."""
READ_AT_ONCE: Final = 16
"""Entries that are handed over in one go."""
ARRIVES_S: Final = 30.0
"""Longer than any question's own time-out."""
POLL_S: Final = 0.1
"""So often a thread looks whether it shall end."""

T = TypeVar("T")
Settings = dict[str, str | int | bool]
OnError = Callable[[KafkaError], None]


def settings_of(options: ReplicationOptions) -> Settings:
    """Of every connection. Raises `EngineRefused` where the password's file can't be read."""
    scheme = urlsplit(options.servers[0]).scheme
    addresses = [urlsplit(server).netloc for server in options.servers]
    settings: Settings = {
        "bootstrap.servers": ",".join(
            address if has_port(address) else f"{address}:{DEFAULT_PORT}" for address in addresses
        ),
        "client.id": f"postroom {options.member}",
        "log_level": 0,  # what fails is told by the call that fails
        "socket.timeout.ms": REQUEST_MS,
        "socket.nagle.disable": True,
        "reconnect.backoff.ms": BACKOFF_MS,
        "reconnect.backoff.max.ms": MOST_BACKOFF_MS,
        "retry.backoff.ms": BACKOFF_MS,
        "retry.backoff.max.ms": MOST_BACKOFF_MS,
    }
    protocol = "SSL" if scheme == "kafka+tls" else "PLAINTEXT"
    if options.user:
        protocol = f"SASL_{protocol}"
        settings["sasl.mechanism"] = options.sasl_mechanism or MECHANISM
        settings["sasl.username"], settings["sasl.password"] = options.user, read_password(options)
    settings["security.protocol"] = protocol
    if options.tls_ca:
        settings["ssl.ca.location"] = options.tls_ca
    if options.tls_certificate:
        settings["ssl.certificate.location"] = options.tls_certificate
        settings["ssl.key.location"] = options.tls_key or options.tls_certificate
    return settings


def has_port(address: str) -> bool:
    """Whether an address names its port."""
    return urlsplit(f"//{address}").port is not None


async def arrived(coming: "concurrent.futures.Future[T]", most_s: float = ARRIVES_S) -> T:
    """What the library's thread comes up with. Who is cancelled meanwhile leaves that alone.

    Raises `KafkaException`, also where nothing has come for so long: the library forgets a question now and
    then, whatever time-out it has.
    """
    loop, is_there = asyncio.get_running_loop(), asyncio.Event()
    coming.add_done_callback(lambda _: call_soon(loop, is_there.set))
    try:
        async with asyncio.timeout(most_s):
            await is_there.wait()
    except TimeoutError as error:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer")) from error
    return coming.result()


def call_soon(loop: asyncio.AbstractEventLoop, act: Callable[[], object]) -> None:
    """From another thread."""
    with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is left to be told
        loop.call_soon_threadsafe(act)


class EntryProducer:
    """An idempotent producer that waits for all replicas in sync, and the thread that takes its reports."""

    def __init__(self, settings: Settings, timeout_s: float, on_error: OnError) -> None:
        """What isn't acknowledged within `timeout_s` fails."""
        self._loop: Final = asyncio.get_running_loop()
        self._producer: Final = Producer(
            {
                **settings,
                "enable.idempotence": True,
                "acks": "all",
                "max.in.flight.requests.per.connection": 5,
                "linger.ms": 0,
                "message.timeout.ms": max(1, int(timeout_s * 1e3)),
                "request.timeout.ms": REQUEST_MS,
                "message.max.bytes": MOST_MESSAGE_BYTES,
                "queue.buffering.max.kbytes": PRODUCER_KIB,
                "queue.buffering.max.messages": PRODUCER_ENTRIES,
                "error_cb": on_error,
            }
        )
        self._is_over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._serve, name="kafka-producer", daemon=True)
        self._thread.start()

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: str = "",
        headers: dict[str, str | bytes | None] | None = None,
    ) -> "asyncio.Future[int | KafkaError]":
        """Its offset once it is acknowledged, or why it isn't; `OFFSET_INVALID` where it is there and nobody
        knows where, since the answer to a first try was lost."""
        sent: asyncio.Future[int | KafkaError] = self._loop.create_future()

        def report(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            answer = error or (OFFSET_INVALID if offset is None else offset)
            call_soon(self._loop, lambda: None if sent.done() else sent.set_result(answer))

        try:
            self._producer.produce(
                topic, value, key or None, partition=PARTITION, headers=headers or {}, on_delivery=report
            )
        except KafkaException as error:
            sent.set_result(error.args[0])
        except BufferError as error:
            sent.set_result(KafkaError(KafkaError._QUEUE_FULL, str(error)))
        return sent

    def prepare(self, topic: str, timeout_s: float) -> None:
        """Find the topic's leader now and not at the first entry; not for the loop. Raises KafkaException."""
        self._producer.list_topics(topic, timeout_s)

    async def close(self) -> None:
        """Give up what isn't acknowledged: it fails, and may be durable later."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._producer.purge()
        self._is_over.set()
        self._thread.join()
        self._producer.flush(POLL_S)  # the last reports
        self._producer.close()

    def _serve(self) -> None:
        while not self._is_over.is_set():
            self._producer.poll(POLL_S)


class PartitionReader:
    """A consumer of a topic's partition, in no group, and the thread that it is polled in."""

    def __init__(self, settings: Settings, topic: str, offset: int, reset: str = "error") -> None:
        """From that offset on; `reset` says what happens where there is none: an error, or as Kafka's
        ``auto.offset.reset``."""
        self._consumer: Final = Consumer(
            {
                **settings,
                "group.id": f"postroom-{topic}",  # the library wants one; nothing is committed in it
                "enable.auto.commit": False,
                "auto.offset.reset": reset,
                "isolation.level": "read_uncommitted",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": FETCH_WAIT_MS,
                "fetch.max.bytes": FETCH_BYTES,
                "max.partition.fetch.bytes": FETCH_BYTES,
                "fetch.queue.backoff.ms": BACKOFF_MS,
                "fetch.error.backoff.ms": BACKOFF_MS,
                "queued.max.messages.kbytes": QUEUED_KIB,
                "error_cb": _ignore,  # connections come and go
            }
        )
        self._executor: Final = concurrent.futures.ThreadPoolExecutor(1, "kafka-reader")
        self._error: KafkaException | None = None
        self.end = -1
        """The offset at which nothing was any more, when it was last looked."""
        self._consumer.assign([TopicPartition(topic, PARTITION, offset)])

    async def next(self) -> list[Message]:
        """The next ones; none after a while without. Raises `KafkaException` where it can't go on."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._poll)

    async def close(self) -> None:
        """Let go of its connections."""
        closing = asyncio.get_running_loop().run_in_executor(self._executor, self._consumer.close)
        self._executor.shutdown(wait=False)
        await closing

    def _poll(self) -> list[Message]:
        if self._error is not None:
            raise self._error
        first = self._consumer.poll(POLL_S)
        if first is None:
            return []
        found = []
        for message in (first, *self._consumer.consume(READ_AT_ONCE - 1, 0)):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self.end = message.offset() or 0
            elif error.fatal() or error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION):
                self._error = KafkaException(error)
                break
        return found


def _ignore(error: KafkaError) -> None:
    """The calls that fail by it say so."""
