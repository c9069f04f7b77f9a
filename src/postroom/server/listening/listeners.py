"""Sockets to listen on, bound before the ledger is touched: a taken port leaves no trace there."""

import errno
import socket
import ssl
from typing import Final

from postroom.server.configuration.config import ListenConfig
from postroom.server.exits import Exit, StartError

NOT_ON_THIS_MACHINE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class Listener:
    """One configured address: its bound sockets (a name may stand for several) and TLS settings.

    Of a name's addresses, those that this machine lacks are left out as long as one is there: `localhost`
    often names ::1 where IPv6 is switched off.
    """

    def __init__(self, config: ListenConfig) -> None:
        """Raises `StartError` where the address can't be had or the certificate can't be used."""
        self.config: Final = config
        self.tls: Final = _tls_context(config)
        self.sockets: Final = _bind(config)

    def url(self, address: str) -> str:
        """``address``, at which it listens, as a client writes it."""
        websocket = self.config.websocket
        if websocket is None:
            return f"amqp://{address}"
        return f"{'ws' if self.tls is None else 'wss'}://{address}{websocket.path}"

    def close(self) -> None:
        """Give the addresses back, where no server has taken the sockets over."""
        for each in self.sockets:
            each.close()


def _bind(config: ListenConfig) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    absent: OSError | None = None
    try:
        for family, address in _resolve(config):
            try:
                sockets.append(_bound_socket(family, address))
            except OSError as error:
                if error.errno not in NOT_ON_THIS_MACHINE:
                    raise
                absent = error
        if absent is not None and not sockets:
            raise absent
    except OSError as error:
        for each in sockets:
            each.close()
        raise cannot_listen(config, error) from error
    return sockets


def cannot_listen(config: ListenConfig, error: OSError) -> StartError:
    """The error of starting that ``error`` is."""
    reason = error.strerror or str(error)
    if isinstance(error, socket.gaierror):
        reason = f"there is no host {config.host!r} ({reason}): an address is HOST:PORT, as in 127.0.0.1:5672"
    return StartError(Exit.ADDRESS, f"can't listen on {config.address}: {reason}")


def _resolve(config: ListenConfig) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
    found = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, (str(place[0]), int(place[1]))) for family, _, _, _, place in found))


def _bound_socket(family: socket.AddressFamily, address: tuple[str, int]) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def _tls_context(config: ListenConfig) -> ssl.SSLContext | None:
    if config.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(config.tls_certificate, config.tls_key)
    except OSError as error:
        reason = error.strerror or str(error)
        what = f"listener {config.address}: certificate {config.tls_certificate} can't be used: {reason}"
        raise StartError(Exit.CONFIGURATION, what) from error
    return context
