"""An outcome that a client has said, as the queue manager's verb."""

from typing import TYPE_CHECKING

from postroom.amqp.composite import Error
from postroom.amqp.outcomes import Accepted, DeliveryState, Modified, Rejected, Released
from postroom.manager.consumer import Consumer
from postroom.manager.entry import Entry
from postroom.manager.manager import QueueManager

if TYPE_CHECKING:
    from postroom.manager.transaction import Transaction


def apply_outcome(
    manager: QueueManager,
    consumer: Consumer,
    state: DeliveryState,
    entry: Entry,
    now_us: int,
    token: int,
    transaction: "Transaction | None",
) -> None:
    """Tell ``manager`` what becomes of ``entry``; raises `ManagerError`. States that are no outcome do
    nothing."""
    if isinstance(state, Accepted):
        manager.accept(consumer, entry, now_us, token, transaction)
    elif isinstance(state, Released):
        manager.release(consumer, entry, now_us, token, transaction)
    elif isinstance(state, Modified):
        changes = {str(key): value for key, value in (state.message_annotations or {}).items()} or None
        failed, not_here = state.delivery_failed, state.undeliverable_here
        manager.modify(consumer, entry, failed, not_here, changes, now_us, token, transaction)
    elif isinstance(state, Rejected):
        given = state.error or Error("", "")
        description = given.description or ""
        manager.reject(consumer, entry, given.condition, description, now_us, token, transaction)
