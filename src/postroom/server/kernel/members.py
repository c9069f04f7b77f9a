"""The members of the queue manager, as the active one knows them: what the management node shows and does."""

from collections.abc import Callable
from typing import cast

from postroom.replication.lag import Lag
from postroom.replication.log import MemberNote
from postroom.server.kernel.broker_state import BrokerState


class Members:
    """Nobody, where the queue manager is this process alone."""

    def __init__(self) -> None:
        self.notes: Callable[[], list[MemberNote]] = list
        """What members have said last, by name."""
        self.lag: Callable[[MemberNote], Lag] = lambda _: Lag(0, 0, 0.0)
        """How far a member is behind, going by what it has said last."""
        self.forget: Callable[[str], None] = _nobody
        """The log needn't wait for that member any more."""
        self.hand_over: Callable[[str], None] = _nobody
        """End soon, in favour of that member."""


def _nobody(name: str) -> None:
    raise LookupError(f"there is no member {name!r}: this queue manager isn't replicated")


def members_of(broker: BrokerState) -> Members:
    """Those of one broker."""
    return cast(Members, broker.state(Members))
