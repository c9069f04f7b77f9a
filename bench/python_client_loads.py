"""What one Python client does to a queue: many messages under way, one at a time, and receiving.

``python -m bench.python_client_loads CLIENT LOAD PORT MESSAGES`` prints one JSON object: seconds, and this
process' processor time. Every message is durable and accepted; each received one is looked at and
acknowledged. Used by `bench.python_clients`, which starts the servers.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

HOST: Final = "127.0.0.1"
QUEUE: Final = "quorum"
"""As RabbitMQ of `tools.peers` calls its quorum queue."""
BODY: Final = bytes(1024)
WINDOW: Final = 1000
"""Messages under way; the prefetch of consumers."""
SEND, ONE, RECEIVE = "send", "one", "receive"


class Timer:
    """Seconds and processor time without those of opening and closing."""

    seconds = cpu_s = 0.0

    def __enter__(self) -> None:
        self._at = time.perf_counter(), time.process_time()

    def __exit__(self, *error: object) -> None:
        self.seconds, self.cpu_s = time.perf_counter() - self._at[0], time.process_time() - self._at[1]


def check(body: object) -> None:
    """Raises ValueError for a body that isn't the one that was sent."""
    if body != BODY:
        raise ValueError("a body that was not sent")


def postroom_blocking(load: str, port: int, count: int, timer: Timer) -> None:
    from postroom.client import ConnectionFactory, Message

    with ConnectionFactory(f"amqp://{HOST}:{port}").create_connection() as connection:
        session = connection.create_session()
        if load == RECEIVE:
            consumer = session.create_consumer(QUEUE, prefetch=WINDOW)
            with timer:
                for _ in range(count):
                    message = consumer.receive()
                    assert message is not None
                    check(message.body)
            return
        producer = session.create_producer(QUEUE)
        with timer:
            if load == SEND:
                producer.send_all(Message(BODY) for _ in range(count))
            else:
                for _ in range(count):
                    producer.send(Message(BODY))


async def postroom_asyncio(load: str, port: int, count: int, timer: Timer) -> None:
    from postroom.client import Message
    from postroom.client.aio import ConnectionFactory

    async with await ConnectionFactory(f"amqp://{HOST}:{port}").create_connection() as connection:
        session = await connection.create_session()
        if load == RECEIVE:
            consumer = await session.create_consumer(QUEUE, prefetch=WINDOW)
            with timer:
                for _ in range(count):
                    message = await consumer.receive()
                    assert message is not None
                    check(message.body)
            return
        producer = await session.create_producer(QUEUE)
        with timer:
            if load == SEND:
                await producer.send_all(Message(BODY) for _ in range(count))
            else:
                for _ in range(count):
                    await producer.send(Message(BODY))


def proton(load: str, port: int, count: int, timer: Timer) -> None:
    from proton import Message
    from proton.reactor import Container
    from proton.utils import BlockingConnection

    if load == ONE:
        sender = BlockingConnection(f"{HOST}:{port}").create_sender(QUEUE)
        with timer:
            for _ in range(count):
                sender.send(Message(body=BODY, durable=True))
        return
    handler = _proton_sender if load == SEND else _proton_receiver
    Container(handler(port, count, timer)).run()


def _proton_sender(port: int, count: int, timer: Timer) -> Any:
    from proton import Message
    from proton.handlers import MessagingHandler

    class Sends(MessagingHandler):
        sent = accepted = 0

        def on_start(self, event: Any) -> None:
            event.container.create_sender(event.container.connect(f"{HOST}:{port}"), QUEUE)

        def on_sendable(self, event: Any) -> None:
            if not self.sent:
                timer.__enter__()
            self._send(event.sender)

        def on_accepted(self, event: Any) -> None:
            self.accepted += 1
            self._send(event.link)
            if self.accepted == count:
                timer.__exit__()
                event.connection.close()

        def _send(self, sender: Any) -> None:
            while sender.credit and self.sent < count and self.sent - self.accepted < WINDOW:
                sender.send(Message(body=BODY, durable=True))
                self.sent += 1

    return Sends()


def _proton_receiver(port: int, count: int, timer: Timer) -> Any:
    from proton.handlers import MessagingHandler

    class Receives(MessagingHandler):
        received = 0

        def on_start(self, event: Any) -> None:
            event.container.create_receiver(event.container.connect(f"{HOST}:{port}"), QUEUE)
            timer.__enter__()

        def on_message(self, event: Any) -> None:
            check(event.message.body)
            self.received += 1
            if self.received == count:
                timer.__exit__()
                event.connection.close()

    return Receives(prefetch=WINDOW)


def azure(load: str, port: int, count: int, timer: Timer) -> None:
    """The stack of Azure Service Bus' client alone: that client itself wants Azure's tokens."""
    from azure.servicebus._pyamqp import ReceiveClient, SendClient
    from azure.servicebus._pyamqp.client import _MessageDelivery
    from azure.servicebus._pyamqp.constants import MESSAGE_DELIVERY_DONE_STATES, MessageDeliveryState
    from azure.servicebus._pyamqp.message import Header, Message
    from azure.servicebus._pyamqp.sasl import SASLAnonymousCredential

    class Anonymous:
        sasl = SASLAnonymousCredential()
        auth_type = None

    options: dict[str, Any] = {"auth": Anonymous(), "use_tls": False, "receive_settle_mode": 0}
    if load == RECEIVE:
        with ReceiveClient(f"{HOST}:{port}", QUEUE, link_credit=WINDOW, **options) as receiver:
            _until(receiver.client_ready)
            received = 0
            with timer:
                while received < count:
                    receiver.do_work(batch=WINDOW)
                    while not receiver._received_messages.empty():
                        frame, message = receiver._received_messages.get_nowait()
                        check(b"".join(message.data))
                        receiver.settle_messages(frame[1], frame[2], "accepted")
                        received += 1
        return
    with SendClient(f"{HOST}:{port}", QUEUE, **options) as sender:
        _until(sender.client_ready)
        window, under_way, sent = WINDOW if load == SEND else 1, deque[Any](), 0
        with timer:
            while sent < count or under_way:
                while sent < count and len(under_way) < window:
                    message = Message(data=[BODY], header=Header(durable=True))
                    under_way.append(_MessageDelivery(message, MessageDeliveryState.WaitingToBeSent, None))
                    sender._transfer_message(under_way[-1])
                    sent += 1
                sender.do_work(batch=window)
                while under_way and under_way[0].state in MESSAGE_DELIVERY_DONE_STATES:
                    if under_way.popleft().state != MessageDeliveryState.Ok:
                        raise ValueError("a message was refused")


def _until(is_ready: Callable[[], bool]) -> None:
    while not is_ready():
        pass


async def aio_pika(load: str, port: int, count: int, timer: Timer) -> None:
    import aio_pika as library

    connection = await library.connect(f"amqp://guest:guest@{HOST}:{port}/")
    async with connection, connection.channel() as channel:
        await channel.set_qos(prefetch_count=WINDOW)
        if load == RECEIVE:
            queue = await channel.declare_queue(QUEUE, passive=True)
            done, received = asyncio.Event(), 0

            async def take(message: Any) -> None:
                nonlocal received
                check(message.body)
                await message.ack()
                received += 1
                if received == count:
                    done.set()

            with timer:
                await queue.consume(take)
                await done.wait()
            return

        async def publish() -> None:
            message = library.Message(BODY, delivery_mode=library.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, QUEUE)

        with timer:
            await _sent(load, count, publish)


async def _sent(load: str, count: int, send: Callable[[], Awaitable[object]]) -> None:
    if load == ONE:
        for _ in range(count):
            await send()
        return
    free = asyncio.Semaphore(WINDOW)

    async def one() -> None:
        await send()
        free.release()

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            await free.acquire()
            group.create_task(one())


async def nats_py(load: str, port: int, count: int, timer: Timer) -> None:
    import nats

    connection = await nats.connect(f"nats://{HOST}:{port}")
    stream = connection.jetstream(publish_async_max_pending=WINDOW)
    await stream.add_stream(name="bench", subjects=[QUEUE])
    if load == RECEIVE:
        consumer, received = await stream.pull_subscribe(QUEUE, "bench"), 0
        with timer:
            while received < count:
                for message in await consumer.fetch(min(WINDOW, count - received)):
                    check(message.data)
                    await message.ack()
                    received += 1
    elif load == ONE:
        with timer:
            for _ in range(count):
                await stream.publish(QUEUE, BODY)
    else:
        under_way: deque[asyncio.Future[Any]] = deque()
        with timer:
            for _ in range(count):
                under_way.append(await stream.publish_async(QUEUE, BODY))
                if len(under_way) >= WINDOW:
                    await under_way.popleft()
            for each in under_way:
                await each
    await connection.close()


CLIENTS: Final[dict[str, Callable[[str, int, int, Timer], Coroutine[Any, Any, None] | None]]] = {
    "postroom-blocking": postroom_blocking,
    "postroom-asyncio": postroom_asyncio,
    "proton": proton,
    "azure": azure,
    "aio-pika": aio_pika,
    "nats-py": nats_py,
}


def main() -> None:
    name, load, port, count = sys.argv[1:]
    timer = Timer()
    running = CLIENTS[name](load, int(port), int(count), timer)
    if running is not None:
        asyncio.run(running)
    print(json.dumps({"seconds": timer.seconds, "cpu_s": timer.cpu_s}))


if __name__ == "__main__":
    main()
