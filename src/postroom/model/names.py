"""Names of queues at this and other queue managers: ``QUEUE`` or ``QUEUE@QUEUE.MANAGER``."""

from typing import Final

MANAGER_MARK: Final = "@"
"""Between a queue and its queue manager in an address; the last one counts."""

DYNAMIC_PREFIX: Final = "postroom.dynamic."
"""Of queues and topics that the broker makes and names for one client, such as those for replies."""


def split_address(address: str) -> tuple[str, str]:
    """Queue and queue manager of an address; the queue manager is "" where none is named.

    An address with nothing before or behind its last "@" is a name like any other.
    """
    queue, mark, queue_manager = address.rpartition(MANAGER_MARK)
    return (queue, queue_manager) if mark and queue and queue_manager else (address, "")


def full_address(queue: str, queue_manager: str) -> str:
    """The address of a queue; of one here where ``queue_manager`` is ""."""
    return f"{queue}{MANAGER_MARK}{queue_manager}" if queue_manager else queue
