"""Large messages on their way out, through sockets that take everything at once."""

import asyncio

from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.events import TransferReceived
from postroom.amqp.engine.options import ConnectionOptions
from postroom.amqp.frames.termini import Source, Target
from postroom.server.clock import monotonic_us
from postroom.server.connection.broker import Broker
from postroom.server.listening.socket_connection import SocketConnection
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer

MESSAGE_BYTES = 5 << 20
TURN_BYTES = 1 << 20
"""More than a connection may send in one turn."""


class GreedyTransport(asyncio.Transport):
    """Takes everything at once, and measures what comes in each round of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.most_bytes = 0
        """In one round."""
        self._round = b""
        self._heard = b""
        self._loop = loop
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._round:
            self._loop.call_soon(self._end_round)
        self._round += data

    def _end_round(self) -> None:
        self.most_bytes = max(self.most_bytes, len(self._round))
        self._heard += self._round
        self._round = b""

    def hear(self) -> bytes:
        """What has come since it was called last."""
        heard, self._heard = self._heard, b""
        return heard

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True


def test_a_large_message_leaves_the_loop_to_others_however_fast_its_socket_is() -> None:
    with BrokerThread() as thread:
        with EnginePeer(thread.port) as sender:
            link = sender.session().attach_sender("out", Source(), Target(address="large"))
            sender.pump(lambda: link.usable_credit() > 0)
            body = b"\0Su\xb0" + MESSAGE_BYTES.to_bytes(4, "big") + bytes(MESSAGE_BYTES)
            link.send(body, b"t", False)
            sender.pump(lambda: link.unsettled_count == 0)
        client = Connection(
            ConnectionOptions(server=False, container_id="greedy", sasl_mechanisms=[]), monotonic_us()
        )
        client.open()
        transport, socket = thread.call(lambda broker: _connected(thread, broker))
        received: list[TransferReceived] = []
        _exchange(thread, client, transport, socket, received)
        receiver = client.begin().attach_receiver("in", Source(address="large"), Target())
        receiver.flow(1)
        while not received or received[-1].more:
            _exchange(thread, client, transport, socket, received)
        assert sum(len(event.payload) for event in received) >= MESSAGE_BYTES
        assert transport.most_bytes < TURN_BYTES
        thread.call(lambda _: socket.connection_lost(None))


def _connected(thread: BrokerThread, broker: Broker) -> tuple[GreedyTransport, SocketConnection]:
    loop, service = asyncio.get_running_loop(), thread.service()
    transport, socket = GreedyTransport(loop), SocketConnection(service, loop, broker.config.listen[0])
    socket.connection_made(transport)
    return transport, socket


def _exchange(
    thread: BrokerThread,
    client: Connection,
    transport: GreedyTransport,
    socket: SocketConnection,
    received: list[TransferReceived],
) -> None:
    """Give each end what the other has said."""
    data = client.data_to_send()
    if data:
        thread.call(lambda _: socket.data_received(data))
    events = client.receive_data(thread.call(lambda _: transport.hear()), monotonic_us())
    received += [event for event in events if isinstance(event, TransferReceived)]
