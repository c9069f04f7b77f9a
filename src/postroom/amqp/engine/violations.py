"""How the engine's parts report a broken rule to the connection, which answers it; and what misuse by the
application raises.
"""

from __future__ import annotations

from typing import Final, final

from postroom.amqp.engine.link_state import LinkState
from postroom.amqp.errors import ILLEGAL_STATE, AmqpError


@final
class UsageError(AmqpError):
    """The application asked for something that the state of connection, session or link doesn't allow.

    Raised before anything is written, so that the connection stays sound.
    """

    def __init__(self, description: str, condition: str = ILLEGAL_STATE) -> None:
        super().__init__(condition, description)


@final
class ConnectionViolation(AmqpError):
    """The peer broke a rule that costs it the connection."""


@final
class LinkViolation(AmqpError):
    """The peer broke a rule that costs it the link."""

    def __init__(self, link: LinkState, condition: str, description: str) -> None:
        super().__init__(condition, description)
        self.link: Final = link
