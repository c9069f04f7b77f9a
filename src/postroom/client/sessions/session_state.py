"""What the producers and consumers of a session share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from postroom.client.connection.options import RecoverMode
from postroom.client.exceptions import IllegalStateException
from postroom.client.sessions.acknowledge_modes import AcknowledgeMode
from postroom.client.sessions.connection_state import CALLED_FOR, SharedState
from postroom.client.sessions.unit_of_work import UnitOfWork


class SessionState:
    """Mode, and whose turn it is: a session calls one listener at a time."""

    def __init__(
        self,
        mode: AcknowledgeMode,
        shared: SharedState,
        acknowledge_all: Callable[[], Awaitable[None]],
        recover: RecoverMode,
    ) -> None:
        self.mode: Final = mode
        self.recover: Final = recover
        self.shared: Final = shared
        self.acknowledge_all: Final = acknowledge_all
        """Accepts what all consumers of the session have handed out."""
        self.is_closed = False
        self.transaction: UnitOfWork | None = None
        """What sends and acknowledgements belong to."""
        self.is_transacted: Final = mode is AcknowledgeMode.SESSION_TRANSACTED
        self._under_way: set[asyncio.Task[None]] = set()
        self._listening = asyncio.Lock()
        self._completing = asyncio.Lock()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do ``work`` to its end, whoever waits for it."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    def check(self) -> None:
        """Raises IllegalStateException after the session's close."""
        if self.is_closed:
            raise IllegalStateException("the session is closed")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The time of one message listener's call."""
        async with self._in_turn(self._listening):
            yield

    @asynccontextmanager
    async def completion_turn(self) -> AsyncIterator[None]:
        """The time of one call for a message sent."""
        async with self._in_turn(self._completing):
            yield

    @asynccontextmanager
    async def _in_turn(self, lock: asyncio.Lock) -> AsyncIterator[None]:
        async with lock:
            token = CALLED_FOR.set(CALLED_FOR.get() | {self, self.shared, lock})
            try:
                yield
            finally:
                CALLED_FOR.reset(token)

    @property
    def is_completing_here(self) -> bool:
        """Whether this task, or thread, is in a call for a message sent."""
        return self._completing in CALLED_FOR.get()

    async def quiet(self) -> None:
        """Wait until no message listener of the session is being called."""
        async with self._listening:
            pass
