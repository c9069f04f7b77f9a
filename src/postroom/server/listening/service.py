"""The broker on an event loop: listeners, turns, the commit's completion, timers."""

import asyncio
import contextlib
import functools
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from mypy_extensions import mypyc_attr

from postroom.ledger.errors import LedgerError
from postroom.manager.security.acts import Act
from postroom.server.access.sign_in_policy import Arrival
from postroom.server.addresses import is_loopback
from postroom.server.alarms import MAINTENANCE_STOPPED
from postroom.server.channels.connector import Connecting
from postroom.server.channels.outbound_connection import Outward
from postroom.server.clock import WALL, Clock, monotonic_us
from postroom.server.configuration.config import Config
from postroom.server.configuration.listening import ListenConfig
from postroom.server.connection.binding import ConnectionBinding
from postroom.server.connection.broker import Broker
from postroom.server.kernel.broker_state import LedgerFace
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.listening.listeners import LISTEN_BACKLOG, Listener, address_of
from postroom.server.listening.off_loop import OffLoop, ReadLedger
from postroom.server.listening.socket_connection import SocketConnection, as_protocol
from postroom.server.listening.turns import Turns
from postroom.server.logs import LOGGER_NAME, log

if TYPE_CHECKING:
    from postroom.server.listening.tls_server import TlsServer

STOP_GRACE_S: Final = 2.0
"""Time that clients have to answer our close when the broker stops."""
IDLE_S: Final = 0.025
"""After so long without a block, and before twice as long, a ledger is idle."""


class ServiceLedger(LedgerFace, ReadLedger, Protocol):
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

    @property
    def maintenance_failure(self) -> Exception | None: ...


@mypyc_attr(allow_interpreted_subclasses=True)
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
        ended: asyncio.Event | None = None,
    ) -> None:
        self.limits: Final = config.limits
        self.clock: Final = clock
        self._most_unsynced_bytes: Final = min(config.limits.unsynced_bytes, ledger.most_unsynced_bytes)
        self.turns: Final = Turns(loop, self, config.limits.busy_poll_us)
        self.failure: BaseException | None = None
        """Why the service ended by itself: the ledger's failure."""
        self.ended: Final = ended or asyncio.Event()
        """Set when the service must end, by request or by failure."""
        self._done: Final = asyncio.Event()
        self._config = config
        self._ledger = ledger
        self._broker = broker
        self._loop = loop
        self._listeners = listeners
        self._servers: list[tuple[Listener, asyncio.Server | TlsServer]] = []
        self._sockets: dict[ConnectionState, SocketConnection] = {}
        self._off_loop: Final = OffLoop(self, loop, ledger, broker, config.data_folder)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_us = 0
        self.idle_s = IDLE_S
        """After so long without a block the ledger writes that its last one is durable."""
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_from = broker.durable_through
        """What was durable when that timer was set."""
        self._connecting = Connecting(
            config.credentials, config.limits.open_timeout_ms / 1e3, self._open_outward, self._outward_failed
        )

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
            each: socket.socket
            for each in cast(Any, server).sockets:  # uvloop's are a list, not a tuple
                yield listener, address_of(each)

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
        self._broker.access.acts.flush(self.clock.now_us())
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
        self._off_loop.shut_down()

    def cut(self, bindings: list[ConnectionState]) -> None:
        """Cut their sockets at once."""
        for binding in bindings:
            connection = self._sockets.get(binding)
            if connection is not None:
                connection.abort()

    def quiet(self) -> bool:
        """Whether everything that has arrived, and everything that is due, is done and durable."""
        if (
            self._off_loop.reads_out
            or not self.turns.quiet()
            or self._broker.wants_turn
            or not self._broker.idle()
        ):
            return False
        return not 0 < self._broker.next_deadline_us() <= self.clock.now_us()

    def command(self, action: Callable[[int], object]) -> None:
        """Have something done with the time, as a turn of its own."""
        self._guarded(lambda: action(self.clock.now_us()))
        self.turns.schedule()

    def command_from_thread(self, action: Callable[[int], object]) -> None:
        """The same, soon, from another thread; nothing comes of it once the end has begun."""

        def act() -> None:
            if not self._broker.stopping:
                self.command(action)

        self._loop.call_soon_threadsafe(act)

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
        listener.listen()
        for bound in listener.sockets:
            self._servers.append((listener, await self._server(listener, bound, accepted)))

    async def _server(
        self, listener: Listener, bound: socket.socket, accepted: Callable[[], asyncio.Protocol]
    ) -> "asyncio.Server | TlsServer":
        if listener.tls is None:
            return await self._loop.create_server(accepted, sock=bound, backlog=LISTEN_BACKLOG)
        # Imported here: who has no TLS starts sooner.
        from postroom.server.listening.tls_server import TlsServer

        address = listener.config.address
        return TlsServer(bound, listener.tls, accepted, self._refused, address)

    def _refused(self, act: Act) -> None:
        """A handshake was: have that recorded."""
        self.command(functools.partial(self._broker.access.acts.refused, act))

    def _maker(self, config: ListenConfig) -> Callable[[], asyncio.Protocol]:
        """What makes the connections that are accepted there."""
        if config.websocket is None:
            return lambda: as_protocol(SocketConnection(self, self._loop, config))
        # Imported here: who takes none starts sooner.
        from postroom.server.listening.websocket_connection import WebSocketConnection
        from postroom.server.listening.websocket_request import Door

        door = Door(config.websocket, is_loopback(config.host))
        return lambda: as_protocol(WebSocketConnection(self, self._loop, config, door))

    # Connections.

    def connect(self, connection: SocketConnection) -> ConnectionBinding | None:
        broker, remote = self._broker, connection.remote
        if connection.outward is None:
            listen = connection.listen
            assert listen is not None
            arrival = Arrival(remote, listen.address, connection.certificate, connection.end_point)
            mechanisms = broker.access.policy.offered(arrival, broker.sign_ins.offered(listen))
            binding = broker.connect(remote, mechanisms, monotonic_us(), self.clock.now_us(), arrival)
        else:
            binding = broker.connect_outward(connection.outward, remote, monotonic_us(), self.clock.now_us())
        if binding is not None:
            self._sockets[binding] = connection
            self.turns.schedule()
        return binding

    def meter(
        self, binding: ConnectionBinding, size_bytes: int, messages: int, resume: Callable[[], None]
    ) -> bool:
        return self._broker.traffic.took(binding, size_bytes, messages, resume, self.clock.now_us())

    def forget(self, binding: ConnectionBinding) -> None:
        self._sockets.pop(binding, None)

    async def _open_outward(self, outward: Outward, tls: ssl.SSLContext | None) -> object:
        return await self._loop.create_connection(
            lambda: as_protocol(SocketConnection(self, self._loop, None, outward)),
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
        self._flush_touched()
        self._off_loop.begin()
        if broker.channels.wanted:
            self._open_wanted()
        if broker.wants_turn or broker.touched:
            self.turns.schedule()
        if broker.stopping:
            self._check_done()
        if self._idle_timer is None:
            self._wait_for_idle()
        self._arm_timer()

    def _flush_touched(self) -> None:
        """One write to each connection that has something to send. Who has more of a large message goes on in
        the next turn, however fast its socket takes it: reading the next message, and everybody else, would
        wait for its end."""
        touched = self._broker.touched
        now = list(touched)
        touched.clear()
        for binding in now:
            connection = self._sockets.get(binding)
            if connection is not None:
                connection.flush()

    def _open_wanted(self) -> None:
        wanted = self._broker.channels.wanted[:]
        self._broker.channels.wanted.clear()
        for outward in wanted:
            if not outward.over:
                self._connecting.begin(outward)

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

    def _wait_for_idle(self) -> None:
        self._idle_from = self._broker.durable_through
        self._idle_timer = self._loop.call_later(self.idle_s, self.on_idle)

    def on_idle(self) -> None:
        """If nothing has been written for a while, tell readers beside us that the last block is durable.

        If something has, whoever sends one message at a time is between two of them: that block would make
        the next wait, and the next tells readers as well. Where the disk is short, the block may make room.
        """
        self._idle_timer = None
        self._watch_maintenance()
        self._watch_clock()
        self.turns.go_on()
        if self._ledger.space_short:
            self.turns.schedule()  # the turn's end asks whether there is room again
        busy, short = self._broker.durable_through != self._idle_from, self._ledger.space_short
        if self.failure is None and self._broker.idle() and (short or not busy):
            self._guarded(self._mark_idle)
        if busy or short or self._ledger.behind or self._ledger.maintenance_error is not None:
            self._wait_for_idle()  # nothing else would look again

    def _mark_idle(self) -> None:
        self._ledger.mark_idle()
        self._take_written()

    def _watch_maintenance(self) -> None:
        failure, error = self._ledger.maintenance_failure, self._ledger.maintenance_error
        if failure is not None and self.failure is None:
            self.fail(failure)
        elif error is not None:
            self._broker.alarms.begin(MAINTENANCE_STOPPED, str(error), self.clock.now_us())
        else:
            self._broker.alarms.end(MAINTENANCE_STOPPED, self.clock.now_us())

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
