"""The base of everything that hangs on a link: what the connection and the broker may ask of it."""

import logging
from typing import TYPE_CHECKING

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.delivery import Delivery as WireDelivery
from postroom.amqp.engine.events import TransferReceived
from postroom.amqp.engine.link import Link
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.frames.outcomes import DeliveryState
from postroom.amqp.frames.performatives import Attach
from postroom.amqp.frames.termini import EXPIRY_SESSION_END
from postroom.manager.kernel.effects import PRESETTLED, Delivery, Sink
from postroom.model.rights import Right
from postroom.server.logs import log

if TYPE_CHECKING:
    from postroom.manager.kernel.transaction import Transaction
    from postroom.server.kernel.connection_state import ConnectionState


class BoundLink(Sink):
    """One attached link and what it is bound to. Methods that a kind of link can't be asked for raise."""

    def __init__(self, binding: "ConnectionState", link: Link) -> None:
        super().__init__()
        self.binding = binding
        self.attached_link = link
        self.address = ""
        """The queue or node that it is bound to."""
        self.key: tuple[str, str, str, bool] | None = None
        """(user, container id, link name, role of this end) while the registry knows it."""
        self.needs: list[tuple[Right, str]] = []
        """Rights on destinations by which it was let in, and without which it ends."""
        self.expiry_policy = EXPIRY_SESSION_END
        self.properties: dict[object, object] | None = None
        """What the answer to the attach says of it."""
        self.timeout_s = 0
        """How long its terminus is kept once it is gone and the policy's event has come."""
        self.max_message_bytes = -1
        """Of a receiving link: what the answer to the attach says of it; −1 the connection's own bound, 0
        none."""
        self.answers_elsewhere = False
        """It is being resumed: deliveries that wait for an answer came on the link of before."""
        self.detach_error: Error | None = None
        """Why the link was detached, by the peer or for a rule that the peer broke; set before `close`."""

    # Events of the engine.

    def answered(self, attach: Attach, now_us: int) -> None:
        """The peer has answered the attach of a link that this end has begun."""
        raise NotImplementedError

    def transfer(self, event: TransferReceived, now_us: int) -> None:
        """A frame of a message has come."""
        raise NotImplementedError

    def disposed(
        self, deliveries: list[WireDelivery], state: DeliveryState | None, settled: bool, now_us: int
    ) -> None:
        """The client says what becomes of these deliveries."""
        raise NotImplementedError

    def agree(
        self, link: SenderLink, deliveries: list[WireDelivery], state: DeliveryState | None, settled: bool
    ) -> None:
        """What the client says of these deliveries changes nothing here: one that waits for an answer gets
        it."""
        if not settled:
            for delivery in deliveries:
                link.settle(delivery.id, delivery.id, state)
            self.binding.touch()

    def sender_settled(self, delivery_ids: list[int]) -> None:
        """The client, as sender, has forgotten these deliveries."""

    def credit_changed(self, now_us: int) -> None:
        """What the link may send has changed."""

    def end_acquisition(self, transaction: "Transaction", now_us: int) -> None:
        """``transaction`` is being discharged: nothing more is acquired in it."""

    def decided(self, delivery_ids: list[int], committed: bool) -> None:
        """The transaction of these outcomes is over: committed, they are settled; else the client keeps
        them."""
        raise NotImplementedError

    def acquisition_decided(self, deliveries: list[WireDelivery], committed: bool) -> None:
        """The transaction in which these were acquired is over."""
        raise NotImplementedError

    def waits_to_send(self) -> bool:
        """Whether something waits for the window of its session."""
        return False

    def notify_when_sent(self, discharger: "BoundLink") -> None:
        """``discharger`` hears (`unblocked`) when nothing waits to be sent; until then nothing follows."""
        raise NotImplementedError

    def tick(self, now_us: int) -> None:
        """It is slowed down, and may have earned credit."""
        raise NotImplementedError

    def may_acquire(self) -> bool:
        """Whether what it sends can be acquired in transactions (part 4, section 4.4.3)."""
        return False

    def set_writable(self, now_us: int) -> None:
        """The socket takes output again, or takes no more (``binding.writable``)."""

    def refill(self, now_us: int) -> None:
        """Deliveries have left: there may be room for more."""

    def confirmed(self, now_us: int) -> None:
        """The attach has been answered."""

    def unsettled_map(self) -> dict[bytes, DeliveryState | None] | None:
        """This end's unsettled deliveries by tag, for the answer to an attach that resumes; None: it is
        new.
        """
        return None

    # Effects of the broker.

    def accepted(self, first: int, last: int) -> None:
        """The messages with tokens ``first`` to ``last`` are stored."""
        raise NotImplementedError

    def rejected(self, token: int, condition: str, description: str) -> None:
        """The message ``token`` was refused; PRESETTLED: one that wants no answer."""
        if token != PRESETTLED:
            raise NotImplementedError
        link = self.attached_link.name
        log(logging.WARNING, "presettled-message-refused", link=link, reason=description)

    def unblocked(self, now_us: int) -> None:
        """None of the sends that this link has, or waits for, is blocked any more."""

    def deliver(self, delivery: Delivery, now_us: int) -> None:
        """Send this entry."""
        raise NotImplementedError

    def settled(self, first: int, last: int) -> None:
        """The outcomes for ``first`` to ``last`` are applied."""
        raise NotImplementedError

    def drained(self) -> None:
        """All credit is used up or given back."""
        raise NotImplementedError

    def ended(self, condition: str, description: str) -> None:
        """The queue manager has ended what this link was bound to."""
        raise NotImplementedError

    # End.

    def suspend(self, unsettled: list[WireDelivery], timeout_us: int, now_us: int) -> bool:
        """The link is gone but its terminus stays; False where this kind of link keeps nothing."""
        return False

    def end_terminus(self, now_us: int) -> None:
        """After `close`: the client has closed the link, not only detached it."""

    def move_to(self, binding: "ConnectionState", link: Link) -> None:
        """It is being resumed on ``link``; what is said of the link of before concerns it no more."""
        self.attached_link.context = None
        self.answers_elsewhere = True
        self.binding = binding
        self.attached_link = link

    def steal(self, now_us: int) -> None:
        """The same link is being attached on another connection: leave this one, keep the terminus."""
        self.binding.take_link_away(self, now_us)

    def close(self, lost: bool, now_us: int) -> None:
        """The link is gone for good; ``lost``: because its connection broke."""
        raise NotImplementedError
