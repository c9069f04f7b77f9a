"""Confirm ids and browse locks that hold messages, as the management node shows and ends them."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from postroom.manager.message_store.verbs import EndHolder, holder_by_id
from postroom.manager.queues.queue import Queue
from postroom.manager.queues.store_holders import BrowseLock, ConfirmIdHolder
from postroom.model.entity_types import STORE_HOLDER_TYPE
from postroom.server.management.arguments import Arguments
from postroom.server.management.entity_type import Columns, ListedEntityType, Operation, same_named
from postroom.server.management.operations.message_store import shown
from postroom.server.management.operations.tickets import Ticket, asking_operations
from postroom.server.management.request import NOT_FOUND, Request, RequestError

CONFIRM_ID: Final = "confirm-id"
BROWSE_LOCK: Final = "browse-lock"


class Holding(NamedTuple):
    """One of them, and where."""

    queue: Queue
    holder: BrowseLock | ConfirmIdHolder


class StoreHolders(ListedEntityType[Holding]):
    """Those of one broker; one's name is its number as a holder in the ledger, of a lock also its lock id."""

    type: Final = STORE_HOLDER_TYPE

    def make_columns(self) -> Columns[Holding]:
        return {
            "kind": lambda each: BROWSE_LOCK if isinstance(each.holder, BrowseLock) else CONFIRM_ID,
            "queue": lambda each: each.queue.name,
            "confirm_id": lambda each: int(each.holder.confirm_id),
            "lock_id": lambda each: _lock_id(each.holder),
            **same_named("user", of="holder"),
            "since_us": lambda each: int(each.holder.since_us),
            "until_us": lambda each: int(each.holder.until_us) if isinstance(each.holder, BrowseLock) else 0,
            "messages": lambda each: len(each.holder.entries),
            "messages_got": lambda each: int(each.holder.got) if isinstance(each.holder, BrowseLock) else 0,
        }

    def make_operations(self) -> Mapping[str, Operation]:
        makers = {"END": _end}
        return {
            "READ": self.read,
            **asking_operations(self.manager, shown, makers, lambda name: self._named(name).queue),
        }

    def all(self) -> Iterator[Holding]:
        for queue in self.manager.queues.values():
            if queue.store is not None:
                for lock in queue.store.locks.values():
                    yield Holding(queue, lock)
                for holder in queue.store.holders.values():
                    yield Holding(queue, holder)

    def find(self, request: Request) -> Holding:
        return self._named(request.required_name())

    def _named(self, name: str) -> Holding:
        id = int(name) if name.isascii() and name.isdecimal() and len(name) < 19 else 0
        for queue in self.manager.queues.values():
            holder = holder_by_id(queue, id)
            if holder is not None:
                return Holding(queue, holder)
        raise RequestError(NOT_FOUND, f"there is no confirm id or browse lock {name!r} that holds anything")

    def name_of(self, thing: Holding) -> str:
        return str(thing.holder.id)


def _lock_id(holder: BrowseLock | ConfirmIdHolder) -> int:
    """Its own; of a confirm id that of the lock through which it has got something."""
    lock = holder if isinstance(holder, BrowseLock) else holder.lock
    return int(lock.id) if lock is not None else 0


def _end(queue: Queue, ticket: Ticket, said: Arguments) -> EndHolder:
    return EndHolder(queue, ticket, int(said.name))
