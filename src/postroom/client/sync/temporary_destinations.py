"""Temporary queues and topics: the sync face.

Generated from aio/temporary_destinations.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from postroom.client.aio import temporary_destinations as aio
from postroom.client.destinations import Queue, Topic
from postroom.client.sync.portal import Face

__all__ = ["TemporaryDestination"]


class TemporaryDestination(Face):
    """A queue or topic that the broker has made and named for this connection, and deletes with it.

    Leaving ``with`` deletes it. Everybody can send to it, only this connection can consume from it.
    Made by :meth:`Session.create_temporary_queue` and :meth:`Session.create_temporary_topic`.
    """

    _inner: aio.TemporaryDestination

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.delete()

    @property
    def destination(self) -> Queue | Topic:
        """What producers and consumers are created for, and what a message's ``reply_to`` is set to;
        producers and consumers that are there follow it to another name.
        """
        return self._inner.destination

    @property
    def name(self) -> str:
        """Its name. After a fail-over it is another one."""
        return self._inner.name

    @property
    def is_deleted(self) -> bool:
        """True after ``delete``, and when the connection is over."""
        return self._inner.is_deleted

    def delete(self) -> None:
        """Delete it with what waits there. Raises IllegalStateException while a consumer of it is open."""
        self._portal.call(self._inner.delete())
