"""Random entries that live as the life cycle allows, told by every kind of record.

Unlike histories of a ledger's own ways they take every cell of the table, in any order.
"""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from postroom.ledger.format.block import Group
from postroom.model.codes import Event, HolderKind, Outcome, State
from postroom.spark.audit.legal import legal_rows
from tests.ledger.ledger_maker import STEP_US, LedgerMaker

SENDER = UUID("0195f2a0-0000-7000-8000-0000000000b7")
CHANNEL, PRODUCER, HOLDERS = 5, 6, (900, 901, 902)
REASONS: tuple[dict[str, object] | None, ...] = (
    None,
    {"condition": "amqp:not-allowed", "description": "no"},
    {"condition": "x", "reason": 2085, "channel": "A.B", "queue_manager": "B", "dropped": True},
    {"condition": "x", "reason": 2053, "channel": "C", "report": 77},
)
STEPS_US = (STEP_US, 20_000_000, 70_000_000, 7_200_000_000)


def code(kind: Any, text: str | None) -> int:
    """The code of a name; 0 for none."""
    return int(kind[text.upper()]) if text else 0


@dataclass
class Entry:
    serial: int
    queue: int
    state: str


class Lives:
    """Says what happens next, at random, and has it written."""

    def __init__(self, folder: Path, random: Random) -> None:
        self.random = random
        self.maker = LedgerMaker(folder)
        self.live: list[Entry] = []
        self.queues = [self.maker.queue(name) for name in ("orders", "audit", "$undelivered")]
        self.sets = [self.maker.routing_set(*self.queues[:2]), self.maker.routing_set()]
        self.maker.producer(PRODUCER, "shop")
        self.maker.receiving_channel(CHANNEL, "A.B", SENDER)

    def run(self, steps: int) -> Path:
        """The ledger's folder after so many steps."""
        ways = (self._arrive, self._change, self._change, self._change, self._many, self._time, self._act)
        for _ in range(steps):
            self.random.choice(ways)()
        if self.random.random() < 0.3:
            self.maker.next_file()
        return self.maker.finish()

    def _act(self) -> None:
        refused: dict[str, object] = {"user": "mallory", "operation": "ATTACH", "status": 403, "count": 3}
        done: dict[str, object] = {"operation": "CREATE", "type": "queue", "name": "q", "status": 201}
        self.maker.act(**self.random.choice((refused, done)))

    def _time(self) -> None:
        step = self.random.choice(STEPS_US)
        self.maker.builder.set_time(self.maker.builder.time_us + step)

    def _row(self, state: str) -> tuple[str, str, str | None, str, str | None]:
        return self.random.choice([row for row in legal_rows() if row[0] == state])

    def _arrive(self) -> None:
        _, to_state, holder_kind, event, _ = self._row("start")
        queue = self.random.choice((*self.queues, *self.sets))
        received = self.random.random() < 0.3
        serial = self.maker.put(
            queue, event=code(Event, event), to_state=code(State, to_state),
            holder_kind=code(HolderKind, holder_kind), holder=self._holder(holder_kind),
            message_id=b"m%d" % self.random.randrange(5), producer=CHANNEL if received else PRODUCER,
            parent=(self.random.randrange(9), self.random.randrange(3)), received=received,
            priority=self.random.randrange(10), durable=self.random.random() < 0.5,
        )  # fmt: skip
        queues = {self.sets[0]: self.queues[:2], self.sets[1]: []}.get(queue, [queue])
        self.live += [Entry(serial, queue, to_state) for queue in queues]

    def _holder(self, kind: str | None) -> int:
        return self.random.choice(HOLDERS) if kind else 0

    def _change(self) -> None:
        if not self.live:
            return
        entry = self.random.choice(self.live)
        _, to_state, holder_kind, event, outcome = self._row(entry.state)
        self.maker.change(
            entry.serial, entry.queue, code(Event, event), code(State, entry.state), code(State, to_state),
            holder_kind=code(HolderKind, holder_kind), holder=self._holder(holder_kind),
            outcome=code(Outcome, outcome), causes=self._causes(to_state),
            delivery_delta=self.random.randrange(2), failure_delta=self.random.randrange(2),
            detail=self.random.choice(REASONS) if to_state == "deleted" else None,
        )  # fmt: skip
        self._now(entry, to_state)

    def _causes(self, to_state: str) -> int:
        return self.random.randrange(1, 16) if to_state == "delayed" else 0

    def _now(self, entry: Entry, state: str) -> None:
        entry.state = state
        if state == "deleted":
            self.live.remove(entry)

    def _many(self) -> None:
        """One record that changes every entry of a queue that is in one state."""
        if not self.live:
            return
        one = self.random.choice(self.live)
        same = [entry for entry in self.live if (entry.queue, entry.state) == (one.queue, one.state)]
        _, to_state, holder_kind, event, outcome = self._row(one.state)
        ranges = [(entry.serial, entry.serial) for entry in sorted(same, key=lambda entry: entry.serial)]
        group = Group(
            one.queue, code(State, one.state), code(State, to_state), code(Outcome, outcome),
            self._causes(to_state), 0, 0, ranges,
        )  # fmt: skip
        self.maker.group(
            code(Event, event), [group], decision=self.random.random() < 0.7,
            holder_kind=code(HolderKind, holder_kind), holder=self._holder(holder_kind),
        )  # fmt: skip
        for entry in same:
            self._now(entry, to_state)


def live(folder: Path, steps: int = 60, seed: int = 1) -> Path:
    return Lives(folder, Random(seed)).run(steps)
