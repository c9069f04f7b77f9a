"""What one connection is to Spark sinks: the branches that transfers on it can name."""

from typing import Final

from postroom.manager.kernel.transaction import Transaction
from postroom.model import numbers as n
from postroom.server.kernel.connection_state import ConnectionState

TXN_ID_BYTES: Final = 8


class SinkContext:
    """Branches of sinks that were begun on one connection. They outlive it."""

    def __init__(self, binding: ConnectionState) -> None:
        self._binding: Final = binding
        self.container: Final = binding.container_id

    def enter(self, transaction: Transaction) -> bytes:
        """The id by which transfers name the branch, on this connection until it is sealed or decided."""
        branches = self._binding.branches
        for txn_id, each in list(branches.items()):
            if each.decided and each.kind == n.SPARK_BRANCH:
                del branches[txn_id]
        txn_id = self._binding.broker.next_transaction_number().to_bytes(TXN_ID_BYTES, "big")
        branches[txn_id] = transaction
        return txn_id

    def is_arriving(self, transaction_id: int) -> bool:
        """Whether a message of the branch has not come with all its frames."""
        return self._txn_id(transaction_id) in self._binding.partial.values()

    def leave(self, transaction_id: int) -> None:
        """It takes nothing more."""
        self._binding.branches.pop(self._txn_id(transaction_id), None)

    def _txn_id(self, transaction_id: int) -> bytes:
        """b"" where it was not begun here."""
        for txn_id, each in self._binding.branches.items():
            if each.kind == n.SPARK_BRANCH and each.id == transaction_id:
                return txn_id
        return b""
