"""The message store of a queue, with the verbs of MQ Everyplace: the asyncio face.

A message is put, got, or browsed and locked in two steps where the caller gives a confirm id, a number
greater than 0 of its own choice: the first step holds the message, the second (confirm, or undo) decides.
What is held is kept over the end of the connection, of the application and of the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from postroom.client.aio.closable import Closable
from postroom.client.aio.management_client import ManagementClient
from postroom.client.durations import MS_A_SECOND, check_duration
from postroom.client.exceptions import JMSException, NoMatchingMessageException
from postroom.client.messages.message import Body, as_message, encode_message
from postroom.client.messages.stored_messages import (
    EVERY_MESSAGE,
    BrowseLock,
    MessageEvent,
    MessageFilter,
    StoredMessage,
    UniqueId,
    number_of,
    rows_of,
    unique_id_of,
)
from postroom.model.entity_types import MESSAGE_TYPE

__all__ = ["MessageListener", "MessageStore"]

LISTEN_ROUND_S: Final = 30.0
"""A listener asks again after so long without an event."""


class MessageStore(Closable):
    """The message store of one queue. Made by :meth:`Connection.create_message_store`.

    Every verb raises NoMatchingMessageException (Except_Q_NoMatchingMsg) where no message is in a state in
    which the caller may see it, InvalidDestinationException where the queue is gone, and what requests to the
    broker raise.
    """

    def __init__(
        self,
        queue: str,
        requests: ManagementClient,
        another: Callable[[], Awaitable[ManagementClient]],
    ) -> None:
        self._queue = queue
        self._requests = requests
        self._another = another
        self._idle: list[ManagementClient] = []
        """For requests that wait: each has one to itself, so that it holds up nothing else."""
        self._opened: list[ManagementClient] = [requests]

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._queue

    async def put(
        self,
        message: Body,
        *,
        confirm_id: int = 0,
        unique_id: UniqueId | None = None,
        resend: bool = False,
    ) -> UniqueId:
        """putMessage: returns the message's unique id, which the broker derives where none is given.

        ``confirm_id`` 0: it is available at once. Otherwise it is invisible until it is confirmed. ``resend``
        (Msg_Resend): the answer to an earlier put was lost; that copy is replaced. Raises
        DuplicateMessageException for a unique id that is there already, ResourceAllocationException (queue
        full).
        """
        arguments = MessageFilter(unique_id=unique_id).arguments()
        arguments |= {"message": encode_message(as_message(message), self._queue)}
        arguments |= {"confirm_id": confirm_id, "resend": resend}
        return unique_id_of(await self._request("PUT-MESSAGE", arguments))

    async def confirm_put(self, unique_id: UniqueId, confirm_id: int = 0) -> None:
        """confirmPutMessage: the message is available from now on; a second time nothing happens.

        ``confirm_id`` is that of the put; 0 only where the queue has ``confirm_id_required`` off.
        """
        arguments = MessageFilter(unique_id=unique_id).arguments()
        await self._request("CONFIRM-PUT", arguments | {"confirm_id": confirm_id})

    async def get(self, filter: MessageFilter = EVERY_MESSAGE, *, confirm_id: int = 0) -> StoredMessage:
        """getMessage: the first that matches, by priority and then arrival.

        ``confirm_id`` 0: it is gone with the answer. Otherwise it is hidden until confirmed or undone. With a
        lock id in the filter: one of those that a browse has locked.
        """
        return _only(await self._request("GET-MESSAGE", filter.arguments() | {"confirm_id": confirm_id}))

    async def wait(
        self, filter: MessageFilter = EVERY_MESSAGE, *, timeout_s: float, confirm_id: int = 0
    ) -> StoredMessage:
        """waitForMessage: as :meth:`get`, but one that is not there yet is waited for, ``timeout_s``
        seconds.
        """
        check_duration("timeout_s", timeout_s)
        timeout_ms = int(timeout_s * MS_A_SECOND)
        arguments = filter.arguments() | {"confirm_id": confirm_id, "timeout_ms": timeout_ms}
        waiting = self._idle.pop() if self._idle else await self._open()
        try:
            reply = await waiting.request(
                "WAIT", kind=MESSAGE_TYPE, name=self._queue, body=arguments, patience_s=timeout_s
            )
        except asyncio.CancelledError:
            await waiting.close()  # so that the broker gives no message to who has gone
            raise
        except JMSException:
            self._idle.append(waiting)
            raise
        self._idle.append(waiting)
        return _only(reply.attributes())

    async def _open(self) -> ManagementClient:
        self._opened.append(await self._another())
        return self._opened[-1]

    async def confirm_get(self, unique_id: UniqueId, confirm_id: int = 0) -> None:
        """confirmGetMessage: the message that was got is gone; a second time nothing happens. ``confirm_id``
        as for :meth:`confirm_put`.
        """
        arguments = MessageFilter(unique_id=unique_id).arguments()
        await self._request("CONFIRM-GET", arguments | {"confirm_id": confirm_id})

    async def browse(
        self, filter: MessageFilter = EVERY_MESSAGE, *, just_uid: bool = False
    ) -> list[StoredMessage]:
        """browseMessages: all that match, in order, without touching them; ``just_uid``: ids only."""
        return await self._pages(filter, just_uid)

    async def browse_and_lock(
        self,
        filter: MessageFilter = EVERY_MESSAGE,
        *,
        just_uid: bool = False,
        confirm_id: int = 0,
        lease_s: float = 0,
    ) -> BrowseLock:
        """browseMessagesAndLock: all that match now, hidden from everybody who hasn't the lock id.

        Messages that come later are not locked. What is still locked after ``lease_s`` seconds (0: as long as
        the broker lets locks hold) is unlocked. ``confirm_id``: an undo of it unlocks them, too.
        """
        arguments = filter.arguments() | {"just_uid": just_uid, "confirm_id": confirm_id}
        check_duration("lease_s", lease_s)
        arguments |= {"lease_ms": int(lease_s * MS_A_SECOND)}
        body = await self._request("BROWSE-AND-LOCK", arguments)
        lock_id, messages = number_of(body, "lock_id"), rows_of(body)
        if "after" in body:
            messages += await self._pages(MessageFilter(lock_id=lock_id), just_uid, body["after"])
        return BrowseLock(lock_id, messages)

    async def _pages(
        self, filter: MessageFilter, just_uid: bool, after: object = None
    ) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        while True:
            arguments = filter.arguments() | {"just_uid": just_uid}
            if after is not None:
                arguments["after"] = after
            body = await self._request("BROWSE", arguments)
            found += rows_of(body)
            after = body.get("after")
            if after is None:
                return found

    async def unlock(self, lock_id: int, unique_id: UniqueId | None = None) -> int:
        """unlockMessage: one, or all that are still locked under the lock id; returns how many."""
        arguments = MessageFilter(lock_id=lock_id, unique_id=unique_id).arguments()
        return number_of(await self._request("UNLOCK", arguments), "count")

    async def undo(self, confirm_id: int) -> int:
        """undo: one step back for everything under the confirm id; returns how many messages that were.

        A put is taken back, what was got is available again, or locked again if it was got through a lock;
        what a browse with that confirm id has locked is unlocked.
        """
        return number_of(await self._request("UNDO", {"confirm_id": confirm_id}), "count")

    async def confirm(self, confirm_id: int) -> int:
        """confirm: everything that was put or got under the confirm id, together; returns how many."""
        return number_of(await self._request("CONFIRM", {"confirm_id": confirm_id}), "count")

    async def delete(self, unique_id: UniqueId, *, lock_id: int | None = None) -> None:
        """deleteMessage: an available one, or with its lock id a locked one."""
        arguments = MessageFilter(unique_id=unique_id, lock_id=lock_id).arguments()
        await self._request("DELETE-MESSAGE", arguments)

    async def create_listener(self, filter: MessageFilter = EVERY_MESSAGE) -> MessageListener:
        """addMessageListener: hears of messages that match and become available from now on."""
        body = await self._request("LISTEN", {})
        return MessageListener(self._queue, await self._another(), filter, _position(body))

    async def _request(self, operation: str, arguments: dict[str, object]) -> dict[str, object]:
        reply = await self._requests.request(operation, kind=MESSAGE_TYPE, name=self._queue, body=arguments)
        return reply.attributes()

    async def close(self) -> None:
        """Close the links to the broker; what is held stays held."""
        for opened in self._opened:
            await opened.close()


class MessageListener(Closable):
    """Hears of messages without taking them: ``async for event in listener``.

    Made by :meth:`MessageStore.create_listener`. A message that somebody takes before the listener is told
    gives no event.
    """

    def __init__(self, queue: str, waiting: ManagementClient, filter: MessageFilter, position: int) -> None:
        self._queue = queue
        self._waiting = waiting
        self._filter = filter
        self._position = position
        self._events: list[MessageEvent] = []

    def __aiter__(self) -> MessageListener:
        return self

    async def __anext__(self) -> MessageEvent:
        while True:
            event = await self.receive(LISTEN_ROUND_S)
            if event is not None:
                return event

    async def receive(self, timeout_s: float) -> MessageEvent | None:
        """The next event, or None when there was none within ``timeout_s`` seconds."""
        check_duration("timeout_s", timeout_s)
        if not self._events:
            arguments = self._filter.arguments()
            arguments |= {"position": self._position, "timeout_ms": int(timeout_s * MS_A_SECOND)}
            reply = await self._waiting.request(
                "LISTEN", kind=MESSAGE_TYPE, name=self._queue, body=arguments, patience_s=timeout_s
            )
            body = reply.attributes()
            self._position = _position(body)
            self._events = [
                MessageEvent(self._queue, row.unique_id, row.message_id, row.correlation_id, row.priority)
                for row in rows_of(body)
            ]
        return self._events.pop(0) if self._events else None

    async def close(self) -> None:
        """Hear no more."""
        await self._waiting.close()


def _position(body: dict[str, object]) -> int:
    after = body.get("after")
    return int(after[0]) if isinstance(after, list) and after else 0


def _only(body: dict[str, object]) -> StoredMessage:
    rows = rows_of(body)
    if not rows:
        raise NoMatchingMessageException("the message ended before it could be read")
    return rows[0]
