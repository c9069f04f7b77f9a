"""The messages of a queue, as a test looks at them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from postroom.amqp.errors import DecodeError
from postroom.amqp.message.sections import Data, Message, Sequence, Value, decode_message
from postroom.manager.administration.message_queries import (
    CloseCursor,
    MessageRow,
    OpenCursor,
    QueryAnswer,
    ReadCursor,
)
from postroom.manager.administration.message_search import Wanted
from postroom.manager.administration.message_states import ALL_STATES, named
from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.outgoing_sections import outgoing_sections
from postroom.manager.message_store.pending_requests import StoreRequest
from postroom.manager.queues.queue import Queue
from postroom.model import numbers as n
from postroom.server.links.delivery_headers import changed_sections
from postroom.testing.clock import time_of
from postroom.testing.run import Run

Make = Callable[[Asker], StoreRequest]


@dataclass(frozen=True, kw_only=True)
class QueuedMessage:
    """One message that has not ended."""

    body: object
    """The value of an amqp-value (text is a str, a map a dict), the bytes of data, the list of a sequence;
    None where there is none."""
    message_id: str | bytes | UUID | int | None
    correlation_id: str | bytes | UUID | int | None
    subject: str | None
    properties: dict[str, object]
    """The application properties."""
    annotations: dict[str, object]
    """The message annotations, what outcomes have added included."""
    durable: bool
    priority: int
    delivery_count: int
    failure_count: int
    states: tuple[str, ...]
    """As message management names them: "visible", "receive", "delayed", …"""
    expires: datetime | None
    due: datetime | None
    """When it is born, or its redelivery delay ends."""
    origin_queue: str
    """Where a dead letter, or a redirected or moved message, came from; "" nowhere."""
    serial: int
    """By which the ledger knows it."""
    sections: bytes = field(repr=False)
    """Everything of it but the header, encoded."""


async def messages_of(run: Run, queue: Queue) -> list[QueuedMessage]:
    """What can be received, in order, then what is delayed, then what is held. Raises ManagerError."""
    cursor = await _answer(run, lambda asker: OpenCursor(queue, asker, Wanted(ALL_STATES), 0))
    found: list[QueuedMessage] = []
    at = 0
    while at < cursor.count:
        page = await _answer(run, _page(queue, cursor.cursor, at))
        at += len(page.rows)
        found += [message for row in page.rows if (message := _message(row)) is not None]
    await _answer(run, lambda asker: CloseCursor(queue, asker, cursor.cursor))
    return found


def _page(queue: Queue, cursor: int, at: int) -> Make:
    return lambda asker: ReadCursor(queue, asker, cursor, at, 1 << 16, True)


async def _answer(run: Run, make: Make) -> QueryAnswer:
    answer = await run.request(make)
    assert isinstance(answer, QueryAnswer)
    return answer


def _message(row: MessageRow) -> QueuedMessage | None:
    entry, body = row.entry, row.body
    if entry is None or body is None:
        return None  # it has ended meanwhile
    sections = changed_sections(outgoing_sections(entry, body), entry.annotations)
    message = _decoded(sections)
    properties = message.properties
    return QueuedMessage(
        body=_value(message),
        message_id=properties.message_id if properties else None,
        correlation_id=properties.correlation_id if properties else None,
        subject=properties.subject if properties else None,
        properties=message.application_properties,
        annotations={str(name): value for name, value in message.message_annotations.items()},
        durable=entry.flags & n.FLAG_DURABLE != 0,
        priority=int(entry.priority),
        delivery_count=int(entry.delivery_count),
        failure_count=int(entry.failure_count),
        states=tuple(named(row.states)),
        expires=time_of(entry.expiry_us) if entry.expiry_us else None,
        due=time_of(entry.due_us) if entry.due_us else None,
        origin_queue=row.parent_queue,
        serial=int(entry.serial),
        sections=sections,
    )


def _decoded(sections: bytes) -> Message:
    try:
        return decode_message(sections)
    except DecodeError:  # the broker takes messages whose inner parts nobody can read; `sections` has them
        return Message()


def _value(message: Message) -> object:
    body = message.body
    if isinstance(body, Value):
        return body.value
    if isinstance(body, Data):
        return b"".join(body.parts)
    return [each for part in body.lists for each in part] if isinstance(body, Sequence) else None
