"""Tasks that are ended for certain."""

import asyncio
from typing import Any, Final

AGAIN_S: Final = 0.1
"""So long a task has to end before it is cancelled once more."""


async def cancel(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel them, and wait for their end, whatever it is.

    Again and again: a cancellation that comes together with what is awaited is lost in `asyncio.wait_for` of
    Python 3.11, and NATS' client swallows others. A task in a loop would go on for ever.
    """
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)
