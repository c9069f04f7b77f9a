"""What one link sends in transactions that acquire it (part 4, section 4.4.3), until these are discharged."""

from typing import Final, final

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.delivery import Delivery as WireDelivery
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.errors import NOT_ALLOWED, TRANSACTION_UNKNOWN_ID
from postroom.amqp.frames.outcomes import RELEASED, TransactionalState
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.transaction import Transaction
from postroom.server.kernel.bound_link import BoundLink


@final
class Acquisition:
    """Of one link; what was sent in a transaction is listed in ``binding.acquired``, too, for its end."""

    def __init__(self, owner: BoundLink, link: SenderLink) -> None:
        self._owner: Final = owner
        self._link = link
        self.transaction: Transaction | None = None
        """In which what is sent is acquired now; None in none."""
        self._sent: dict[WireDelivery, Transaction] = {}
        """What was sent so, until the transaction is discharged."""

    def take_transaction(self) -> None:
        """What the last flow says. An id that means nothing, or a branch, ends the link."""
        txn_id, binding = self._link.txn_id, self._owner.binding
        self.transaction = None if txn_id is None else binding.transactions.get(txn_id)
        if txn_id is None or self.transaction is not None:
            return
        if txn_id in binding.branches:
            what = f"{txn_id.hex()} is a branch: what is received in it is said at its end, not in a flow"
            binding.end_link(self._owner, Error(NOT_ALLOWED, what))
        else:
            what = f"there is no transaction {txn_id.hex()} on this connection"
            binding.end_link(self._owner, Error(TRANSACTION_UNKNOWN_ID, what))

    def is_closed(self) -> bool:
        """Whether its transaction can take nothing more."""
        acquiring = self.transaction
        return acquiring is not None and (acquiring.decided or acquiring.failed != "")

    def send(self, consumer: Consumer, payload: bytes, tag: bytes, entry: Entry) -> None:
        """In the transaction that acquires now."""
        txn_id, acquiring = self._link.txn_id, self.transaction
        if txn_id is None or acquiring is None:
            return
        delivery = self._link.send(payload, tag, False, 0, TransactionalState(txn_id), entry)
        acquiring.acquired[entry] = consumer
        self._sent[delivery] = acquiring
        of_transaction = self._owner.binding.acquired.setdefault(acquiring, {})
        of_transaction.setdefault(self._owner, []).append(delivery)

    def given_inside(
        self, deliveries: list[WireDelivery], transaction: Transaction | None, now_us: int
    ) -> list[WireDelivery]:
        """Those of which the outcome may be applied, given in ``transaction`` or in none."""
        if not self._sent:
            return deliveries
        return [each for each in deliveries if self._is_inside(each, transaction, now_us)]

    def _is_inside(self, delivery: WireDelivery, transaction: Transaction | None, now_us: int) -> bool:
        """An outcome must be in the open transaction in which its delivery was acquired (part 4, section
        4.4.4). Else it isn't applied, and neither transaction can be committed. Where that was rolled back
        before its discharge, the message has gone back, and may have come again."""
        acquiring = self._sent.get(delivery)
        if acquiring is None:
            return True
        binding = self._owner.binding
        if acquiring.decided:
            self._link.settle(delivery.id, delivery.id, RELEASED)
            binding.touch()
            return False
        if acquiring is transaction:
            return True
        for each in (acquiring, transaction):
            if each is not None:
                why = "the outcome of a delivery that was acquired in a transaction was not given in that one"
                binding.broker.manager.spoil(each, why, now_us)
        return False

    def end(self) -> None:
        """Nothing more is acquired in the transaction."""
        self.transaction = self._link.txn_id = None

    def decided(self, deliveries: list[WireDelivery], is_released: bool) -> None:
        """Their transaction is over. Where they have gone back (``is_released``), the client hears so; else
        those without an outcome go on as any other delivery."""
        for delivery in deliveries:
            self._sent.pop(delivery, None)
        if is_released:
            for delivery in deliveries:
                if not delivery.settled:
                    self._link.settle(delivery.id, delivery.id, RELEASED)
            self._owner.binding.touch()

    def resume(self, link: SenderLink) -> None:
        """The link is being resumed on ``link``: what it had goes its own way from now on."""
        for delivery, transaction in self._sent.items():
            if isinstance(delivery.context, Entry):
                transaction.acquired.pop(delivery.context, None)
        self._sent.clear()
        self.transaction = None
        for acquired in self._owner.binding.acquired.values():
            acquired.pop(self._owner, None)
        self._link = link
