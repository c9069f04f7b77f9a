"""How far the tables had come, noted beside them: a floor for whoever takes them for whole.

A table tells by its own commits how far it is; that it is an older copy of itself, or gone, it can't tell.
So after each batch the pipeline notes which position every table has at least.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from postroom.spark.pipeline.pipeline_table import PipelineTable
from postroom.spark.pipeline.root import Root

REACHED_FILE: Final = "reached.json"

Reached = Mapping[str, Mapping[str, int]]
"""By table and ledger: a position that the table has come to."""


def note_reached(root: Root, before: Reached, tables: Iterable[PipelineTable]) -> Reached:
    """Note the positions of the tables, unless they are as before; a table that was put back to an older
    version on purpose must come as far again. Returns them."""
    now = {**before}
    for table in tables:
        known = before.get(table.name, {})
        come = {ledger_id: at.position for ledger_id, at in table.state.positions.items()}
        now[table.name] = {one: max(come.get(one, 0), known.get(one, 0)) for one in sorted({*come, *known})}
    if now != before:
        root.note(REACHED_FILE, {"tables": now})
    return now


def reached(root: Root) -> Reached | None:
    """What was noted last; None: nothing. Raises ``PipelineError``."""
    noted = root.noted(REACHED_FILE)
    return None if noted is None else noted["tables"]
