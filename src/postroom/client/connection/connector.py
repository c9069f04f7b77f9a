"""Opening a connection to one broker: socket, TLS, which says whom to trust, sign-in, open."""

from __future__ import annotations

import asyncio
import ssl
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from postroom.amqp.engine.options import ConnectionOptions
from postroom.amqp.frames.sasl import ANONYMOUS
from postroom.client.connection.options import FactoryOptions
from postroom.client.connection.sign_in import ScramSignIn
from postroom.client.connection.transport import Transport
from postroom.client.connection.url import BrokerUrl
from postroom.client.exceptions import ConnectionLostException, JMSSecurityException, JMSTimeoutException

BROKEN_OFF: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""The other end went away during the handshake: no word against the certificate."""


@dataclass(frozen=True, kw_only=True)
class TlsOptions:
    """Files in PEM format. What is more special than this is an ``ssl.SSLContext``, which is taken in its
    place.
    """

    ca_file: str | Path | None = None
    """Certificates of those whose word is trusted; None: those that the system trusts."""
    certificate_file: str | Path | None = None
    """The client's own certificate (and those between it and its root): some brokers ask for one."""
    key_file: str | Path | None = None
    """Its private key; None: it is in `certificate_file`."""
    key_password: str | None = None
    verify_host: bool = True
    """The broker's certificate must be for the host of the URL."""

    def context(self) -> ssl.SSLContext:
        """Raises JMSSecurityException for a file that isn't there, or isn't what it should be."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise JMSSecurityException(f"certificates to trust, {self.ca_file}: {error}") from error
        context.check_hostname = self.verify_host
        if self.certificate_file is not None:
            try:
                context.load_cert_chain(self.certificate_file, self.key_file, self._password)
            except (OSError, ssl.SSLError) as error:
                raise JMSSecurityException(f"certificate {self.certificate_file}: {error}") from error
        return context

    def _password(self) -> str:
        """Never asks at the terminal."""
        return self.key_password or ""


@dataclass
class Connector:
    """What all connections of one factory's connection have in common."""

    options: FactoryOptions
    tls: ssl.SSLContext | None
    container_id: str = field(init=False)

    def __post_init__(self) -> None:
        self.container_id = self.options.client_id or f"postroom-{uuid.uuid4()}"

    async def connect(self, broker: BrokerUrl) -> Transport:
        """Connect, sign in and open.

        Raises ConnectionLostException, JMSSecurityException, InvalidClientIDException, JMSTimeoutException.
        """
        try:
            async with asyncio.timeout(self.options.connect_timeout_s):
                return await self._open(broker)
        except TimeoutError:
            raise JMSTimeoutException(
                f"no answer from {broker} within {self.options.connect_timeout_s} s"
            ) from None

    async def _open(self, broker: BrokerUrl) -> Transport:
        loop = asyncio.get_running_loop()
        try:
            _, transport = await loop.create_connection(
                lambda: Transport(self._options(broker), self.options.client_id is not None),
                broker.host,
                broker.port,
                ssl=(self.tls or ssl.create_default_context()) if broker.tls else None,
            )
        except BROKEN_OFF as error:
            raise ConnectionLostException(f"{broker} broke off the TLS handshake: {error}") from error
        except ssl.SSLError as error:
            raise JMSSecurityException(f"no TLS with {broker}: {error}") from error
        except OSError as error:
            raise ConnectionLostException(f"can't connect to {broker}: {error}") from error
        try:
            await transport.opened()
        except BaseException:
            transport.abort()
            raise
        return transport

    def _options(self, broker: BrokerUrl) -> ConnectionOptions:
        return ConnectionOptions(
            server=False,
            container_id=self.container_id,
            hostname=broker.host,
            sasl_mechanisms=[ANONYMOUS] if broker.user is None else list(self.options.sasl_mechanisms),
            username=broker.user or "",
            password=broker.password,
            sasl_client=None if broker.user is None else ScramSignIn(broker.user, broker.password),
            idle_timeout_ms=self.options.idle_timeout_ms,
            max_frame_size_bytes=self.options.max_frame_size_bytes,
        )
