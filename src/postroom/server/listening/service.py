"""The broker on an event loop: listeners, turns, the commit's completion, timers, reads and logins off the
loop.
"""

import asyncio
import contextlib
import functools
import logging
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from postroom.ledger.errors import LedgerError
from postroom.ledger.storage.body_requests import Body, BodyPlace
from postroom.model.ids import MessageIds
from postroom.server.addresses import is_loopback
from postroom.server.alarms import MAINTENANCE_STOPPED
from postroom.server.channels.connector import Connecting
from postroom.server.channels.outbound_connection import Outward
from postroom.server.clock import WALL, Clock, monotonic_us
from postroom.server.configuration.config import Config, ListenConfig
from postroom.server.configuration.passwords import unmatched_hash, verify_password
from postroom.server.connection.binding import ConnectionBinding
from postroom.server.connection.broker import Broker
from postroom.server.connection.sign_in import Login
from postroom.server.kernel.broker_state import LedgerFace
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.listening.listeners import Listener, cannot_listen
from postroom.server.listening.socket_connection import SocketConnection
from postroom.server.listening.turns import Turns
from postroom.server.logs import LOGGER_NAME, log
from postroom.server.management.ledger_queries import LedgerQuery, QueryResult, Tracer

STOP_GRACE_S: Final = 2.0
"""Time that clients have to answer our close when the broker stops."""
READ_THREADS: Final = 2
READ_AT_ONCE_BYTES: Final = 1 << 20
"""Bodies that the page cache has are read by the loop itself, up to so many bytes at a time: handing them to
a thread and back would take longer than it saves.
"""
LISTEN_BACKLOG: Final = 512
IDLE_S: Final = 0.05
"""After so long without work the ledger writes that its last block is durable."""


class ServiceLedger(LedgerFace, Protocol):
    """What the service needs of the ledger beside what the broker needs."""

    @property
    def over(self) -> bool:
        """The block in flight has become durable or has failed."""

    @property
    def written_at_once(self) -> bool: ...

    @property
    def completion_fd(self) -> int: ...

    @property
    def behind(self) -> bool:
        """Writing outruns sealing and compaction: nothing is to be taken in until they catch up."""

    @property
    def maintenance_error(self) -> Exception | None: ...

    def read_bodies(self, wanted: list[BodyPlace]) -> list[Body]: ...

    def read_cached_bodies(self, wanted: list[BodyPlace]) -> list[Body] | None: ...

    def read_ids(self, serials: list[int]) -> list[MessageIds | None]: ...

    def hash_ids(self, serials: Any) -> list[Any]: ...


class Service:
    """One broker with its sockets."""

    def __init__(
        self,
        config: Config,
        listeners: list[Listener],
        ledger: ServiceLedger,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        clock: Clock = WALL,
    ) -> None:
        self.limits: Final = config.limits
        self.clock: Final = clock
        self._most_unsynced_bytes: Final = min(config.limits.unsynced_bytes, ledger.most_unsynced_bytes)
        self.turns: Final = Turns(loop, self)
        self.failure: BaseException | None = None
        """Why the service ended by itself: the ledger's failure."""
        self.ended: Final = asyncio.Event()
        """Set when the service must end, by request or by failure."""
        self._done: Final = asyncio.Event()
        self._config = config
        self._ledger = ledger
        self._reads_out = 0
        """Reads off the loop that have not come back."""
        self._broker = broker
        self._loop = loop
        self._listeners = listeners
        self._servers: list[tuple[Listener, asyncio.Server]] = []
        self._sockets: dict[ConnectionState, SocketConnection] = {}
        self._pool = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="postroom-read")
        self._checking = ThreadPoolExecutor(1, thread_name_prefix="postroom-sign-in")
        self._checks = False
        """Whether a password is being checked."""
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="postroom-trace")
        """One look into the ledger's history at a time: no message waits for one."""
        self._tracer = Tracer(config.data_folder, lambda: broker.durable_through)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_us = 0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._connecting = Connecting(
            config.credentials, config.limits.open_timeout_ms / 1e3, self._open_outward, self._outward_failed
        )
        self._users: Final = config.passwords
        self._no_user = unmatched_hash(self._users)
        """Checked for names that don't exist, so that the time taken doesn't tell."""

    # Start and stop.

    async def start(self) -> None:
        """Take connections. Raises `StartError` for an address that can't be had."""
        self._loop.add_reader(self._ledger.completion_fd, self._on_completion)
        for listener in self._listeners:
            await self._listen(listener)
        self.turns.schedule()

    def sockets(self) -> list[SocketConnection]:
        """Every connection."""
        return list(self._sockets.values())

    def addresses(self) -> list[str]:
        """What is listened on, with the ports that the system chose."""
        return [address for _, address in self._listening()]

    def urls(self) -> list[str]:
        """The same, each with its scheme and path."""
        return [listener.url(address) for listener, address in self._listening()]

    def _listening(self) -> Iterator[tuple[Listener, str]]:
        for listener, server in self._servers:
            for each in server.sockets:
                host, port = each.getsockname()[:2]
                yield listener, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Take no more connections, close those that are, make everything durable. Clients have ``grace_s``
        to answer the close, and then for what waits for the disk again."""
        self._broker.stopping = True
        self._connecting.stop()
        for _, server in self._servers:
            server.close()
        self._broker.channels.shut_down(self.clock.now_us())
        for binding in list(self._sockets):
            binding.close()
        self.settle_up()
        await self._wait_until_done(grace_s)
        for connection in list(self._sockets.values()):
            connection.abort()
        await self._wait_until_done(grace_s)
        self._broker.discards.log_all()
        self._let_go()

    def abandon(self, why: BaseException) -> None:
        """End at once, as a process that is killed: nothing is said, written or waited for any more."""
        self.failure = why
        self._broker.stopping = True
        self._connecting.stop()
        for _, server in self._servers:
            server.close()
        for connection in list(self._sockets.values()):
            connection.abort()
        self._let_go()

    def _let_go(self) -> None:
        """Of the event loop, and of the threads that read."""
        self._loop.remove_reader(self._ledger.completion_fd)
        for timer in (self._timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        self._pool.shutdown()
        self._looking.shutdown(cancel_futures=True)
        self._checking.shutdown(cancel_futures=True)

    def cut(self, bindings: list[ConnectionState]) -> None:
        """Cut their sockets at once."""
        for binding in bindings:
            connection = self._sockets.get(binding)
            if connection is not None:
                connection.abort()

    def quiet(self) -> bool:
        """Whether everything that has arrived, and everything that is due, is done and durable."""
        if self._reads_out or not self.turns.quiet() or self._broker.wants_turn or not self._broker.idle():
            return False
        return not 0 < self._broker.next_deadline_us() <= self.clock.now_us()

    def on_time(self) -> None:
        """Look what is due: the clock was set by hand."""
        self._guarded(lambda: self._broker.on_time(self.clock.now_us()))
        self.turns.schedule()

    async def _wait_until_done(self, limit_s: float) -> None:
        """Until no connection is left and nothing waits for the disk."""
        self._check_done()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._done.wait(), limit_s)

    def _check_done(self) -> None:
        if self._broker.stopping and not self._sockets and self._broker.idle():
            self._done.set()

    async def _listen(self, listener: Listener) -> None:
        accepted = self._maker(listener.config)
        for bound in listener.sockets:
            try:
                server = await self._loop.create_server(
                    accepted, sock=bound, ssl=listener.tls, backlog=LISTEN_BACKLOG
                )
            except OSError as error:
                raise cannot_listen(listener.config, error) from error
            self._servers.append((listener, server))

    def _maker(self, config: ListenConfig) -> Callable[[], SocketConnection]:
        """What makes the connections that are accepted there."""
        mechanisms = config.sasl_mechanisms(self._users)
        if config.websocket is None:
            return lambda: SocketConnection(self, self._loop, mechanisms)
        # Imported here: who takes none starts sooner.
        from postroom.server.listening.websocket_connection import WebSocketConnection
        from postroom.server.listening.websocket_request import Door

        door = Door(config.websocket, is_loopback(config.host))
        return lambda: WebSocketConnection(self, self._loop, mechanisms, door)

    # Connections.

    def connect(self, connection: SocketConnection) -> ConnectionBinding | None:
        broker, remote = self._broker, connection.remote
        if connection.outward is None:
            binding = broker.connect(remote, connection.mechanisms, monotonic_us(), self.clock.now_us())
        else:
            binding = broker.connect_outward(connection.outward, remote, monotonic_us(), self.clock.now_us())
        if binding is not None:
            self._sockets[binding] = connection
            self.turns.schedule()
        return binding

    def forget(self, binding: ConnectionBinding) -> None:
        self._sockets.pop(binding, None)

    async def _open_outward(self, outward: Outward, tls: ssl.SSLContext | None) -> object:
        return await self._loop.create_connection(
            lambda: SocketConnection(self, self._loop, [], outward),
            outward.host,
            outward.port,
            ssl=tls,
            server_hostname=outward.host if tls is not None else None,
        )

    def _outward_failed(self, outward: Outward, why: str, lasting: bool) -> None:
        self._guarded(lambda: outward.fail(why, lasting, self.clock.now_us()))
        self.turns.schedule()

    # Turns.

    def may_take_in(self) -> bool:
        if self.failure is not None or self._ledger.behind:
            return False
        return self._broker.unsynced_bytes() < self._most_unsynced_bytes

    def in_flight(self) -> bool:
        return self._ledger.in_flight

    def next_block_bytes(self) -> int:
        return self._ledger.builder.waiting_bytes()

    def between_pieces(self) -> None:
        if self._ledger.over:
            self._on_completion()

    def end_turn(self) -> None:
        self._guarded(self._end_turn)

    def _end_turn(self) -> None:
        self._broker.end_turn(self.clock.now_us())
        self._take_written()
        self.settle_up()

    def _take_written(self) -> None:
        """A block that the ledger has written at once is durable: nothing will signal it.

        One at a time: what it has released must reach the sockets before more is given to consumers.
        """
        if self._ledger.written_at_once:
            self._broker.completed(self.clock.now_us())
        if self._ledger.written_at_once:
            self.turns.schedule()

    def _guarded(self, action: Callable[[], object]) -> None:
        """What fails outside any one connection ends the service."""
        if self.failure is not None:
            return
        try:
            action()
        except Exception as error:
            self.fail(error)

    def _on_completion(self) -> None:
        """The block in flight is durable, or could not be written."""
        self._guarded(self._complete)

    def _complete(self) -> None:
        self._broker.completed(self.clock.now_us())
        self._take_written()
        self.settle_up()
        self.turns.go_on()

    def settle_up(self) -> None:
        """After effects were released: send, read, check, and be called again in time."""
        broker = self._broker
        while broker.touched:
            binding, _ = broker.touched.popitem()
            connection = self._sockets.get(binding)
            if connection is not None:
                connection.flush()
        if broker.fetches:
            self._read_bodies()
        if broker.id_reads:
            self._read_ids()
        if broker.management.ledger_queries:
            self._run_ledger_queries()
        if broker.sign_ins.logins:
            self._check_logins()
        if broker.channels.wanted:
            self._open_wanted()
        if broker.wants_turn:
            self.turns.schedule()
        if broker.stopping:
            self._check_done()
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(IDLE_S, self._on_idle)
        self._arm_timer()

    # Off the loop.

    def _read_bodies(self) -> None:
        fetches = self._broker.fetches[:]
        self._broker.fetches.clear()
        left_bytes = READ_AT_ONCE_BYTES
        for fetch in fetches:
            left_bytes -= fetch.size_bytes
            bodies = self._ledger.read_cached_bodies(fetch.wanted) if left_bytes >= 0 else None
            if bodies is not None:
                self._broker.fetched(fetch, bodies, self.clock.now_us())
                self.turns.schedule()
                continue
            self._reads_out += 1
            reading = self._loop.run_in_executor(self._pool, self._ledger.read_bodies, fetch.wanted)
            reading.add_done_callback(
                functools.partial(self._have_read, functools.partial(self._broker.fetched, fetch))
            )

    def _have_read(
        self, take: Callable[[list[Any], int], None], reading: "asyncio.Future[list[Any]]"
    ) -> None:
        """Bodies or ids are read: the broker takes them, with the time."""
        self._reads_out -= 1
        if self.failure is not None or reading.cancelled():
            return
        error = reading.exception()
        if error is not None:
            self.fail(error)
            return
        self._guarded(lambda: take(reading.result(), self.clock.now_us()))
        self.turns.schedule()

    def _read_ids(self) -> None:
        reads = self._broker.id_reads[:]
        self._broker.id_reads.clear()
        ledger = self._ledger
        for read in reads:
            if read.all_serials is None:
                job: Callable[[], list[Any]] = functools.partial(ledger.read_ids, read.serials)
            else:
                job = functools.partial(ledger.hash_ids, read.all_serials)
            self._reads_out += 1
            reading = self._loop.run_in_executor(self._pool, job)
            reading.add_done_callback(
                functools.partial(self._have_read, functools.partial(self._broker.ids_read, read))
            )

    def _run_ledger_queries(self) -> None:
        queries = self._broker.management.ledger_queries[:]
        self._broker.management.ledger_queries.clear()
        for query in queries:
            reading = self._loop.run_in_executor(self._looking, query.run, self._tracer)
            reading.add_done_callback(functools.partial(self._have_queried, query))

    def _have_queried(self, query: LedgerQuery, reading: "asyncio.Future[QueryResult]") -> None:
        if self.failure is not None or reading.cancelled():
            return
        defect = reading.exception()
        if defect is not None:  # of a reader: what is written is not in question
            logging.getLogger(LOGGER_NAME).error("internal-error", exc_info=defect)
        result = reading.result() if defect is None else RuntimeError("the broker's log says more")
        self._guarded(lambda: query.answer(result, self.clock.now_us()))
        self.turns.schedule()

    def _open_wanted(self) -> None:
        wanted = self._broker.channels.wanted[:]
        self._broker.channels.wanted.clear()
        for outward in wanted:
            if not outward.over:
                self._connecting.begin(outward)

    def _check_logins(self) -> None:
        """One at a time: it takes a core for tens of milliseconds, and who comes next is decided then."""
        sign_ins = self._broker.sign_ins
        while sign_ins.logins and not self._checks:
            login = sign_ins.take()
            if login.binding not in self._sockets:
                continue  # it has gone, and wants no answer
            self._checks = True
            stored = self._users[login.user][0] if login.user in self._users else self._no_user
            checking = self._loop.run_in_executor(self._checking, verify_password, login.password, stored)
            checking.add_done_callback(functools.partial(self._have_checked, login))

    def _have_checked(self, login: Login, checking: "asyncio.Future[bool]") -> None:
        self._checks = False
        if login.binding in self._sockets and not checking.cancelled():
            known = login.user in self._users
            login.decided(login.user, known and checking.result(), self.clock.now_us())
        self.turns.schedule()

    # Timers.

    def _arm_timer(self) -> None:
        due_us = self._broker.next_deadline_us()
        if due_us == 0:
            return
        now_us = self.clock.now_us()
        if self._timer is not None and now_us < self._timer_due_us <= due_us:
            return
        if due_us <= now_us and self._ledger.in_flight:
            return  # the completion looks at what is due
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wait_s = self.clock.wait_s(due_us)
        if wait_s is not None:
            self._timer_due_us = due_us
            self._timer = self._loop.call_later(wait_s, self._on_timer)

    def _on_idle(self) -> None:
        """Nothing has been written for a while: tell readers beside us that the last block is durable."""
        self._idle_timer = None
        self._watch_maintenance()
        self._watch_clock()
        self.turns.go_on()
        if self._ledger.space_short:
            self.turns.schedule()  # the turn's end asks whether there is room again
        if self.failure is None and self._broker.idle():
            self._guarded(self._mark_idle)
        if self._ledger.behind or self._ledger.space_short:
            self._idle_timer = self._loop.call_later(IDLE_S, self._on_idle)  # nothing else would look again

    def _mark_idle(self) -> None:
        self._ledger.mark_idle()
        self._take_written()

    def _watch_maintenance(self) -> None:
        error = self._ledger.maintenance_error
        if error is not None:
            self._broker.alarms.begin(MAINTENANCE_STOPPED, str(error), self.clock.now_us())

    def _watch_clock(self) -> None:
        """Say that somebody has set the machine's clock."""
        self._broker.alarms.of_clock(self.clock.ahead_us, self.clock.now_us())
        if self.clock.forward_us:
            log(logging.WARNING, "clock-set-forward", seconds=round(self.clock.forward_us / 1e6))
            self.clock.forward_us = 0

    def _on_timer(self) -> None:
        self._timer = None
        self.on_time()

    def fail(self, error: BaseException) -> None:
        """The ledger has failed, or we have: nothing that waits is released, nothing more is taken in."""
        self.failure = error
        if isinstance(error, LedgerError):
            log(logging.CRITICAL, "ledger-failed", reason=str(error))
        else:
            logging.getLogger(LOGGER_NAME).critical("internal-error", exc_info=error)
        self.ended.set()
