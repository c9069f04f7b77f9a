"""Tasks that miss a cancellation."""

import asyncio

from postroom.replication.cancellation import cancel


def test_a_task_that_has_missed_its_cancellation_is_cancelled_again() -> None:
    missed = 0

    async def stubborn() -> None:
        nonlocal missed
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                missed += 1
                if missed == 2:
                    raise

    async def run() -> asyncio.Task[None]:
        task = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        await cancel([task])
        return task

    assert asyncio.run(asyncio.wait_for(run(), 60)).cancelled()
    assert missed == 2


def test_what_a_task_ends_with_is_its_own() -> None:
    async def failing() -> None:
        raise ValueError("its own")

    async def run() -> None:
        task = asyncio.create_task(failing())
        await cancel([task])
        assert task.cancelled() or isinstance(task.exception(), ValueError)
        await cancel([])

    asyncio.run(run())
