"""A broker on a free port of this machine, in a thread of the test's process."""

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

import msgspec
import uvloop

from postroom.ledger.ledger import Ledger
from postroom.manager.manager import QueueManager
from postroom.model.rights import ADMINISTRATOR
from postroom.server.assembly import define_queues, manager_options
from postroom.server.clock import WALL, Clock, wall_us
from postroom.server.configuration.config import Config, LimitsConfig, QueueConfig
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.roles import RoleConfig
from postroom.server.connection.broker import Broker
from postroom.server.console.parts import console_parts
from postroom.server.http.http_service import Http
from postroom.server.kernel.connection_state import ANONYMOUS_USER
from postroom.server.listening.listeners import Listener
from postroom.server.listening.service import Service, ServiceLedger
from postroom.server.start import make_broker, open_ledger
from postroom.server.tracing.tracer import Tracer, make_tracer
from postroom.testing.clock import SettableClock
from tests.originals import ORIGINALS
from tests.server.memory_ledger import MemoryLedger

T = TypeVar("T")
TIMEOUT_S = 20.0


def make_config(queues: tuple[str, ...] = (), **changes: object) -> Config:
    """A configuration that listens on any free port, with the originals' defaults of queues."""
    settings: dict[str, object] = {
        **ORIGINALS,
        "listen": [ListenConfig(address="127.0.0.1:0")],
        "queue": [QueueConfig(name=name) for name in queues],
        "limits": LimitsConfig(idle_timeout_ms=10_000),
    }
    settings.update(changes)
    users = settings.get("users")
    if isinstance(users, dict) and users and "role" not in settings:  # who they are isn't what they may do
        settings["role"] = [RoleConfig(name=ADMINISTRATOR, members=[*users, ANONYMOUS_USER])]
    return Config(**settings)  # type: ignore[arg-type]


class BrokerThread:
    """Runs a `Service` over a real ledger in a folder of its own, or one in memory; a context manager.

    With ``folder`` the ledger lies there, so that the next broker finds it.
    """

    def __init__(
        self,
        config: Config | None = None,
        ledger: MemoryLedger | None = None,
        folder: Path | None = None,
        clock: Clock = WALL,
    ) -> None:
        self._clock: Final = clock
        self.config = config or make_config()
        self._memory = ledger
        self._folder = folder
        self.address = ""
        self.addresses: list[str] = []
        """Of all its listeners; ``address`` is the first."""
        self.http_urls: list[str] = []
        self.broker: Broker | None = None
        self.failure: BaseException | None = None
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._service: Service | None = None
        self._thread = threading.Thread(target=self._run, name="broker", daemon=True)

    @property
    def url(self) -> str:
        return f"amqp://{self.address}"

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def call(self, question: Callable[[Broker], T]) -> T:
        """Call a function with the broker, on its own thread."""

        async def answer() -> T:
            assert self.broker is not None
            return question(self.broker)

        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(answer(), self._loop).result(TIMEOUT_S)

    def service(self) -> Service:
        """To be used on the broker's own thread."""
        assert self._service is not None
        return self._service

    def inbox_bytes(self) -> int:
        """Read from the sockets and not yet processed; to be called on the broker's own thread."""
        assert self._service is not None
        return sum(connection.inbox_bytes for connection in self._service.sockets())

    def set_idle_time(self, seconds: float) -> None:
        """How long nothing is written before the ledger says that its last block is durable."""
        assert self._service is not None
        self._service.idle_s = seconds

    def idle_time_is_over(self) -> None:
        """What the service does when its timer for an idle ledger runs out; on the broker's own thread."""
        assert self._service is not None
        self._service.on_idle()

    def turn(self, command: Callable[[Broker, int], object]) -> None:
        """Give the broker a command, as a turn of its own."""

        def act(broker: Broker) -> None:
            command(broker, wall_us())
            assert self._service is not None
            self._service.turns.schedule()

        self.call(act)

    def advance(self, clock: SettableClock, us: int) -> None:
        """Move the clock that it was made with; what is due happens."""

        def act(broker: Broker) -> None:
            clock.set(clock.now_us() + us)
            assert self._service is not None
            self._service.on_time()

        self.call(act)

    def wait_until(self, condition: Callable[[Broker], bool]) -> None:
        """Ask again and again, each time after the loop has gone round; AssertionError when it takes too
        long.
        """
        deadline = time.monotonic() + TIMEOUT_S
        while not self.call(condition):
            assert time.monotonic() < deadline, "the broker never came to that"

    def stop(self) -> None:
        """Tell it to stop, and don't wait for that."""
        if self._loop is not None and self._service is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._service.ended.set)

    def __enter__(self) -> "BrokerThread":
        self._thread.start()
        if not self._ready.wait(TIMEOUT_S) or self.failure is not None:
            raise AssertionError(f"the broker did not start: {self.failure}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), "the broker did not stop"
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            uvloop.run(self._serve())
        except BaseException as error:
            self.failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        if self._memory is not None:
            manager = QueueManager(manager_options(self.config), self._memory.builder)
            names = (f"node-{number}" for number in range(1_000_000))
            define_queues(self.config, manager, 1)
            broker = Broker(self.config, self._memory, manager, lambda: next(names))
            await self._run_service(self._memory, broker, _listeners(self.config))
            return
        with tempfile.TemporaryDirectory() as temporary:
            config = msgspec.structs.replace(self.config, data=str(self._folder or temporary))
            http = Http(config, console_parts)
            ledger = open_ledger(config)
            try:
                broker = make_broker(config, ledger)
                tracer = make_tracer(config, ledger)
                if tracer is not None:
                    tracer.start(broker.manager)
                await self._run_service(ledger, broker, _listeners(config), http, tracer)
                if tracer is not None:
                    tracer.stop()
            finally:
                http.stop()
                ledger.close()

    async def _run_service(
        self,
        ledger: ServiceLedger,
        broker: Broker,
        listeners: list[Listener],
        http: Http | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.broker = broker
        self._service = Service(broker.config, listeners, ledger, broker, self._loop, self._clock)
        await self._service.start()
        self.addresses = self._service.addresses()
        self.address = self.addresses[0]
        if http is not None and isinstance(ledger, Ledger):
            command = self._service.command_from_thread
            self.http_urls = http.listen()
            http.start(broker, ledger, listeners, command, tracer=tracer)
        self._ready.set()
        await self._service.ended.wait()
        await self._service.stop()


def _listeners(config: Config) -> list[Listener]:
    return [Listener(listen) for listen in config.listen]
