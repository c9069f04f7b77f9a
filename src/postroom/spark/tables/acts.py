"""Table ``acts``: one row for each act of an administrator, each refusal and each failed sign-in."""

import json
from typing import Any, Final

import numpy as np
import pyarrow as pa

from postroom.spark.ledger_source.columns import ACT
from postroom.spark.tables.definition import LEDGER_ID, TIMESTAMP, Field, Merge, TableDefinition
from postroom.spark.tables.policy import ACTOR
from postroom.spark.tables.range import Range

_OF_EVENT: Final = (
    LEDGER_ID,
    Field("position", pa.int64(), Merge.KEY, "Position of its record"),
    Field("time", TIMESTAMP, Merge.ONLY, "When it was recorded"),
)


def _text(name: str, comment: str) -> Field:
    return Field(name, pa.string(), Merge.ONLY, comment)


_OF_ACT: Final = (
    _text("user", "Who; empty: the one who runs the broker, or nobody who had signed in"),
    _text("remote", "From where: address and port; empty within the broker"),
    _text("container", "Container id of the connection"),
    _text("operation", "What was asked for: a management operation, SIGN-IN, ATTACH, TRANSFER or RELOAD"),
    _text("type", "Of the thing: that of management requests, or destination"),
    _text("name", "Of the thing"),
    Field("status", pa.int64(), Merge.ONLY, "The answer: 2xx done, 401 a failed sign-in, 403 no right to it"),
    _text("description", "The answer in words"),
    _text("arguments", "What was asked for, as JSON, without anything secret"),
    Field("count", pa.int64(), Merge.ONLY, "Of acts alike that were refused, told of in this row; mostly 1"),
)
_USUAL: Final[dict[str, object]] = {"count": 1, "status": None}
"""What a record leaves out; of texts the empty one."""

PERSONAL: Final = dict.fromkeys(ACTOR, ACT)


def units(events: Range) -> pa.Table:
    """A row for each row of an act."""
    mine = events.take(np.flatnonzero(events.codes("record").among(ACT)))
    acts = [_decoded(text) for text in mine.column(ACT, pa.string()).to_pylist()]
    columns = {field.name: mine.column(field.name, field.type) for field in _OF_EVENT}
    of_acts = {
        field.name: pa.array([_value(act, field) for act in acts], field.type, from_pandas=True)
        for field in _OF_ACT
    }
    return pa.table(columns | of_acts)


def _decoded(text: str | None) -> dict[str, Any] | None:
    try:
        decoded = json.loads(text or "")
    except ValueError:
        return None
    return decoded if isinstance(decoded, dict) else None


def _value(act: dict[str, Any] | None, field: Field) -> Any:
    """None: it was withheld, or is none of the column's type."""
    value = None if act is None else act.get(field.name, _USUAL.get(field.name, ""))
    return value if type(value) is (str if pa.types.is_string(field.type) else int) else None


ACTS: Final = TableDefinition(
    "acts",
    "Each act of an administrator, each refusal, each failed sign-in: who, from where, what, the answer",
    1,
    (*_OF_EVENT, *_OF_ACT),
    units,
    None,
    "time",
    personal=PERSONAL,
)
