"""Addresses to listen on, as people write them."""

import ipaddress
from typing import Final

DEFAULT_PORT: Final = 5672


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
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(default_port)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"address {address!r}: put an IPv6 host into brackets, as in [::1]:{default_port}")
    if not host:
        raise ValueError(f"address {address!r} has no host: use 0.0.0.0 for every interface")
    if not (port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise ValueError(f"address {address!r}: port {port!r} is not a number from 0 to 65535")
    return host, int(port)
