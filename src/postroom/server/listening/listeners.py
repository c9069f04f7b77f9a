"""Sockets to listen on, bound before the ledger is touched: a taken port leaves no trace there."""

import errno
import socket
from typing import TYPE_CHECKING, Final

from postroom.server.configuration.listening import ListenConfig
from postroom.server.exits import Exit, StartError

if TYPE_CHECKING:
    from postroom.server.listening.tls import LoadedTls, RenewableContext

LISTEN_BACKLOG: Final = 512
"""Connections that the system keeps until they are accepted."""
NOT_ON_THIS_MACHINE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class Listener:
    """One configured address: its bound sockets (a name may stand for several) and TLS settings.

    Of a name's addresses, those that this machine lacks are left out as long as one is there: `localhost`
    often names ::1 where IPv6 is switched off.
    """

    def __init__(self, config: ListenConfig) -> None:
        """Raises `StartError` where the address can't be had or a file of TLS can't be used."""
        self.config: Final = config
        self.tls: Final = _tls_of(config)
        self.sockets: Final = _bind(config)

    def url(self, address: str) -> str:
        """``address``, at which it listens, as a client writes it."""
        websocket = self.config.websocket
        if websocket is None:
            return f"{'amqp' if self.tls is None else 'amqps'}://{address}"
        return f"{'ws' if self.tls is None else 'wss'}://{address}{websocket.path}"

    def http_urls(self) -> list[str]:
        """Its sockets as URLs of HTTP, with the ports that the system chose."""
        scheme = "http" if self.tls is None else "https"
        return [f"{scheme}://{address_of(each)}" for each in self.sockets]

    def bound_urls(self) -> list[str]:
        """The same for each of its sockets, listened on or not yet."""
        return [self.url(address_of(each)) for each in self.sockets]

    def listen(self) -> None:
        """Have the system queue connections from now on, as often as it is called.

        Raises `StartError` where another process listens there: two can be bound to a port while neither
        listens. Event loops are given sockets that listen, since uvloop keeps quiet about one that can't.
        """
        try:
            for each in self.sockets:
                each.listen(LISTEN_BACKLOG)
        except OSError as error:
            raise _cannot_listen(self.config, error) from error

    def renew(self, loaded: "LoadedTls") -> None:
        """Have connections from now on see, and be held against, what these files have; others stay."""
        if self.tls is not None:
            self.tls.loaded = loaded

    def close(self) -> None:
        """Give the addresses back, where no server has taken the sockets over."""
        for each in self.sockets:
            each.close()


def address_of(bound: socket.socket) -> str:
    """``HOST:PORT`` of a socket that is bound."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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
        raise _cannot_listen(config, error) from error
    return sockets


def _cannot_listen(config: ListenConfig, error: OSError) -> StartError:
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


def _tls_of(config: ListenConfig) -> "RenewableContext | None":
    if config.tls_certificate is None:
        return None
    # Imported here: who has no TLS starts sooner.
    from postroom.server.listening.tls import RenewableContext, load_tls

    return RenewableContext.of(load_tls(config))
