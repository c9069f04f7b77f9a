"""Acknowledgement modes of a session."""

from __future__ import annotations

from enum import IntEnum


class AcknowledgeMode(IntEnum):
    """Who says that a message is done, and when; the numbers are those of JMS and Qpid JMS."""

    SESSION_TRANSACTED = 0
    """With the transaction that it was received in: ``Session.commit``."""
    AUTO = 1
    """Accepted as ``receive`` returns it, or when the listener has returned; a listener that raises gives it
    back.
    """
    CLIENT = 2
    """``Message.acknowledge`` accepts everything that the session has received so far."""
    DUPS_OK = 3
    """As AUTO; the broker may be told late."""
    NO_ACKNOWLEDGE = 100
    """Settled by the broker before it is sent: lost when this process fails."""
    INDIVIDUAL = 101
    """``Message.acknowledge`` accepts this message; ``release``, ``reject`` and ``modify`` of the consumer
    say something else.
    """
    PRE_ACKNOWLEDGE = 257
    """The other number of NO_ACKNOWLEDGE."""

    @property
    def is_presettled(self) -> bool:
        """Whether the broker settles messages before it sends them."""
        return self in (AcknowledgeMode.NO_ACKNOWLEDGE, AcknowledgeMode.PRE_ACKNOWLEDGE)

    @property
    def is_automatic(self) -> bool:
        """Whether messages are accepted without a word of the application."""
        return self in (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK)
