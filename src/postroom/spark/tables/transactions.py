"""Table ``transactions``: one row for each transaction, XA branch, confirm id, or batch of a channel."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from postroom.spark.ledger_source.state_names import TRANSACTION_KINDS
from postroom.spark.tables import arrays
from postroom.spark.tables.arrays import Codes
from postroom.spark.tables.definition import LEDGER_ID, ORDER, TIMESTAMP, Field, Merge, TableDefinition
from postroom.spark.tables.final_rows import DAY_US, is_quiet
from postroom.spark.tables.range import Range

FIELDS: Final = (
    LEDGER_ID,
    Field("holder_kind", pa.string(), Merge.KEY, "What it is; of an XA branch xa_branch, prepared or not"),
    Field("holder_id", pa.int64(), Merge.KEY, "Which of that kind"),
    Field("holder", pa.string(), Merge.KEY, "Its name: the Xid of a branch, of a batch channel and LUWID"),
    Field("container", pa.string(), Merge.LATEST, "Container that put or got in it, the last"),
    Field("user", pa.string(), Merge.LATEST, "Who that logged in as"),
    Field("channel", pa.string(), Merge.LATEST, "The channel whose batch it is, sending or receiving"),
    Field("luwid", pa.string(), Merge.LATEST, "The batch's id, which no other has"),
    Field("puts", pa.int64(), Merge.SUM, "Entries put in it"),
    Field("gets", pa.int64(), Merge.SUM, "Entries got in it, or that joined it"),
    Field("puts_decided", pa.int64(), Merge.SUM, "Entries put in it that its decision made visible or undid"),
    Field("gets_decided", pa.int64(), Merge.SUM, "Entries got in it that its decision consumed or forwarded"),
    Field("opened_time", TIMESTAMP, Merge.MIN, "Its first event in the history"),
    Field("prepared_position", pa.int64(), Merge.MAX, "Position of the record that prepared it"),
    Field("prepared_time", TIMESTAMP, Merge.MAX, "When it was prepared"),
    Field(
        "decision", pa.string(), Merge.LATEST, "confirm, forward, undo or link_lost; null: open, or no record"
    ),
    Field("decided_position", pa.int64(), Merge.LATEST, "Position of the record that decided it"),
    Field("decided_time", TIMESTAMP, Merge.LATEST, "When it was decided"),
    Field("last_time", TIMESTAMP, Merge.MAX, "Its last event"),
    *ORDER,
)
_BY_NAME: Final = {field.name: field for field in FIELDS}

DECISIONS: Final = ("confirm", "forward", "undo", "link_lost", "restart")


def units(events: Range) -> pa.Table:
    """One row for each event in which a transaction holds an entry, or did."""
    kinds = events.codes("holder_kind")
    mine = events.take(np.flatnonzero(kinds.among(*TRANSACTION_KINDS)))
    put = mine.codes("to_state").among("put_unconfirmed") & (mine.is_arrival | mine.is_carried)
    got = mine.codes("event").among("acquire", "assign") | (mine.is_carried & mine.is_taken)
    decided = mine.codes("event").among(*DECISIONS)
    prepared = mine.codes("event").among("prepare")
    was_put = mine.codes("from_state").among("put_unconfirmed")
    time, position = mine.column("time", TIMESTAMP), pa.array(mine.numbers("position"))
    columns: dict[str, Any] = {field.name: mine.column(field.name, field.type) for field in FIELDS}
    columns |= {
        "holder_kind": _kind(mine.codes("holder_kind")),
        "puts": pa.array(put.astype(np.int64)),
        "gets": pa.array(got.astype(np.int64)),
        "puts_decided": pa.array((decided & was_put).astype(np.int64)),
        "gets_decided": pa.array((decided & mine.was_taken & mine.is_end).astype(np.int64)),
        "opened_time": time,
        "last_time": time,
        "prepared_position": arrays.where(position, prepared),
        "prepared_time": arrays.where(time, prepared),
        "decision": mine.codes("event").array(decided),
        "decided_position": arrays.where(position, decided),
        "decided_time": arrays.where(time, decided),
    }  # fmt: skip
    return pa.table(columns | mine.order())


def _kind(codes: Codes) -> pa.Array:
    """A prepared branch is the branch that it was."""
    texts = ["xa_branch" if text == "xa_prepared" else text for text in codes.texts]
    return arrays.codes(Codes(codes.numbers, texts).array()).array()


def is_done(rows: pa.Table, events: Range | None, settled: bool) -> Any:
    """Decided, and everything in it with the decision. Where not everything was decided by it (a message that
    was rejected within it), or nobody said (nothing but what came back), a day must have gone by."""
    decided = arrays.valid(rows.column("decision"))
    even = arrays.numbers(rows.column("puts")) == arrays.numbers(rows.column("puts_decided"))
    even &= arrays.numbers(rows.column("gets")) == arrays.numbers(rows.column("gets_decided"))
    if not settled:
        return decided & even
    return decided | is_quiet(rows, "last_time", DAY_US)


TRANSACTIONS: Final = TableDefinition(
    "transactions",
    "Each transaction, XA branch, confirm id, channel batch: what was put and got in it, its decision",
    1,
    FIELDS,
    units,
    is_done,
    "last_time",
    is_late=True,
)
