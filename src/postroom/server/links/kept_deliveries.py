"""What was sent on a link and not settled when the link was suspended, until both ends agree on it."""

from typing import Final, final

from postroom.amqp.engine.delivery import Delivery as WireDelivery
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.frames.outcomes import Accepted, DeliveryState, Modified, Rejected, Released
from postroom.amqp.frames.transfers import SND_MIXED
from postroom.manager.kernel.entry import Entry


@final
class Resumed:
    """A delivery of a suspended link that the client knows of, with the outcome that it has reached, if
    any.
    """

    def __init__(self, tag: bytes, delivery: WireDelivery, state: DeliveryState | None) -> None:
        self.tag: Final = tag
        self.entry: Final = delivery.context
        self.outcome: Final = outcome_in(state)


@final
class KeptDeliveries:
    """Of one link (part 2, section 2.6.13)."""

    def __init__(self) -> None:
        self._kept: dict[bytes, WireDelivery] = {}
        """By delivery tag."""
        self.theirs: dict[bytes, DeliveryState | None] = {}
        """The client's unsettled map, with which it resumes the link."""
        self._to_send: list[Resumed] = []
        """What the client knows of, to be spoken of as credit comes; the last first."""

    def keep(self, unsettled: list[WireDelivery]) -> None:
        self._kept = {each.tag: each for each in unsettled if isinstance(each.context, Entry)}

    def _unsettled(self) -> dict[bytes, WireDelivery]:
        """What has not been settled on the detached link meanwhile."""
        return {tag: delivery for tag, delivery in self._kept.items() if not delivery.settled}

    def unsettled_map(self) -> dict[bytes, DeliveryState | None]:
        return {tag: outcome_in(delivery.state) for tag, delivery in self._unsettled().items()}

    def compared(self) -> tuple[list[Resumed], set[object]]:
        """What both ends know of, and all that was sent, by `Entry`; nothing is kept any more."""
        kept, self._kept = self._unsettled(), {}
        resumed = [Resumed(tag, kept[tag], state) for tag, state in self.theirs.items() if tag in kept]
        return resumed, {delivery.context for delivery in kept.values()}

    def speak_of(self, resumed: list[Resumed]) -> None:
        """What was taken up is durable: the client may hear of it."""
        self._to_send = resumed[::-1]

    def send(self, link: SenderLink) -> bool:
        """As far as there is credit; whether anything was sent. An outcome that was applied is confirmed.
        Another delivery is aborted: it has gone back to its place in the queue, and comes again as a new one.
        """
        has_sent = False
        while self._to_send and link.credit > 0:
            resumed = self._to_send.pop()
            if resumed.outcome is not None:
                settled = link.snd_settle_mode == SND_MIXED
                link.send(b"", resumed.tag, settled, 0, resumed.outcome, None, False, True)
            else:
                link.abort(link.send(b"", resumed.tag, False, 0, None, None, True, True))
            has_sent = True
        return has_sent


def outcome_in(state: DeliveryState | None) -> DeliveryState | None:
    """The state, if it is an outcome; None for what is not decided, or not outside of a transaction."""
    return state if isinstance(state, (Accepted, Released, Rejected, Modified)) else None
