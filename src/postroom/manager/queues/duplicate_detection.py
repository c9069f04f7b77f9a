"""Duplicate detection: a message whose id its destination has taken lately is accepted and dropped.

A sender that lost its connection, or its own memory, can't know what has arrived and sends again; with the
same message ids nothing comes twice. As Artemis has it: the last so many ids of a destination are remembered,
however long their messages have been gone; the ledger has them, so that a restart forgets none. A duplicate
in a transaction means that all of it may have been committed before: it can only be rolled back. Messages
without an id are not looked at.
"""

from typing import TYPE_CHECKING, Final

from postroom.manager.kernel.transaction import Transaction, fail
from postroom.model.duplicates import key_of
from postroom.model.message import MessageHead

if TYPE_CHECKING:
    from postroom.manager.kernel.core import Core
    from postroom.manager.kernel.destination import Destination


def drops(core: "Core", queue: "Destination", head: MessageHead, transaction: Transaction | None) -> bool:
    """Whether ``queue`` (or topic) has taken the message before: it is counted, and not to be put again."""
    window = queue.duplicates
    if window is None or head.message_id_type == 0:
        return False
    key = key_of(head.message_id_type, head.message_id)
    own = transaction is not None and (window, key) in transaction.message_ids
    if not own and not window.has(key):
        return False
    queue.statistics.duplicates += 1
    if transaction is not None:
        fail(core, transaction, f"a message in it was sent before to {queue.name!r} (duplicate_window)")
    return True


def is_in(transaction: Transaction, queue: "Destination", head: MessageHead) -> bool:
    """Whether the transaction has put a message of this id to ``queue``, which looks for duplicates."""
    window = queue.duplicates
    if window is None or head.message_id_type == 0:
        return False
    return (window, key_of(head.message_id_type, head.message_id)) in transaction.message_ids


def note(queue: "Destination", head: MessageHead, transaction: Transaction | None) -> None:
    """``queue`` (or topic) has taken the message; what is in a transaction counts when that is decided."""
    window = queue.duplicates
    if window is None or head.message_id_type == 0:
        return
    key = key_of(head.message_id_type, head.message_id)
    if transaction is None:
        window.add(key)
    else:
        transaction.message_ids[window, key] = None


HAS_TWIN: Final = "a message in it has come by another way since (duplicate_window)"


def has_twin(transaction: Transaction) -> bool:
    """Whether one of its messages has been taken since it was put: then it can only be rolled back."""
    return any(window.has(key) for window, key in transaction.message_ids)


def remember(transaction: Transaction) -> None:
    """It is, or can be, committed: its messages have been taken."""
    for window, key in transaction.message_ids:
        window.add(key)


def forget(transaction: Transaction) -> None:
    """It was prepared and is rolled back: they have not been taken."""
    for window, key in transaction.message_ids:
        window.discard(key)
