"""From the configuration to a broker that serves HTTP."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from postroom.ledger.ledger import Ledger
from postroom.server.addresses import split_address
from postroom.server.configuration.config import Config, ListenConfig
from postroom.server.configuration.http import DEFAULT_HTTP_PORT, HttpConfig
from postroom.server.connection.broker import Broker
from postroom.server.http.tokens import TOKENS_NAME, Tokens, TokensError, read_tokens
from postroom.server.listening.listeners import Listener
from postroom.server.logs import log

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
        self._listener = None if config.http is None else Listener(_listen(config.http))
        self._application: Application | None = None
        self._server: HttpServer | None = None

    def start(self, broker: Broker, ledger: Ledger) -> list[str]:
        """Serve that broker; the URLs."""
        config, listener = self._config.http, self._listener
        if config is None or listener is None:
            return []
        # Imported here: who serves no HTTP starts in half the time.
        from prometheus_client import CollectorRegistry

        from postroom.server.http.application import Application
        from postroom.server.http.http_server import HttpServer
        from postroom.server.http.ledger_view import LedgerView
        from postroom.server.http.metrics import BrokerCollector

        file = tokens_file(config, self._config.data_folder)
        try:
            read_tokens(file)
        except TokensError as error:
            log(logging.ERROR, "tokens-unusable", reason=str(error))
        registry = CollectorRegistry()
        registry.register(BrokerCollector(broker, ledger))
        ledger_view = LedgerView(self._config.data_folder, lambda: ledger.durable_through)
        self._application = Application(config, Tokens(file), ledger_view, registry)
        app = self._application.as_asgi()
        self._server = HttpServer(app, config, listener.sockets, listener.tls)
        self._server.start()
        return self._server.addresses()

    def stop(self) -> None:
        """Answers end, for a short while; then no more is read."""
        if self._server is not None:
            self._server.stop()
        if self._application is not None:
            self._application.close()
        if self._listener is not None:
            self._listener.close()


def _listen(config: HttpConfig) -> ListenConfig:
    host, port = split_address(config.address, DEFAULT_HTTP_PORT)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return ListenConfig(address=address, tls_certificate=config.tls_certificate, tls_key=config.tls_key)
