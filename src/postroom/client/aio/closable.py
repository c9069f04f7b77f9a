"""What ``async with`` opens and closes: the asyncio face."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

__all__ = ["Closable", "Opening"]


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

    _ends: Callable[[], object] = staticmethod(lambda: None)

    def _end_with(self, ends: Callable[[], None]) -> None:
        self._ends = ends


class Closing(Protocol):
    """What ``async with`` closes."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""


T_co = TypeVar("T_co", bound=Closing, covariant=True)


class Opening(Generic[T_co]):
    """``producer = await connection.producer("orders")``, or
    ``async with connection.producer("orders") as producer:``. Nothing is done before that.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T_co]]) -> None:
        self._make = make
        self._made: T_co | None = None

    def __await__(self) -> Generator[Any, None, T_co]:
        return self._make().__await__()

    async def open(self) -> T_co:
        """What ``await`` gives, as a coroutine."""
        return await self._make()

    async def __aenter__(self) -> T_co:
        self._made = made = await self._make()
        return made

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        made, self._made = self._made, None
        if made is not None:
            await made.__aexit__(kind, error, trace)
