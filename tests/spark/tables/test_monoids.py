"""Every table is a monoid: however events are cut into ranges, and in whatever nesting their rows are folded,
the rows are those of one fold."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.definition import TableDefinition
from postroom.spark.tables.fold import DONE, fold, partials, split
from tests.sampling import examples
from tests.spark.event_ranges import cut, events_of, every_position, fold_pairs, table, through_parts
from tests.spark.folded_tables import FOLDED, lived
from tests.spark.lives import histories, made

at_random = settings(
    deadline=None,
    max_examples=examples(15),
    phases=[Phase.explicit, Phase.generate],  # a seed can't be made simpler
    suppress_health_check=[HealthCheck.too_slow],
)


def bounds(random: Random, events: pa.Table) -> list[int]:
    """Where to cut: here and there, or now and then at every position."""
    every = every_position(events)
    return every if random.random() < 0.2 else random.sample(every, random.randrange(min(len(every), 8)))


@pytest.mark.parametrize("definition", FOLDED, ids=lambda definition: definition.name)
@at_random
@given(st.integers(0, 1 << 32))
def test_any_split_and_nesting_gives_the_same_rows(definition: TableDefinition, seed: int) -> None:
    random = Random(seed)
    events = lived(random)
    whole = table(definition, events)
    assert fold(definition, whole).equals(whole)
    rows = [partials(definition, piece) for piece in cut(events, bounds(random, events))]
    assert fold_pairs(definition, rows, random.randrange).equals(whole)


@pytest.mark.parametrize("definition", FOLDED, ids=lambda definition: definition.name)
@at_random
@given(st.integers(0, 1 << 32))
def test_what_is_done_stays_as_it_is(definition: TableDefinition, seed: int) -> None:
    """Part done is appended to only; with what is open it is the table, however often the open part is
    settled."""
    random = Random(seed)
    events = lived(random)
    found = through_parts(definition, cut(events, bounds(random, events)), random.randrange(1, 5))
    keys = [(name, "ascending") for name in definition.key]
    assert found.sort_by(keys).equals(table(definition, events).sort_by(keys))


@at_random
@given(st.integers(0, 1 << 32))
def test_dwell_times_add_up_whenever_entries_are_finished(seed: int) -> None:
    random = Random(seed)
    entries, dwell = DEFINITIONS["entries"], DEFINITIONS["dwell_times"]
    folded = table(entries, lived(random))
    done = [rows for part, _, rows in split(entries, folded, settled=True) if part == DONE]
    rows = pa.concat_tables([entries.schema.empty_table(), *done])
    at = random.randrange(len(rows) + 1)
    halves = [partials(dwell, rows.slice(0, at)), partials(dwell, rows.slice(at))]
    whole = partials(dwell, rows)
    assert fold(dwell, pa.concat_tables(halves)).equals(whole)
    spent = sum(sum(rows.column(name).to_pylist()) for name in rows.column_names if name.endswith("_us"))
    assert sum(whole.column("total_us").to_pylist()) == spent


@settings(at_random, max_examples=examples(6))
@given(histories, st.integers(0, 1 << 32))
def test_histories_of_files_epochs_and_batches_too(history: list[tuple[str, int]], seed: int) -> None:
    random = Random(seed)
    with TemporaryDirectory() as folder:
        events = events_of(made(Path(folder) / "ledger", history))
    if not len(events):
        return
    pieces = cut(events, bounds(random, events))
    for definition in FOLDED:
        rows = [partials(definition, piece) for piece in pieces]
        assert fold_pairs(definition, rows, random.randrange).equals(table(definition, events))


def test_events_are_appended_as_they_are() -> None:
    events = lived(Random(1))
    rows = partials(DEFINITIONS["events"], events)
    assert rows.equals(events.cast(DEFINITIONS["events"].schema))
    assert {part for part, _, _ in split(DEFINITIONS["events"], rows)} == {DONE}
