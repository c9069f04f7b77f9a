"""A task that loses a cancellation ends all the same: a member that waits for it would hang at its end."""

import asyncio
import threading
from pathlib import Path

from postroom.replication.cancelling import cancel
from postroom.replication.log import MemberNote
from tests.client.fake_broker import asynchronous
from tests.replication.memory_log import Stream
from tests.replication.unit import WAIT_S, Unit, engine_thread


@asynchronous
async def test_a_task_that_loses_a_cancellation() -> None:
    lost = 0

    async def go_on() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                lost += 1
                if lost == 3:
                    raise

    async def fail() -> None:
        raise ValueError

    tasks = asyncio.create_task(go_on()), asyncio.create_task(fail())
    await asyncio.sleep(0)
    await cancel(*tasks)
    assert all(task.done() for task in tasks)
    assert lost == 3


def test_an_active_member_ends_whose_engine_s_client_swallows_a_cancellation(tmp_path: Path) -> None:
    with engine_thread() as thread:
        unit = Unit(thread, Stream(), tmp_path / "a")
        unit.wait_until_active()
        notes: list[MemberNote] = []
        waits = threading.Event()

        async def note(given: MemberNote) -> None:
            """Without an answer; the first cancellation is lost."""
            notes.append(given)
            waits.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if len(notes) > 1:
                    raise

        unit.log.note = note  # type: ignore[method-assign]
        unit.open_ledger()
        assert waits.wait(WAIT_S)
        unit.stop()
        assert {each.member for each in notes} == {"a"}
