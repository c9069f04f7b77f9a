"""A member that follows sends clients on to the active one (AMQP part 2, section 2.8.16).

Nobody signs in here: who the users are is in the ledger, which a follower only copies. So ANONYMOUS is all
that is offered, no password travels, and each connection is answered with open and close. WebSocket's
listeners stay closed.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, Self, cast
from urllib.parse import urlsplit

from postroom.amqp.encoding.composite import Error
from postroom.amqp.encoding.types import Symbol
from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.events import Opened, SaslInitReceived
from postroom.amqp.engine.options import NEVER_US, ConnectionOptions
from postroom.amqp.errors import CONNECTION_REDIRECT
from postroom.amqp.extensions import ESTABLISHMENT_FAILED
from postroom.amqp.frames.sasl import ANONYMOUS
from postroom.manager.security.acts import Act
from postroom.server.clock import monotonic_us
from postroom.server.configuration.config import Config
from postroom.server.listening.listeners import LISTEN_BACKLOG, Listener

if TYPE_CHECKING:
    from postroom.server.listening.tls_server import TlsServer

DEFAULT_PORTS: Final = {"amqp": 5672, "amqps": 5671}

Target = tuple[str, int]
"""Host and port of the active member."""


def target_among(urls: Iterable[str], scheme: str) -> Target | None:
    """The first of the active member's URLs of that scheme; None where it has none."""
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme == scheme and parts.hostname:
            return parts.hostname, parts.port or DEFAULT_PORTS[scheme]
    return None


class RedirectedConnection(asyncio.Protocol):
    """One client's connection, until it has heard where the active member is."""

    def __init__(self, owner: "Redirection", options: ConnectionOptions, scheme: str) -> None:
        self._owner: Final = owner
        self._scheme: Final = scheme
        self._target: Target | None = None
        self._engine: Final = Connection(options, monotonic_us())
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has all of it, but is no subclass
        self._target = self._owner.admit(self, self._scheme)
        if self._target is None:
            self._transport.abort()
        else:
            self._arm_timer()

    def data_received(self, data: bytes) -> None:
        for event in self._engine.receive_data(data, monotonic_us()):
            if isinstance(event, SaslInitReceived):
                self._engine.sasl_accept()
            elif isinstance(event, Opened):
                self._redirect()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        self._owner.forget(self)

    def abort(self) -> None:
        """Cut the socket at once."""
        if self._transport is not None:
            self._transport.abort()

    def _redirect(self) -> None:
        assert self._target is not None
        host, port = self._target
        info: dict[object, object] = {"hostname": host, "network-host": host, "port": port}
        what = f"this member of the queue manager follows: the active one is at {host}:{port}"
        self._engine.open(properties={Symbol(ESTABLISHMENT_FAILED): True})
        self._engine.close(Error(CONNECTION_REDIRECT, what, info))

    def _flush(self) -> None:
        if self._transport is None:
            return
        self._transport.write(self._engine.data_to_send())
        if self._engine.finished:
            self._transport.close()

    def _arm_timer(self) -> None:
        due_us = self._engine.next_deadline_us()
        if due_us != NEVER_US:
            wait_s = max(0, due_us - monotonic_us()) / 1e6
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_timer)

    def _on_timer(self) -> None:
        self._engine.on_time(monotonic_us())
        self._flush()
        self._arm_timer()


class Redirection:
    """Listens on the addresses of a broker that doesn't serve clients yet, while it is entered.

    The listeners' own sockets stay open, and go on to queue connections, for the broker that comes after.
    """

    def __init__(
        self, config: Config, listeners: list[Listener], active_urls: Callable[[], list[str]]
    ) -> None:
        """``active_urls``: where clients reach the active member, as far as it is known."""
        self._limits: Final = config.limits
        self._container_id: Final = config.container_id
        self._listeners: Final = [each for each in listeners if each.config.websocket is None]
        self._active_urls: Final = active_urls
        self._servers: Final[list[asyncio.Server | TlsServer]] = []
        self._connections: Final[set[RedirectedConnection]] = set()

    async def __aenter__(self) -> Self:
        for listener in self._listeners:
            listener.listen()
            for bound in listener.sockets:
                self._servers.append(await self._listen(listener, bound.dup()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.abort()

    async def _listen(self, listener: Listener, bound: socket.socket) -> "asyncio.Server | TlsServer":
        scheme = urlsplit(listener.url("")).scheme
        options = ConnectionOptions(
            server=True,
            container_id=self._container_id,
            sasl_mechanisms=[ANONYMOUS],
            max_frame_size_bytes=self._limits.max_frame_bytes,
            idle_timeout_ms=self._limits.idle_timeout_ms,
            handshake_timeout_ms=self._limits.open_timeout_ms,
        )
        make = partial(RedirectedConnection, self, options, scheme)
        if listener.tls is None:
            return await asyncio.get_running_loop().create_server(make, sock=bound, backlog=LISTEN_BACKLOG)
        # Imported here: who has no TLS starts sooner.
        from postroom.server.listening.tls_server import TlsServer

        return TlsServer(bound, listener.tls, make, _unrecorded, listener.config.address)

    def admit(self, connection: RedirectedConnection, scheme: str) -> Target | None:
        """Where it is sent; None where that isn't known, or there are too many: it is cut off, and tries
        another member."""
        if len(self._connections) >= self._limits.max_connections:
            return None
        target = target_among(self._active_urls(), scheme)
        if target is not None:
            self._connections.add(connection)
        return target

    def forget(self, connection: RedirectedConnection) -> None:
        """It has ended."""
        self._connections.discard(connection)


def _unrecorded(_: Act) -> None:
    """Acts are records of the ledger, which a follower only copies; the log has the refusal."""
