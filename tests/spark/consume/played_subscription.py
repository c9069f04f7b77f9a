"""A Spark subscription that is played: a ledger whose positions grow, and what a broker would answer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.schema import Field, PrimitiveType, Schema

from postroom.spark.consume.errors import CheckpointReplaced
from postroom.spark.consume.offsets import Offset
from postroom.spark.consume.options import read_consume_options
from postroom.spark.consume.planner import Clock, ConsumePlanner
from postroom.spark.consume.subscription import Plan
from postroom.spark.consume.table import transactions
from postroom.spark.ledger_source.positions import Position
from postroom.spark.places.place import Slice
from tests.ledger.ledger_maker import LEDGER_ID, LedgerMaker

LEDGER = str(LEDGER_ID)
NAME = "to-lake"
EPOCH_ID = (b"e" * 16).hex()


class FakeClock(Clock):
    """Time that passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.meanwhile: Callable[[], None] | None = None

    def now_s(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.meanwhile is not None:
            self.meanwhile()


@dataclass
class Played:
    """A queue, its subscription and the ledger. Every message that is put, and every assignment, is a
    position; as many are assigned as the window lets through."""

    folder: Path
    window: int = 100
    registered: str = ""
    confirmed: int = 0
    waiting: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    """Positions of assignments."""
    requests: list[str] = field(default_factory=list)
    takes_nothing: bool = False
    """It is paused, or has a selector that nothing matches."""
    ledger_id: UUID = LEDGER_ID

    def __post_init__(self) -> None:
        self.maker = LedgerMaker(self.folder, self.ledger_id)
        self.queue = self.maker.queue("orders")
        self.maker.commit()
        self.maker.marker()
        self.confirmed = self.assigned_through = self.last

    @property
    def last(self) -> int:
        return self.maker.builder.next_position - 1

    def put(self, messages: int) -> "Played":
        for _ in range(messages):
            self._record()
            self.waiting.append(self.last)
        return self._assign()

    def _record(self) -> None:
        self.maker.put(self.queue)
        self.maker.commit()
        self.maker.marker()

    def _assign(self) -> "Played":
        while self.waiting and len(self.held) < self.window and not self.takes_nothing:
            self.waiting.pop(0)
            self._record()
            self.held.append(self.last)
            self.assigned_through = self.last
        return self

    def _plan(self) -> Plan:
        return Plan(
            ledger_id=str(self.ledger_id),
            epoch_id=EPOCH_ID,
            confirmed=self.confirmed,
            assigned_through=self.assigned_through,
            held=len(self.held),
            registered=self.registered,
            last_position=self.last,
            oldest_waiting=self.waiting[0] if self.waiting else 0,
            is_filling=False,
            is_full=len(self.held) >= self.window,
        )

    # --- what a query requests

    def plan(self, checkpoint: str, takes_over: bool = False) -> Plan:
        self.requests.append("PLAN")
        self._check(checkpoint, takes_over)
        return self._plan()

    def current_plan(self) -> Plan:
        self.requests.append("READ")
        return self._plan()

    def register(self, checkpoint: str, takes_over: bool) -> None:
        self.requests.append("REGISTER")
        self._check(checkpoint, takes_over)
        self.registered = checkpoint

    def confirm(self, checkpoint: str, ledger_id: str, position: Position) -> int:
        self.requests.append(f"CONFIRM {position.position}")
        assert (checkpoint, ledger_id, position.epoch_id) == (self.registered, LEDGER, EPOCH_ID)
        assert position.position <= self.assigned_through
        before = len(self.held)
        self.held = [held for held in self.held if held > position.position]
        self.confirmed = max(self.confirmed, position.position)
        ended = before - len(self.held)
        self._assign()
        return ended

    def _check(self, checkpoint: str, takes_over: bool) -> None:
        if self.registered not in ("", checkpoint) and not takes_over:
            raise CheckpointReplaced(NAME, self.registered, self.confirmed)


@dataclass
class Query:
    """What Spark does with a planner: each `batch` is in the offset log, then run, then in the commit log."""

    played: Played
    confirm: str = "call"
    more: dict[str, str] = field(default_factory=dict)
    committed: Offset | None = None

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> "Query":
        """Another process, with the same checkpoint."""
        self.clock = FakeClock()
        options = {
            "path": str(self.played.folder),
            "broker": "amqp://127.0.0.1",
            "subscription": NAME,
            "confirm": self.confirm,
        }
        self.planner = ConsumePlanner(read_consume_options(options | self.more), self.played, self.clock)
        return self

    def start(self) -> Offset:
        return self.committed or self.planner.initial()

    def next(self) -> Offset:
        """The end of the next batch, in the offset log."""
        return self.planner.next(self.start())

    def batch(self) -> list[int]:
        """The assignments of a whole batch; its first and last positions where there is none."""
        end = self.next()
        rows = self.rows(end)
        self.committed = end
        return rows

    def rows(self, end: Offset) -> list[int]:
        """Positions of a batch."""
        return positions([piece for part in self.planner.parts(self.start(), end) for piece in part])


def positions(slices: list[Slice]) -> list[int]:
    return [position for piece in slices for position in range(piece.first, piece.last + 1)]


def record_position(uri: str, app: str, position: Position, ledger_id: str = LEDGER) -> None:
    """As `append_once` does, without rows."""
    schema = Schema([Field("position", PrimitiveType("long"))])
    if not DeltaTable.is_deltatable(uri):
        DeltaTable.create(uri, schema)
    record = transactions(app, {ledger_id: position})
    properties = CommitProperties(app_transactions=[Transaction(*each) for each in record])
    table = DeltaTable(uri)
    table.create_write_transaction([], "append", table.schema(), commit_properties=properties)
