"""Limits of what comes over one listener, or from one user."""

from msgspec import Struct

from postroom.server.configuration.values import Name, NotNegative


class TrafficLimits(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of all connections that have them together; 0: no limit."""

    max_connections: NotNegative = 0
    """Open at a time; another one is refused with `amqp:resource-limit-exceeded`."""
    max_links: NotNegative = 0
    """Attached at a time; another one is refused likewise."""
    max_bytes_per_s: NotNegative = 0
    """Read from their sockets; above it reading from them pauses."""
    max_messages_per_s: NotNegative = 0
    """That they send to queues and topics; above it reading from their sockets pauses."""


class UserLimitConfig(TrafficLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of one user."""

    user: Name
    """`*`: each user without a table of its own, `anonymous` included."""
