"""What a test asks about one queue."""

from typing import TYPE_CHECKING, Final

from postroom.testing.errors import BrokerFailed, hint
from postroom.testing.loop import PATIENCE_S

if TYPE_CHECKING:
    from postroom.manager.queues.queue import Queue
    from postroom.testing.broker import Broker
    from postroom.testing.messages import QueuedMessage
    from postroom.testing.run import Run

WAIT_S: Final = 5.0
"""How long `QueueView.wait_for` waits where the test doesn't say."""


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

        def reached(run: "Run") -> bool:
            return wanted.items() <= self._queue(run).statistics.snapshot().items()

        try:
            self._broker._wait_until(reached, timeout_s)
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

    def _queue(self, run: "Run") -> "Queue":
        return self._broker._find(run, self.name)
