"""Local transactions that are open, as the management node shows them: to see who holds what for how long."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from postroom.manager.kernel.transaction import Transaction
from postroom.model.entity_types import TRANSACTION_TYPE
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.management.entity_type import Columns, ListedEntityType, same_named
from postroom.server.management.request import NOT_FOUND, Request, RequestError


class Open(NamedTuple):
    """One transaction and whose it is."""

    transaction: Transaction
    binding: ConnectionState


class Transactions(ListedEntityType[Open]):
    """The local transactions of one broker; one's name is its number as a holder in the ledger."""

    type: Final = TRANSACTION_TYPE

    def make_columns(self) -> Columns[Open]:
        return {
            "state": lambda each: _state(each.transaction),
            "since_us": lambda each: int(each.transaction.begun_us),
            "puts": lambda each: len(each.transaction.puts),
            "receipts": lambda each: len(each.transaction.receipts),
            "blocked_sends": lambda each: len(each.transaction.blocked),
            **same_named("container_id", "user", of="binding"),
            "connection": lambda each: each.binding.remote,
        }

    def all(self) -> Iterable[Open]:
        return (
            Open(transaction, binding)
            for binding in self.broker.connections
            for transaction in binding.transactions.values()
        )

    def find(self, request: Request) -> Open:
        name = request.required_name()
        for each in self.all():
            if self.name_of(each) == name:
                return each
        raise RequestError(NOT_FOUND, f"there is no open transaction {name!r}")

    def name_of(self, thing: Open) -> str:
        return str(thing.transaction.id)


def _state(transaction: Transaction) -> str:
    if transaction.timed_out:
        return "timed-out"
    return "rollback-only" if transaction.failed else "active"
