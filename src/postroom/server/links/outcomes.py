"""An outcome that a client has said, as the queue manager's verb; and outcomes as a client is answered."""

from typing import TYPE_CHECKING

from mypy_extensions import i64

from postroom.amqp.encoding.composite import Error
from postroom.amqp.errors import INVALID_FIELD, AmqpError
from postroom.amqp.extensions import REDELIVERY_DELAY
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    Accepted,
    DeliveryState,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)
from postroom.manager.consuming.settlement import Modification
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.entry import Entry
from postroom.manager.manager import QueueManager
from postroom.manager.undeliverable.returned_entries import NO_DELAY_REQUESTED
from postroom.server.links.terminus import MAX_PROPERTY_MS

if TYPE_CHECKING:
    from postroom.manager.kernel.transaction import Transaction


def check_outcome(state: DeliveryState | None) -> None:
    """Raises `AmqpError` for an outcome that asks for a redelivery delay that is none."""
    if not isinstance(state, Modified) or not state.message_annotations:
        return
    delay_ms = state.message_annotations.get(REDELIVERY_DELAY, 0)
    if _delay_us(delay_ms) == NO_DELAY_REQUESTED:
        raise AmqpError(
            INVALID_FIELD,
            f"annotation {REDELIVERY_DELAY} of the outcome modified is {delay_ms!r:.100}, must be "
            f"milliseconds from 0 to {MAX_PROPERTY_MS}",
        )


def _delay_us(delay_ms: object) -> i64:
    """`NO_DELAY_REQUESTED` for what is no number of milliseconds."""
    if isinstance(delay_ms, bool) or not isinstance(delay_ms, int) or not 0 <= delay_ms <= MAX_PROPERTY_MS:
        return NO_DELAY_REQUESTED
    return delay_ms * 1000


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
        delay_us: i64 = NO_DELAY_REQUESTED
        if changes is not None and REDELIVERY_DELAY in changes:
            delay_us = _delay_us(changes.pop(REDELIVERY_DELAY))
        change = Modification(failed, not_here, changes, delay_us)
        manager.modify(consumer, entry, change, now_us, token, transaction)
    elif isinstance(state, Rejected):
        given = state.error or Error("", "")
        description = given.description or ""
        manager.reject(consumer, entry, given.condition, description, now_us, token, transaction)


def accepted_runs(
    transaction_ids: dict[int, bytes], first: int, last: int
) -> list[tuple[int, int, DeliveryState]]:
    """One answer, (first, last, state), for all of these deliveries that follow one another in the same
    transaction, or in none; their ids are taken out."""
    runs: list[tuple[int, int, DeliveryState]] = []
    txn_id = transaction_ids.pop(first, None)
    for token in range(first + 1, last + 1):
        next_id = transaction_ids.pop(token, None)
        if next_id != txn_id:
            runs.append((first, token - 1, _accepted_in(txn_id)))
            first, txn_id = token, next_id
    runs.append((first, last, _accepted_in(txn_id)))
    return runs


def _accepted_in(txn_id: bytes | None) -> DeliveryState:
    return ACCEPTED if txn_id is None else TransactionalState(txn_id, ACCEPTED)
