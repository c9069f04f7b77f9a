"""Confirm ids and browse locks that hold messages, as the management node shows and ends them."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from postroom.manager.kernel.holders import BrowseLock, ConfirmIdHolder
from postroom.manager.message_store.verbs import EndHolder, holder_by_id
from postroom.manager.queues.queue import Queue
from postroom.model.entity_types import STORE_HOLDER_TYPE
from postroom.server.management.arguments import Arguments
from postroom.server.management.entity_type import ListedEntityType, Operation
from postroom.server.management.operations.message_store import shown
from postroom.server.management.operations.tickets import Ticket, asking_operations
from postroom.server.management.request import NOT_FOUND, Attributes, Request, RequestError

if TYPE_CHECKING:
    from postroom.server.connection.broker import Broker

CONFIRM_ID: Final = "confirm-id"
BROWSE_LOCK: Final = "browse-lock"
_ATTRIBUTES: Final = (
    *("name", "identity", "type", "kind", "queue", "confirm_id", "lock_id", "user"),
    *("since_us", "until_us", "messages", "messages_got"),
)


class Holding(NamedTuple):
    """One of them, and where."""

    queue: Queue
    holder: BrowseLock | ConfirmIdHolder


class StoreHolders(ListedEntityType[Holding]):
    """Those of one broker; one's name is its number as a holder in the ledger, of a lock also its lock id."""

    type: Final = STORE_HOLDER_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._manager: Final = broker.manager
        makers = {"END": _end}
        self.operations: Final[Mapping[str, Operation]] = {
            "READ": self.read,
            **asking_operations(broker.manager, shown, makers, lambda name: self._named(name).queue),
        }

    def attribute_names(self) -> list[str]:
        return list(_ATTRIBUTES)

    def all(self) -> Iterator[Holding]:
        for queue in self._manager.queues.values():
            if queue.store is not None:
                for lock in queue.store.locks.values():
                    yield Holding(queue, lock)
                for holder in queue.store.holders.values():
                    yield Holding(queue, holder)

    def find(self, request: Request) -> Holding:
        return self._named(request.required_name())

    def _named(self, name: str) -> Holding:
        id = int(name) if name.isascii() and name.isdecimal() and len(name) < 19 else 0
        for queue in self._manager.queues.values():
            holder = holder_by_id(queue, id)
            if holder is not None:
                return Holding(queue, holder)
        raise RequestError(NOT_FOUND, f"there is no confirm id or browse lock {name!r} that holds anything")

    def shown(self, each: Holding) -> Attributes:
        holder = each.holder
        name = str(holder.id)
        values = (
            *(name, name, STORE_HOLDER_TYPE, *_kind_of(holder)[:1], each.queue.name),
            *(int(holder.confirm_id), *_kind_of(holder)[1:], holder.user, int(holder.since_us)),
        )
        until_us, got = (int(holder.until_us), int(holder.got)) if isinstance(holder, BrowseLock) else (0, 0)
        return dict(zip(_ATTRIBUTES, (*values, until_us, len(holder.entries), got), strict=True))


def _kind_of(holder: BrowseLock | ConfirmIdHolder) -> tuple[str, int]:
    """Its kind; and the lock id, of a confirm id that of the lock through which it has got something."""
    if isinstance(holder, BrowseLock):
        return BROWSE_LOCK, int(holder.id)
    return CONFIRM_ID, int(holder.lock.id) if holder.lock is not None else 0


def _end(queue: Queue, ticket: Ticket, arguments: Arguments) -> EndHolder:
    return EndHolder(queue, ticket, int(arguments.name))
