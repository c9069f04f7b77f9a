"""The verbs of the message store of MQ Everyplace, as operations on messages.

The request's name is the queue, its body a map of arguments (`docs/reference/message-store`). Answers come
when they are there and durable; a request whose link goes before that is dropped.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from postroom.amqp.encoding.types import ULong
from postroom.manager.message_store.browsing import Browse, BrowseAndLock, Listen, Unlock
from postroom.manager.message_store.put_verbs import ConfirmPut, Put
from postroom.manager.message_store.verbs import (
    Confirm,
    ConfirmGet,
    Delete,
    Get,
    StoreAnswer,
    StoreRow,
    Undo,
)
from postroom.manager.names.remote_queues import ResolvedName
from postroom.manager.queues.queue import Queue
from postroom.model.codes import IdType
from postroom.model.ids import unpack_unique_id
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.links.delivery_headers import changed_sections, header_of
from postroom.server.management.arguments import US_A_MS, Arguments, new_message
from postroom.server.management.operations.tickets import Make, Ticket, asking_operations
from postroom.server.management.request import (
    Attributes,
)

MAX_LEASE_MS: Final = 1 << 50


class StoreOperations:
    """What an application of MQ Everyplace asks for, on the queues of one broker."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker: Final = broker
        self._options: Final = broker.manager.options
        self._producer: Final = broker.manager.open_producer("message-store", broker.config.container_id, "")
        putters: Mapping[str, Make] = {
            "PUT-MESSAGE": self._put,
            "CONFIRM-PUT": _confirm_put,
            "UNDO": _undo,
            "CONFIRM": _confirm,
        }
        makers: Mapping[str, Make] = {
            "GET-MESSAGE": _get,
            "CONFIRM-GET": _confirm_get,
            "BROWSE": self._browse,
            "BROWSE-AND-LOCK": _browse_and_lock,
            "UNLOCK": _unlock,
            "DELETE-MESSAGE": _delete,
            "WAIT": self._wait,
            "LISTEN": self._listen,
        }
        self._names: Final = broker.manager.names
        self.operations: Final = {
            **asking_operations(broker.manager, shown, putters, lambda name: self._leads(name).queue),
            **asking_operations(broker.manager, shown, makers),
        }

    def _leads(self, name: str) -> ResolvedName:
        """Where what is put to ``name`` goes: one may put to a queue at another queue manager, too."""
        return self._names.taker(name)

    def _put(self, queue: Queue, ticket: Ticket, arguments: Arguments) -> Put:
        head, sections = new_message(self._broker, arguments)
        unique_id = arguments.unique_id()
        if unique_id:
            head.unique_id = unique_id
        body = self._names.sent_to(self._leads(arguments.name), sections)
        confirm_id, resend = arguments.number("confirm_id"), arguments.value("resend", bool, False)
        return Put(queue, ticket, self._producer, head, body, confirm_id, resend)

    def _browse(self, queue: Queue, ticket: Ticket, arguments: Arguments) -> Browse:
        limit = arguments.number("count") or self._options.store_page_entries
        just_uid = arguments.value("just_uid", bool, False)
        return Browse(queue, ticket, arguments.filter(), just_uid, arguments.place(), limit)

    def _wait(self, queue: Queue, ticket: Ticket, arguments: Arguments) -> Get:
        until_us = arguments.until_us(self._options.max_store_wait_ms)
        return Get(queue, ticket, arguments.filter(), arguments.number("confirm_id"), until_us)

    def _listen(self, queue: Queue, ticket: Ticket, arguments: Arguments) -> Listen:
        until_us = arguments.until_us(self._options.max_store_wait_ms)
        return Listen(queue, ticket, arguments.filter(), arguments.number("position", -1), until_us)


def _confirm_put(queue: Queue, ticket: Ticket, arguments: Arguments) -> ConfirmPut:
    return ConfirmPut(queue, ticket, arguments.filter(), arguments.number("confirm_id"))


def _get(queue: Queue, ticket: Ticket, arguments: Arguments) -> Get:
    return Get(queue, ticket, arguments.filter(), arguments.number("confirm_id"), 0)


def _confirm_get(queue: Queue, ticket: Ticket, arguments: Arguments) -> ConfirmGet:
    return ConfirmGet(queue, ticket, arguments.filter(), arguments.number("confirm_id"))


def _browse_and_lock(queue: Queue, ticket: Ticket, arguments: Arguments) -> BrowseAndLock:
    lease_us = min(arguments.number("lease_ms"), MAX_LEASE_MS) * US_A_MS
    just_uid, confirm_id = arguments.value("just_uid", bool, False), arguments.number("confirm_id")
    return BrowseAndLock(queue, ticket, arguments.filter(), just_uid, confirm_id, lease_us)


def _unlock(queue: Queue, ticket: Ticket, arguments: Arguments) -> Unlock:
    return Unlock(queue, ticket, arguments.filter())


def _delete(queue: Queue, ticket: Ticket, arguments: Arguments) -> Delete:
    return Delete(queue, ticket, arguments.filter())


def _undo(queue: Queue, ticket: Ticket, arguments: Arguments) -> Undo:
    return Undo(queue, ticket, arguments.number("confirm_id"))


def _confirm(queue: Queue, ticket: Ticket, arguments: Arguments) -> Confirm:
    return Confirm(queue, ticket, arguments.number("confirm_id"))


def shown_id(id: bytes, type: int) -> object:
    """An id as the AMQP value that it was; None where there is none."""
    if type == IdType.STRING:
        return id.decode("utf-8", "replace")
    if type == IdType.UUID:
        return UUID(bytes=id)
    if type == IdType.ULONG:
        return ULong(int.from_bytes(id, "big"))
    return id if type == IdType.BINARY else None


def shown(answer: object, now_us: int) -> Attributes:
    """The answer as attributes; only those that say something."""
    assert isinstance(answer, StoreAnswer)
    attributes: Attributes = {"count": answer.count}
    if answer.unique_id:
        attributes["origin"], attributes["time"] = unpack_unique_id(answer.unique_id)
    if answer.rows or answer.lock_id:
        attributes["messages"] = [_shown_row(row, now_us) for row in answer.rows]
    if answer.lock_id:
        attributes["lock_id"] = answer.lock_id
    if answer.after:
        attributes["after"] = answer.after
    return attributes


def _shown_row(row: StoreRow, now_us: int) -> Attributes:
    origin, time = unpack_unique_id(row.unique_id)
    ids = row.ids
    attributes: Attributes = {
        "origin": origin,
        "time": time,
        "message_id": shown_id(ids.message_id, ids.message_id_type),
        "correlation_id": shown_id(ids.correlation_id, ids.correlation_id_type),
        "priority": row.priority,
    }
    if row.body is not None:
        header = header_of(row.durable, row.priority, row.expiry_us, row.delivery_count, now_us)
        attributes["message"] = header + changed_sections(row.body, row.annotations)
    return attributes
