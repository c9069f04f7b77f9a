"""From the configuration to a broker that serves HTTP."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from postroom.ledger.ledger import Ledger
from postroom.server.configuration.config import Config
from postroom.server.connection.broker import Broker
from postroom.server.http.tokens import TokensError, read_tokens, tokens_file
from postroom.server.listening.listeners import Listener
from postroom.server.logs import log

if TYPE_CHECKING:
    from postroom.server.http.application import Application
    from postroom.server.http.http_server import HttpServer


class Http:
    """The broker over HTTP, from the bound sockets to the end; nothing where the configuration has none."""

    def __init__(self, config: Config) -> None:
        """Binds the address; raises `StartError` where it can't be had or the certificate can't be used."""
        self._config: Final = config
        self.listener: Final = None if config.http is None else Listener(config.http.listen())
        self._application: Application | None = None
        self._server: HttpServer | None = None

    def start(
        self,
        broker: Broker,
        ledger: Ledger,
        listeners: list[Listener],
        command: Callable[[Callable[[int], object]], None],
    ) -> list[str]:
        """Serve that broker, and tell of the certificates of its ``listeners``; the URLs.

        ``command`` has the broker's own thread do something with the time.
        """
        config, listener = self._config.http, self.listener
        if config is None or listener is None:
            return []
        # Imported here: who serves no HTTP starts in half the time.
        from postroom.server.http.application import Application
        from postroom.server.http.composition import route_groups, shared_parts
        from postroom.server.http.http_server import HttpServer
        from postroom.server.http.metrics import HttpCounters

        file = tokens_file(config, self._config.data_folder)
        try:
            read_tokens(file)
        except TokensError as error:
            log(logging.ERROR, "tokens-unusable", reason=str(error))
        shared = shared_parts(self._config, config, broker, ledger, [*listeners, listener], command)
        self._application = Application(config, route_groups(shared), HttpCounters(shared.registry))
        app = self._application.as_asgi()
        self._server = HttpServer(app, config, listener, shared.admission.callers.record)
        self._server.start()
        return self._server.addresses()

    def stop(self) -> None:
        """Answers end, for a short while; then no more is read."""
        if self._server is not None:
            self._server.stop()
        if self._application is not None:
            self._application.close()
        if self.listener is not None:
            self.listener.close()
