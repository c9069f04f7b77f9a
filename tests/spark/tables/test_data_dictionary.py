"""The data dictionary in the docs is that of the tables."""

import pyarrow as pa
from tools import spark_tables_docs

from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.definition import ORDER, Merge


def test_the_data_dictionary_is_up_to_date() -> None:
    assert spark_tables_docs.LISTING.read_text(encoding="utf-8") == spark_tables_docs.listing(), (
        "run python -m tools.spark_tables_docs"
    )


def test_definitions_hold_together() -> None:
    for name, definition in DEFINITIONS.items():
        assert definition.name == name and definition.comment
        names = definition.schema.names
        assert len(set(names)) == len(names)
        assert names[0] == "ledger_id" and definition.field("ledger_id").merge is Merge.KEY
        assert pa.types.is_timestamp(definition.schema.field(definition.day_of).type)
        for field in definition.fields:
            assert field.comment and "|" not in field.comment
            assert (field.of in names and definition.field(field.of).merge is Merge.SUM) == (
                field.merge is Merge.HIGH
            )
        if definition.is_done is not None:
            assert definition.fields[-len(ORDER) :] == ORDER


def test_columns_can_be_read_by_anything() -> None:
    """Texts, numbers, times and truths: no type that one of the readers lacks."""
    kinds = {field.type for definition in DEFINITIONS.values() for field in definition.schema}
    assert kinds == {pa.string(), pa.int64(), pa.int32(), pa.bool_(), pa.timestamp("us", tz="UTC")}
    assert all(field.nullable for definition in DEFINITIONS.values() for field in definition.schema)
