"""The thread that calls: coroutines of the asyncio face run in it that wait for others of this face alone."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

from postroom.client.aio.transaction import Waits
from postroom.client.aio.transaction_manager import TransactionManager

T = TypeVar("T")
Inner = TypeVar("Inner")


class Caller(Waits):
    """Has the methods of a portal, and no thread; blocks where the asyncio face waits."""

    is_running: Final = True

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run ``coroutine``; return its result, or raise its exception."""
        try:
            coroutine.send(None)
        except StopIteration as done:
            result: T = done.value
            return result
        coroutine.close()
        raise RuntimeError("a coroutine of asyncio has no loop here")

    def do(self, function: Callable[[], None]) -> None:
        """Call ``function``."""
        function()

    async def result_of(self, future: Future[T]) -> T:
        return future.result()

    async def to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        return await work


CALLER: Final = Caller()


class Driven(Generic[Inner]):
    """Something of the blocking face that runs in the thread that calls: its asyncio twin."""

    _portal: Final = CALLER

    def __init__(self, inner: Inner) -> None:
        self._inner = inner


def waiting_here(manager: TransactionManager) -> TransactionManager:
    """``manager``, which is to block."""
    manager._waits = CALLER
    return manager


def awaited(blocking: Any) -> Any:
    """A resource of this face, or a connection of psycopg, as asyncio has it: its methods are awaited."""
    return Awaited(blocking)


class Awaited:
    """See :func:`awaited`."""

    def __init__(self, blocking: Any) -> None:
        self._blocking = blocking

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._blocking, name)
        if not callable(found):
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            return found(*arguments, **named)

        return call

    def cursor(self, **options: Any) -> Awaited:
        """Of psycopg, and awaited in neither face, as `nextset` of it."""
        return Awaited(self._blocking.cursor(**options))

    def nextset(self) -> Any:
        """The next result of a cursor."""
        return self._blocking.nextset()

    async def __aenter__(self) -> Awaited:
        self._blocking.__enter__()
        return self

    async def __aexit__(self, *failure: Any) -> None:
        self._blocking.__exit__(*failure)
