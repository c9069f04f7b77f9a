"""Waiting, for the files whose sync twins are translated word by word; the twin of this one is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

T = TypeVar("T")

_running: Final[set[asyncio.Task[Any]]] = set()


async def result_of(future: Future[T]) -> T:
    """What another thread promised."""
    return await asyncio.wrap_future(future)


async def to_its_end(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Do ``work`` to its end, even if who waits for it is cancelled."""
    task = asyncio.ensure_future(work())
    _running.add(task)
    task.add_done_callback(_running.discard)
    return await asyncio.shield(task)
