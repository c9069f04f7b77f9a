"""Takes connections with TLS, and tells of handshakes that this end refuses: whose they were, and why.

Servers of event loops keep that to themselves, so each connection is accepted here, and its handshake waited
for in a task of its own.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from postroom.manager.security.acts import SIGN_IN, Act
from postroom.server.access.access import UNAUTHORIZED
from postroom.server.logs import log

LISTENER: Final = "listener"
"""Type of what acts of refused handshakes are about; their name is its address."""
SHORT_OF: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What accepting may want for, until connections end."""
RETRY_S: Final = 1.0
ALERT: Final = "_ALERT_"
"""In OpenSSL's reasons for what the other end has said: then it is who refuses."""
REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no client certificate was shown",
    "UNSUPPORTED_PROTOCOL": "its TLS is too old: 1.2 or 1.3 is spoken here",
    "NO_SHARED_CIPHER": "it has none of the ciphers that are spoken here",
    "HTTP_REQUEST": "it speaks HTTP without TLS",
    "WRONG_VERSION_NUMBER": "it speaks no TLS",
}
"""OpenSSL's, in words; others speak for themselves."""


def refused_handshake(error: ssl.SSLError) -> str:
    """Why this end has refused it; empty: the other end has refused it, or has gone."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"client certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) or ALERT in (error.reason or ""):
        return ""
    reason = error.reason or str(error)
    return REASONS.get(reason, reason.replace("_", " ").lower())


class TlsServer:
    """Accepts on one listening socket, from its making to `close`."""

    def __init__(
        self,
        bound: socket.socket,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.Protocol],
        refused: Callable[[Act], object],
        address: str,
    ) -> None:
        """``make`` makes what a connection is handed to once its handshake is through; ``refused`` is told of
        others; ``address`` is the listener's, as the configuration has it."""
        bound.setblocking(False)
        self._bound: Final = bound
        self._context: Final = context
        self._make: Final = make
        self._refused: Final = refused
        self._address: Final = address
        self._loop: Final = asyncio.get_running_loop()
        self._tasks: Final = {self._loop.create_task(self._accept())}
        """That which accepts, and one for each handshake."""

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """What is listened on."""
        return (self._bound,)

    def close(self) -> None:
        """Take no more connections. Those that are there stay; handshakes are broken off."""
        for task in self._tasks:
            task.cancel()

    async def _accept(self) -> None:
        with self._bound:
            while True:
                try:
                    connection, peer = await self._loop.sock_accept(self._bound)
                except OSError as error:
                    if error.errno in SHORT_OF:
                        log(logging.ERROR, "accept-failed", listen=self._address, reason=str(error))
                        await asyncio.sleep(RETRY_S)
                    continue  # else it has gone before it was accepted
                task = self._loop.create_task(self._shake_hands(connection, f"{peer[0]}:{peer[1]}"))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _shake_hands(self, connection: socket.socket, remote: str) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, connection, ssl=self._context)
        except ssl.SSLError as error:
            reason = refused_handshake(error)
            if reason:
                log(logging.WARNING, "handshake-refused", listen=self._address, remote=remote, reason=reason)
                what = f"by TLS: {reason}"
                self._refused(Act("", remote, "", SIGN_IN, LISTENER, self._address, UNAUTHORIZED, what))
        except OSError as error:  # it has gone, or was too slow
            log(logging.DEBUG, "handshake-broken", listen=self._address, remote=remote, reason=str(error))
