"""The tables: how rows are made of events, how they merge, when they are final. Pure: Arrow in, Arrow out."""

from collections.abc import Mapping
from typing import Final

from postroom.spark.tables.definition import Field, Merge, TableDefinition
from postroom.spark.tables.entries import ENTRIES
from postroom.spark.tables.events import EVENTS
from postroom.spark.tables.fold import DONE, OPEN, fold, partials, split
from postroom.spark.tables.range import Range

DEFINITIONS: Final[Mapping[str, TableDefinition]] = {
    definition.name: definition for definition in (EVENTS, ENTRIES)
}
"""Every table by name."""

__all__ = [
    "DEFINITIONS",
    "DONE",
    "OPEN",
    "Field",
    "Merge",
    "Range",
    "TableDefinition",
    "fold",
    "partials",
    "split",
]
