"""Local transactions that are open, as the management node shows them: to see who holds what for how long."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from postroom.manager.kernel.transaction import Transaction
from postroom.model.entity_types import TRANSACTION_TYPE
from postroom.server.management.entity_type import ListedEntityType, Operation
from postroom.server.management.request import NOT_FOUND, Attributes, Request, RequestError

if TYPE_CHECKING:
    from postroom.server.connection.binding import ConnectionBinding
    from postroom.server.connection.broker import Broker

_ATTRIBUTES: Final = (
    *("name", "identity", "type", "state", "since_us", "puts", "receipts", "blocked_sends"),
    *("container_id", "user", "connection"),
)


class Open(NamedTuple):
    """One transaction and whose it is."""

    transaction: Transaction
    binding: "ConnectionBinding"


class Transactions(ListedEntityType[Open]):
    """The local transactions of one broker; one's name is its number as a holder in the ledger."""

    type: Final = TRANSACTION_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.operations: Final[Mapping[str, Operation]] = {"READ": self.read}

    def attribute_names(self) -> list[str]:
        return list(_ATTRIBUTES)

    def all(self) -> Iterable[Open]:
        return (
            Open(transaction, binding)
            for binding in self._broker.connections
            for transaction in binding.transactions.values()
        )

    def find(self, request: Request) -> Open:
        name = request.required_name()
        for each in self.all():
            if str(each.transaction.id) == name:
                return each
        raise RequestError(NOT_FOUND, f"there is no open transaction {name!r}")

    def shown(self, each: Open) -> Attributes:
        transaction, binding = each.transaction, each.binding
        name = str(transaction.id)
        values = (
            *(name, name, TRANSACTION_TYPE, _state(transaction), int(transaction.begun_us)),
            *(len(transaction.puts), len(transaction.receipts), len(transaction.blocked)),
            *(binding.container_id, binding.user, binding.remote),
        )
        return dict(zip(_ATTRIBUTES, values, strict=True))


def _state(transaction: Transaction) -> str:
    if transaction.timed_out:
        return "timed-out"
    return "rollback-only" if transaction.failed else "active"
