"""What an entry has from the one that it was made of: the ids of the message whose body it carries, and the
entry at the beginning of its chain of parents.

A dead letter, a redirected, moved or replayed message shares the body of the message that it was made of. The
broker writes the ids of that message into its arrival where it has the body in memory; where the body lies on
the disk only, the ids are those of the arrival that the body came with. Who reads events is told them all the
same. So of such arrivals, and of nothing else, a row is made of more than its own range of the ledger.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from postroom.ledger.format.expand import ROW_FIELDS, Rows, arrival_rows
from postroom.ledger.format.layout import Array, are_children
from postroom.ledger.format.records import ArrivalFlag
from postroom.spark.places.place import Messages, Place

MAX_GENERATIONS: Final = 1000
"""A chain of parents is followed so far: what was dead-lettered and replayed 500 times has all of it."""

ANCESTRY_COLUMNS: Final = frozenset(
    ["message_id", "correlation_id", "group_id", "group_sequence", "creation", "root_serial", "root_queue_id"]
)
"""The columns of events that are told here."""

ROOT_SERIAL: Final = "root_serial"
ROOT_QUEUE: Final = "root_queue"

_OFFSETS: Final = ("message_id_offset", "correlation_id_offset", "group_id_offset")
_PLAIN: Final = (
    *("message_id_len", "message_id_type", "correlation_id_len", "correlation_id_type"),
    *("group_id_len", "group_sequence", "unique_id_len", "creation_us"),
)
_HEADER_FIELDS: Final = ("message_id_type", "correlation_id_type", "group_id_len", "creation_us")
"""An arrival that says none of these was written without the ids of its message."""


class Ancestry:
    """The arrivals of one place that others were made of, looked for where they are needed."""

    def __init__(self, place: Place, through: int) -> None:
        """`through`: positions up to there are durable."""
        self._place: Final = place
        self._through: Final = through

    def with_ancestry(self, rows: Rows) -> Rows:
        """The same rows; of arrivals that were made of others with their ids and roots.

        As far as the history tells. Raises ``LedgerError``, ``OSError``.
        """
        if rows.arrivals is None or not (children := are_children(rows.arrivals)).any():
            return rows
        arrivals, names = self._with_ids(rows, children)
        columns = {name: rows[name] for name in ROW_FIELDS}
        columns |= self._roots(rows, np.flatnonzero(children))
        return arrival_rows(columns, rows.record, rows.ordinal, arrivals, names)

    def _with_ids(self, rows: Rows, children: npt.NDArray[np.bool_]) -> tuple[Array, npt.NDArray[np.uint8]]:
        arrivals: Any = rows.arrivals
        nameless = children & ((arrivals["flags"] & int(ArrivalFlag.BODY_SHARED)) != 0)
        for field in _HEADER_FIELDS:
            nameless &= arrivals[field] == 0
        if not nameless.any():
            return arrivals, rows.names
        found = self._lookup(arrivals["body_serial"][nameless])
        mine = np.flatnonzero(nameless)[found.found]
        made, own = arrivals.copy(), found.arrivals[found.found]
        for field in _PLAIN:
            made[field][mine] = own[field]
        for field in _OFFSETS:
            made[field][mine] = own[field] + np.uint32(len(rows.names))
        return made, np.concatenate([rows.names, found.names])

    def _roots(self, rows: Rows, children: Array) -> dict[str, Array]:
        """The serial and the queue of each row's root; its own where it was made of nothing."""
        arrivals: Any = rows.arrivals
        serials, queues = arrivals["parent_serial"][children], arrivals["parent_queue"][children]
        going = np.arange(len(children))
        for _ in range(MAX_GENERATIONS):
            parents = self._lookup(serials[going])
            further = parents.found & are_children(parents.arrivals)
            if not further.any():
                break
            going = going[further]
            serials[going] = parents.arrivals["parent_serial"][further]
            queues[going] = parents.arrivals["parent_queue"][further]
        root_serials, root_queues = rows["serial"].copy(), rows["queue"].copy()
        root_serials[children], root_queues[children] = serials, queues
        return {ROOT_SERIAL: root_serials, ROOT_QUEUE: root_queues}

    def _lookup(self, serials: Array) -> Messages:
        return self._place.arrivals(np.asarray(serials, np.uint64), self._through)
