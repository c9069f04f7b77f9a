"""Outcomes that a client has given in transactions: answered when these are committed (part 4, section
4.4.3)."""

from typing import Final, final

from postroom.amqp.engine.sender import SenderLink
from postroom.manager.kernel.transaction import Receipt, Transaction
from postroom.server.kernel.bound_link import BoundLink


@final
class HeldAnswers:
    """Of one link; listed in ``binding.retired``, too, for the end of the transaction."""

    def __init__(self, owner: BoundLink) -> None:
        self._owner: Final = owner
        self._receipts: dict[int, Receipt] = {}
        """By delivery id, of transactions that are open; none of these is settled."""

    def hold(self, delivery_id: int, transaction: Transaction) -> None:
        """Its outcome was the last that the transaction has got."""
        self._receipts[delivery_id] = transaction.receipts[-1]
        retired = self._owner.binding.retired.setdefault(transaction, {})
        retired.setdefault(self._owner, []).append(delivery_id)

    def drop(self, delivery_id: int) -> None:
        """Where it was in a transaction that was rolled back, it is no more."""
        if self._receipts:
            self._receipts.pop(delivery_id, None)

    def dispose_again(
        self, delivery_id: int, owner: Transaction, settled: bool, other: Transaction | None, now_us: int
    ) -> None:
        """Its outcome is in the open transaction ``owner``, and stays as it is. Settling it now says that
        after a rollback it is to go back; an outcome in another transaction spoils that one."""
        receipt = self._receipts.get(delivery_id)
        if receipt is not None and settled:
            receipt.settled = True
        if other is not None and other is not owner:
            why = "a delivery was disposed of in it whose outcome is in another open transaction"
            self._owner.binding.broker.manager.spoil(other, why, now_us)

    def settle(self, link: SenderLink, first: int, last: int) -> None:
        """The deliveries ``first`` to ``last``, but for those that are held."""
        if not self._receipts:
            link.settle(first, last)
            return
        for delivery_id in range(first, last + 1):
            if delivery_id not in self._receipts:
                link.settle(delivery_id, delivery_id)

    def decided(self, delivery_ids: list[int]) -> None:
        """The transaction of these is over."""
        for delivery_id in delivery_ids:
            self._receipts.pop(delivery_id, None)

    def resume(self) -> None:
        """The link is being resumed: nothing that was said on it before is answered."""
        for retired in self._owner.binding.retired.values():
            retired.pop(self._owner, None)
        self._receipts.clear()
