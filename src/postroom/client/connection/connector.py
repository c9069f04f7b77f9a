"""Opening a connection to one broker: socket, TLS, which says whom to trust, sign-in, open."""

from __future__ import annotations

import asyncio
import os
import ssl
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from postroom.amqp.engine.options import ConnectionOptions, SaslClient
from postroom.amqp.frames.sasl import ANONYMOUS, EXTERNAL, TOKEN_MECHANISMS, binds_channel
from postroom.client.connection.options import FactoryOptions
from postroom.client.connection.sign_in import USER_MECHANISMS, ScramSignIn, TokenSignIn
from postroom.client.connection.transport import Transport
from postroom.client.connection.url import BrokerUrl
from postroom.client.exceptions import ConnectionLostException, JMSSecurityException, JMSTimeoutException

CERTIFICATE_VARIABLE: Final = "POSTROOM_CERTIFICATE"
KEY_VARIABLE: Final = "POSTROOM_KEY"
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

    @classmethod
    def of_environment(cls) -> TlsOptions:
        """As commands have it: the client's certificate and key are where two variables say, and
        ``SSL_CERT_FILE`` says whom to trust; that one is OpenSSL's own."""
        certificate, key = map(os.environ.get, (CERTIFICATE_VARIABLE, KEY_VARIABLE))
        return cls(certificate_file=certificate or None, key_file=key or None)

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
    has_certificate: bool = False
    """Whether the client is known to show a certificate of its own."""
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
        options = self._options(broker)
        try:
            _, transport = await loop.create_connection(
                lambda: Transport(options, self.options.client_id is not None),
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

    def _sign_in(self, broker: BrokerUrl, mechanisms: list[str]) -> SaslClient | None:
        if broker.user is None:
            return None
        if mechanisms[0] in TOKEN_MECHANISMS:
            return TokenSignIn(broker.user, broker.password, broker.host)
        return ScramSignIn(broker.user, broker.password, mechanisms)

    def _options(self, broker: BrokerUrl) -> ConnectionOptions:
        mechanisms = self._mechanisms(broker)
        return ConnectionOptions(
            server=False,
            container_id=self.container_id,
            hostname=broker.host,
            sasl_mechanisms=mechanisms,
            username=broker.user or "",
            password=broker.password,
            sasl_client=self._sign_in(broker, mechanisms),
            idle_timeout_ms=self.options.idle_timeout_ms,
            max_frame_size_bytes=self.options.max_frame_size_bytes,
        )

    def _mechanisms(self, broker: BrokerUrl) -> list[str]:
        """By what to sign in, best first: a user's name and password before a certificate."""
        named = self.options.sasl_mechanisms
        if broker.user is not None:
            wanted = named or USER_MECHANISMS
            usable = [each for each in wanted if broker.tls or not binds_channel(each)]
            if not usable:
                raise JMSSecurityException(f"{', '.join(wanted)} with {broker}: only TLS can be bound to")
            # A member that follows signs nobody in, and redirects: `Transport` lets nothing else pass.
            return usable if named else [*usable, ANONYMOUS]
        if EXTERNAL in named:
            return [EXTERNAL]
        return [EXTERNAL, ANONYMOUS] if self.has_certificate and broker.tls and not named else [ANONYMOUS]
