"""A broker for tests, and its queues: the real one, on a ledger in memory, with a clock that tests move."""

import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from uuid import UUID

from postroom.manager.kernel.errors import ManagerError
from postroom.manager.queues.queue import Queue
from postroom.testing.clock import SettableClock, time_of
from postroom.testing.disk import MemoryDisk
from postroom.testing.errors import BrokerFailed, NotAllowed, UnknownConnection, UnknownQueue, hint
from postroom.testing.loop import PATIENCE_S, LoopThread
from postroom.testing.run import Run
from postroom.testing.settings import make_config, make_definition

if TYPE_CHECKING:
    from postroom.testing.history import Event
    from postroom.testing.messages import QueuedMessage

T = TypeVar("T")
WAIT_S: Final = 5.0
"""How long `QueueView.wait_for` waits where the test doesn't say."""
MAX_ADVANCE: Final = timedelta(days=36_525)
"""The farthest that the clock is moved at once: a hundred years."""
MAX_STEPS: Final = 10_000
"""So many times that something falls due are visited one by one in one advance; the rest is one step."""

SHOWN_OUTCOMES: Final = ("expired", "dead_lettered", "redirected", "discarded", "deleted", "purged", "lost")


class QueueView:
    """One queue as it is now: each question is asked anew, also after a crash. Raises UnknownQueue when it
    has been deleted."""

    def __init__(self, broker: "Broker", name: str) -> None:
        self.name: Final = name
        self._broker: Final = broker

    @property
    def current(self) -> int:
        """Messages that can be received now."""
        return self._statistic("messages_current")

    @property
    def pending(self) -> int:
        """Messages that are in flight: delivered and not acknowledged, not born yet, in a redelivery delay,
        in a transaction."""
        return self._statistic("messages_pending")

    @property
    def depth(self) -> int:
        """Current and pending."""
        statistics = self.statistics
        return statistics["messages_current"] + statistics["messages_pending"]

    @property
    def received(self) -> int:
        """Messages that have come since the broker started."""
        return self._statistic("messages_received")

    @property
    def consumed(self) -> int:
        """Messages that consumers have acknowledged since the broker started."""
        return self._statistic("messages_consumed")

    @property
    def expired(self) -> int:
        return self._statistic("messages_expired")

    @property
    def dead_lettered(self) -> int:
        """Messages that went from here to the dead-letter queue since the broker started."""
        return self._statistic("messages_dead_lettered")

    @property
    def consumers(self) -> int:
        return self._statistic("consumers")

    @property
    def statistics(self) -> dict[str, int]:
        """All counters by their names (docs/reference/statistics.md)."""
        return self._broker._settled(lambda run: self._queue(run).statistics.snapshot())

    @property
    def messages(self) -> "list[QueuedMessage]":
        """Everything that has not ended: what can be received, in order, then what is delayed, then what is
        held."""
        from postroom.testing.messages import messages_of

        return self._broker._run_job(lambda run: messages_of(run, self._queue(run)))

    def wait_for(self, timeout_s: float = WAIT_S, **counts: int) -> None:
        """Until the counters have these values: ``queue.wait_for(current=0, consumed=3)``. They are named as
        in `statistics`, with or without ``messages_``. Raises AssertionError after ``timeout_s``.

        For what clients do on their own time: an acknowledgement that nobody answers, a worker in a thread.
        """
        if not 0 < timeout_s <= PATIENCE_S:
            raise ValueError(f"timeout_s is {timeout_s!r}: above 0, at most {PATIENCE_S:g} is possible")
        wanted = self._named(counts)

        def reached(run: Run) -> bool:
            return wanted.items() <= self._queue(run).statistics.snapshot().items()

        try:
            self._broker._run_job(lambda run: run.until(lambda: reached(run)), timeout_s)
        except BrokerFailed:
            found = self.statistics
            differing = (name for name, value in wanted.items() if found[name] != value)
            differences = ", ".join(f"{name} is {found[name]}, not {wanted[name]}" for name in differing)
            if not differences:
                raise
            raise AssertionError(f"queue {self.name!r} after {timeout_s:g} s: {differences}") from None

    def __repr__(self) -> str:
        return f"<queue {self.name!r}>"

    def _statistic(self, name: str) -> int:
        return self.statistics[name]

    def _named(self, counts: dict[str, int]) -> dict[str, int]:
        """By their names in `statistics`."""
        if not counts:
            raise ValueError("say which counters to wait for: wait_for(current=0)")
        known = self.statistics
        found: dict[str, int] = {}
        for name, value in counts.items():
            full = name if name in known else f"messages_{name}"
            if full not in known:
                short = [each.removeprefix("messages_") for each in known]
                raise ValueError(f"a queue has no counter {name!r}{hint(name, short)}")
            found[full] = value
        return found

    def _queue(self, run: Run) -> Queue:
        return self._broker._find(run, self.name)


class Broker:
    """Serves from its making to ``close``, or to the end of its ``with``, in a thread of its own.

    ``config`` are the tables of the configuration file. With ``users`` (name → password) clients must log in;
    without, none need to. The clock stands still unless it is ``clock="running"``. Raises ConfigInvalid, and
    `StartError` where ``port`` is taken.
    """

    def __init__(
        self,
        *,
        config: Mapping[str, object] | None = None,
        users: Mapping[str, str] | None = None,
        port: int = 0,
        clock: Literal["frozen", "running"] = "frozen",
    ) -> None:
        if clock not in ("frozen", "running"):
            raise ValueError(f"clock is {clock!r}: 'frozen' and 'running' are possible")
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65_535:
            raise ValueError(f"port is {port!r}: a number from 0 (any free one) to 65535 is possible")
        self._clock: Final = SettableClock(clock == "running")
        self._make_config: Final = partial(
            make_config, dict(config or {}), dict(users or {}), frozen=not self._clock.running
        )
        self._make_config(port)  # what is wrong with it is told before anything begins
        self._disk = MemoryDisk()
        self._is_full = False
        self._run: Run | None = None
        self._thread: Final = LoopThread()
        self.amqp_port = port
        """The port that it listens on, also after a restart or crash."""
        try:
            self._thread.run(self._start)
        except BaseException:
            self._thread.close()
            raise

    @property
    def url(self) -> str:
        """``amqp://127.0.0.1:…``, for any AMQP 1.0 client."""
        return f"amqp://127.0.0.1:{self.amqp_port}"

    def close(self) -> None:
        """End it: connections are cut, and nothing is left. It may be closed often."""
        if not self._thread.closed:
            with contextlib.suppress(BrokerFailed):
                self._thread.run(self._abandon)
            self._thread.close()

    def __enter__(self) -> "Broker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The clock.

    @property
    def now(self) -> datetime:
        """What time it is for the broker, in UTC."""
        return time_of(self._clock.now_us())

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Let so much time pass: births, expiries, redelivery delays, leases and time-outs that fall due
        happen, one after another, each at its time. Returns when all of that is done and durable."""
        passed = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if not timedelta(0) <= passed <= MAX_ADVANCE:
            raise ValueError(
                f"the clock can be moved forward, a hundred years at most at once; not by {passed}"
            )
        self._run_job(lambda run: self._advance(run, passed // timedelta(microseconds=1)))

    async def _advance(self, run: Run, passed_us: int) -> None:
        await run.settle()
        until_us = self._clock.now_us() + passed_us
        for _ in range(MAX_STEPS):
            due_us = run.broker.next_deadline_us()
            if not 0 < due_us < until_us:
                break
            await self._come_to(run, due_us)
        await self._come_to(run, until_us)

    async def _come_to(self, run: Run, now_us: int) -> None:
        self._clock.set(now_us)
        run.service.on_time()
        await run.settle()

    # Questions.

    @property
    def queues(self) -> list[str]:
        """The names of all queues."""
        return self._settled(lambda run: sorted(run.broker.manager.queues))

    def queue(self, name: str) -> QueueView:
        """The queue of that name, to be asked about. Raises UnknownQueue."""
        self._settled(lambda run: self._find(run, name))
        return QueueView(self, name)

    def create_queue(self, name: str, **settings: object) -> QueueView:
        """Create a queue; ``settings`` as in a table ``[[queue]]`` of the configuration. Raises
        ConfigInvalid, NotAllowed."""
        options = self._settled(lambda run: run.broker.manager.options)
        definition = make_definition(name, settings, options)
        self._run_job(lambda run: run.act(lambda now_us: run.broker.manager.create_queue(definition, now_us)))
        return QueueView(self, name)

    def history(self, message_id: str | int | bytes | UUID) -> "list[Event]":
        """What has happened to a message, and to what was made of it, from its arrival on: what
        `postroom trace` tells. Raises UnknownMessage."""
        from postroom.testing.history import history_of  # with it comes the client

        return history_of(self._settled(lambda run: self._disk.durable()), message_id)

    def save_ledger(self, folder: str | Path) -> None:
        """Write the ledger, as a crash would leave it now, to an empty folder: for `postroom audit`, Spark,
        or a broker that goes on from there. Raises OSError, ValueError."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ValueError(f"{folder} is not empty")
        for name, content in self._settled(lambda run: self._disk.durable()).items():
            (folder / name).write_bytes(content)

    @property
    def connections(self) -> list[str]:
        """The container ids of the clients that are connected."""
        return self._settled(lambda run: sorted(each.container_id for each in run.broker.connections))

    def describe(self) -> str:
        """Each queue's counts, a line each."""
        try:
            return "\n".join(self._settled(_described)) or "no queues"
        except BrokerFailed as error:
            return str(error)

    # Faults.

    def crash(self) -> None:
        """A power cut: connections break, what was not durable is lost, and the broker starts again on the
        same port with what the disk has. Time doesn't pass."""
        self._thread.run(self._crash)

    def restart(self) -> None:
        """Stop in an orderly way, and start again on the same port."""
        self._thread.run(self._restart)

    def cut(self, connection: str | None = None) -> int:
        """Cut the TCP connections of the client with that container id, or of all; returns how many. What
        they held has gone back then. Raises UnknownConnection."""
        return self._run_job(lambda run: self._cut(run, connection))

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Within this the disk has no room: sends are refused with amqp:resource-limit-exceeded, everything
        else goes on. Afterwards there is room again."""
        self._run_job(lambda run: self._fill(run, True))
        try:
            yield
        finally:
            self._run_job(lambda run: self._fill(run, False))

    async def _fill(self, run: Run, full: bool) -> None:
        self._is_full = full
        if full:
            self._disk.fill()
        else:
            self._disk.free()
        run.ledger.check_free_space()
        await run.settle()

    async def _cut(self, run: Run, container: str | None) -> int:
        await run.settle()
        bindings = [each for each in run.broker.connections if container in (None, each.container_id)]
        if container is not None and not bindings:
            raise UnknownConnection(container, {each.container_id for each in run.broker.connections})
        run.service.cut(bindings)
        await run.until(lambda: not any(each in run.broker.connections for each in bindings))
        await run.settle()
        return len(bindings)

    async def _crash(self) -> None:
        disk = self._disk.cut_power()
        await self._abandon()
        self._disk = disk
        await self._start()

    async def _restart(self) -> None:
        if self._run is not None:
            await self._run.stop()
            self._run = None
        await self._start()

    # The loop's thread.

    async def _start(self) -> None:
        run = Run(self._make_config(self.amqp_port), self._disk, self._clock)
        self.amqp_port = await run.start()
        await run.settle()
        if self._is_full:  # what was reserved has been free since the broker ended: others have taken it
            await self._fill(run, True)
        self._run = run

    async def _abandon(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            await run.abandon()

    def _run_job(self, job: Callable[[Run], Coroutine[Any, Any, T]], limit_s: float = PATIENCE_S) -> T:
        """Raises BrokerFailed, and NotAllowed for what the queue manager refuses."""

        async def run_it() -> T:
            if self._run is None:
                raise BrokerFailed("the broker is closed")
            return await job(self._run)

        try:
            return self._thread.run(run_it, limit_s)
        except ManagerError as error:
            raise NotAllowed(error.description) from error

    def _settled(self, question: Callable[[Run], T]) -> T:
        """The answer when everything that has arrived is done."""

        async def answer(run: Run) -> T:
            await run.settle()
            return question(run)

        return self._run_job(answer)

    def _find(self, run: Run, name: str) -> Queue:
        queue = run.broker.manager.queues.get(name)
        if queue is None:
            raise UnknownQueue(name, run.broker.manager.queues)
        return queue


def _described(run: Run) -> list[str]:
    return [_line(queue) for _, queue in sorted(run.broker.manager.queues.items())]


def _line(queue: Queue) -> str:
    counts = queue.statistics.snapshot()
    shown = ("received", "consumed", *SHOWN_OUTCOMES)
    rest = [
        f"{counts[f'messages_{name}']} {name.replace('_', '-')}"
        for name in shown
        if counts[f"messages_{name}"]
    ]
    words = [f"{counts['messages_current']} current", f"{counts['messages_pending']} pending", *rest]
    return f"{queue.name}: {', '.join(words)}"
