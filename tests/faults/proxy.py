"""A proxy between a client and a broker that understands AMQP frames, and cuts the connection at one of them.

Deterministic: a cut comes exactly before or after a frame, whatever the timing. Before a frame: the other end
never sees it. After it: the other end sees it and then the end of the connection, while the answer is lost.
The next connection of the client is let through when the broker has seen the end of the one before, so that
it has undone what it undoes then.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

NAMES: Final = {
    0x10: "open",
    0x11: "begin",
    0x12: "attach",
    0x13: "flow",
    0x14: "transfer",
    0x15: "disposition",
    0x16: "detach",
    0x17: "end",
    0x18: "close",
    0x40: "sasl-mechanisms",
    0x41: "sasl-init",
    0x44: "sasl-outcome",
}
REQUESTS: Final = {b"\x00\x53\x77\x00\x53\x31": "declare", b"\x00\x53\x77\x00\x53\x32": "discharge"}
"""Transfers to a coordinator, by what is in them."""
HEADER: Final = "header"
HEARTBEAT: Final = "heartbeat"
PREFIX: Final = b"AMQP"
HEADER_BYTES: Final = 8
READ_BYTES: Final = 65_536
CLIENT: Final = "client"
BROKER: Final = "broker"
PATIENCE_S: Final = 30.0


@dataclass(frozen=True)
class CutPoint:
    """Before or after the ``number``-th frame (from 0) of its kind that ``sender`` says on a connection."""

    sender: str
    frame: str
    number: int
    after: bool
    connection: int = 0
    """The client's first one is 0."""

    def __str__(self) -> str:
        where = "after" if self.after else "before"
        again = f"-on-{self.connection}" if self.connection else ""
        return f"{where}-{self.sender}-{self.frame}-{self.number}{again}"


class Splitter:
    """Cuts a stream of bytes into protocol headers and frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """Name and bytes of everything that is complete."""
        self._rest += data
        while (size := self._size()) and len(self._rest) >= size:
            frame, self._rest = self._rest[:size], self._rest[size:]
            yield name_of(frame), frame

    def _size(self) -> int:
        """Of what comes next; 0 while that can't be told."""
        if self._rest.startswith(PREFIX):
            return HEADER_BYTES
        return int.from_bytes(self._rest[:4], "big") if len(self._rest) >= 4 else 0


def name_of(frame: bytes) -> str:
    """What a header or frame is."""
    if frame.startswith(PREFIX):
        return HEADER
    body = frame[frame[4] * 4 :]
    if not body:
        return HEARTBEAT
    assert body[:2] == b"\x00\x53", f"a frame begins with {body[:8].hex()}, not with a short descriptor"
    name = NAMES[body[2]]
    if name == "transfer":
        return next((request for start, request in REQUESTS.items() if start in body), name)
    return name


class FaultyProxy:
    """Listens on a port of its own, and passes each connection on to the broker until its cut."""

    def __init__(self, host: str, port: int, *cuts: CutPoint) -> None:
        self._host = host
        self._port = port
        self.cuts = list(cuts)
        """Those to come."""
        self.seen: list[CutPoint] = []
        """Every place that has gone by uncut: what could have been a cut."""
        self.connections = 0
        self.on_cut: Callable[[CutPoint], None] = lambda cut: None
        self._server: asyncio.Server | None = None
        self._lets = asyncio.Event()
        self._lets.set()
        self._broken = asyncio.Event()
        self._ended = asyncio.Event()
        self._ended.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> FaultyProxy:
        self._server = await asyncio.start_server(self._on_client, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"amqp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def direct(self, host: str, port: int) -> None:
        """New connections go there."""
        self._host, self._port = host, port

    def hold(self) -> None:
        """New connections get no answer until :meth:`let`."""
        self._lets.clear()

    def let(self) -> None:
        """Let those that were held go on."""
        self._lets.set()

    def break_now(self) -> None:
        """Cut the connection that is there, wherever it is."""
        self._broken.set()

    async def ended(self) -> None:
        """Wait until both ends of the connection that was there have seen its end."""
        await self._ended.wait()

    def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._accept(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, self.connections = self.connections, self.connections + 1
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._ended.wait()
                await self._lets.wait()
            self._ended.clear()
            self._broken.clear()
            try:
                await self._serve(number, reader, writer)
            finally:
                self._ended.set()
        finally:
            writer.transport.abort()

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection(self._host, self._port)
        except OSError:
            return  # there is no broker now: the client finds that out
        pumps: list[asyncio.Future[object]] = [
            asyncio.ensure_future(self._pump(number, CLIENT, reader, to_broker)),
            asyncio.ensure_future(self._pump(number, BROKER, from_broker, writer)),
            asyncio.ensure_future(self._broken.wait()),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            await asyncio.gather(half_close(from_broker, to_broker), half_close(reader, writer))
        finally:
            to_broker.transport.abort()

    async def _pump(
        self, number: int, sender: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass frames on until the end, or the cut."""
        splitter = Splitter()
        counts: Counter[str] = Counter()
        while data := await read_some(reader):
            for name, frame in splitter.feed(data):
                place = CutPoint(sender, name, counts[name], False, number)
                counts[name] += 1
                if self._cuts(place):
                    return
                writer.write(frame)
                if self._cuts(CutPoint(sender, name, place.number, True, number)):
                    return

    def _cuts(self, place: CutPoint) -> bool:
        if place.frame == HEARTBEAT:
            return False
        if place not in self.cuts:
            self.seen.append(place)
            return False
        self.cuts.remove(place)
        self.on_cut(place)
        return True


async def read_some(reader: asyncio.StreamReader) -> bytes:
    """What comes next; nothing at the end, however it came."""
    try:
        return await reader.read(READ_BYTES)
    except ConnectionError:
        return b""


async def half_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End our side behind what was written, and wait until the other end has ended its own: then it has read
    everything, and knows.
    """
    try:
        if writer.can_write_eof():
            writer.write_eof()
        async with asyncio.timeout(PATIENCE_S):
            while await read_some(reader):
                pass
    except OSError:
        pass  # it has gone already
