"""Opening the broker's own connections: files of credentials, TLS, sockets.

What is wrong with a file or a certificate stays wrong and is said to be lasting; a partner that can't be
reached isn't.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from postroom.server.channels.outbound_connection import Outward, Secrets
from postroom.server.configuration.channels import CredentialsConfig
from postroom.server.logs import log
from postroom.server.tls import no_password, restricted

MAX_PASSWORD_FILE_BYTES: Final = 64 << 10

Open = Callable[[Outward, ssl.SSLContext | None], Awaitable[object]]


class CredentialsUnusable(Exception):
    """A file of credentials can't be used; the text says which, and what is wrong."""


def load(
    credentials: Mapping[str, CredentialsConfig], outward: Outward
) -> tuple[Secrets, ssl.SSLContext | None]:
    """How to sign in, and TLS where it is wanted. Reads files; raises `CredentialsUnusable`."""
    name = outward.credentials
    if name and name not in credentials:
        raise CredentialsUnusable(f"the configuration has no table [credentials.{name}]")
    known = credentials[name] if name else CredentialsConfig()
    tls = _tls_context(known) if outward.tls else None
    password = _password(Path(known.password_file)) if known.password_file else ""
    return Secrets(known.user, password, bool(known.cert_file) and outward.tls), tls


def _password(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            lines = stream.read(MAX_PASSWORD_FILE_BYTES).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsUnusable(f"password file {file} can't be read: {_reason(error)}") from error
    if not lines or not lines[0]:
        raise CredentialsUnusable(f"password file {file}: its first line is empty, must be the password")
    return lines[0]


def _tls_context(known: CredentialsConfig) -> ssl.SSLContext:
    try:
        context = restricted(ssl.create_default_context(cafile=known.ca_file or None))
    except OSError as error:
        what = f"authorities {known.ca_file} can't be used: {_reason(error)}"
        raise CredentialsUnusable(what) from error
    if known.cert_file:
        try:
            context.load_cert_chain(known.cert_file, known.key_file or None, no_password)
        except OSError as error:
            what = f"certificate {known.cert_file} can't be used: {_reason(error)}"
            raise CredentialsUnusable(what) from error
    return context


class Connecting:
    """Opens what is wanted, each in a task of its own."""

    def __init__(
        self,
        credentials: Mapping[str, CredentialsConfig],
        timeout_s: float,
        open_socket: Open,
        failed: Callable[[Outward, str, bool], None],
    ) -> None:
        """``open_socket`` makes the socket and its binding; ``failed`` is told why there is none, and whether
        trying again is in vain.
        """
        self._credentials: Final = credentials
        self._timeout_s: Final = timeout_s
        self._open_socket: Final = open_socket
        self._failed: Final = failed
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    def begin(self, outward: Outward) -> None:
        """Open it."""
        task = asyncio.get_running_loop().create_task(self._open(outward))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Open nothing any more."""
        for task in self._tasks:
            task.cancel()

    async def _open(self, outward: Outward) -> None:
        """One address after the other. Trying again is in vain only if it is so at all of them."""
        failures: dict[str, bool] = {}
        for address in outward.addresses:
            outward.address = address
            failure = await self._try(outward)
            if failure is None or outward.over:
                return
            what, is_lasting = failure
            failures[what] = is_lasting
        self._failed(outward, "; ".join(failures), all(failures.values()))

    async def _try(self, outward: Outward) -> tuple[str, bool] | None:
        """Open the way to its address; why there is none, and whether that will last."""
        address = outward.address
        try:
            async with asyncio.timeout(self._timeout_s):
                outward.secrets, tls = await asyncio.to_thread(load, self._credentials, outward)
                await self._open_socket(outward, tls)
        except CredentialsUnusable as error:
            return str(error), True
        except ssl.SSLCertVerificationError as error:
            return f"{address}: its certificate is not trusted: {error.verify_message}", True
        except TimeoutError:
            return f"{address} has not answered within {self._timeout_s:g} s", False
        except OSError as error:
            return f"can't connect to {address}: {_reason(error)}", False
        except Exception as error:  # a name that no resolver takes, for instance
            log(logging.ERROR, "internal-error", address=address, reason=repr(error))
            return f"can't connect to {address}: {error!r}", True
        return None


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
