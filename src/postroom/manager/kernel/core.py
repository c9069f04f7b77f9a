"""What every part of the queue manager works on: options, the ledger's builder, effects,
the clock.

What only one feature needs is that feature's own: it keeps its state here under its class (`Core.keep`), as
pytest's ``Stash`` and aiohttp's ``AppKey`` have it, and gives it to others by a function of its own.
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.ledger.format.block import BlockBuilder
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.effects import Effects
from postroom.manager.kernel.holders import Holders
from postroom.manager.kernel.memory_use import MemoryUse
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.kernel.report_list import Reports
from postroom.manager.kernel.statistics import Counters
from postroom.manager.kernel.transaction import OpenTransactions
from postroom.manager.kernel.turn_state import Agenda, Durability, TurnBudget


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
