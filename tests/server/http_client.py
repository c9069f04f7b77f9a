"""A small HTTP client for tests, and a broker that serves HTTP."""

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from postroom.server.configuration.http import HttpConfig
from postroom.server.http.tokens import TOKENS_NAME, Right, add_token
from tests.server.harness import BrokerThread, make_config

TIMEOUT_S = 15


@dataclass(frozen=True)
class Answered:
    """One answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


def get(
    url: str,
    path: str,
    token: str = "",
    method: str = "GET",
    body: bytes | None = None,
    tls: ssl.SSLContext | None = None,
    **headers: str,
) -> Answered:
    """One request on a connection of its own."""
    split = urlsplit(url)
    assert split.hostname is not None
    connection: http.client.HTTPConnection = (
        http.client.HTTPSConnection(split.hostname, split.port, timeout=TIMEOUT_S, context=tls)
        if split.scheme == "https"
        else http.client.HTTPConnection(split.hostname, split.port, timeout=TIMEOUT_S)
    )
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        sent["authorization"] = f"Bearer {token}"
    try:
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        return Answered(
            answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        )
    finally:
        connection.close()


@dataclass(frozen=True)
class Served:
    """A broker, where it serves HTTP, its folder, and tokens: for the ledger, and for the metrics."""

    broker: BrokerThread
    url: str
    folder: Path
    token: str
    metrics_token: str

    def get(self, path: str, **more: Any) -> Answered:
        return get(self.url, path, **({"token": self.token} | more))


@contextmanager
def serving(folder: Path, http_config: HttpConfig | None = None, **changes: object) -> Iterator[Served]:
    """A broker that serves HTTP on any free port."""
    folder.mkdir(exist_ok=True)
    tokens = folder / TOKENS_NAME
    ledger, metrics = (
        add_token(tokens, "spark", [Right.LEDGER]),
        add_token(tokens, "prometheus", [Right.METRICS]),
    )
    config = make_config(http=http_config or HttpConfig(address="127.0.0.1:0"), **changes)
    with BrokerThread(config, folder=folder) as broker:
        yield Served(broker, broker.http_urls[0], folder, ledger, metrics)
