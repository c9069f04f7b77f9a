"""One life of the broker under test, from its start on what the disk has to its end."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.message_store.pending_requests import StoreRequest
from postroom.server.clock import Clock
from postroom.server.configuration.config import Config
from postroom.server.connection.broker import Broker
from postroom.server.listening.listeners import Listener
from postroom.server.listening.service import Service
from postroom.server.start import make_broker
from postroom.testing.clock import SettableClock
from postroom.testing.disk import MemoryDisk
from postroom.testing.errors import BrokerFailed
from postroom.testing.settings import make_options

T = TypeVar("T")
RESTART_GRACE_S: Final = 0.2
"""Time that clients have to answer our close. One that lives in the test's own thread can't."""


class WatchedService(Service):
    """Wakes those who wait for something whenever something may have changed."""

    def __init__(
        self, config: Config, listeners: list[Listener], ledger: Ledger, broker: Broker, clock: Clock
    ) -> None:
        self.watchers: dict[asyncio.Future[None], None] = {}
        super().__init__(config, listeners, ledger, broker, asyncio.get_running_loop(), clock)

    def settle_up(self) -> None:
        super().settle_up()
        self.wake()

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self.wake()

    def wake(self) -> None:
        """Have every watcher look again."""
        for watcher in list(self.watchers):
            if not watcher.done():
                watcher.set_result(None)


AT_ONCE_BYTES: Final = 1 << 30
"""A block that finds the ledger idle is durable before anything else happens: memory needs no thread."""


class Ended(Exception):
    """Why a service takes nothing in any more that the test has ended."""


class Answer(Asker):
    """Waits for what the queue manager answers to a request."""

    def __init__(self, future: asyncio.Future[object]) -> None:
        super().__init__()
        self._future: Final = future

    def answered(self, payload: object, now_us: int) -> None:
        if not self._future.done():
            self._future.set_result(payload)


class Run:
    """A broker that serves. Everything here belongs to the loop's thread."""

    def __init__(self, config: Config, disk: MemoryDisk, clock: SettableClock) -> None:
        """Raises `StartError`, `LedgerError`, OSError."""
        self.clock: Final = clock
        self._loop: Final = asyncio.get_running_loop()
        with contextlib.ExitStack() as undo:  # of what is begun, where the rest fails
            listeners = [Listener(listen) for listen in config.listen]
            for listener in listeners:
                undo.callback(listener.close)
            options = LedgerOptions(**msgspec.structs.asdict(config.ledger), at_once_bytes=AT_ONCE_BYTES)
            self.ledger: Final = Ledger.open(Path("memory"), options, clock.now_us(), disk=disk)
            undo.callback(self.ledger.abandon)
            managing = make_options(config, not clock.running)
            self.broker: Final[Broker] = make_broker(config, self.ledger, clock, managing)
            self.broker.adjust_head = clock.shift
            self.service: Final = WatchedService(config, listeners, self.ledger, self.broker, clock)
            undo.pop_all()

    async def start(self) -> int:
        """Take connections; the port."""
        await self.service.start()
        return int(self.service.addresses()[0].rpartition(":")[2])

    def check(self) -> None:
        """Raise BrokerFailed where the service has ended by itself."""
        if self.service.failure is not None:
            raise BrokerFailed(f"the broker has failed: {self.service.failure}") from self.service.failure

    async def until(self, condition: Callable[[], bool]) -> None:
        """Look whenever something has changed."""
        while True:
            self.check()
            if condition():
                return
            watcher: asyncio.Future[None] = self._loop.create_future()
            self.service.watchers[watcher] = None
            try:
                await watcher
            finally:
                del self.service.watchers[watcher]

    async def settle(self) -> None:
        """Until everything that has arrived, and all that is due, is done and durable."""
        self.service.turns.schedule()
        await self.until(self.service.quiet)

    async def act(self, command: Callable[[int], T]) -> T:
        """Give the queue manager a command; its result when that is durable. Raises ManagerError."""
        self.check()
        result = command(self.clock.now_us())
        await self.settle()
        return result

    async def request(self, make: Callable[[Asker], StoreRequest]) -> object:
        """What the queue manager answers to a request. Raises ManagerError."""
        self.check()
        future: asyncio.Future[object] = self._loop.create_future()
        self.broker.manager.submit_request(make(Answer(future)), self.clock.now_us())
        self.service.turns.schedule()
        payload = await future
        if isinstance(payload, ManagerError):
            raise payload
        return payload

    async def stop(self) -> None:
        """In an orderly way."""
        await self.service.stop(RESTART_GRACE_S)
        self.service.failure = Ended("the broker was stopped")
        await self._end()
        self.ledger.close()

    async def abandon(self) -> None:
        """As a process ends that is killed."""
        self.service.abandon(Ended("the power was cut"))
        await self._end()
        self.ledger.abandon()

    async def _end(self) -> None:
        """Those who wait are told; connections that were cut tell so in the loop's next rounds."""
        self.service.wake()
        while self.service.sockets():
            await asyncio.sleep(0)
