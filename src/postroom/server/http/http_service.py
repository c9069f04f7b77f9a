"""From the configuration to a broker that serves HTTP."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from postroom.ledger.ledger import Ledger
from postroom.server.configuration.config import Config
from postroom.server.configuration.http import HttpConfig
from postroom.server.connection.broker import Broker
from postroom.server.http.tokens import TOKENS_NAME, Tokens, TokensError, read_tokens
from postroom.server.listening.listeners import Listener
from postroom.server.logs import log
from postroom.server.tracing.tracer import Tracer

if TYPE_CHECKING:
    from postroom.server.http.application import Application
    from postroom.server.http.http_server import HttpServer


def tokens_file(config: HttpConfig, data_folder: Path) -> Path:
    """Where the tokens are."""
    return Path(config.tokens) if config.tokens else data_folder / TOKENS_NAME


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
        tracer: Tracer | None = None,
    ) -> list[str]:
        """Serve that broker, and tell of the certificates of its ``listeners`` and of its ``tracer``; the
        URLs.

        ``command`` has the broker's own thread do something with the time.
        """
        config, listener = self._config.http, self.listener
        if config is None or listener is None:
            return []
        # Imported here: who serves no HTTP starts in half the time.
        from prometheus_client import CollectorRegistry

        from postroom.server.http.application import Application
        from postroom.server.http.callers import Callers
        from postroom.server.http.http_server import HttpServer
        from postroom.server.http.ledger_view import LedgerView
        from postroom.server.http.metrics import BrokerCollector
        from postroom.server.http.queue_ages import QueueAges
        from postroom.server.http.trace_metrics import TraceCollector

        file = tokens_file(config, self._config.data_folder)
        try:
            read_tokens(file)
        except TokensError as error:
            log(logging.ERROR, "tokens-unusable", reason=str(error))
        registry = CollectorRegistry()
        ages = QueueAges(broker, self._config.data_folder, command)
        registry.register(BrokerCollector(broker, ledger, [*listeners, listener], ages))
        if tracer is not None:
            registry.register(TraceCollector(tracer))
        ledger_view = LedgerView(self._config.data_folder, lambda: ledger.durable_through)
        callers = Callers(Tokens(file), broker.access, command)
        self._application = Application(config, callers, ledger_view, registry)
        app = self._application.as_asgi()
        self._server = HttpServer(app, config, listener, callers.record)
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
