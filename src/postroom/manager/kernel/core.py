"""What every part of the queue manager works on: options, the ledger's builder, effects,
the clock.

What only one feature needs is that feature's own: it keeps its state here under its class (`Core.keep`), as
pytest's ``Stash`` and aiohttp's ``AppKey`` have it, and gives it to others by a function of its own.
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.ledger.format.block import BlockBuilder
from postroom.ledger.storage.body_requests import Body
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.effects import Effects
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.holders import Holders
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.kernel.statistics import Counters
from postroom.manager.kernel.trace_contexts import TraceContexts
from postroom.manager.kernel.transaction import OpenTransactions
from postroom.manager.kernel.turn_state import Agenda, Durability, MemoryUse, Reports, TurnBudget


class TurnPart:
    """What a feature does in the course of a turn, beside the commands that it is given. What isn't
    overridden does nothing. `turn` says when each is called."""

    def finish(self, core: "Core") -> None:
        """A command is over, and something may follow from it (`Agenda.due`): before anything is
        dispatched."""

    def follow(self, core: "Core") -> None:
        """Go on with what the command, or another part, has brought about. Of `Core.followers` alone."""

    def time_out(self, core: "Core") -> None:
        """Time has passed, or a new turn has begun."""

    def next_timeout_us(self, core: "Core") -> i64:
        """When `time_out` is wanted; 0 never, the present time at once."""
        return 0

    def destination_due(self, core: "Core", destination: Destination) -> None:
        """The alarm of ``destination`` has come."""

    def left_over(self, core: "Core", destination: Destination) -> None:
        """``destination`` goes on, on which a bounded turn left work."""

    def news(self, core: "Core", destination: Destination) -> None:
        """Something may have become available on ``destination``, for which somebody waits."""

    def durable(self, core: "Core") -> None:
        """More is on disk."""

    def end(self, core: "Core") -> None:
        """The turn is over."""

    def reads(self, entry: Entry) -> bool:
        """Whether it has asked for the body of ``entry``."""
        return False

    def bodies_read(self, core: "Core", entries: list[Entry], bodies: list[Body]) -> None:
        """The bodies that it has asked for by one `Fetch`, or what is wrong with them."""


@final
class Core:
    """The shared state of one queue manager."""

    def __init__(self, options: ManagerOptions, ledger: BlockBuilder) -> None:
        self.options = options
        self.ledger = ledger
        self.effects = Effects()
        self.now_us: i64 = 0
        self.destinations: dict[int, Destination] = {}
        """Every queue, subscription and topic, by id."""
        self.agenda = Agenda()
        self.budget = TurnBudget(options)
        self.durability = Durability(ledger)
        self.memory = MemoryUse(options)
        self.counters = Counters()
        self.holders = Holders(ledger)
        self.transactions = OpenTransactions()
        self.reports = Reports()
        self.trace_contexts: TraceContexts | None = None
        """Those of messages that arrive; None: nobody traces."""
        self.parts: list[TurnPart] = []
        """Of all features, in the order in which they are called."""
        self.followers: list[TurnPart] = []
        """Those of them that override `TurnPart.follow`."""
        self._states: Final[dict[object, object]] = {}
        """By class: see `keep`."""

    def begin(self, now_us: i64) -> None:
        """A command begins; the clock never goes back."""
        if now_us > self.now_us:
            self.now_us = now_us
            self.ledger.set_time(now_us)

    def keep(self, state: object) -> None:
        """Keep the state of a feature; it is the only one of its class."""
        self._states[type(state)] = state

    def state(self, kind: object) -> object:
        """What was kept of the class ``kind``; the function of its feature asks for it."""
        return self._states[kind]
