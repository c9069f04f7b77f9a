"""``postroom pipeline erase``: what tells of a person goes from the tables, and from their old versions.

Rows stay, since sums must come out even; what they say of the person becomes null. An id of a message
(`message_id`, `correlation_id`, `group_id`) takes all that is personal from every row of the messages that
have it; a name (`user`, `holder`, …) goes wherever it stands, but for acts: of them it goes with column
`act`. What the ledger has is another matter: see
docs/howto/pipeline.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postroom.spark.ledger_source.columns import ACT
from postroom.spark.pipeline.errors import PipelineError
from postroom.spark.pipeline.lock import held
from postroom.spark.pipeline.options import known_settings
from postroom.spark.pipeline.pipeline_table import PipelineTable, open_tables
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import check_policy
from postroom.spark.store.protocol import DataFile
from postroom.spark.tables.definition import Merge
from postroom.spark.tables.policy import DEFAULT, Policy, derived, personal_columns, without_actor
from postroom.spark.tables.range import Range
from postroom.spark.tables.row_sums import RowSum, added, row_sum

MESSAGE_IDS: Final = ("message_id", "correlation_id", "group_id")
ERASED: Final = "(erased)"
"""In the place of a name that is part of a table's key."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What came of it."""

    messages: int
    rows: dict[str, int]
    """Rows that were changed, by table."""


def erase(tables: str, column: str, text: str, policy: Policy) -> Erased:
    """Erase a text from a column of all tables. Raises ``LedgerError``, ``OSError``."""
    root = Root(tables)
    settings = known_settings(root)
    if column not in DEFAULT:
        raise PipelineError(f"{column} is no column that tells of persons; these are: {', '.join(DEFAULT)}")
    if settings.format == "iceberg":
        raise PipelineError(
            "tables of format iceberg only grow: keep personal columns out of them (--personal …=drop)"
        )
    check_policy(root, settings, policy)
    with held(root):
        opened = open_tables(tables, settings.tables, settings.format)
        stored = policy.written(column, text)
        if stored is None:
            return Erased(0, {})
        messages = _messages(opened.values(), column, stored) if column in MESSAGE_IDS else set()
        search = _Search(column, stored, frozenset(messages))
        rows = {table.name: _erase_table(table, search) for table in opened.values()}
        for table in opened.values():
            table.store.vacuum(0)
    return Erased(len(messages), {name: count for name, count in rows.items() if count})


def _messages(opened: Iterable[PipelineTable], column: str, stored: str) -> set[tuple[str, int]]:
    """(ledger, serial) of the messages that have an id."""
    found: set[tuple[str, int]] = set()
    for table in opened:
        if not {column, "serial"} <= set(table.definition.schema.names):
            continue
        for file in table.store.files():
            rows = table.store.read(file, [column, "serial"])
            serials = rows.filter(pc.equal(rows[column], stored))["serial"].unique()
            found |= {(file.ledger_id, serial) for serial in serials.to_pylist()}
    return found


@dataclass(frozen=True, slots=True)
class _Search:
    """What is looked for."""

    column: str
    stored: str
    messages: frozenset[tuple[str, int]]


def _erase_table(table: PipelineTable, search: _Search) -> int:
    """Rewrite the files that hold it, in one commit; returns the rows that changed."""
    definition = table.definition
    personal = definition.personal
    if personal is None:
        personal = personal_columns(definition.schema.names)
    changed = [one for file in table.store.files() for one in _rewritten(table, file, personal, search)]
    if changed:
        sums = reduce(added, (one.change for one in changed), dict(table.state.sums))
        add, remove = [one.new for one in changed], [one.old for one in changed]
        table.swap(add, remove, replace(table.state, sums=sums), "erase", is_new=False)
    return sum(one.rows for one in changed)


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """A file, and the one in its place."""

    old: DataFile
    new: DataFile
    rows: int
    """How many changed."""
    change: Mapping[str, RowSum]
    """Of the table's sums."""


def _rewritten(
    table: PipelineTable, file: DataFile, personal: Mapping[str, str], search: _Search
) -> Iterator[_Rewritten]:
    """Nothing if it holds nothing of it."""
    rows = before = table.store.read(file)
    nowhere = pa.array(np.zeros(len(rows), bool))
    of_messages = nowhere
    serials = [serial for ledger, serial in search.messages if ledger == file.ledger_id]
    if serials and "serial" in rows.column_names:
        of_messages = pc.is_in(rows["serial"], pa.array(serials, pa.int64()))
    masks = {name: pc.and_(of_messages, pc.is_valid(rows[name])) for name in personal}
    for name, followed in personal.items():
        stored = derived(name, search.stored) if followed == search.column else None
        if stored is not None:
            masks[name] = pc.or_(masks[name], pc.fill_null(pc.equal(rows[name], stored), False))
    rows, of_acts = _without_actor(rows, search) if ACT in personal else (rows, nowhere)
    count = pc.sum(reduce(pc.or_, masks.values(), of_acts)).as_py() or 0
    if not count:
        return
    for name, mask in masks.items():
        rows = _without(table, rows, name, mask)
    new = table.store.write(rows, file.part, file.day, file.ledger_id)
    yield _Rewritten(file, new, count, _change(table, file.ledger_id, before, rows))


def _without_actor(rows: pa.Table, search: _Search) -> tuple[pa.Table, pa.ChunkedArray]:
    """Events whose acts don't tell of who is looked for, and which of them did."""
    before = rows[ACT]
    if search.column != ACT or before.null_count == len(before):
        return rows, pa.array(np.zeros(len(rows), bool))
    acts = pa.array([without_actor(act, search.stored) for act in before.to_pylist()], pa.string())
    changed = pc.fill_null(pc.not_equal(before, acts), False)
    return rows.set_column(rows.schema.get_field_index(ACT), ACT, acts), changed


def _change(table: PipelineTable, ledger_id: str, before: pa.Table, rows: pa.Table) -> dict[str, RowSum]:
    if ledger_id not in table.state.sums:
        return {}
    names = table.definition.summed
    return {ledger_id: row_sum(Range(rows), names) - row_sum(Range(before), names)}


def _without(table: PipelineTable, rows: pa.Table, name: str, mask: pa.ChunkedArray) -> pa.Table:
    is_key = table.definition.field(name).merge is Merge.KEY
    erased = pc.if_else(mask, pa.scalar(ERASED if is_key else None, pa.string()), rows[name])
    return rows.set_column(rows.schema.get_field_index(name), name, erased)
