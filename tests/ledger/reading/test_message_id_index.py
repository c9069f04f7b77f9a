"""Ids of arrivals read back by serial, wherever the arrival lies by now, and their hashes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.message_id_hash import hash_id, hash_ids
from postroom.ledger.reading.message_id_index import HashedIds
from postroom.model.codes import Event
from postroom.model.ids import MESSAGE_ID, UNIQUE_ID, MessageIds, pack_unique_id, unpack_unique_id
from tests.ledger.entry_records import GET, arrival_of
from tests.ledger.retention.short_history import BODY, SECOND_US, Broker
from tests.ledger.workload import START_US

Ids = tuple[bytes, bytes, int, bytes, int]


class IdBroker(Broker):
    """As `Broker`; every message has ids of its own, and it is known which."""

    def __init__(self, options: LedgerOptions, keep_every: int) -> None:
        super().__init__(options, keep_every)
        self.expected: dict[int, Ids] = {}

    def put(self, messages: int) -> None:
        builder = self.ledger.builder
        for _ in range(messages):
            self.count += 1
            builder.set_time(START_US + self.count * SECOND_US)
            own = _ids_of(self.count)
            arrival = arrival_of(1, BODY)
            arrival.properties = MessageIds(*own)
            serial = builder.arrival(arrival)
            if self.count % self.keep_every == 0:
                self.expected[serial] = own
            else:
                builder.entry_event(serial, 1, 0, GET)
            if self.count % 10 == 0:
                self.ledger.flush()
                while self.ledger.maintenance_step():
                    pass

    def check_ids(self) -> None:
        read = self.ledger.read_ids(list(self.expected))
        assert [_as_tuple(ids) for ids in read] == list(self.expected.values())
        found = self.ledger.hash_ids(np.array(list(self.expected), np.uint64))
        assert _hashes(found, MESSAGE_ID) == sorted(
            (hash_id(own[1], own[2]), serial) for serial, own in self.expected.items() if own[2]
        )
        assert _hashes(found, UNIQUE_ID) == sorted(
            (hash_id(own[0], 0), serial) for serial, own in self.expected.items() if own[0]
        )


def _ids_of(number: int) -> Ids:
    """Some have all ids, some only one or the other."""
    unique = pack_unique_id("QM1", number) if number % 3 else b""
    message_type = 1 if number % 2 else 0
    return unique, b"m%d" % number if message_type else b"", message_type, b"c" * (number % 40), 2


def _as_tuple(ids: MessageIds | None) -> Ids:
    assert ids is not None
    return (ids.unique_id, ids.message_id, ids.message_id_type, ids.correlation_id, ids.correlation_id_type)


def _hashes(found: list[list[HashedIds]], kind: int) -> list[tuple[int, int]]:
    pairs = []
    for kinds in found:
        assert np.all(kinds[kind].hashes[:-1] <= kinds[kind].hashes[1:])
        pairs += list(zip(kinds[kind].hashes.tolist(), kinds[kind].serials.tolist(), strict=True))
    return sorted(pairs)


def test_ids_are_found_in_journals_in_events_and_where_a_checkpoint_carries_them() -> None:
    options = LedgerOptions(
        journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=100 << 10, retention_s=0
    )
    broker = IdBroker(options, keep_every=7)
    for _ in range(6):
        broker.put(300)
        broker.check_ids()
    assert min(broker.files().events) > 1, "retention has let events files go, so some ids are carried"
    broker.ledger.flush()
    broker.disk = broker.disk.copy()
    broker.ledger = broker.open()
    broker.check_ids()


def test_a_child_has_the_ids_that_its_body_came_with() -> None:
    broker = IdBroker(LedgerOptions(reserve_bytes=0), keep_every=1)
    broker.put(1)
    ((parent, own),) = broker.expected.items()
    arrival = arrival_of(
        2, event=Event.DEAD_LETTER, flags=1 | 2 | 8, body_serial=parent, body_len=9, parent_serial=parent
    )
    child = broker.ledger.builder.arrival(arrival)
    broker.ledger.flush()
    read = broker.ledger.read_ids([child, parent, 999])
    assert [_as_tuple(ids) for ids in read[:2]] == [own, own]
    assert read[2] is None
    assert (hash_id(own[1], own[2]), child) in _hashes(
        broker.ledger.hash_ids(np.array([child], np.uint64)), MESSAGE_ID
    )


@given(st.lists(st.tuples(st.binary(max_size=70), st.integers(0, 4)), min_size=1, max_size=20))
def test_a_hash_is_the_same_alone_and_among_many(ids: list[tuple[bytes, int]]) -> None:
    names = np.frombuffer(b"".join(id for id, _ in ids) or b"\0", np.uint8)
    lengths = np.array([len(id) for id, _ in ids])
    hashes = hash_ids(names, np.cumsum(lengths) - lengths, lengths, np.array([type for _, type in ids]))
    assert hashes.tolist() == [hash_id(*each) for each in ids]
    different = set(ids)
    assert len(different) == len(set(hashes.tolist()))


@given(st.text(min_size=1, max_size=60), st.integers(-(2**63), 2**63 - 1))
def test_a_unique_id_is_unpacked_as_it_was_packed(origin: str, time: int) -> None:
    try:
        packed = pack_unique_id(origin, time)
    except (ValueError, UnicodeEncodeError):
        return
    assert unpack_unique_id(packed) == (origin, time)
