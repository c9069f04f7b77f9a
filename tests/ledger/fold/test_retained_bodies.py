"""Queues whose bodies stay for a while after their entries have ended: what stays, of whom, how long."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.ledger.fold.retained_bodies import (
    ANY_QUEUE,
    RETAINED_DTYPE,
    STRETCH,
    are_retained,
    ended_at,
    joined,
    overlapping,
    still,
)
from postroom.ledger.format.records import SET_BASE, ArrivalFlag, RecordType
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.body_reader import BodyReader, BodyState
from tests.ledger.entry_records import GET, arrival_of, put_chunks
from tests.ledger.workload import START_US

OPTIONS = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0)
SECOND_US = 1_000_000
RETENTION_S = 1000
KEPT, PLAIN, OTHER = 1, 2, 3
"""Queues: one that retains bodies, one that doesn't, one that is only there to make work."""
BOTH = SET_BASE + 1


class Broker:
    """A ledger on a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_us = START_US
        self.offsets: dict[int, int] = {}
        """Where the body of each message lies."""
        self.ledger = self.open()
        for queue, definition in ((KEPT, {"body_retention_s": RETENTION_S}), (PLAIN, {}), (OTHER, {})):
            detail = json.dumps({"name": f"q{queue}", **definition}).encode()
            self.ledger.builder.record(RecordType.QUEUE_DEFINED, 0, queue, 0, 0, 0, detail)
        both = KEPT.to_bytes(4, "little") + PLAIN.to_bytes(4, "little")
        self.ledger.builder.record(RecordType.ROUTING_SET_DEFINED, 0, 0, BOTH, 0, 0, both)

    def open(self) -> Ledger:
        return Ledger.open(self.folder, OPTIONS, self.now_us, maintenance="manual")

    def put(self, queue: int, body: bytes, of: tuple[int, int] = (0, 0)) -> int:
        """`of`: (serial, offset) of the body that is shared."""
        arrival = arrival_of(queue, body, body_len=len(body))
        if of[0]:
            arrival.body = None
            arrival.flags |= int(ArrivalFlag.BODY_SHARED | ArrivalFlag.BODY_STORED)
            arrival.body_serial, arrival.body_offset = of
            arrival.parent_serial, arrival.parent_queue = of[0], PLAIN
        serial = self.ledger.builder.arrival(arrival)
        self.offsets[serial] = arrival.body_offset
        return serial

    def put_in_chunks(self, queue: int, body: bytes) -> int:
        positions: list[int] = []
        for at in range(0, len(body), 3000):
            upload = positions[0] if positions else 0
            positions.append(int(self.ledger.builder.body_chunk(upload, body[at : at + 3000])))
        return put_chunks(self.ledger.builder, positions, body, queue)[0]

    def get(self, serial: int, queue: int) -> None:
        self.ledger.builder.entry_event(serial, queue, 0, GET)

    def work(self, rounds: int = 30) -> None:
        """So much that files are sealed, checkpoints made and sparse files rewritten."""
        for _ in range(rounds):
            for _ in range(12):
                self.get(self.put(OTHER, bytes(1000)), OTHER)
            self.ledger.builder.set_time(self.now_us)
            self.settle()

    def settle(self) -> None:
        self.ledger.tend(self.now_us)
        self.ledger.flush()
        while self.ledger.maintenance_step():
            pass

    def restart(self) -> None:
        self.ledger.close()
        self.ledger = self.open()

    def state(self, serial: int) -> str:
        through = self.ledger.durable_through
        found = BodyReader(self.folder).read(np.array([serial], np.uint64), through)
        assert not found.errors
        return BodyState(found.states[0]).name


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


@pytest.mark.parametrize("restarts", [False, True])
def test_bodies_stay_so_long_after_the_end_and_no_longer(broker: Broker, restarts: bool) -> None:
    first, plain = broker.put(KEPT, b"kept" * 100), broker.put(PLAIN, b"gone" * 1000)
    broker.work()
    broker.get(first, KEPT)  # long after it came
    broker.get(plain, PLAIN)
    broker.work()
    if restarts:
        broker.restart()
    assert (broker.state(first), broker.state(plain)) == ("PRESENT", "DROPPED")
    broker.now_us += (RETENTION_S - 1) * SECOND_US
    broker.work()
    assert broker.state(first) == "PRESENT"
    broker.now_us += 2 * SECOND_US
    broker.work()
    assert broker.state(first) == "DROPPED"


def test_those_of_the_same_stretch_that_were_put_to_others_go(broker: Broker) -> None:
    serials = [broker.put((KEPT, PLAIN)[n % 2], b"%d" % n * 200) for n in range(200)]
    for n, serial in enumerate(serials):
        broker.get(serial, (KEPT, PLAIN)[n % 2])
    broker.work()
    assert {broker.state(serial) for serial in serials[::2]} == {"PRESENT"}
    assert {broker.state(serial) for serial in serials[1::2]} == {"DROPPED"}


def test_a_publish_stays_for_the_subscription_that_wants_it(broker: Broker) -> None:
    serial = broker.put(BOTH, b"news" * 100)
    broker.get(serial, KEPT)
    broker.get(serial, PLAIN)
    broker.work()
    assert broker.state(serial) == "PRESENT"


def test_a_body_in_chunks_stays_whole(broker: Broker) -> None:
    body = bytes(range(256)) * 100
    kept, gone = broker.put_in_chunks(KEPT, body), broker.put_in_chunks(PLAIN, body)
    broker.get(kept, KEPT)
    broker.get(gone, PLAIN)
    broker.work()
    found = BodyReader(broker.folder).read(np.array([kept, gone], np.uint64), broker.ledger.durable_through)
    assert bytes(found.bodies[found.starts[0] : found.ends[0]]) == body
    broker.now_us += 2 * RETENTION_S * SECOND_US
    broker.work()
    assert {broker.state(kept), broker.state(gone)} == {"DROPPED"}


def test_a_shared_body_stays_for_the_child_s_queue(broker: Broker) -> None:
    parent = broker.put(PLAIN, b"dead" * 100)
    child = broker.put(KEPT, b"dead" * 100, (parent, broker.offsets[parent]))
    broker.get(parent, PLAIN)
    broker.work()
    broker.get(child, KEPT)
    broker.work()
    assert broker.state(child) == "PRESENT"
    broker.now_us += 2 * RETENTION_S * SECOND_US
    broker.work()
    assert broker.state(child) == "DROPPED"


def test_they_go_when_the_disk_runs_short(broker: Broker) -> None:
    serial = broker.put(KEPT, b"kept" * 100)
    broker.get(serial, KEPT)
    broker.work()
    assert broker.state(serial) == "PRESENT"
    broker.ledger._journal.space_short = True
    broker.settle()
    assert broker.state(serial) == "DROPPED"
    broker.ledger._journal.space_short = False
    later = broker.put(KEPT, b"kept" * 100)
    broker.get(later, KEPT)
    broker.work()
    assert broker.state(later) == "PRESENT"


def test_a_queue_that_is_redefined_counts_from_then_on(broker: Broker) -> None:
    detail = json.dumps({"name": "q1"}).encode()
    broker.ledger.builder.record(RecordType.QUEUE_DEFINED, 0, KEPT, 0, 0, 0, detail)
    broker.work(4)
    serial = broker.put(KEPT, b"kept" * 100)
    broker.get(serial, KEPT)
    broker.work()
    assert broker.state(serial) == "DROPPED"


entries = st.lists(
    st.tuples(st.integers(1, 5 * STRETCH), st.integers(1, 3), st.integers(0, 100), st.booleans()), max_size=30
)


@given(entries, st.integers(1, 3), st.integers(0, 150), st.data())
def test_what_was_promised_stays(
    ends: list[tuple[int, int, int, bool]], queue: int, now_us: int, data: st.DataObject
) -> None:
    """A slow model: every single body that ended on a queue with a retention, until its time."""
    retentions = {1: 50, 3: 7}
    at = data.draw(st.integers(0, len(ends)))
    rows = joined(
        ended_at(
            np.array([position for position, *_ in some], np.uint64),
            np.array([ANY_QUEUE if shared else q for _, q, _, shared in some], np.uint32),
            np.array([q for _, q, _, _ in some], np.uint32),
            np.array([time_us for _, _, time_us, _ in some], np.int64),
            retentions,
        )
        for some in (ends[:at], ends[at:])
    )
    assert rows.dtype == RETAINED_DTYPE
    rows = still(rows, now_us)
    for position, q, time_us, shared in ends:
        lies_on = 2 if shared else q
        stays = q in retentions and time_us + retentions[q] > now_us
        here = overlapping(rows, position, position)
        sets = np.array([lies_on], np.uint32)
        found = are_retained(here, np.array([position], np.uint64), sets, {})
        assert found[0] or not stays
    assert len(np.unique(rows[["stretch", "queue"]])) == len(rows)
