"""The links that an application sends on."""

from __future__ import annotations

import asyncio
from typing import Final

from postroom.client import Destination, Message
from postroom.client.aio import Connection, MessageProducer

__all__ = ["Publisher"]

MAX_PRODUCERS: Final = 100
"""Destinations that have a link of their own; those of more share one."""

Opened = asyncio.Task[MessageProducer]


class Publisher:
    """Sends to any destination, over a link that is opened with its first message."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._opened: dict[Destination | None, Opened] = {}

    async def send(self, destination: Destination, message: Message) -> None:
        """Send and wait for the outcome of what is durable."""
        producer = await self._producer(destination)
        await producer.send(message, destination=destination)

    async def reply(self, destination: Destination, message: Message) -> None:
        """As :meth:`send`, to one of many queues: each requestor has its own."""
        producer = await self._producer(None)
        await producer.send(message, destination=destination)

    async def _producer(self, destination: Destination | None) -> MessageProducer:
        if destination not in self._opened and len(self._opened) >= MAX_PRODUCERS:
            destination = None
        opened = self._opened.get(destination)
        if opened is None or is_over(opened):
            opened = asyncio.create_task(self._connection.producer(destination).open())
            self._opened[destination] = opened
        return await asyncio.shield(opened)


def is_over(opened: Opened) -> bool:
    """Whether it couldn't be opened, or has been closed since: by the broker, with its queue."""
    if not opened.done():
        return False
    return opened.cancelled() or opened.exception() is not None or opened.result().is_closed
