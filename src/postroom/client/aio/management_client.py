"""Requests to the broker's management node, ``$management``.

Each request is a message whose application properties name the operation and the kind of thing (AMQP
Management, working draft 9); the answer comes on a link of the client's own, found again by its
correlation id.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from postroom.amqp.extensions import MANAGEMENT_ADDRESS
from postroom.client.aio.closable import Closable
from postroom.client.aio.consumer import MessageConsumer
from postroom.client.aio.producer import MessageProducer
from postroom.client.aio.session import Session
from postroom.client.connection.transport import within
from postroom.client.durations import check_duration
from postroom.client.exceptions import JMSTimeoutException
from postroom.client.messages.management_answers import (
    ManagementReply,
    raise_unless_ok,
    reply_from_message,
    rows_of_query,
)
from postroom.client.messages.message import Message

__all__ = ["ManagementClient"]

QUERY_PAGE_ROWS: Final = 1_000


async def requests_in(session: Session, timeout_s: float | None, ends: bool = False) -> ManagementClient:
    """A client of the management node in ``session``, which with ``ends`` ends with it."""
    producer = await session.create_producer(MANAGEMENT_ADDRESS)
    reply_to = f"answers-{uuid.uuid4()}"
    replies = await session.create_answer_consumer(MANAGEMENT_ADDRESS, reply_to)
    return ManagementClient(producer, replies, reply_to, timeout_s, session if ends else None)


class ManagementClient(Closable):
    """Creates, reads, changes, deletes and lists what the broker has. Made by
    :meth:`Connection.create_management`.

    Every method raises what the broker answers: ManagementException, or the exception that JMS has for its
    condition, such as InvalidDestinationException where there is no thing of that name.
    """

    def __init__(
        self,
        producer: MessageProducer,
        replies: MessageConsumer,
        reply_to: str,
        request_timeout_s: float | None,
        session: Session | None = None,
    ) -> None:
        """``reply_to``: by which ``replies`` has the answers. ``session``: what ends with it; None where the
        session is somebody else's."""
        self._session = session
        self._producer = producer
        self._replies = replies
        self._address = reply_to
        self._request_timeout_s = request_timeout_s
        self._numbers = itertools.count(1)
        self._one_at_a_time = asyncio.Lock()

    async def request(
        self,
        operation: str,
        *,
        kind: str | None = None,
        name: str | None = None,
        body: object = None,
        properties: Mapping[str, object] | None = None,
        patience_s: float = 0.0,
    ) -> ManagementReply:
        """Send any request and wait for its answer; ``kind`` is the property ``type``, ``properties`` are
        further ones. ``patience_s``: how much longer than others it may take.
        """
        headers: dict[str, object] = {"operation": operation, **(properties or {})}
        if kind is not None:
            headers["type"] = kind
        if name is not None:
            headers["name"] = name
        check_duration("patience_s", patience_s)
        number = f"{next(self._numbers)}"
        async with self._one_at_a_time:
            # After a break the link for answers must be there again before the request.
            online = self._producer._sending.provider.online()
            await within(online, self._request_timeout_s, f"request to {MANAGEMENT_ADDRESS}")
            await self._producer.send(
                Message(body, properties=headers, message_id=number, reply_to=self._address, durable=False)
            )
            reply = reply_from_message(await self._reply_to(number, patience_s))
        raise_unless_ok(reply, f"{operation} {kind or ''} {name or ''}".strip())
        return reply

    async def _reply_to(self, number: str, patience_s: float) -> Message:
        """The answer to request ``number``; answers to requests given up before are passed over."""
        usual_s = self._request_timeout_s
        timeout_s = None if usual_s is None else usual_s + patience_s
        while True:
            message = await self._replies.receive(timeout_s)
            if message is None:
                raise JMSTimeoutException(f"no answer of {MANAGEMENT_ADDRESS} within {timeout_s} s")
            if message.correlation_id == number:
                return message

    async def create(
        self, kind: str, name: str, attributes: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        """Create a thing of type ``kind``; returns its attributes."""
        return (await self.request("CREATE", kind=kind, name=name, body=dict(attributes or {}))).attributes()

    async def read(self, kind: str, name: str) -> dict[str, object]:
        """The attributes of a thing."""
        return (await self.request("READ", kind=kind, name=name)).attributes()

    async def update(self, kind: str, name: str, attributes: Mapping[str, object]) -> dict[str, object]:
        """Change attributes of a thing; returns all of them."""
        return (await self.request("UPDATE", kind=kind, name=name, body=dict(attributes))).attributes()

    async def delete(
        self, kind: str, name: str, options: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        """Delete a thing; ``options`` go into the request's properties. Returns what the broker says of
        it.
        """
        return (await self.request("DELETE", kind=kind, name=name, properties=options)).attributes()

    async def query(self, kind: str, attribute_names: Sequence[str] = ()) -> list[dict[str, object]]:
        """All things of type ``kind``, with the attributes named (none named: all)."""
        found: list[dict[str, object]] = []
        while True:
            page = {"entityType": kind, "offset": len(found), "count": QUERY_PAGE_ROWS}
            body = {"attributeNames": list(attribute_names)}
            rows = rows_of_query(await self.request("QUERY", body=body, properties=page))
            found += rows
            if len(rows) < QUERY_PAGE_ROWS:
                return found

    async def close(self) -> None:
        """Close the links to the management node, and the session that was begun for them: a connection has
        only so many.
        """
        await self._producer.close()
        await self._replies.close()
        if self._session is not None:
            await self._session.close()
