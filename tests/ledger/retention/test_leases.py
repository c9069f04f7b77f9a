"""Leases without files: what may be granted, what breaks one, and what is kept until a change is durable."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.ledger.errors import (
    LeaseBroken,
    LeaseError,
    LeaseExists,
    LeaseInvalid,
    LeaseLimit,
    LeaseTooOld,
    LeaseUnknown,
)
from postroom.ledger.format.block import BlockBuilder
from postroom.ledger.format.dictionary import LEASES, Dictionary
from postroom.ledger.format.records import RecordType
from postroom.ledger.options import LedgerOptions
from postroom.ledger.retention.kept_history import NEVER, NO_FLOORS, Floors, Held, Keep, lowest, whole_since
from postroom.ledger.retention.leases import Lease, Leases, Missing, leases_from

START_US = 1_790_000_000_000_000
SECOND_US = 1_000_000
OPTIONS = LedgerOptions(max_leases=3, max_lease_s=100, max_lease_bytes=1000)


class Table:
    """Leases whose records become durable when told."""

    def __init__(self, position: int = 50) -> None:
        self.builder = BlockBuilder(position, START_US)
        self.keep = Keep()
        self.leases = Leases(self.builder, self.keep, OPTIONS, [])
        self.dictionary = Dictionary()

    def commit(self) -> bool:
        """Everything so far is durable; whether more may go than before."""
        while (parts := self.builder.take()) is not None:
            for record in parts.dictionary:
                self.dictionary.apply(record)
        return self.leases.durable(self.builder.next_position - 1)

    def restarted(self) -> Leases:
        """As the next process has them: from the records alone."""
        return Leases(BlockBuilder(), Keep(), OPTIONS, leases_from(self.dictionary.of_kind(LEASES).values()))


@pytest.fixture
def table() -> Table:
    return Table()


def test_a_lease_keeps_what_is_there_and_what_comes(table: Table) -> None:
    lease = table.leases.grant("reader", "ann", START_US, 20)
    assert (lease.position, lease.expires_us) == (20, START_US + 100 * SECOND_US)
    assert table.keep.floors == Floors(20, NEVER)
    assert not table.keep.may_drop_events(20)
    assert not table.keep.may_drop_events(33)
    assert table.keep.may_drop_events(19)
    assert table.keep.may_drop_bodies(33)


def test_a_tap_keeps_bodies_too(table: Table) -> None:
    table.leases.grant("tap", "", START_US, 20, bodies=True)
    assert table.keep.floors == Floors(20, 20)
    assert not table.keep.may_drop_bodies(20)


def test_who_names_queues_wants_bodies_and_a_restart_remembers_them(table: Table) -> None:
    lease = table.leases.grant("tap", "", START_US, 20, queues=["b", "a", "b"])
    assert (lease.bodies, lease.queues) == (True, ("a", "b"))
    assert table.keep.floors == Floors(20, 20)
    table.leases.grant("other", "", START_US, queues=["c"])
    table.leases.grant("history", "", START_US)
    assert table.leases.queues == {"a", "b", "c"}
    before = table.leases.queues
    assert table.leases.renew("tap", START_US, 30).queues == ("a", "b")
    assert table.leases.queues is before
    table.commit()
    assert table.restarted().queues == {"a", "b", "c"}
    table.leases.release("other", START_US)
    assert table.leases.queues == {"a", "b"}
    [broken, _] = table.leases.tend(START_US + 200 * SECOND_US, False)
    assert (broken.name, broken.queues, table.leases.queues) == ("tap", ("a", "b"), frozenset())
    table.commit()
    assert table.restarted().queues == frozenset()
    assert table.restarted().get("tap").queues == ("a", "b")


@pytest.mark.parametrize("queues", [[""], ["a\n"], ["x" * 256], [str(n) for n in range(257)]])
def test_names_of_queues_are_bounded(table: Table, queues: list[str]) -> None:
    with pytest.raises(LeaseInvalid):
        table.leases.grant("tap", "", START_US, queues=queues)
    assert table.leases.all() == []


def test_a_broken_lease_tells_what_is_missing(table: Table) -> None:
    table.leases.grant("tap", "", START_US, 20, bodies=True)
    table.leases.tend(START_US + 100 * SECOND_US, False)
    with pytest.raises(LeaseBroken, match=r"\(time\) at position 51: nothing is missing yet"):
        table.leases.renew("tap", START_US)
    table.commit()
    assert table.keep.may_drop_bodies(33)
    with pytest.raises(LeaseBroken, match="positions 20 to 33 are not whole any more"):
        table.leases.renew("tap", START_US)


def test_from_now_on_and_from_the_oldest(table: Table) -> None:
    table.keep.reaches(10, 30)
    assert table.leases.grant("now", "", START_US).position == 50
    assert table.leases.grant("all", "", START_US, 0).position == 11
    assert table.leases.grant("tap", "", START_US, 0, bodies=True).position == 31


def test_what_has_gone_can_not_be_kept(table: Table) -> None:
    table.keep.reaches(10, 30)
    with pytest.raises(LeaseTooOld, match=r"position 10 .* events are kept from position 11"):
        table.leases.grant("late", "", START_US, 10)
    with pytest.raises(LeaseTooOld, match="bodies are kept from position 31"):
        table.leases.grant("late", "", START_US, 30, bodies=True)
    assert table.leases.all() == []
    assert table.keep.floors == NO_FLOORS


def test_what_is_let_go_counts_as_gone_at_once(table: Table) -> None:
    assert table.keep.may_drop_events(20)
    with pytest.raises(LeaseTooOld):
        table.leases.grant("late", "", START_US, 20)
    assert table.leases.grant("in time", "", START_US, 21).position == 21


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "x" * 256},
        {"name": "a\nb"},
        {"owner": "é" * 128},
        {"position": 51},
        {"position": -1},
        {"duration_s": 0},
        {"duration_s": 101},
        {"max_bytes": 0},
        {"max_bytes": 1001},
    ],
)
def test_bounds_of_a_grant(table: Table, changes: dict[str, object]) -> None:
    with pytest.raises(LeaseInvalid):
        table.leases.grant(**({"name": "n", "owner": "", "now_us": START_US} | changes))  # type: ignore[arg-type]
    assert table.builder.empty()


def test_the_number_of_leases_is_bounded_and_the_longest_broken_is_forgotten_first(table: Table) -> None:
    for number in range(3):
        table.leases.grant(f"r{number}", "", START_US, duration_s=10 + number)
    with pytest.raises(LeaseExists, match="'r1' is in force"):
        table.leases.grant("r1", "", START_US)
    with pytest.raises(LeaseLimit, match="max_leases"):
        table.leases.grant("r3", "", START_US)
    table.leases.tend(START_US + 10 * SECOND_US, False)
    table.leases.tend(START_US + 11 * SECOND_US, False)
    table.keep.reaches(5, 5)
    with pytest.raises(LeaseTooOld):
        table.leases.grant("r3", "", START_US, 5)
    assert len(table.leases.all()) == 3, "nobody is forgotten for nothing"
    table.leases.grant("r3", "", START_US + 11 * SECOND_US)
    assert [lease.name for lease in table.leases.all()] == ["r1", "r2", "r3"]
    assert len({lease.id for lease in table.leases.all()}) == 3


def test_a_renewal_moves_forward_and_counts_when_it_is_durable(table: Table) -> None:
    table.leases.grant("reader", "", START_US, 20, duration_s=10)
    table.commit()
    renewed = table.leases.renew("reader", START_US + SECOND_US, 40)
    assert (renewed.position, renewed.duration_s) == (40, 10)
    assert renewed.expires_us == START_US + 11 * SECOND_US
    assert table.keep.floors.events == 20
    assert table.commit()
    assert table.keep.floors.events == 40
    for position in (39, 1000):
        with pytest.raises(LeaseInvalid, match="moves forward only"):
            table.leases.renew("reader", START_US, position)
    with pytest.raises(LeaseInvalid, match="duration_s"):
        table.leases.renew("reader", START_US, duration_s=1000)
    with pytest.raises(LeaseUnknown):
        table.leases.renew("nobody", START_US)


def test_a_release_counts_when_it_is_durable(table: Table) -> None:
    table.leases.grant("reader", "", START_US, 20)
    table.commit()
    table.leases.release("reader", START_US)
    assert table.leases.all() == []
    assert not table.keep.may_drop_events(30)
    assert table.commit()
    assert table.keep.may_drop_events(30)
    assert table.restarted().all() == []


def test_its_time_is_over(table: Table) -> None:
    lease = table.leases.grant("reader", "ann", START_US, 20, duration_s=10)
    table.commit()
    assert table.leases.next_expiry_us() == lease.expires_us
    assert table.leases.tend(lease.expires_us - 1, False) == []
    at = table.builder.next_position
    (broken,) = table.leases.tend(lease.expires_us, False)
    assert (broken.reason, broken.broken_us, broken.broken_position) == ("time", lease.expires_us, at)
    assert not table.keep.may_drop_events(30), "kept until the record is durable"
    table.commit()
    assert table.leases.next_expiry_us() == 0
    with pytest.raises(LeaseBroken, match="time"):
        table.leases.renew("reader", lease.expires_us)


def test_a_broken_lease_says_what_is_missing_and_can_be_granted_again(table: Table) -> None:
    table.leases.grant("reader", "ann", START_US, 20, duration_s=10)
    (broken,) = table.leases.tend(START_US + 10 * SECOND_US, False)
    table.commit()
    assert table.leases.missing(broken) == Missing(0, 0)
    assert table.keep.may_drop_events(33)
    assert table.leases.missing(broken) == Missing(20, 33)
    with pytest.raises(LeaseTooOld, match="from position 34"):
        table.leases.grant("reader", "ann", START_US, 20)
    again = table.leases.grant("reader", "ann", START_US, 34)
    assert again.in_force and again.id == broken.id


def test_what_is_kept_beside_all_leases_goes_when_that_is_durable(table: Table) -> None:
    table.leases.also_keep(20)
    assert not table.keep.may_drop_events(20)
    assert table.keep.may_drop_bodies(20)
    table.builder.record(RecordType.EPOCH_OPENED, 0, 0, 0, 0, 0, b"")
    table.leases.also_keep(30)
    assert not table.keep.may_drop_events(25), "the record that lets it go isn't durable"
    assert table.commit()
    assert table.keep.may_drop_events(29)
    assert not table.keep.may_drop_events(30)
    table.leases.also_keep(NEVER)
    table.commit()
    assert table.keep.may_drop_events(40)


def test_what_is_kept_beside_all_leases_is_bounded_as_they_are(table: Table) -> None:
    table.leases.also_keep(20)
    table.keep.count_events([Held(19, 5000), Held(30, 1000)])
    table.leases.tend(START_US, False)
    assert table.leases.also_reason == ""
    table.leases.tend(START_US, True)
    assert table.leases.also_reason == "space"
    table.keep.count_events([Held(30, 1001)])
    table.leases.tend(START_US, False)
    assert table.leases.also_reason == "bytes"
    table.leases.also_keep(31)
    assert table.leases.also_reason == ""


def test_it_keeps_too_much(table: Table) -> None:
    table.leases.grant("small", "", START_US, 20, max_bytes=100)
    table.leases.grant("large", "", START_US, 20, max_bytes=101)
    table.leases.grant("ahead", "", START_US, 31, max_bytes=1)
    assert table.leases.tend(START_US, False) == []
    table.keep.count_events([Held(25, 60), Held(30, 41)])
    (broken,) = table.leases.tend(START_US, False)
    assert (broken.name, broken.reason, broken.held_bytes) == ("small", "bytes", 101)
    assert table.leases.tend(START_US, False) == []


def test_bodies_count_for_taps_only(table: Table) -> None:
    plain = table.leases.grant("plain", "", START_US, 20)
    tap = table.leases.grant("tap", "", START_US, 20, bodies=True)
    table.keep.count_events([Held(25, 60)])
    table.keep.count_bodies([Held(19, 7), Held(25, 500)])
    assert (table.leases.held_bytes(plain), table.leases.held_bytes(tap)) == (60, 560)


def test_short_space_breaks_those_that_keep_something(table: Table) -> None:
    table.leases.grant("behind", "", START_US, 20)
    table.leases.grant("ahead", "", START_US, 31)
    table.keep.count_events([Held(30, 41)])
    assert [lease.name for lease in table.leases.tend(START_US, True)] == ["behind"]
    assert table.leases.tend(START_US, True) == []


def test_files_that_were_not_there_at_the_start(table: Table) -> None:
    table.leases.grant("reader", "", START_US, 20)
    table.commit()
    after = table.restarted()
    after._keep.reaches(30, 30)
    (broken,) = after.tend(START_US, False)
    assert (broken.reason, after.missing(broken)) == ("missing", Missing(20, 30))


def test_a_restart_finds_them_as_they_were(table: Table) -> None:
    table.leases.grant("reader", "ann", START_US, 20, bodies=True)
    table.leases.grant("slow", "bob", START_US, 30, duration_s=1)
    table.leases.tend(START_US + SECOND_US, False)
    table.commit()
    after = table.restarted()
    assert after.all() == sorted(table.leases.all(), key=lambda lease: lease.name)
    assert after._keep.floors == Floors(20, 20)


def test_a_detail_of_a_later_version_is_read() -> None:
    lease = Lease(
        id=1,
        name="n",
        owner="",
        position=1,
        bodies=False,
        duration_s=1,
        max_bytes=1,
        granted_us=START_US,
        expires_us=START_US,
    )
    detail = json.loads(lease.encode()) | {"colour": "red"}
    record = BlockBuilder()
    record.record(RecordType.LEASE_GRANTED, 0, 0, 1, 0, 0, json.dumps(detail).encode())
    parts = record.take()
    assert parts is not None
    assert leases_from(parts.dictionary) == [lease]


NAMES = ("a", "b", "c", "d")
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("grant"), st.sampled_from(NAMES), st.integers(0, 60), st.booleans(), st.integers(1, 20)
        ),
        st.tuples(st.just("renew"), st.sampled_from(NAMES), st.integers(0, 60)),
        st.tuples(st.just("release"), st.sampled_from(NAMES)),
        st.tuples(st.just("pass"), st.integers(1, 15)),
        st.tuples(st.just("drop"), st.integers(1, 60), st.booleans()),
        st.tuples(st.just("durable"), st.integers(0, 5)),
    ),
    max_size=30,
)


@given(STEPS)
def test_nothing_goes_that_any_possible_past_keeps(steps: list[tuple[str, ...]]) -> None:
    """A crash may leave any prefix of the records that aren't durable: each must find its files."""
    table = Table()
    now_us = START_US
    pasts: list[tuple[int, list[Lease]]] = [(table.builder.next_position - 1, [])]
    for step in steps:
        at = table.builder.next_position
        try:
            match step:
                case "grant", name, position, bodies, duration_s:
                    table.leases.grant(name, "", now_us, position, bodies, duration_s)
                case "renew", name, position:
                    table.leases.renew(name, now_us, position)
                case "release", name:
                    table.leases.release(name, now_us)
                case "pass", seconds:
                    now_us += seconds * SECOND_US
                    table.leases.tend(now_us, False)
                case "drop", position, bodies:
                    drop = table.keep.may_drop_bodies if bodies else table.keep.may_drop_events
                    drop(position)
                case "durable", count:
                    table.leases.durable(pasts[min(count, len(pasts) - 1)][0])
                    pasts = pasts[min(count, len(pasts) - 1) :]
        except LeaseError:
            pass
        if table.builder.next_position > at:
            pasts.append((table.builder.next_position - 1, table.leases.all()))
        for _, leases in pasts:
            kept = lowest(lease.floors() for lease in leases)
            assert table.keep.events_gone < kept.events
            assert table.keep.bodies_gone < kept.bodies
    table.commit()
    assert table.restarted().all() == sorted(table.leases.all(), key=lambda lease: lease.name)
    assert table.keep.floors == lowest(lease.floors() for lease in table.leases.all())


def test_what_is_written_is_what_a_lease_is() -> None:
    lease = Lease(
        id=1,
        name="n",
        owner="o",
        position=2,
        bodies=True,
        duration_s=3,
        max_bytes=4,
        granted_us=5,
        expires_us=6,
    )
    assert set(json.loads(lease.encode())) | {"id", "broken_position"} == {
        each.name for each in dataclasses.fields(Lease)
    }


@pytest.mark.parametrize(
    ("files", "first"),
    [
        ([], 100),
        ([(1, 1, 1), (2, 2, 40)], 1),
        ([(1, 1, 1), (3, 3, 60), (4, 4, 80)], 60),
        ([(1, 3, 1), (4, 4, 80)], 1),
        ([(1, 2, 1), (4, 5, 80)], 80),
    ],
)
def test_where_the_run_without_a_gap_begins(files: list[tuple[int, int, int]], first: int) -> None:
    assert whole_since(files, 100) == first
