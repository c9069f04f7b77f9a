"""What each kind of holder keeps when its link is lost or the broker restarts, in one table.

The life cycle says the same cell by cell; a test holds the two together.
"""

from dataclasses import dataclass
from typing import Final

from postroom.model.codes import HolderKind


@dataclass(frozen=True)
class HolderRule:
    """``link_lost`` and ``restart`` are "back", "rolled back" or "kept"; ``count_on_return`` is for
    people."""

    link_lost: str
    restart: str
    count_on_return: str
    bounded_by: str
    transactional: bool = False
    """What it holds is uncommitted, and a decision ends it; else it is unacknowledged."""


HOLDERS: Final[dict[HolderKind, HolderRule]] = {
    HolderKind.CONSUMER: HolderRule("back", "back", "+1 if it was sent", "credit and max_unsettled"),
    HolderKind.SUSPENDED_LINK: HolderRule("back", "back", "+1 if it was sent", "its time-out"),
    HolderKind.LOCAL_TRANSACTION: HolderRule(
        "rolled back", "rolled back", "+1 if it was sent", "max_transaction_entries", True
    ),
    HolderKind.XA_BRANCH: HolderRule(
        "rolled back", "rolled back", "+1 if it was sent", "max_branch_messages", True
    ),
    HolderKind.XA_PREPARED: HolderRule(
        "kept", "kept", "by decision", "only an explicit decision ends it", True
    ),
    HolderKind.CONFIRM_ID: HolderRule("kept", "kept", "by decision", "confirm or undo; expiry acts at once"),
    HolderKind.CHANNEL_BATCH: HolderRule("kept", "kept", "by decision", "batch size"),
    HolderKind.BROWSE_LOCK: HolderRule("kept", "kept", "0", "its lease"),
    HolderKind.SPARK_SUBSCRIPTION: HolderRule("kept", "kept", "by decision", "its lease"),
    HolderKind.SPARK_BRANCH: HolderRule("kept", "kept", "by decision", "its lease", True),
}
"""Every kind but NONE. A suspended link's LINK_LOST is its time-out running out: the entries then go back."""

TRANSACTIONAL: Final = tuple(int(kind) for kind, rule in HOLDERS.items() if rule.transactional)
"""The kinds of transactions and branches."""
