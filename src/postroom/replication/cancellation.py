"""Ending tasks for certain.

A task may miss its cancellation: up to Python 3.11 `asyncio.wait_for`, which clients of engines are full of,
drops one that comes in the moment in which what it waits for is there (cpython issue 86296).
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

AGAIN_S: Final = 0.2
"""A task that hasn't ended so long after its cancellation is cancelled again."""


async def cancel(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel the tasks until all have ended, whatever they end with."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_S)
