"""The server of HTTP, with protocol bounds that uvicorn doesn't have."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from postroom.manager.security.acts import Act
from postroom.server.configuration.http import HttpConfig
from postroom.server.listening.listeners import Listener

MAX_HEAD_BYTES: Final = 16 << 10
"""Of a request: its line and its headers."""
STOP_GRACE_S: Final = 2
"""Time that answers have to end when the broker stops."""


class BoundedConnection(H11Protocol):
    """A connection that is cut when its request doesn't come, or its answer isn't taken."""

    def __init__(self, config: uvicorn.Config, server_state: ServerState, *rest: Any, **more: Any) -> None:
        super().__init__(config, server_state, *rest, **more)
        assert isinstance(config, BoundedConfig)
        self._http = config.http_config
        self._cut: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _send_at_once(transport)
        self._cut_after(self._http.request_timeout_ms)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cut_after(0)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused:
            self._cut_after(0)

    def on_response_complete(self) -> None:
        self._cut_after(self._http.request_timeout_ms)
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._cut_after(self._http.send_timeout_ms)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cut_after(0 if self._answers() else self._http.request_timeout_ms)

    def _answers(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _cut_after(self, timeout_ms: int) -> None:
        """Cut the connection then, unless told otherwise before; 0: don't."""
        if self._cut is not None:
            self._cut.cancel()
            self._cut = None
        if timeout_ms and not self.transport.is_closing():
            self._cut = self.loop.call_later(timeout_ms / 1000, self.transport.abort)


def _send_at_once(transport: asyncio.Transport) -> None:
    """An answer's head and body are two writes: the second would wait for the peer's delayed acknowledgement.

    asyncio does this only where a socket was made with the protocol's number, which ours are not.
    """
    bound = transport.get_extra_info("socket")
    if bound is not None:
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class BoundedConfig(uvicorn.Config):
    """uvicorn's configuration, and ours for its connections."""

    def __init__(self, app: ASGIApp, http_config: HttpConfig) -> None:
        self.http_config: Final = http_config
        super().__init__(
            app,
            http=BoundedConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=http_config.max_connections + 1,
            timeout_keep_alive=max(1, http_config.request_timeout_ms // 1000),
            timeout_graceful_shutdown=STOP_GRACE_S,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        )


class TlsHttpServer(uvicorn.Server):
    """One that has its connections, with TLS, from `TlsServer`."""

    def __init__(self, config: BoundedConfig, tls: ssl.SSLContext, refused: Callable[[Act], object]) -> None:
        super().__init__(config)
        self._tls: Final = tls
        self._refused: Final = refused

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        from postroom.server.listening.tls_server import TlsServer

        await super().startup([])
        assert isinstance(self.config, BoundedConfig)
        address = self.config.http_config.address
        for each in sockets or []:
            made = TlsServer(each, self._tls, self._connection, self._refused, address)
            self.servers.append(cast(asyncio.Server, made))

    def _connection(self) -> asyncio.Protocol:
        return BoundedConnection(self.config, self.server_state, self.lifespan.state)


class HttpServer:
    """Serves an application on the bound sockets of a listener; made and run in a thread of its own."""

    def __init__(
        self, app: ASGIApp, config: HttpConfig, listener: Listener, refused: Callable[[Act], object]
    ) -> None:
        """``refused`` is told of TLS handshakes that are."""
        tls, bounded = listener.tls, BoundedConfig(app, config)
        self._server: Final = uvicorn.Server(bounded) if tls is None else TlsHttpServer(bounded, tls, refused)
        self._sockets: Final = listener.sockets
        # Its warnings are about what peers send, and go without the form of our log.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    async def serve(self) -> None:
        """Until `stop`; the listener's sockets stay open."""
        await self._server.serve([each.dup() for each in self._sockets])

    def stop(self) -> None:
        """From any thread: let answers end, for a short while, and end."""
        self._server.should_exit = True
