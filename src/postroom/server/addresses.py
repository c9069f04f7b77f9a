"""Addresses to listen on, as people write them."""

import ipaddress
import re
from typing import Final

DEFAULT_PORT: Final = 5672
_NO_HOST: Final = re.compile(r"[\s/@?#\[\]]")
"""What is in no name and no IP address."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def split_address(address: str, default_port: int = DEFAULT_PORT) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``[IPV6]:PORT`` or ``HOST`` (the default port). Raises ValueError."""
    if "://" in address:
        raise ValueError(f"address {address!r} is a URL: only HOST:PORT of it is meant")
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(default_port)
        if address.isdigit():
            raise ValueError(f"address {address!r} has no host: for a port alone say 127.0.0.1:{address}")
    host = _checked_host(host, address, default_port)
    if not (port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise ValueError(f"address {address!r}: port {port!r} is not a number from 0 to 65535")
    return host, int(port)


def _checked_host(host: str, address: str, default_port: int) -> str:
    """Without the brackets of an IPv6 address."""
    if host.startswith("[") and host.endswith("]"):
        if not _is_ipv6(host[1:-1]):
            raise ValueError(f"address {address!r}: {host[1:-1]!r} in the brackets is no IPv6 address")
        return host[1:-1]
    if ":" in host:
        raise ValueError(f"address {address!r}: put an IPv6 host into brackets, as in [::1]:{default_port}")
    if not host:
        raise ValueError(
            f"address {address!r} has no host: 127.0.0.1 is this machine alone, 0.0.0.0 every interface"
        )
    if _NO_HOST.search(host):
        raise ValueError(f"address {address!r}: {host!r} is no name of a host and no IP address")
    return host


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
