"""Message management, as operations on messages: WebLogic JMS' getMessages, getMessage, deleteMessages,
moveMessages, importMessages, and the replay of dead letters.

The request's name is a queue or subscription, its body a map of arguments
(`docs/reference/message-management`). Answers come when they are there and durable.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from uuid import UUID

from postroom.amqp.errors import AmqpError
from postroom.amqp.message.message_head import scan_head
from postroom.manager.administration.message_import import MAX_IMPORTED, Imported, ImportMessages
from postroom.manager.administration.message_jobs import Acted
from postroom.manager.administration.message_moves import Changed, DeleteMessages, MoveMessages, Replay
from postroom.manager.administration.message_queries import (
    CloseCursor,
    MessageRow,
    OpenCursor,
    QueryAnswer,
    ReadCursor,
    ShowMessage,
)
from postroom.manager.administration.message_search import Wanted
from postroom.manager.administration.message_states import mask_of, named
from postroom.manager.kernel.outgoing_sections import outgoing_sections
from postroom.manager.queues.queue import Queue
from postroom.model import numbers as n
from postroom.model.codes import HolderKind
from postroom.model.message import MessageHead
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.links.delivery_headers import changed_sections, header_of
from postroom.server.management.arguments import US_A_MS, Arguments, check_reply_to
from postroom.server.management.operations.message_jobs import make_act, shown_acted
from postroom.server.management.operations.message_store import shown_id
from postroom.server.management.operations.tickets import Make, Ticket, asking_operations
from postroom.server.management.request import (
    BAD_REQUEST,
    LIMIT,
    Attributes,
    RequestError,
)

DEFAULT_CURSOR_IDLE_S: Final = 300
MAX_CURSOR_IDLE_S: Final = 86_400
_US_A_S: Final = 1_000_000


class MessageManagement:
    """What an administrator asks for, on the queues of one broker."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker: Final = broker
        self._producer: Final = broker.manager.open_producer("import", broker.config.container_id, "")
        makers: Mapping[str, Make] = {
            "OPEN-CURSOR": _open_cursor,
            "READ-CURSOR": self._read_cursor,
            "CLOSE-CURSOR": _close_cursor,
            "READ": _read,
            "DELETE-MESSAGES": _delete,
            "MOVE-MESSAGES": self._move,
            "REPLAY": _replay,
            "IMPORT-MESSAGES": self._import,
            "ACT": partial(make_act, str(UUID(broker.ledger_id))),
        }
        self.operations: Final = asking_operations(broker.manager, _shown, makers)

    def _read_cursor(self, queue: Queue, ticket: Ticket, arguments: Arguments) -> ReadCursor:
        count = arguments.number("count") or self._broker.manager.options.store_page_entries
        bodies = arguments.value("bodies", bool, False)
        return ReadCursor(
            queue, ticket, arguments.number("cursor"), arguments.number("offset"), count, bodies
        )

    def _move(self, queue: Queue, ticket: Ticket, arguments: Arguments) -> MoveMessages:
        to = arguments.value("to", str, "")
        if not to:
            raise RequestError(BAD_REQUEST, "MOVE-MESSAGES needs `to`, the queue that takes the messages")
        return MoveMessages(
            queue, ticket, _wanted(arguments), self._broker.manager.names.taker(to), *_how(arguments)
        )

    def _import(self, queue: Queue, ticket: Ticket, arguments: Arguments) -> ImportMessages:
        if self._broker.space_low:
            raise RequestError(LIMIT, "the broker's disk is nearly full: import later")
        messages = arguments.value("messages", list, [])
        if len(messages) > MAX_IMPORTED:
            raise RequestError(LIMIT, f"{len(messages)} messages: one request imports {MAX_IMPORTED}")
        taken = [_importable(each, number) for number, each in enumerate(messages)]
        for head, sections in taken:
            check_reply_to(self._broker, arguments, head, sections, 0)
        overrides = arguments.value("overrides", bool, False)
        return ImportMessages(queue, ticket, self._producer, taken, overrides)


def _open_cursor(queue: Queue, ticket: Ticket, arguments: Arguments) -> OpenCursor:
    idle_s = min(arguments.number("timeout_s", DEFAULT_CURSOR_IDLE_S), MAX_CURSOR_IDLE_S)
    return OpenCursor(queue, ticket, _wanted(arguments), idle_s * _US_A_S)


def _close_cursor(queue: Queue, ticket: Ticket, arguments: Arguments) -> CloseCursor:
    return CloseCursor(queue, ticket, arguments.number("cursor"))


def _read(queue: Queue, ticket: Ticket, arguments: Arguments) -> ShowMessage:
    wanted = _wanted(arguments)
    if wanted.serial == 0 and wanted.message_id_type == 0:
        raise RequestError(BAD_REQUEST, "READ needs a message_id or serial")
    return ShowMessage(queue, ticket, wanted, arguments.value("bodies", bool, True))


def _delete(queue: Queue, ticket: Ticket, arguments: Arguments) -> DeleteMessages:
    return DeleteMessages(queue, ticket, _wanted(arguments), arguments.value("if_paused", bool, False))


def _replay(queue: Queue, ticket: Ticket, arguments: Arguments) -> Replay:
    return Replay(queue, ticket, _wanted(arguments), arguments.value("to", str, ""), *_how(arguments))


def _wanted(arguments: Arguments) -> Wanted:
    """Which messages the request means. Raises SelectorRefused, RequestInvalid."""
    states = arguments.value("states", list, [])
    wanted = Wanted(mask_of([str(each) for each in states]), arguments.value("selector", str, ""))
    by_id = arguments.filter()
    wanted.message_id, wanted.message_id_type = by_id.message_id, by_id.message_id_type
    wanted.serial = arguments.number("serial")
    return wanted


def _how(arguments: Arguments) -> tuple[bool, bool]:
    return arguments.value("if_paused", bool, False), arguments.value("in_pieces", bool, False)


def _importable(given: object, number: int) -> tuple[MessageHead, bytes]:
    """A message of an import: its bytes, or a map with them as ``message`` and with absolute times."""
    fields = given if isinstance(given, dict) else {"message": given}
    message = fields.get("message")
    if not isinstance(message, bytes):
        raise RequestError(BAD_REQUEST, f"messages[{number}] has no message as binary")
    try:
        head = scan_head(message)
    except AmqpError as error:
        raise RequestError(BAD_REQUEST, f"messages[{number}]: {error.description}") from None
    expires_us, due_us = fields.get("expires_us"), fields.get("due_us")
    if isinstance(expires_us, int):
        head.expiry_us, head.ttl_ms = expires_us, -1
    if isinstance(due_us, int):
        head.delivery_time_ms, head.delivery_delay_ms = -(-due_us // US_A_MS), 0
    return head, message[head.bare_offset :]


def _shown_query(answer: object, now_us: int) -> Attributes:
    assert isinstance(answer, QueryAnswer)
    attributes: Attributes = {
        "count": answer.count,
        "messages": [_shown_row(row, now_us) for row in answer.rows],
    }
    if answer.cursor:
        attributes["cursor"] = answer.cursor
    return attributes


def _shown_row(row: MessageRow, now_us: int) -> Attributes:
    """One message; only what says something."""
    entry, ids = row.entry, row.ids
    if entry is None or ids is None:
        return {"serial": row.serial, "gone": True}
    durable = entry.flags & n.FLAG_DURABLE != 0
    attributes: Attributes = {
        "serial": entry.serial,
        "states": named(row.states),
        "message_id": shown_id(ids.message_id, ids.message_id_type),
        "correlation_id": shown_id(ids.correlation_id, ids.correlation_id_type),
        "priority": entry.priority,
        "durable": durable,
        "delivery_count": entry.delivery_count,
        "failure_count": entry.failure_count,
        "body_bytes": entry.body_len,
        "expires_us": entry.expiry_us or None,
        "due_us": entry.due_us or None,
        "created_us": ids.creation_us or None,
        "group_id": ids.group_id.decode("utf-8", "replace") or None,
        "origin_queue": row.parent_queue or None,
    }
    if entry.holder_kind:
        attributes["held_by"] = HolderKind(entry.holder_kind).name.lower()
        attributes["holder"] = entry.holder
        attributes["deleted_on_return"] = entry.noted == n.EVENT_DELETE or None
    if row.body:
        header = header_of(durable, entry.priority, entry.expiry_us, entry.delivery_count, now_us)
        attributes["message"] = header + changed_sections(
            outgoing_sections(entry, row.body), entry.annotations
        )
    return {name: value for name, value in attributes.items() if value is not None}


def _shown_change(done: object, now_us: int) -> Attributes:
    assert isinstance(done, Changed)
    return {"count": done.count, "more": done.more, "without_origin": done.without_origin}


def _shown_import(done: object, now_us: int) -> Attributes:
    assert isinstance(done, Imported)
    return {"created": done.created, "replaced": done.replaced}


_SHOWN: Final[Mapping[type, Callable[[object, int], Attributes]]] = {
    QueryAnswer: _shown_query,
    Changed: _shown_change,
    Imported: _shown_import,
    Acted: shown_acted,
}
"""How an answer is told, by its type."""


def _shown(answer: object, now_us: int) -> Attributes:
    return _SHOWN[type(answer)](answer, now_us)
