"""A TCP relay between a member and a node of the engine that can be slow, or cut as a cable is.

While it is cut nothing is lost and nothing arrives: what either end has sent comes when it is whole again, as
TCP sends it anew then, and a new connection gets no answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

READ_BYTES: Final = 65_536


class Relay:
    """Listens on a port of its own; for the loop of `Relays`."""

    def __init__(self, target_port: int) -> None:
        self._target_port: Final = target_port
        self.delay_s = 0.0
        """Each piece waits so long on its way."""
        self.is_whole: Final = asyncio.Event()
        self.is_whole.set()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._on_client, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """End everything."""
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.is_whole.wait()
            try:
                from_node, to_node = await asyncio.open_connection("127.0.0.1", self._target_port)
            except OSError:
                return  # the node is gone: the member sees the end
            try:
                both = [self._pump(reader, to_node), self._pump(from_node, writer)]
                await asyncio.gather(*both)
            finally:
                to_node.transport.abort()
        finally:
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on until the end, which is passed on, too."""
        try:
            while data := await reader.read(READ_BYTES):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self.is_whole.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # gone, which is an end like another
        await self.is_whole.wait()
        writer.transport.abort()


class Relays:
    """Between each member and each node, in a thread of their own."""

    def __init__(self, ports: Mapping[str, Sequence[int]]) -> None:
        """`ports`: of the nodes, by member."""
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = threading.Thread(target=self._loop.run_forever, name="relays")
        self._thread.start()
        self._of: Final[dict[str, list[Relay]]] = {}
        for member, node_ports in ports.items():
            self._of[member] = [self._run(self._started(port)) for port in node_ports]

    async def _started(self, port: int) -> Relay:
        relay = Relay(port)
        await relay.start()
        return relay

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def ports(self, member: str) -> list[int]:
        """Where that member finds the nodes."""
        return [relay.port for relay in self._of[member]]

    def cut(self, member: str) -> None:
        """From now on nothing arrives, in either direction."""
        for relay in self._of[member]:
            self._loop.call_soon_threadsafe(relay.is_whole.clear)

    def mend(self, member: str) -> None:
        """What waited arrives."""
        for relay in self._of[member]:
            self._loop.call_soon_threadsafe(relay.is_whole.set)

    def slow(self, delay_s: float) -> None:
        """Every piece, in both directions, of all members; 0: at once again."""
        for relays in self._of.values():
            for relay in relays:
                relay.delay_s = delay_s

    def __enter__(self) -> Relays:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for relays in self._of.values():
            for relay in relays:
                self._run(relay.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
