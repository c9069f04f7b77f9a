"""Tables that are made of another table's rows: they are given the columns that they name, and no others."""

import pyarrow as pa
import pytest

from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.fold import partials
from postroom.spark.tables.range import Range

DERIVED = [definition.name for definition in DEFINITIONS.values() if definition.source_columns]


class Recording(Range):
    """Rows that note which of their columns are wanted."""

    def __init__(self, rows: pa.Table) -> None:
        super().__init__(rows)
        self.wanted: set[str] = set()

    def column(self, name: str, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
        self.wanted.add(name)
        return super().column(name, kind)


def test_every_table_of_another_s_rows_names_columns() -> None:
    assert [name for name, each in DEFINITIONS.items() if each.source not in ("events", name)] == DERIVED
    assert "dwell_times" in DERIVED


@pytest.mark.parametrize("name", DERIVED)
def test_a_table_names_the_columns_that_it_is_made_of(name: str) -> None:
    definition = DEFINITIONS[name]
    schema = DEFINITIONS[definition.source].schema
    nothing_known = pa.table({field.name: pa.nulls(3, field.type) for field in schema})
    rows = Recording(nothing_known)
    partials(definition, rows, coded=True)
    assert rows.wanted & set(schema.names) == set(definition.source_columns)
