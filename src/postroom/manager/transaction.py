"""A local transaction: what it has put and what it has taken, until it is decided."""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from postroom.model import numbers as n

if TYPE_CHECKING:
    from postroom.manager.consumer import Consumer
    from postroom.manager.effects import Sink
    from postroom.manager.entry import Entry
    from postroom.manager.waiting import BlockedSend


@final
class Receipt:
    """A delivery disposed of within a transaction; ``event`` is the outcome that its commit applies."""

    def __init__(self, consumer: "Consumer", entry: "Entry", event: i64, settled: bool) -> None:
        self.consumer = consumer
        self.entry = entry
        self.event: i64 = event
        self.settled = settled
        """Settled by its receiver: after a rollback it returns to its place, else it stays with the
        receiver."""
        self.not_here = False
        self.annotations: dict[str, object] | None = None
        self.condition = ""
        self.description = ""


@final
class Transaction:
    """Open until committed, rolled back or timed out."""

    def __init__(self, id: i64, begun_us: i64) -> None:
        self.id: i64 = id
        self.kind: i64 = n.LOCAL_TRANSACTION
        self.begun_us: i64 = begun_us
        self.puts: list[Entry] = []
        self.receipts: list[Receipt] = []
        self.blocked: list[BlockedSend] = []
        """Its sends that wait for room: it can't be committed before they have been answered."""
        self.discharger: Sink | None = None
        """Who wants to discharge it as soon as none waits."""
        self.recorded = False
        self.decided = False
        self.failed = ""
        """Why it can only be rolled back; "" while it can be committed."""
