"""What a table is: columns that each say how they merge, and the rows that a range of events gives.

A table is a monoid: any two of its rows with the same key can be merged into one, and it doesn't matter which
are merged first. So the events of a ledger may be cut into ranges anywhere, each range be made into rows on
its own, and the rows merged in any nesting: the result is the table of the whole ledger.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import numpy.typing as npt
import pyarrow as pa

from postroom.spark.ledger_source.columns import TIMESTAMP as TIMESTAMP

if TYPE_CHECKING:
    from postroom.spark.tables.range import Range


class Merge(StrEnum):
    """How the values of one column become one when rows of the same key are merged."""

    KEY = "key"
    """The same in all of them."""
    ONLY = "only"
    """Any that is not null: all that are not null are the same."""
    FIRST = "first"
    """That of the row whose first event is first; null if it is null there."""
    LAST = "last"
    """That of the row whose last event is last; null if it is null there."""
    LATEST = "latest"
    """The last that is not null, rows being in the order of their events; they must be neighbours."""
    LINK = "link"
    """Part of the key. A row that goes on what an earlier one began doesn't know it, and is null: it takes
    that of the row before it, in the order of their events and with the same key otherwise; they must be
    neighbours."""
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    HIGH = "high"
    """The highest value that a running sum reaches: rows are in the order of their events, and must be
    neighbours."""


@dataclass(frozen=True, slots=True)
class Field:
    """One column. ``of`` names the SUM column whose running sum a HIGH column is the highest of.

    ``is_duration``: a sum of "time when a state was left" less "time when it was entered". It is negative
    while that state lasts, and readers are shown null then.
    """

    name: str
    type: pa.DataType
    merge: Merge
    comment: str
    of: str = ""
    is_duration: bool = False


Units = Callable[["Range"], pa.Table]
"""Rows of a range → rows of the table, by `schema` (texts may be dictionary-encoded); a map that may
merge."""

IsDone = Callable[[pa.Table, "Range | None", bool], npt.NDArray[Any]]
"""(folded rows, the range that they were made of if it is known, whether they are all that there are of their
keys) → which of them nothing more can come to."""


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table: what its rows are, how they merge, when they are final.

    ``is_done`` None: append-only, its rows never merge. ``day_of`` is the timestamp that gives the partition
    day of done rows. ``source``: made of events, or of the rows newly added to the part done of the table
    named, of which it needs ``source_columns``. ``is_late``: a row that is done may be followed by another of
    its key, so a reader folds done rows, too. ``personal``: the columns that may be personal, each with the
    column of the policy that it follows; None: those that the policy knows by their names.
    """

    name: str
    comment: str
    version: int
    fields: tuple[Field, ...]
    units: Units
    is_done: IsDone | None
    day_of: str
    source: str = "events"
    source_columns: tuple[str, ...] = ()
    is_late: bool = False
    personal: Mapping[str, str] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns with their comments."""
        return pa.schema(
            [pa.field(field.name, field.type, metadata={"comment": field.comment}) for field in self.fields]
        )

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the columns that tell the table's rows apart."""
        return tuple(field.name for field in self.fields if field.merge in (Merge.KEY, Merge.LINK))

    @property
    def summed(self) -> tuple[str, ...]:
        """The columns that sums of rows are made of (see `row_sums`): each ledger has its own."""
        return tuple(field.name for field in self.fields if field.name != LEDGER_ID.name)

    @property
    def link(self) -> str:
        """The column of the key that may be null until rows meet; empty if there is none."""
        return next((field.name for field in self.fields if field.merge is Merge.LINK), "")

    def field(self, name: str) -> Field:
        """The column of that name. Raises ``KeyError``."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"table {self.name} has no column {name}")


LEDGER_ID: Final = Field("ledger_id", pa.string(), Merge.KEY, "The ledger's own id (UUID)")

ORDER: Final = (
    Field("first_position", pa.int64(), Merge.FIRST, "Position of the first event that this row tells of"),
    Field("first_ordinal", pa.int32(), Merge.FIRST, "Its number in that position's record"),
    Field("last_position", pa.int64(), Merge.LAST, "Position of the last event that this row tells of"),
    Field("last_ordinal", pa.int32(), Merge.LAST, "Its number in that position's record"),
)
"""Which events a row tells of: with it, rows know their order. Every table that merges has them."""
