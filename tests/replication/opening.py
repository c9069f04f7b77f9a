"""Opening a log as members do."""

import asyncio
import time

from postroom.replication.errors import EngineUnavailable
from postroom.replication.log import ReplicatedLog

PATIENCE_S = 90.0
PAUSE_S = 0.1


async def open_log(log: ReplicatedLog, patience_s: float = PATIENCE_S) -> None:
    """An engine that has much else to do may not answer the first time; raises what `open` does, at last."""
    end_s = time.monotonic() + patience_s
    while True:
        try:
            return await log.open()
        except EngineUnavailable:
            if time.monotonic() > end_s:
                raise
        await asyncio.sleep(PAUSE_S)
