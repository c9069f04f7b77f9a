"""Acknowledgement modes of a session."""

from __future__ import annotations

from enum import IntEnum


class AcknowledgeMode(IntEnum):
    """Who says that a message is done, and when; the numbers are those of JMS and Qpid JMS."""

    AUTO = 1
    """Accepted as ``receive`` returns it."""
    CLIENT = 2
    """``Session.acknowledge`` accepts everything that the session has received so far."""
    DUPS_OK = 3
    """As AUTO; the outcome may be told late."""
    NO_ACKNOWLEDGE = 100
    """Settled by the broker before it is sent: lost when this process fails."""
    INDIVIDUAL = 101
    """``accept``, ``release``, ``reject`` or ``modify`` of the consumer, message by message."""
