"""A connection with a sender and a receiver of one queue, on the AMQP engine alone: as little work for each
of thousands as there can be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, cast

from postroom.amqp.engine import events
from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.options import ConnectionOptions
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.session import Session
from postroom.amqp.frames.outcomes import ACCEPTED
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.sections import Data, Header, Message

CREDIT: Final = 10
TIME_BYTES: Final = 8
SEND_TAG: Final = b"\0\0\0\1"
"""One message is under way at most, so that its tag is free again for the next."""


def now_us() -> int:
    """Microseconds, the same clock in all processes of this machine."""
    return time.monotonic_ns() // 1000


class RawClient(asyncio.Protocol):
    """Opens, attaches both links, sends one message at a time, accepts all that comes."""

    def __init__(
        self, name: str, queue: str, body_bytes: int, on_change: Callable[[RawClient], None]
    ) -> None:
        """``on_change`` is called when both links are there, and whenever a message has been accepted."""
        options = ConnectionOptions(server=False, container_id=name, hostname="bench", sasl_mechanisms=[])
        self._engine = Connection(options, now_us())
        self._queue = queue
        self._body_bytes = body_bytes
        self._on_change = on_change
        self._socket: asyncio.Transport | None = None
        self._sender: SenderLink | None = None
        self._receiver: ReceiverLink | None = None
        self._attached = 0
        self._credit_seen = False
        self.ready = False
        self.error = ""
        self.sent_us = 0
        self.accepted_us = 0
        """How long the last message took to be accepted."""
        self.sent = self.accepted = self.received = 0
        self.ages_us: list[int] = []
        """Of what has come: from its sending."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._engine.open()
        session = self._engine.begin()
        self._attach(session)
        self._flush()

    def _attach(self, session: Session) -> None:
        self._sender = session.attach_sender("in", Source(), Target(address=self._queue))
        self._receiver = session.attach_receiver("out", Source(address=self._queue), Target())

    def data_received(self, data: bytes) -> None:
        changed = False
        for event in self._engine.receive_data(data, now_us()):
            changed = self._on_event(event) or changed
        self._flush()
        if changed and self.ready:
            self._on_change(self)

    def _on_event(self, event: object) -> bool:
        """Whether something has happened that was waited for."""
        if isinstance(event, events.TransferReceived):
            self._receive(event)
        elif isinstance(event, events.DispositionReceived):
            self.accepted_us = now_us() - self.sent_us
            self.accepted += 1
            return True
        elif isinstance(event, events.LinkAttached):
            self._attached += 1
            if isinstance(event.link, ReceiverLink):
                event.link.flow(CREDIT)
            return self._check_ready()
        elif isinstance(event, events.CreditChanged):
            self._credit_seen = True
            return self._check_ready()
        elif isinstance(event, events.LinkDetached | events.Closed | events.ProtocolFailed):
            self.error = str(event.error)
        return False

    def _check_ready(self) -> bool:
        begun = not self.ready and self._attached == 2 and self._credit_seen
        self.ready = self.ready or begun
        return begun

    def _receive(self, event: events.TransferReceived) -> None:
        link = event.link
        at = len(event.payload) - self._body_bytes
        sent_us = int.from_bytes(event.payload[at : at + TIME_BYTES], "little")
        self.ages_us.append(now_us() - sent_us)
        self.received += 1
        link.settle(event.delivery_id, event.delivery_id, ACCEPTED)
        if self.received % (CREDIT // 2) == 0:
            link.flow(CREDIT)

    def send(self) -> None:
        """The next message; the one before has been accepted."""
        if self._sender is None or self._sender.usable_credit() == 0:
            return
        self.sent_us = now_us()
        body = self.sent_us.to_bytes(TIME_BYTES, "little") + bytes(self._body_bytes - TIME_BYTES)
        message = Message(header=Header(durable=True), body=Data([body]))
        self.sent += 1
        self._sender.send(message.encode(), SEND_TAG, False)
        self._flush()

    def on_time(self) -> None:
        """Have heartbeats leave, if some are due."""
        self._engine.on_time(now_us())
        self._flush()

    def close(self) -> None:
        """Say goodbye."""
        self._engine.close()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.error = self.error or str(error or "closed by the broker")

    def _flush(self) -> None:
        data = self._engine.data_to_send()
        if data and self._socket is not None and not self._socket.is_closing():
            self._socket.write(data)
