"""One run: three queue managers, a proxy on the first channel, and a break at one of its frames.

Whatever breaks: each persistent message arrives once, those of each class in their order; those that are
not persistent arrive once or not at all.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from postroom.client import Message
from tests.channels.managers import QueueManager, three
from tests.faults.proxy import CutPoint, FaultyProxy

CASE_S: Final = 90.0
COMES_S: Final = 10.0
TRIES: Final = 3
"""At a place that doesn't come in every run: how frames are shared out is another each time."""
COUNT: Final = 8
"""Messages of each class to each queue: more than a batch."""
BATCH_SIZE: Final = 3
TARGETS: Final = (("PARIS", "orders"), ("ROME", "archive"))
_rounds = itertools.count()


class ChannelProxy(FaultyProxy):
    """Cuts on whichever connection comes: the channel is called again by itself."""

    def _cuts(self, place: CutPoint) -> bool:
        return super()._cuts(replace(place, connection=0))

    def goes_to(self, port: int) -> None:
        """Where the partner listens."""
        self._port = port

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


class Scene:
    """The queue managers, running, and what is done to them."""

    def __init__(self, managers: dict[str, QueueManager], proxy: ChannelProxy) -> None:
        self.managers = managers
        self.proxy = proxy
        self.breaks = 0

    async def play(self, cut: CutPoint | None, victim: str = "") -> list[CutPoint]:
        """Messages travel; at the cut the connection breaks, or ``victim`` is killed. Returns the places that
        went by meanwhile; messages that only show the end, and come after that, make no place to cut at.
        """
        proxy, name = self.proxy, f"m{next(_rounds)}"
        broken = asyncio.Event()

        def on_cut(point: CutPoint) -> None:
            if victim:
                self.managers[victim].kill()
            broken.set()

        proxy.hold()
        proxy.break_now()
        await proxy.ended()  # what it still said belongs to the messages before, and is no place to cut at
        proxy.on_cut = on_cut
        proxy.seen.clear()
        proxy.cuts[:] = [cut] if cut else []
        async with asyncio.timeout(CASE_S):
            await asyncio.to_thread(self._put, name)
            proxy.let()
            if cut is None:
                await asyncio.to_thread(self.managers["LONDON"].await_empty, "PARIS")
            elif await self._happens(broken):
                self.breaks += 1
                if victim:
                    await asyncio.to_thread(self.managers[victim].start)
            places = list(proxy.seen)
            await asyncio.to_thread(self._check, name)
        return places

    async def _happens(self, broken: asyncio.Event) -> bool:
        """Whether the place of the cut comes: answers may go together, so that a later one is missing."""
        try:
            async with asyncio.timeout(COMES_S):
                await broken.wait()
        except TimeoutError:
            self.proxy.cuts.clear()
        return broken.is_set()

    def _put(self, name: str) -> None:
        """Persistent messages and others, by turns."""
        for manager, queue in TARGETS:
            with self.managers["LONDON"].session() as session:
                producer = session.create_producer(f"{queue}@{manager}")
                producer.send_all(message_of(name, number) for number in range(2 * COUNT))

    def _check(self, name: str) -> None:
        for manager, queue in TARGETS:
            ends = {f"{name}-end-0", f"{name}-end-1"}
            for end in ends:
                self.managers["LONDON"].put(f"{queue}@{manager}", [end], durable=end.endswith("0"))
            found = self.managers[manager].take(queue, ends)
            check(name, [body for body in found if body not in ends])


def message_of(name: str, number: int) -> Message:
    """Even ones are persistent."""
    body = f"{name}-{number}"
    return Message(body, message_id=body, durable=number % 2 == 0)


def check(name: str, found: list[str]) -> None:
    """What arrived is what it must be."""
    numbers = [int(body.removeprefix(f"{name}-")) for body in found]
    persistent = [number for number in numbers if number % 2 == 0]
    others = [number for number in numbers if number % 2]
    assert persistent == list(range(0, 2 * COUNT, 2)), f"persistent: {persistent}"
    assert others == sorted(set(others)), f"not persistent: {others}"


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    """Three queue managers that run, the channel from LONDON to PARIS by way of the proxy."""
    async with ChannelProxy("127.0.0.1", 0) as proxy:
        managers = three(folder, {"LONDON.PARIS": proxy.port}, BATCH_SIZE)
        proxy.goes_to(managers["PARIS"].port)
        try:
            await asyncio.gather(*(asyncio.to_thread(manager.start) for manager in managers.values()))
            yield Scene(managers, proxy)
        finally:
            for manager in managers.values():
                manager.kill()


def is_certain(point: CutPoint) -> bool:
    """Whether it will come in the next run, too: credit and answers go together as they happen to."""
    return point.frame != "flow" and (point.frame != "disposition" or point.number == 0)


Choice = Callable[[list[CutPoint]], list[CutPoint]]


async def sweep(folder: Path, choose: Choice, victim: str = "") -> int:
    """A break at each of the chosen places; how many came."""
    async with scene(folder) as stage:
        await stage.play(None)
        points = [point for point in await stage.play(None) if point.frame != "flow"]
        chosen = choose(list(dict.fromkeys(points)))
        for point in chosen:
            before = stage.breaks
            for _ in range(TRIES):
                try:
                    await stage.play(point, victim)
                except BaseException as failure:
                    raise AssertionError(f"{victim or 'the line'} breaks {point}: {failure!r}") from failure
                if stage.breaks > before:
                    break
        return stage.breaks
