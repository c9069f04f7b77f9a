"""Every plain number is that of its member, and there is no other."""

import ast
from collections.abc import Mapping
from enum import IntEnum, IntFlag
from pathlib import Path

import pytest

from postroom.ledger.format.records import DEFINING_TYPES, ArrivalFlag, RecordType, TransitionFlag
from postroom.model import cells, numbers, tables
from postroom.model.cells import Count
from postroom.model.codes import DelayCause, Event, HolderKind, Outcome, State
from postroom.model.mq import Feedback

HOUSE = Path(__file__).parents[2] / "src" / "postroom"

REPORTED = (Feedback.EXPIRATION, Feedback.COA, Feedback.COD)
"""What can be reported of the life of an entry; other feedbacks are no numbers of the queue manager's."""


def named(prefix: str, members: type[IntEnum] | type[IntFlag]) -> dict[str, int]:
    return {f"{prefix}{name}": int(member) for name, member in members.__members__.items()}


def expected() -> dict[str, int]:
    found = named("", State) | named("", HolderKind) | named("EVENT_", Event) | named("OUTCOME_", Outcome)
    found |= named("", DelayCause) | named("FLAG_", ArrivalFlag) | named("FLAG_", TransitionFlag)
    found |= named("COUNT_", Count) | {f"FEEDBACK_{each.name}": int(each) for each in REPORTED}
    del found["NONE"], found["EVENT_NONE"], found["FLAG_NONE"]
    found["NO_HOLDER"] = int(HolderKind.NONE)
    return found | {"STATES": len(State), "HOLDERS": len(HolderKind), "EVENTS": len(Event)}


def integers_of(names: Mapping[str, object]) -> dict[str, int]:
    return {name: value for name, value in names.items() if isinstance(value, int)}


def wrong(names: Mapping[str, object]) -> set[str]:
    """The names that have another number than their member, that have none, or that are missing."""
    return {name for name, _ in integers_of(names).items() ^ expected().items()}


def test_each_number_is_that_of_its_member() -> None:
    assert wrong(vars(numbers)) == set()


def test_no_two_enumerations_fight_for_a_name() -> None:
    parts = [named("", State), named("", HolderKind), named("", DelayCause)]
    names = [name for part in parts for name in part if name != "NONE"]
    flags = [*named("FLAG_", ArrivalFlag), *named("FLAG_", TransitionFlag)]
    assert len(names) == len(set(names)) and len(flags) == len(set(flags)) + 1  # NONE of both


@pytest.mark.parametrize("name", sorted(expected()))
def test_a_renumbered_and_a_forgotten_one_would_be_found(name: str) -> None:
    names = integers_of(vars(numbers))
    assert wrong(names | {name: names[name] + 1}) == {name}
    assert wrong({other: value for other, value in names.items() if other != name}) == {name}


def test_a_number_of_nothing_would_be_found() -> None:
    assert wrong(vars(numbers) | {"EVENT_NAP": 28}) == {"EVENT_NAP"}


def test_they_are_written_out_since_compiled_code_takes_only_those_for_constants() -> None:
    source = ast.parse((HOUSE / "model" / "numbers.py").read_text())
    written = [each for each in source.body if isinstance(each, ast.AnnAssign)]
    assert {each.target.id for each in written if isinstance(each.target, ast.Name)} == set(expected())
    assert all(isinstance(each.value, ast.Constant) for each in written)


def test_indexes_of_the_flat_tables() -> None:
    assert tables.TO_READY == cells.READY == numbers.STATES
    assert numbers.STATES - 1 == numbers.DELETED < tables.TO_READY
    assert len({tables.TO_READY, tables.STILL, tables.REFUSED, tables.IMPOSSIBLE}) == 4
    assert min(tables.STILL, tables.REFUSED, tables.IMPOSSIBLE) > tables.TO_READY
    assert len(tables.TO_STATE) == numbers.STATES * numbers.HOLDERS * numbers.EVENTS
    assert len(tables.MAY_HOLD) == len(tables.TO_STATE) * numbers.HOLDERS
    assert len(tables.EXISTS) == numbers.STATES * numbers.HOLDERS


def test_numbers_of_the_block_builder() -> None:
    known = {
        "_ENTRY_EVENT": RecordType.ENTRY_EVENT,
        "_BODY_CHUNK": RecordType.BODY_CHUNK,
        "_FIRST_DICTIONARY_TYPE": DEFINING_TYPES[0][0],
        "_LAST_DICTIONARY_TYPE": DEFINING_TYPES[0][1],
        "_FIRST_LATER_TYPE": DEFINING_TYPES[1][0],
        "_LAST_LATER_TYPE": DEFINING_TYPES[1][1],
        "_PRINCIPAL_DEFINED": DEFINING_TYPES[2][0],
        "_PRINCIPAL_DROPPED": DEFINING_TYPES[2][1],
        "_FLAG_BODY_STORED": ArrivalFlag.BODY_STORED,
        "_FLAG_BODY_CHUNKED": ArrivalFlag.BODY_CHUNKED,
        "_EVENT_UNDO": Event.UNDO,
    }
    folder = HOUSE / "ledger" / "format"
    sources = [ast.parse((folder / name).read_text()) for name in ("block.py", "entry_records.py")]
    constants = {
        each.target.id: each.value.value
        for source in sources
        for each in source.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and isinstance(each.value, ast.Constant)
    }
    for name, member in known.items():
        assert constants[name] == member, name
