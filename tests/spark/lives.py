"""Ledgers of any history, drawn by Hypothesis: what can happen to entries, in blocks, files and epochs."""

from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

from postroom.ledger.format.block import Group
from postroom.model.codes import IdType
from tests.ledger.ledger_maker import E, H, LedgerMaker, O, S

STEPS = (
    "put",
    "put_to_set",
    "put_in_transaction",
    "commit_transaction",
    "consume",
    "fail",
    "batch",
    "forward",
    "purge",
    "lost_link",
    "new_queue",
    "new_holder",
    "new_set",
    "block",
    "file",
    "epoch",
    "seal",
)

histories = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 7)), min_size=1, max_size=60)
"""Steps with a number that each uses as it likes."""


@dataclass
class Life:
    """Applies steps to a ledger and remembers what is where; steps that can't be taken are left out."""

    maker: LedgerMaker
    available: list[tuple[int, int]] = field(default_factory=list)
    put_held: list[int] = field(default_factory=list)
    queues: list[int] = field(default_factory=list)
    sets: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    holders: int = 10
    files: int = 1
    sealed: int = 0

    def begin(self) -> None:
        self.queues = [self.maker.queue("a"), self.maker.queue("b")]
        self.maker.producer(5, "sender")
        self.maker.channel(6, name="TO.QM2", type="sender", transmission_queue="a")
        self.new_holder(0)
        self.new_set(1)

    def step(self, name: str, number: int) -> None:
        getattr(self, name)(number)

    def _queue(self, number: int) -> int:
        return self.queues[number % len(self.queues)]

    def _entry(self, number: int) -> tuple[int, int] | None:
        return self.available.pop(number % len(self.available)) if self.available else None

    def put(self, number: int) -> None:
        queue = self._queue(number)
        kinds = (IdType.STRING, IdType.BINARY, IdType.UUID, IdType.ULONG)
        ids = (b"id-%d" % number, b"\x00\xff", bytes(range(16)), b"\x01\x00")
        serial = self.maker.put(
            queue,
            message_id=ids[number % 4],
            id_type=kinds[number % 4],
            group_id=b"g" * (number % 3),
            producer=5 * (number % 2),
            priority=number,
        )
        self.available.append((serial, queue))

    def put_to_set(self, number: int) -> None:
        set_id, queues = self.sets[number % len(self.sets)]
        serial = self.maker.put(set_id, message_id=b"published")
        self.available += [(serial, queue) for queue in queues]

    def put_in_transaction(self, number: int) -> None:
        serial = self.maker.put(
            self.queues[0],
            event=E.PUT_HELD,
            to_state=S.PUT_UNCONFIRMED,
            holder_kind=H.LOCAL_TRANSACTION,
            holder=9,
        )
        self.put_held.append(serial)

    def commit_transaction(self, number: int) -> None:
        if not self.put_held:
            return
        event, to_state, outcome = (
            (E.CONFIRM, S.AVAILABLE, 0) if number % 2 else (E.UNDO, S.DELETED, O.ROLLED_BACK)
        )
        ranges = [(serial, serial) for serial in self.put_held]
        group = Group(self.queues[0], S.PUT_UNCONFIRMED, to_state, outcome, 0, 0, 0, ranges)
        self.maker.group(event, [group], decision=True, holder_kind=H.LOCAL_TRANSACTION, holder=9)
        if number % 2:
            self.available += [(serial, self.queues[0]) for serial in self.put_held]
        self.put_held = []

    def consume(self, number: int) -> None:
        entry = self._entry(number)
        if entry is not None:
            self.maker.change(*entry, E.ACQUIRE, S.AVAILABLE, S.GET_UNCONFIRMED, holder=self.holders)
            self.maker.change(
                *entry, E.CONFIRM, S.GET_UNCONFIRMED, S.DELETED, holder=self.holders, outcome=O.CONSUMED
            )

    def fail(self, number: int) -> None:
        if self.available:
            self.maker.fail(*self.available[number % len(self.available)])

    def batch(self, number: int) -> None:
        """A sending channel takes some entries in a batch and is told that they arrived."""
        taken = [entry for _ in range(number + 1) if (entry := self._entry(number)) is not None]
        self.holders += 1
        holder, kind = self.holders, H.CHANNEL_BATCH
        self.maker.holder(holder, kind, name="batch", channel="TO.QM2", luwid="ab" * 16)
        for entry in taken:
            self.maker.change(
                *entry, E.ACQUIRE, S.AVAILABLE, S.GET_UNCONFIRMED, holder=holder, holder_kind=kind
            )
        groups = [
            Group(queue, S.GET_UNCONFIRMED, S.DELETED, O.FORWARDED, 0, 0, 0, [(serial, serial)])
            for serial, queue in taken
        ]
        if groups:
            self.maker.group(E.FORWARD, groups, decision=True, holder_kind=kind, holder=holder)
        self.maker.holder_closed(holder, kind)
        self.new_holder(number)

    def forward(self, number: int) -> None:
        """A message leaves outside of batches, held by the channel's consumer meanwhile."""
        entry = self._entry(number)
        if entry is not None:
            self.holders += 1
            self.maker.holder(self.holders, name="QM1/TO.QM2", container="QM1", channel="TO.QM2")
            self.maker.change(*entry, E.ACQUIRE, S.AVAILABLE, S.GET_UNCONFIRMED, holder=self.holders)
            self.maker.change(
                *entry, E.FORWARD, S.GET_UNCONFIRMED, S.DELETED, holder=self.holders, outcome=O.FORWARDED
            )
            self.new_holder(number)

    def purge(self, number: int) -> None:
        queue = self._queue(number)
        gone = sorted(serial for serial, of in self.available if of == queue)
        self.available = [entry for entry in self.available if entry[1] != queue]
        group = Group(queue, S.AVAILABLE, S.DELETED, O.PURGED, 0, 0, 0, [(serial, serial) for serial in gone])
        self.maker.group(E.PURGE, [group])

    def lost_link(self, number: int) -> None:
        if self.available:
            entry = self.available[number % len(self.available)]
            self.maker.change(*entry, E.ACQUIRE, S.AVAILABLE, S.GET_UNCONFIRMED, holder=self.holders)
            reason: dict[str, object] = {"condition": "lost"}
            self.maker.change(
                *entry, E.LINK_LOST, S.GET_UNCONFIRMED, S.AVAILABLE, holder=self.holders, detail=reason
            )
        self.maker.holder_closed(self.holders)
        self.new_holder(number)

    def new_queue(self, number: int) -> None:
        self.queues.append(self.maker.queue(f"queue.{number}"))

    def new_holder(self, number: int) -> None:
        self.holders += 1
        self.maker.holder(self.holders, name=f"receiver-{number}", container="app", user="guest")

    def new_set(self, number: int) -> None:
        queues = tuple(self.queues[: 1 + number % len(self.queues)])
        self.sets.append((self.maker.routing_set(*queues), queues))

    def block(self, number: int) -> None:
        self.maker.commit()
        if number % 3 == 0:
            self.maker.marker()

    def file(self, number: int) -> None:
        self._next_file(number, new_epoch=False)

    def epoch(self, number: int) -> None:
        self._next_file(number, new_epoch=True)

    def _next_file(self, number: int, new_epoch: bool) -> None:
        self.maker.next_file(new_epoch)
        self.new_holder(number)  # a file begins with a block of records
        self.maker.commit()
        self.files += 1

    def seal(self, number: int) -> None:
        if self.sealed + 1 < self.files:
            self.maker.commit()
            self.sealed += 1
            self.maker.seal(self.sealed)


def made(folder: Path, history: list[tuple[str, int]]) -> Path:
    """A folder with the ledger of that history, all of it readable."""
    life = Life(LedgerMaker(folder))
    life.begin()
    for name, number in history:
        life.step(name, number)
    return life.maker.finish()
