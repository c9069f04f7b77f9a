"""What is closed at the end of ``async with``: the asyncio face."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from postroom.client.sessions.deliveries import nothing

__all__ = ["Closable"]


class Closable:
    """Something that ``async with`` closes at its end."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close it; when it is closed already, do nothing."""
        raise NotImplementedError


class OfOneSession:
    """Something that may have a session to itself, which ends with it."""

    _ends: Callable[[], None] = staticmethod(nothing)

    def _end_with(self, ends: Callable[[], None]) -> None:
        self._ends = ends
