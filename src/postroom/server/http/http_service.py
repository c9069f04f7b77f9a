"""From the configuration to a broker that serves HTTP, in a thread with a loop of its own.

Its libraries are imported in that thread: no broker starts later for it.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from postroom.ledger.ledger import Ledger
from postroom.manager.security.acts import Act
from postroom.server.configuration.config import Config
from postroom.server.connection.broker import Broker
from postroom.server.exits import StartError
from postroom.server.http.front import Front
from postroom.server.http.health import GetReport
from postroom.server.http.tokens import TokensError, read_tokens, tokens_file
from postroom.server.listening.listeners import Listener
from postroom.server.logs import log
from postroom.server.status import ACTIVE
from postroom.server.threads import TendedThread
from postroom.server.tracing.tracer import Tracer

if TYPE_CHECKING:
    from postroom.server.http.application import Application
    from postroom.server.http.http_server import HttpServer
    from postroom.server.http.route_group import RouteGroup, Shared


class Http:
    """The broker over HTTP, from the bound sockets to the end; nothing where the configuration has none."""

    def __init__(self, config: Config, more_parts: "Callable[[Shared], list[RouteGroup]]") -> None:
        """Binds the address; raises `StartError` where it can't be had or the certificate can't be used. The
        one that is served where nothing is configured may be another's: then it goes without.

        ``more_parts`` are of the rooms above: the console.
        """
        self._config: Final = config
        self._more_parts: Final = more_parts
        self._http: Final = config.http_served
        self.listener = self._bound()
        self._front: Front | None = None
        self._compose: Callable[[], Application] | None = None
        self._application: Application | None = None
        self._server: HttpServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.thread: Final = TendedThread("postroom-http", self._run)
        self._failure: Exception | None = None
        """Why the application couldn't be made."""
        self._lock: Final = threading.Lock()
        """Of what both threads look at: what is to be composed, the loop, and the end."""
        self._is_over = False

    def _bound(self) -> Listener | None:
        if self._http is None:
            return None
        try:
            return Listener(self._http.listen())
        except StartError as error:
            self._go_without(error)
            return None

    def _go_without(self, error: StartError) -> None:
        """HTTP, where nothing is configured; raises the error again where something is."""
        if self._config.http is not None:
            raise error
        what = f"{error}: serve --http HOST:PORT is another place, --http off none"
        log(logging.WARNING, "http-not-served", reason=what)

    def listen(self) -> list[str]:
        """Take connections from now on, to be answered after `begin` or `start`; the URLs. Raises
        `StartError` where another listens there by now."""
        if self.listener is None:
            return []
        try:
            self.listener.listen()
        except StartError as error:
            self._go_without(error)
            self.listener.close()
            self.listener = None
            return []
        return self.listener.http_urls()

    def begin(self, report: GetReport) -> None:
        """Answer probes from now on, and refuse all else until `start`; ``report``: how the process is."""
        config, listener = self._http, self.listener
        if config is None or listener is None or self._front is not None:
            return
        replication = self._config.replication
        names_active = config.serves_open_health or (replication is not None and replication.redirect)
        if not self.listen():
            return
        self._front = Front(report, config.serves_open_health, names_active)
        self.thread.start()

    def start(
        self,
        broker: Broker,
        ledger: Ledger,
        listeners: list[Listener],
        command: Callable[[Callable[[int], object]], None],
        report: GetReport | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """Serve that broker, and tell of the certificates of its ``listeners`` and of its ``tracer``.

        ``command`` has the broker's own thread do something with the time.
        """
        config, listener = self._http, self.listener
        if config is None or listener is None:
            return
        file = tokens_file(config, self._config.data_folder)
        try:
            read_tokens(file)
        except TokensError as error:
            log(logging.ERROR, "tokens-unusable", reason=str(error))
        shown = report or (lambda: {"state": ACTIVE, "urls": [""], "space_low": broker.space_low})

        def compose() -> "Application":
            from postroom.server.http.application import Application
            from postroom.server.http.composition import route_groups, shared_parts
            from postroom.server.http.http_counters import HttpCounters

            all_listeners = [*listeners, listener]
            shared = shared_parts(self._config, config, broker, ledger, all_listeners, command, shown, tracer)
            groups = [*route_groups(shared), *self._more_parts(shared)]
            return Application(config, groups, HttpCounters(shared.registry))

        with self._lock:
            self._compose = compose
            loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._hand_over)
        self.begin(shown)

    def stop(self) -> None:
        """Answers end, for a short while; then no more is read."""
        with self._lock:
            self._is_over = True
            server = self._server
        if server is not None:
            server.stop()
        if self.listener is not None:
            self.listener.close()  # the server has descriptors of its own
        self.thread.join()
        if self._application is not None:
            self._application.close()

    # In the thread.

    def _run(self) -> None:
        asyncio.run(self._serve())
        if self._failure is not None:
            raise self._failure

    async def _serve(self) -> None:
        from postroom.server.http.http_server import HttpServer

        config, listener, front = self._http, self.listener, self._front
        assert config is not None and listener is not None and front is not None
        server = HttpServer(front, config, listener, self._refused)
        with self._lock:
            if self._is_over:
                return
            self._failure = None
            self._server, self._loop = server, asyncio.get_running_loop()
            is_ready = self._compose is not None
        if is_ready:
            self._hand_over()
        await server.serve()

    def _hand_over(self) -> None:
        """The application answers from now on."""
        if self._application is not None or self._compose is None or self._front is None:
            return
        try:
            self._application = self._compose()
            self._front.application = self._application.as_asgi()
        except Exception as error:  # of a callback of the loop: the thread begins again
            self._failure = error
            if self._server is not None:
                self._server.stop()

    def _refused(self, act: Act) -> None:
        """A TLS handshake was: have that recorded."""
        if self._application is not None:
            self._application.record(act)
