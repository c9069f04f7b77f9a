"""Which entries count: what a writer may take for durable is what every reader takes for so."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.replication.entries import Entry, Kind
from postroom.replication.errors import CopyNeeded
from postroom.replication.order import LogOrder

MEMBERS = 3


@dataclass
class Writer:
    """A member as it sees the log: how far it has read, and what it took for durable."""

    order: LogOrder = field(default_factory=LogOrder)
    own_claims: set[bytes] = field(default_factory=set)
    acknowledged: list[tuple[int, Entry]] = field(default_factory=list)


steps = st.lists(
    st.tuples(st.integers(0, MEMBERS - 1), st.sampled_from(["claim", "append", "read"])), max_size=60
)


@given(steps, st.booleans())
def test_what_is_acknowledged_counts_for_every_reader(
    steps: list[tuple[int, str]], is_conditional: bool
) -> None:
    """Members that append on what they knew, on an engine that refuses or one that takes everything."""
    log: list[Entry] = []
    writers = [Writer() for _ in range(MEMBERS)]
    for number, (who, what) in enumerate(steps):
        writer = writers[who]
        if what == "read":
            read_on(writer, log)
            continue
        if what == "append" and writer.order.claim not in writer.own_claims:
            continue  # it isn't active, as far as it knows
        claim = number.to_bytes(16, "big") if what == "claim" else writer.order.claim
        entry = Entry(Kind.CLAIM if what == "claim" else Kind.HEARTBEAT, claim, writer.order.sequence)
        follows = entry.after == len(log)
        if follows or not is_conditional:
            log.append(entry)
        if not follows:
            continue
        if what == "claim":
            writer.own_claims.add(claim)
        assert writer.order.take(len(log), entry), "its own entry counts for who has appended it"
        writer.acknowledged.append((len(log), entry))
    reader = LogOrder()
    counting = [(at, entry) for at, entry in enumerate(log, 1) if reader.take(at, entry)]
    acknowledged = [each for writer in writers for each in writer.acknowledged]
    assert sorted(acknowledged) == counting
    in_force = b""
    for _, entry in counting:
        in_force = entry.claim if entry.kind is Kind.CLAIM else in_force
        assert entry.claim == in_force, "nothing counts that a stale member has appended"


def read_on(writer: Writer, log: list[Entry]) -> None:
    for at in range(writer.order.sequence + 1, len(log) + 1):
        writer.order.take(at, log[at - 1])


def test_what_comes_behind_a_gap_is_not_read() -> None:
    """A claim may have been in it, or a block."""
    order = LogOrder(5, b"c" * 16)
    for _ in range(2):
        with pytest.raises(CopyNeeded, match="read to entry 5, and goes on with entry 7: name other members"):
            order.take(7, Entry(Kind.HEARTBEAT, b"c" * 16, 6))
