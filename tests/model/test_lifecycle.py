"""Every cell of the life cycle, and what must hold over all of them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.model import tables
from postroom.model.cells import KEPT, NOTED, READY, UNREACHABLE, Cell, Count, Move, Place, Refusal, Still
from postroom.model.codes import (
    Event,
    HolderKind,
    Outcome,
    State,
)
from postroom.model.holders import HOLDERS
from postroom.model.lifecycle import CELLS, cell_index, rows

TRIPLES = list(itertools.product(State, HolderKind, Event))
EXISTING = rows()
ENDING = {
    Event.EXPIRE: Outcome.EXPIRED,
    Event.DELETE: Outcome.DELETED,
    Event.PURGE: Outcome.PURGED,
    Event.DISCARD: Outcome.DISCARDED,
    Event.MOVE: Outcome.MOVED,
    Event.DEAD_LETTER: Outcome.DEAD_LETTERED,
    Event.REDIRECT: Outcome.REDIRECTED,
    Event.RETURN_TO_SENDER: Outcome.RETURNED_TO_SENDER,
    Event.FORWARD: Outcome.FORWARDED,
}
"""Events that end an entry wherever they do anything to one that exists."""

HELD_STATES = (
    State.PUT_UNCONFIRMED,
    State.LOCKED_FOR_BROWSE,
    State.GET_UNCONFIRMED,
    State.BROWSE_GET_UNCONFIRMED,
)
"""The states in which somebody holds the entry."""


def cell(state: State, holder: HolderKind, event: Event) -> Cell:
    return CELLS[cell_index(state, holder, event)]


def moves() -> list[tuple[State, HolderKind, Event, Move]]:
    found = []
    for state, holder, event in TRIPLES:
        what = cell(state, holder, event)
        if isinstance(what, Move):
            found.append((state, holder, event, what))
    return found


MOVES = moves()


def test_every_cell_is_there() -> None:
    assert len(CELLS) == len(TRIPLES) == len({cell_index(*triple) for triple in TRIPLES})
    assert all(isinstance(what, (Move, Refusal, Still)) for what in CELLS)


def test_the_table_names_each_pair_once() -> None:
    assert len(EXISTING) == len(set(EXISTING))


@pytest.mark.parametrize("state", State)
def test_a_state_is_held_or_free(state: State) -> None:
    holders = {holder for s, holder in EXISTING if s == state}
    assert holders
    assert (HolderKind.NONE in holders) == (state not in HELD_STATES)
    assert HolderKind.NONE not in holders or holders == {HolderKind.NONE}


def test_pairs_that_do_not_exist_have_only_unreachable_cells() -> None:
    for state, holder, event in TRIPLES:
        if (state, holder) not in EXISTING or event == Event.NONE:
            assert cell(state, holder, event) is UNREACHABLE


def test_moves_lead_only_to_pairs_that_exist() -> None:
    for state, holder, event, move in MOVES:
        where = (state.name, holder.name, event.name)
        if move.to == READY:
            assert move.holders == (), where
        elif State(move.to) in HELD_STATES:
            assert move.holders, where
            for after in move.holders:
                assert (State(move.to), after) in EXISTING, where
        else:
            assert move.holders == (), where


def test_an_outcome_belongs_to_the_end_and_only_to_it() -> None:
    for state, holder, event, move in MOVES:
        where = (state.name, holder.name, event.name)
        assert (move.outcome != Outcome.NONE) == (move.to == State.DELETED), where


def test_ending_events_have_one_outcome_each() -> None:
    for state, _, event, move in MOVES:
        if state != State.START and event in ENDING:
            assert (move.to, move.outcome) == (State.DELETED, ENDING[event])


def test_nothing_leaves_deleted_and_nothing_comes_back_to_start() -> None:
    assert not [event for state, _, event, _ in MOVES if state == State.DELETED]
    assert not [event for _, _, event, move in MOVES if move.to == State.START]


def test_every_pair_can_be_reached_and_can_end() -> None:
    reached = {(State.START, HolderKind.NONE)}
    edges: dict[tuple[State, HolderKind], set[tuple[State, HolderKind]]] = {}
    for state, holder, _, move in MOVES:
        for to in (State.AVAILABLE, State.DELAYED) if move.to == READY else (State(move.to),):
            for after in move.holders or (HolderKind.NONE,):
                edges.setdefault((state, holder), set()).add((to, after))
    while True:
        more = {after for before in reached for after in edges.get(before, set())} - reached
        if not more:
            break
        reached |= more
    assert reached == set(EXISTING)
    ends = {(State.DELETED, HolderKind.NONE)}
    while True:
        more = {before for before, afters in edges.items() if afters & ends} - ends
        if not more:
            break
        ends |= more
    assert ends == set(EXISTING)


def test_counts_rise_only_for_what_was_got_and_came_back() -> None:
    for state, holder, event, move in MOVES:
        if move.delivery != Count.SAME or move.failure != Count.SAME:
            where = (state.name, holder.name, event.name)
            assert state in (State.GET_UNCONFIRMED, State.BROWSE_GET_UNCONFIRMED), where
            assert move.to == READY, where


def test_released_changes_no_count() -> None:
    for _, _, event, move in MOVES:
        if event == Event.RELEASE:
            assert (move.delivery, move.failure) == (Count.SAME, Count.SAME)


def test_only_the_first_availability_makes_a_place() -> None:
    for state, _, event, move in MOVES:
        if move.place == Place.NEW:
            assert move.to == READY
            assert state in (State.START, State.PUT_UNCONFIRMED, State.DELAYED), event.name


@pytest.mark.parametrize("holder", [kind for kind in HolderKind if kind != HolderKind.NONE])
def test_the_holder_table_and_the_cells_agree(holder: HolderKind) -> None:
    rule = HOLDERS[holder]
    for state, kind in EXISTING:
        if kind == holder:
            _check_rule(rule.link_lost, cell(state, holder, Event.LINK_LOST))
            _check_rule(rule.restart, cell(state, holder, Event.RESTART))


def test_who_decides_for_what_was_put_is_transactional() -> None:
    """Whatever puts under its own name is a transaction or branch, or confirms by its unique id."""
    putters = {kind for state, kind in EXISTING if state == State.PUT_UNCONFIRMED} - {HolderKind.CONFIRM_ID}
    assert {kind for kind, rule in HOLDERS.items() if rule.transactional} == putters


def _check_rule(rule: str, what: Move | Refusal | Still) -> None:
    if rule == "kept":
        assert isinstance(what, Still) and what.name == "kept"
    else:
        assert isinstance(what, Move)
        assert what.to == READY or what.outcome == Outcome.ROLLED_BACK


@pytest.mark.parametrize("event", [Event.EXPIRE, Event.DELETE])
def test_held_entries_are_spared_but_for_the_locks_and_confirm_ids_of_mqe(event: Event) -> None:
    for state, holder in EXISTING:
        if state in HELD_STATES:
            at_once = holder in (HolderKind.CONFIRM_ID, HolderKind.BROWSE_LOCK)
            what = cell(state, holder, event)
            assert isinstance(what, Move) if at_once else what is NOTED


def test_only_a_decision_moves_what_is_prepared() -> None:
    for state in (State.PUT_UNCONFIRMED, State.GET_UNCONFIRMED):
        moving = {e for e in Event if isinstance(cell(state, HolderKind.XA_PREPARED, e), Move)}
        assert moving == {Event.CONFIRM, Event.UNDO}


def test_unstored_messages_are_lost_at_a_restart_unless_a_transaction_decides() -> None:
    for state, holder in EXISTING:
        what = cell(state, holder, Event.RESTART)
        lost = isinstance(what, (Move, Still)) and what.lost
        puts = state == State.PUT_UNCONFIRMED and holder in (
            HolderKind.LOCAL_TRANSACTION,
            HolderKind.XA_BRANCH,
            HolderKind.SPARK_BRANCH,
        )
        exempt = puts or holder == HolderKind.XA_PREPARED or state in (State.START, State.DELETED)
        assert lost == (not exempt), (state.name, holder.name)


# The figure-7 table of MQ Everyplace (semantics chapter 4.1), row by row.
C, L, N = HolderKind.CONFIRM_ID, HolderKind.BROWSE_LOCK, HolderKind.NONE
MQE = [
    (State.START, N, Event.PUT, READY),
    (State.START, N, Event.PUT_HELD, State.PUT_UNCONFIRMED),
    (State.PUT_UNCONFIRMED, C, Event.CONFIRM, READY),
    (State.PUT_UNCONFIRMED, C, Event.UNDO, State.DELETED),
    (State.PUT_UNCONFIRMED, C, Event.GET, "no matching message"),
    (State.PUT_UNCONFIRMED, C, Event.LOCK, "no matching message"),
    (State.AVAILABLE, N, Event.GET, State.DELETED),
    (State.AVAILABLE, N, Event.ACQUIRE, State.GET_UNCONFIRMED),
    (State.AVAILABLE, N, Event.LOCK, State.LOCKED_FOR_BROWSE),
    (State.AVAILABLE, N, Event.DELETE, State.DELETED),
    (State.AVAILABLE, N, Event.CONFIRM, "kept"),
    (State.AVAILABLE, N, Event.UNLOCK, "not held"),
    (State.AVAILABLE, N, Event.UNDO, "not held"),
    (State.LOCKED_FOR_BROWSE, L, Event.UNLOCK, READY),
    (State.LOCKED_FOR_BROWSE, L, Event.UNDO, READY),
    (State.LOCKED_FOR_BROWSE, L, Event.GET, State.DELETED),
    (State.LOCKED_FOR_BROWSE, L, Event.ACQUIRE, State.BROWSE_GET_UNCONFIRMED),
    (State.LOCKED_FOR_BROWSE, L, Event.DELETE, State.DELETED),
    (State.LOCKED_FOR_BROWSE, L, Event.LOCK, "no matching message"),
    (State.GET_UNCONFIRMED, C, Event.CONFIRM, State.DELETED),
    (State.GET_UNCONFIRMED, C, Event.UNDO, READY),
    (State.GET_UNCONFIRMED, C, Event.GET, "no matching message"),
    (State.BROWSE_GET_UNCONFIRMED, C, Event.CONFIRM, State.DELETED),
    (State.BROWSE_GET_UNCONFIRMED, C, Event.UNDO, State.LOCKED_FOR_BROWSE),
    (State.BROWSE_GET_UNCONFIRMED, C, Event.UNLOCK, "no matching message"),
    (State.DELETED, N, Event.GET, "gone"),
    (State.PUT_UNCONFIRMED, C, Event.EXPIRE, State.DELETED),
    (State.LOCKED_FOR_BROWSE, L, Event.EXPIRE, State.DELETED),
    (State.GET_UNCONFIRMED, C, Event.EXPIRE, State.DELETED),
    (State.BROWSE_GET_UNCONFIRMED, C, Event.EXPIRE, State.DELETED),
]


@pytest.mark.parametrize(("state", "holder", "event", "expected"), MQE)
def test_stored_message_states_of_mq_everyplace(
    state: State, holder: HolderKind, event: Event, expected: int | str
) -> None:
    what = cell(state, holder, event)
    if isinstance(what, Move):
        assert what.to == expected
    else:
        assert (what.error if isinstance(what, Refusal) else what.name) == expected


@given(st.sampled_from(TRIPLES))
def test_the_flat_tables_say_what_the_cells_say(triple: tuple[State, HolderKind, Event]) -> None:
    index = cell_index(*triple)
    what = cell(*triple)
    if isinstance(what, Move):
        assert tables.TO_STATE[index] == what.to
        assert tables.OUTCOME[index] == what.outcome
        assert (tables.DELIVERY[index], tables.FAILURE[index]) == (what.delivery, what.failure)
        after = {kind for kind in HolderKind if tables.MAY_HOLD[index * len(HolderKind) + kind]}
        assert after == set(what.holders or (HolderKind.NONE,))
    elif isinstance(what, Refusal):
        assert tables.TO_STATE[index] == tables.REFUSED
    else:
        expected = tables.IMPOSSIBLE if what is UNREACHABLE else tables.STILL
        assert tables.TO_STATE[index] == expected


def test_what_is_not_moved_is_left_to_nobody() -> None:
    for state, holder, event in TRIPLES:
        first = cell_index(state, holder, event) * len(HolderKind)
        moved = isinstance(cell(state, holder, event), Move)
        assert any(tables.MAY_HOLD[first : first + len(HolderKind)]) == moved


def test_the_pairs_that_exist_are_those_of_the_rows() -> None:
    found = {
        (state, kind)
        for state in State
        for kind in HolderKind
        if tables.EXISTS[state * len(HolderKind) + kind]
    }
    assert found == set(EXISTING)


def test_the_relation_is_what_the_ledger_may_hold() -> None:
    relation = tables.relation()
    assert (
        State.AVAILABLE,
        HolderKind.CONSUMER,
        Event.ACQUIRE,
        State.GET_UNCONFIRMED,
        Outcome.NONE,
    ) in relation
    assert (State.GET_UNCONFIRMED, HolderKind.CONSUMER, Event.FAIL, State.DELAYED, Outcome.NONE) in relation
    assert (State.AVAILABLE, HolderKind.NONE, Event.RESTART, State.DELETED, Outcome.LOST) in relation
    assert (State.DELETED, HolderKind.NONE, Event.GET, State.DELETED, Outcome.CONSUMED) not in relation
    assert not any(
        (state, holder, event, State.DELETED, Outcome.CONSUMED) in relation
        for state, holder, event in itertools.product(State, HolderKind, (Event.RELEASE, Event.FAIL))
    )
    assert KEPT.name == "kept"
