"""``postroom pipeline erase``: what tells of a person goes from the tables, and from their old versions.

Rows stay, since sums must come out even; what they say of the person becomes null. An id of a message
(`message_id`, `correlation_id`, `group_id`) takes all that is personal from every row of the messages that
have it; a name (`user`, `holder`, …) goes wherever it stands. What the ledger has is another matter: see
docs/howto/pipeline.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postroom.spark.pipeline.books import Book, open_books
from postroom.spark.pipeline.errors import PipelineError
from postroom.spark.pipeline.lock import held
from postroom.spark.pipeline.options import known_settings
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import check_policy
from postroom.spark.store.protocol import DataFile
from postroom.spark.tables.definition import Merge
from postroom.spark.tables.policy import DEFAULT, Policy, derived, personal_columns
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
        books = open_books(tables, settings.tables, settings.format)
        stored = policy.written(column, text)
        if stored is None:
            return Erased(0, {})
        messages = _messages(books.values(), column, stored) if column in MESSAGE_IDS else set()
        search = _Search(column, stored, frozenset(messages))
        rows = {book.name: _erase_table(book, search) for book in books.values()}
        for book in books.values():
            book.store.vacuum(0)
    return Erased(len(messages), {name: count for name, count in rows.items() if count})


def _messages(books: Iterable[Book], column: str, stored: str) -> set[tuple[str, int]]:
    """(ledger, serial) of the messages that have an id."""
    found: set[tuple[str, int]] = set()
    for book in books:
        if not {column, "serial"} <= set(book.definition.schema.names):
            continue
        for file in book.store.files():
            rows = book.store.read(file, [column, "serial"])
            serials = rows.filter(pc.equal(rows[column], stored))["serial"].unique()
            found |= {(file.ledger_id, serial) for serial in serials.to_pylist()}
    return found


@dataclass(frozen=True, slots=True)
class _Search:
    """What is looked for."""

    column: str
    stored: str
    messages: frozenset[tuple[str, int]]

    def rows_of_messages(self, rows: pa.Table, ledger_id: str) -> pa.ChunkedArray | None:
        """Which rows are of the messages; None if none can be."""
        serials = [serial for ledger, serial in self.messages if ledger == ledger_id]
        if not serials or "serial" not in rows.column_names:
            return None
        return pc.is_in(rows["serial"], pa.array(serials, pa.int64()))


def _erase_table(book: Book, search: _Search) -> int:
    """Rewrite the files that hold it, in one commit; returns the rows that changed."""
    personal = personal_columns(book.definition.schema.names)
    changed = [one for file in book.store.files() for one in _rewritten(book, file, personal, search)]
    if changed:
        sums = reduce(added, (one.change for one in changed), dict(book.state.sums))
        add, remove = [one.new for one in changed], [one.old for one in changed]
        book.swap(add, remove, replace(book.state, sums=sums), "erase", is_new=False)
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
    book: Book, file: DataFile, personal: Mapping[str, str], search: _Search
) -> Iterator[_Rewritten]:
    """Nothing if it holds nothing of it."""
    rows = before = book.store.read(file)
    nowhere = pa.array(np.zeros(len(rows), bool))
    of_messages = search.rows_of_messages(rows, file.ledger_id) or nowhere
    masks = {name: pc.and_(of_messages, pc.is_valid(rows[name])) for name in personal}
    for name, followed in personal.items():
        stored = derived(name, search.stored) if followed == search.column else None
        if stored is not None:
            masks[name] = pc.or_(masks[name], pc.fill_null(pc.equal(rows[name], stored), False))
    count = pc.sum(reduce(pc.or_, masks.values(), nowhere)).as_py() or 0
    if not count:
        return
    for name, mask in masks.items():
        rows = _without(book, rows, name, mask)
    new = book.store.write(rows, file.part, file.day, file.ledger_id)
    yield _Rewritten(file, new, count, _change(book, file.ledger_id, before, rows))


def _change(book: Book, ledger_id: str, before: pa.Table, rows: pa.Table) -> dict[str, RowSum]:
    if ledger_id not in book.state.sums:
        return {}
    names = book.definition.summed
    return {ledger_id: row_sum(Range(rows), names) - row_sum(Range(before), names)}


def _without(book: Book, rows: pa.Table, name: str, mask: pa.ChunkedArray) -> pa.Table:
    is_key = book.definition.field(name).merge is Merge.KEY
    erased = pc.if_else(mask, pa.scalar(ERASED if is_key else None, pa.string()), rows[name])
    return rows.set_column(rows.schema.get_field_index(name), name, erased)
