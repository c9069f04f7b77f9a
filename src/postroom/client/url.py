"""Addresses of brokers: ``amqp://user:password@host:port``, or ``amqps://`` for TLS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

DEFAULT_PORT: Final = 5672
DEFAULT_TLS_PORT: Final = 5671
PLAIN_SCHEME: Final = "amqp"
TLS_SCHEME: Final = "amqps"
DEFAULT_PORTS: Final = {PLAIN_SCHEME: DEFAULT_PORT, TLS_SCHEME: DEFAULT_TLS_PORT}


@dataclass(frozen=True, kw_only=True)
class BrokerUrl:
    """Where a broker listens, and as whom to sign in (``user`` None: ANONYMOUS)."""

    host: str
    port: int = DEFAULT_PORT
    user: str | None = None
    password: str = ""
    tls: bool = False

    @classmethod
    def parse(cls, url: str) -> BrokerUrl:
        """Read ``amqp[s]://[user[:password]@]host[:port]``; user and password are percent-encoded.

        Raises ValueError that says which part is wrong; the password is never part of the text.
        """
        parts = urlsplit(url if "://" in url else f"amqp://{url}")
        if parts.scheme not in DEFAULT_PORTS:
            raise ValueError(
                f"scheme {parts.scheme!r} of the broker's URL is not known; use amqp://host:port or amqps://host:port"
            )
        if not parts.hostname:
            raise ValueError("the broker's URL has no host; use amqp://host:port")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError("the broker's URL ends with the port; it has no path, query or fragment")
        try:
            port = parts.port
        except ValueError as error:
            raise ValueError(f"the port of the broker's URL is no number from 1 to 65535: {error}") from None
        return cls(
            host=parts.hostname,
            port=DEFAULT_PORTS[parts.scheme] if port is None else port,
            user=unquote(parts.username) if parts.username is not None else None,
            password=unquote(parts.password or ""),
            tls=parts.scheme == TLS_SCHEME,
        )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{TLS_SCHEME if self.tls else PLAIN_SCHEME}://{host}:{self.port}"
