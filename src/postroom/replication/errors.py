"""What can go wrong with a replicated ledger. Each error says what, where, and what to do."""

from typing import Final

from postroom.ledger.errors import LedgerError, LedgerFailed

COPY_ADVICE: Final = (
    "name other members' HTTP in copy_from, or start this member with a copy of another member's folder"
)


class ReplicationError(LedgerError):
    """Any failure of replication that isn't the ledger's own."""


class EngineRefused(ReplicationError):
    """The engine has a setting with which durable wouldn't mean durable, or doesn't let us in."""


class MemberRefused(ReplicationError):
    """This member's folder doesn't go with the log: another ledger's, or too far behind."""


class CopyNeeded(MemberRefused):
    """This member's folder is too far behind: a copy of another member's goes on from the log."""


class CopyUnavailable(ReplicationError):
    """No member gives a copy now: try again."""


class EntryDamaged(ReplicationError):
    """An entry of the log isn't what a member has written."""

    def __init__(self, sequence: int, reason: str) -> None:
        super().__init__(
            f"entry {sequence} of the log: {reason}; the stream has been written to by something that isn't a"
            " member of this queue manager, or is damaged: name another stream, or restore it"
        )


class EngineUnavailable(LedgerFailed):
    """The engine hasn't acknowledged in time: what was appended may be durable or not."""


class Overtaken(LedgerFailed):
    """Another entry lies where ours should: somebody else has appended to the log since."""
