"""How a table's columns may change from one version of the program to the next: they may only gain some.

A column that is added is null in older files, and an older program leaves newer columns out of what it reads.
A program one version behind may still write (so that an upgrade can be taken back): the newer columns are
null in its rows. Everything else is refused, with what to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from postroom.spark.store.protocol import SchemaConflict
from postroom.spark.tables.definition import Merge, TableDefinition

VERSIONS_BEHIND: Final = 1
"""By how many versions the program that writes may be older than the table."""


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """A column as a table keeps it beside its files: what may not change."""

    name: str
    type: str
    """In Arrow's words."""
    merge: str


def kinds(definition: TableDefinition) -> tuple[ColumnKind, ...]:
    """The definition's columns."""
    return tuple(ColumnKind(f.name, str(f.type), f.merge.value) for f in definition.fields)


def added(definition: TableDefinition, stored: Sequence[ColumnKind]) -> tuple[ColumnKind, ...]:
    """The columns that this program has and the table has not. Raises ``SchemaConflict`` where one differs,
    or where the table lacks a key."""
    known = {column.name: column for column in stored}
    new = []
    for column in kinds(definition):
        if column.name not in known:
            new.append(column)
        elif known[column.name] != column:
            there = known[column.name]
            raise _refused(
                definition.name,
                f"column {column.name} is {there.type} (merged by {there.merge}) in the table and "
                f"{column.type} (merged by {column.merge}) in this program",
            )
    for column in new:
        if column.merge in (Merge.KEY, Merge.LINK):
            raise _refused(definition.name, f"its key has no column {column.name}")
    return tuple(new)


def check_writing(definition: TableDefinition, stored: Sequence[ColumnKind], schema_version: int) -> None:
    """Whether this program may write to a table. Raises ``SchemaConflict``: it is too new, or has lost a
    column without the program being older."""
    if schema_version > definition.version + VERSIONS_BEHIND:
        raise SchemaConflict(
            f"table {definition.name} has schema version {schema_version}, this program knows "
            f"{definition.version} and may write one version behind: upgrade postroom on this machine"
        )
    gone = missing(definition, stored)
    if gone and schema_version <= definition.version:
        raise _refused(
            definition.name, f"it has columns that this program no longer knows: {', '.join(gone)}"
        )


def missing(definition: TableDefinition, stored: Sequence[ColumnKind]) -> tuple[str, ...]:
    """Names of the table's columns that this program does not have."""
    known = {field.name for field in definition.fields}
    return tuple(column.name for column in stored if column.name not in known)


def _refused(table: str, why: str) -> SchemaConflict:
    return SchemaConflict(
        f"table {table}: {why}. Tables may only gain columns: run the version of postroom that wrote it, or "
        "begin another folder of tables (--tables) with this one"
    )
