"""Whom to trust, and as whom to come, over TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from postroom.client.exceptions import JMSSecurityException


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
        context = self._trusting()
        context.check_hostname = self.verify_host
        if self.certificate_file is not None:
            try:
                context.load_cert_chain(self.certificate_file, self.key_file, self._password)
            except (OSError, ssl.SSLError) as error:
                raise JMSSecurityException(f"certificate {self.certificate_file}: {error}") from error
        return context

    def _trusting(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise JMSSecurityException(f"certificates to trust, {self.ca_file}: {error}") from error

    def _password(self) -> str:
        """Never asks at the terminal."""
        return self.key_password or ""
