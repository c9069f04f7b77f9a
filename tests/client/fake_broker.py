"""A broker that says what a test tells it to say: the engine's other end, over a real socket."""

from __future__ import annotations

import asyncio
import functools
import ssl
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, cast

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine import events
from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.link import Link
from postroom.amqp.engine.options import ConnectionOptions
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.frames.outcomes import ACCEPTED, DeliveryState
from postroom.amqp.frames.sasl import ANONYMOUS, PLAIN
from postroom.amqp.frames.termini import Coordinator
from postroom.client.aio import Connection as ClientConnection
from postroom.client.aio import ConnectionFactory
from tests.certificates import Certificate

CREDIT = 100
EMPTY_FRAME = b"\0\0\0\x08\x02\0\0\0"
"""A heartbeat (part 2, section 2.4.5)."""


def asynchronous(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a coroutine as a test."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


def now_us() -> int:
    return time.monotonic_ns() // 1000


class FakeBroker:
    """Accepts connections; its attributes are its script, and its memory."""

    def __init__(self) -> None:
        self.users = {"": ""}
        """Who may come in, with which password; "" is ANONYMOUS."""
        self.mechanisms = [ANONYMOUS, PLAIN]
        self.refused: dict[str | None, Error] = {}
        """Addresses whose links are refused, and why."""
        self.refuse_open: Error | None = None
        self.open_properties: dict[object, object] | None = None
        self.credit = CREDIT
        self.outcome: DeliveryState | None = ACCEPTED
        """Of every message that comes; None: never said."""
        self.messages: dict[str, deque[bytes]] = {}
        """What consumers of an address get."""
        self.on_message: Callable[[str | None, bytes], None] = lambda address, payload: None
        self.max_frame_size_bytes = 64 * 1024
        self.max_sessions = 256
        self.max_message_size: int | None = None
        self.answer_settled = True
        self.idle_timeout_ms = 60_000
        """Half of it is what the client is told; the fake broker itself is never impatient."""

        self.received: list[tuple[str | None, bytes, bool]] = []
        """Address, payload, settled."""
        self.attached: list[events.LinkAttached] = []
        self.holds_attaches = False
        """Attaches get no answer until `let_attach`."""
        self.held: list[tuple[Peer, events.LinkAttached]] = []
        self.credits: list[int] = []
        """What consumers offered, flow by flow."""
        self.dispositions: list[tuple[list[int], DeliveryState | None, bool]] = []
        """Positions of the messages (in order of sending), state, settled."""
        self.heartbeats = 0
        self.opened: list[events.Opened] = []
        self.connections: list[Peer] = []
        self.changed = asyncio.Event()
        self._clients: list[ClientConnection] = []
        self._server: asyncio.Server | None = None
        self.tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> FakeBroker:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Peer(self), "127.0.0.1", 0, ssl=self.tls)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        for client in self._clients:
            await client.close()
        self._server.close()
        for connection in self.connections:
            connection.drop()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"{'amqps' if self.tls else 'amqp'}://127.0.0.1:{port}"

    async def connect(self, **options: Any) -> ClientConnection:
        """A client connected to this broker, closed with it at the latest."""
        client = await ConnectionFactory(self.url, **options).create_connection()
        self._clients.append(client)
        return client

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that the client does has made ``condition`` true."""
        async with asyncio.timeout(10):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def let_attach(self) -> None:
        """Answer the attaches that were held."""
        self.holds_attaches = False
        for peer, event in self.held:
            peer.answer_attach(event)
            peer.flush()
        self.held.clear()

    def put(self, address: str, *payloads: bytes) -> None:
        """Messages for consumers; those with credit get them at once."""
        self.messages.setdefault(address, deque()).extend(payloads)
        for connection in self.connections:
            connection.pump()


class Peer(asyncio.Protocol):
    """One connection of the fake broker."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.engine = Connection(
            ConnectionOptions(
                server=True,
                container_id="fake",
                sasl_mechanisms=broker.mechanisms,
                max_frame_size_bytes=broker.max_frame_size_bytes,
                max_sessions=broker.max_sessions,
                idle_timeout_ms=broker.idle_timeout_ms,
            ),
            now_us(),
        )
        self.socket: asyncio.Transport | None = None
        self.senders: list[SenderLink] = []
        self.parts: dict[Link, list[bytes]] = {}
        self.sent = 0
        broker.connections.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.socket = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.broker.heartbeats += data == EMPTY_FRAME
        self.handle(self.engine.receive_data(data, now_us()))
        self.flush()
        self.broker.changed.set()

    def flush(self) -> None:
        assert self.socket is not None
        self.socket.write(self.engine.data_to_send())
        if self.engine.finished:
            self.socket.close()

    def drop(self) -> None:
        """Break the connection without a word."""
        if self.socket is not None:
            self.socket.abort()

    def handle(self, found: list[Event]) -> None:
        for event in found:
            handler: Callable[[Any], None] | None = getattr(self, f"on_{type(event).__name__}", None)
            if handler is not None:
                handler(event)

    def on_SaslInitReceived(self, event: events.SaslInitReceived) -> None:  # noqa: N802 - named after the event
        known = self.broker.users.get(event.username)
        if known is not None and known == event.password:
            self.handle(self.engine.sasl_accept())
        else:
            self.engine.sasl_reject()

    def on_Opened(self, event: events.Opened) -> None:  # noqa: N802
        self.broker.opened.append(event)
        self.engine.open(properties=self.broker.open_properties)
        if self.broker.refuse_open is not None:
            self.engine.close(self.broker.refuse_open)

    def on_LinkAttached(self, event: events.LinkAttached) -> None:  # noqa: N802
        self.broker.attached.append(event)
        if self.broker.holds_attaches:
            self.broker.held.append((self, event))
        else:
            self.answer_attach(event)

    def answer_attach(self, event: events.LinkAttached) -> None:
        link, attach = event.link, event.attach
        assert not isinstance(attach.target, Coordinator)
        end = attach.source if isinstance(link, SenderLink) else attach.target
        address = end.address if end is not None else None
        if address in self.broker.refused:
            link.refuse_attach(self.broker.refused[address])
            return
        if attach.source is not None and attach.source.dynamic:
            attach.source.address = "made-for-you"
        link.accept_attach(attach.source, attach.target, max_message_size=self.broker.max_message_size)
        if isinstance(link, ReceiverLink):
            link.flow(self.broker.credit)
        elif isinstance(link, SenderLink):
            self.senders.append(link)

    def on_LinkDetached(self, event: events.LinkDetached) -> None:  # noqa: N802
        if isinstance(event.link, SenderLink) and event.link in self.senders:
            self.senders.remove(event.link)
        if not event.local:
            event.link.detach(closed=event.closed)

    def on_TransferReceived(self, event: events.TransferReceived) -> None:  # noqa: N802
        parts = self.parts.setdefault(event.link, [])
        parts.append(event.payload)
        if event.more:
            return
        payload = b"".join(parts)
        parts.clear()
        target = event.link.target
        address = target.address if target is not None and not isinstance(target, Coordinator) else None
        self.broker.received.append((address, payload, event.settled))
        if self.broker.outcome is not None and not event.settled:
            event.link.settle(event.delivery_id, event.delivery_id, self.broker.outcome)
        self.broker.on_message(address, payload)

    def on_CreditChanged(self, event: events.CreditChanged) -> None:  # noqa: N802
        self.broker.credits.append(int(event.link.credit))
        self.pump()

    def pump(self) -> None:
        """Send what there is for those who have credit."""
        for link in self.senders:
            waiting = self.broker.messages.get(link.source.address or "") if link.source is not None else None
            while waiting and link.usable_credit() > 0:
                settled = link.snd_settle_mode == 1
                link.send(waiting.popleft(), self.sent.to_bytes(4, "big"), settled, context=self.sent)
                self.sent += 1
            if link.drain:
                link.drained()
        self.flush()

    def on_DispositionReceived(self, event: events.DispositionReceived) -> None:  # noqa: N802
        places = [delivery.context for delivery in event.deliveries]
        self.broker.dispositions.append(
            ([place for place in places if isinstance(place, int)], event.state, event.settled)
        )
        if not event.settled and self.broker.answer_settled:
            for delivery in event.deliveries:
                delivery.link.settle(delivery.id, delivery.id, event.state)


def tls_broker(certificate: Certificate, wants_one: bool = False) -> FakeBroker:
    """A broker over TLS; it may want its client's certificate, and trusts none but its own."""
    broker = FakeBroker()
    broker.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    broker.tls.load_cert_chain(certificate.certificate, certificate.key)
    if wants_one:
        broker.tls.load_verify_locations(certificate.certificate)
        broker.tls.verify_mode = ssl.CERT_REQUIRED
    return broker
