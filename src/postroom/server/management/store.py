"""The verbs of the message store of MQ Everyplace, as operations on messages.

The request's name is the queue, its body a map of arguments (`docs/reference/message-store`). Answers come
when they are there and durable; a request whose link goes before that is dropped.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from postroom.amqp.errors import AmqpError
from postroom.amqp.messaging import scan_head
from postroom.amqp.types import ULong
from postroom.manager.asking import StoreRequest
from postroom.manager.queue import Queue
from postroom.manager.store_browsing import Browse, BrowseAndLock, Listen, Unlock
from postroom.manager.store_filter import ANY_PRIORITY, StoreFilter
from postroom.manager.store_putting import ConfirmPut, Put
from postroom.manager.store_verbs import (
    Confirm,
    ConfirmGet,
    Delete,
    Get,
    StoreAnswer,
    StoreRow,
    Undo,
)
from postroom.model.codes import IdType
from postroom.model.ids import pack_unique_id, unpack_unique_id
from postroom.server.headers import changed_sections, header_of
from postroom.server.management.noun import Operation
from postroom.server.management.request import (
    BAD_REQUEST,
    LIMIT,
    Attributes,
    Later,
    Request,
    RequestError,
)
from postroom.server.management.tickets import Ticket

if TYPE_CHECKING:
    from postroom.server.broker import Broker

T = TypeVar("T")

MAX_NUMBER: Final = (1 << 63) - 1
MAX_PRIORITY: Final = 9
MAX_LEASE_MS: Final = 1 << 50
PLACE_NUMBERS: Final = 3
_US_A_MS: Final = 1000
_ULONG_BYTES: Final = 8


class StoreOperations:
    """What an application of MQ Everyplace asks for, on the queues of one broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker: Final = broker
        self._producer: Final = broker.manager.open_producer("message-store", broker.config.container_id, "")
        self.operations: Final[Mapping[str, Operation]] = {
            "PUT-MESSAGE": self._put,
            "CONFIRM-PUT": self._confirm_put,
            "GET-MESSAGE": self._get,
            "CONFIRM-GET": self._confirm_get,
            "BROWSE": self._browse,
            "BROWSE-AND-LOCK": self._browse_and_lock,
            "UNLOCK": self._unlock,
            "UNDO": self._undo,
            "CONFIRM": self._confirm,
            "DELETE-MESSAGE": self._delete,
            "WAIT": self._wait,
            "LISTEN": self._listen,
        }

    def _put(self, request: Request, now_us: int) -> Later:
        said = Arguments(request)
        message = said.value("message", bytes, b"")
        if self._broker.space_low:
            raise RequestError(LIMIT, "the broker's disk is nearly full: put it later")
        try:
            head = scan_head(message)
        except AmqpError as error:
            raise RequestError(BAD_REQUEST, f"message: {error.description}") from None
        unique_id = said.unique_id()
        if unique_id:
            head.unique_id = unique_id
        body = message[head.bare_offset :]
        confirm_id, resend = said.number("confirm_id"), said.value("resend", bool, False)
        ticket = Ticket(shown)
        return self._ask(
            ticket,
            Put(self._queue(request), ticket, self._producer, head, body, confirm_id, resend),
            now_us,
        )

    def _confirm_put(self, request: Request, now_us: int) -> Later:
        said, ticket = Arguments(request), Ticket(shown)
        verb = ConfirmPut(self._queue(request), ticket, said.filter(), said.number("confirm_id"))
        return self._ask(ticket, verb, now_us)

    def _get(self, request: Request, now_us: int) -> Later:
        said, ticket = Arguments(request), Ticket(shown)
        verb = Get(self._queue(request), ticket, said.filter(), said.number("confirm_id"), 0)
        return self._ask(ticket, verb, now_us)

    def _wait(self, request: Request, now_us: int) -> Later:
        said, ticket = Arguments(request), Ticket(shown)
        until_us = self._until_us(said, now_us)
        verb = Get(self._queue(request), ticket, said.filter(), said.number("confirm_id"), until_us)
        return self._ask(ticket, verb, now_us)

    def _confirm_get(self, request: Request, now_us: int) -> Later:
        said, ticket = Arguments(request), Ticket(shown)
        verb = ConfirmGet(self._queue(request), ticket, said.filter(), said.number("confirm_id"))
        return self._ask(ticket, verb, now_us)

    def _browse(self, request: Request, now_us: int) -> Later:
        said, ticket = Arguments(request), Ticket(shown)
        limit = said.number("count") or self._broker.manager.options.store_page_entries
        just_uid = said.value("just_uid", bool, False)
        verb = Browse(self._queue(request), ticket, said.filter(), just_uid, said.place(), limit)
        return self._ask(ticket, verb, now_us)

    def _browse_and_lock(self, request: Request, now_us: int) -> Later:
        said, ticket = Arguments(request), Ticket(shown)
        lease_us = min(said.number("lease_ms"), MAX_LEASE_MS) * _US_A_MS
        just_uid, confirm_id = said.value("just_uid", bool, False), said.number("confirm_id")
        queue = self._queue(request)
        return self._ask(
            ticket, BrowseAndLock(queue, ticket, said.filter(), just_uid, confirm_id, lease_us), now_us
        )

    def _unlock(self, request: Request, now_us: int) -> Later:
        ticket = Ticket(shown)
        return self._ask(ticket, Unlock(self._queue(request), ticket, Arguments(request).filter()), now_us)

    def _delete(self, request: Request, now_us: int) -> Later:
        ticket = Ticket(shown)
        return self._ask(ticket, Delete(self._queue(request), ticket, Arguments(request).filter()), now_us)

    def _undo(self, request: Request, now_us: int) -> Later:
        ticket = Ticket(shown)
        confirm_id = Arguments(request).number("confirm_id")
        return self._ask(ticket, Undo(self._queue(request), ticket, confirm_id), now_us)

    def _confirm(self, request: Request, now_us: int) -> Later:
        ticket = Ticket(shown)
        confirm_id = Arguments(request).number("confirm_id")
        return self._ask(ticket, Confirm(self._queue(request), ticket, confirm_id), now_us)

    def _listen(self, request: Request, now_us: int) -> Later:
        said, ticket = Arguments(request), Ticket(shown)
        position = said.number("position", -1)
        until_us = self._until_us(said, now_us)
        verb = Listen(self._queue(request), ticket, said.filter(), position, until_us)
        return self._ask(ticket, verb, now_us)

    def _queue(self, request: Request) -> Queue:
        return self._broker.manager.queue(request.required_name())

    def _until_us(self, said: "Arguments", now_us: int) -> int:
        timeout_ms = min(said.number("timeout_ms"), self._broker.manager.options.max_store_wait_ms)
        return now_us + timeout_ms * _US_A_MS

    def _ask(self, ticket: Ticket, verb: StoreRequest, now_us: int) -> Later:
        return ticket.ask(self._broker.manager, verb, now_us)


class Arguments:
    """The body of a request, taken apart."""

    def __init__(self, request: Request) -> None:
        self._said: Final = request.attributes()

    def value(self, name: str, kind: type[T], default: T) -> T:
        """An argument of that type."""
        value = self._said.get(name, default)
        if not isinstance(value, kind):
            raise RequestError(BAD_REQUEST, f"{name} is {value!r}, must be of type {kind.__name__}")
        return value

    def number(self, name: str, default: int = 0) -> int:
        """A whole number that is not negative."""
        value = self._said.get(name, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not min(default, 0) <= value <= MAX_NUMBER
        ):
            raise RequestError(BAD_REQUEST, f"{name} is {value!r}, must be a whole number of 0 or more")
        return int(value)

    def filter(self) -> StoreFilter:
        """Which messages are meant."""
        made = StoreFilter()
        made.unique_id = self.unique_id()
        made.message_id, made.message_id_type = _id_of("message_id", self._said.get("message_id"))
        made.correlation_id, made.correlation_id_type = _id_of(
            "correlation_id", self._said.get("correlation_id")
        )
        made.priority = self.number("priority", ANY_PRIORITY)
        if made.priority > MAX_PRIORITY:
            raise RequestError(BAD_REQUEST, f"priority is {made.priority}, must be 0 to {MAX_PRIORITY}")
        made.properties = self._properties()
        made.lock_id = self.number("lock_id")
        return made

    def unique_id(self) -> bytes:
        """Packed; b"" where there is none."""
        origin, time = self._said.get("origin"), self._said.get("time")
        if origin is None and time is None:
            return b""
        if not isinstance(origin, str) or isinstance(time, bool) or not isinstance(time, int):
            raise RequestError(BAD_REQUEST, "a unique id is both: origin, a string, and time, a whole number")
        try:
            return pack_unique_id(origin, time)
        except ValueError as error:
            raise RequestError(BAD_REQUEST, str(error)) from None

    def place(self) -> list[int]:
        """Where a page begins: what the answer before it gave as ``after``."""
        value = self._said.get("after")
        if value is None:
            return []
        is_place = isinstance(value, list) and len(value) == PLACE_NUMBERS and all(map(_is_number, value))
        if is_place and value[0] <= MAX_PRIORITY:
            return [int(each) for each in value]
        raise RequestError(BAD_REQUEST, "after must be what the answer before gave")

    def _properties(self) -> dict[str, object]:
        value = self._said.get("properties")
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise RequestError(BAD_REQUEST, "properties must be a map of application properties")
        return {str(name): wanted for name, wanted in value.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER


def _id_of(name: str, value: object) -> tuple[bytes, int]:
    """An id as the index has it, and its IdType."""
    if value is None:
        return b"", int(IdType.NONE)
    if isinstance(value, str):
        return value.encode(), int(IdType.STRING)
    if isinstance(value, bytes):
        return value, int(IdType.BINARY)
    if isinstance(value, UUID):
        return value.bytes, int(IdType.UUID)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64:
        return value.to_bytes(_ULONG_BYTES, "big"), int(IdType.ULONG)
    raise RequestError(BAD_REQUEST, f"{name} is {value!r}, must be a string, binary, uuid or ulong")


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
    told: Attributes = {"count": answer.count}
    if answer.unique_id:
        told["origin"], told["time"] = unpack_unique_id(answer.unique_id)
    if answer.rows or answer.lock_id:
        told["messages"] = [_shown_row(row, now_us) for row in answer.rows]
    if answer.lock_id:
        told["lock_id"] = answer.lock_id
    if answer.after:
        told["after"] = answer.after
    return told


def _shown_row(row: StoreRow, now_us: int) -> Attributes:
    origin, time = unpack_unique_id(row.unique_id)
    ids = row.ids
    told: Attributes = {
        "origin": origin,
        "time": time,
        "message_id": shown_id(ids.message_id, ids.message_id_type),
        "correlation_id": shown_id(ids.correlation_id, ids.correlation_id_type),
        "priority": row.priority,
    }
    if row.body is not None:
        header = header_of(row.durable, row.priority, row.expiry_us, row.delivery_count, now_us)
        told["message"] = header + changed_sections(row.body, row.annotations)
    return told
