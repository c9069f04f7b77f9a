"""The life of one message, from the ledger: every event of it, of what it was made of, and of what was made
of it (dead letters, redirected and moved messages).

Offline, or beside the broker that writes. The ledger is gone through twice: once over the arrivals only, to
find the message and its relations, and once from the first of them on.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from postroom.ledger.dump import Filter, Line, dump
from postroom.ledger.layout import Array, are_children
from postroom.ledger.reader import LedgerReader
from postroom.model.codes import IdType

MAX_RELATIONS: Final = 10_000
"""Messages in one trace; an id that more of them have is no way to name one."""


class TooManyMessages(Exception):
    """The id is that of more messages than a trace can show."""


class MessageId:
    """A message id as the ledger has it."""

    def __init__(self, raw: bytes, kind: IdType) -> None:
        self.raw: Final = raw
        self.kind: Final = kind

    def among(self, arrivals: Array, names: Array) -> Array:
        """The serials of the arrivals that have it."""
        size = len(self.raw)
        same = (arrivals["message_id_type"] == self.kind) & (arrivals["message_id_len"] == size)
        candidates = arrivals.compress(same)
        positions: Array = candidates["position"]
        if size == 0 or len(candidates) == 0:
            return positions[:0]
        places = candidates["message_id_offset"].astype(np.int64)[:, None] + np.arange(size)
        equal: Array = (names[places] == np.frombuffer(self.raw, np.uint8)).all(axis=1)
        return positions[equal]


def trace(folder: Path, wanted: MessageId | int, beyond_durable: bool = False) -> Iterator[Line]:
    """The events, oldest first, as `dump` tells them; none where the ledger knows no such message.

    ``wanted`` is a message id or a serial. Raises ``NoLedger``, ``LedgerCorrupt``, ``TooManyMessages``.
    """
    serials = relations(LedgerReader(folder, beyond_durable), wanted)
    if serials:
        yield from dump(folder, Filter(min(serials), serials=frozenset(serials)), beyond_durable)


def relations(reader: LedgerReader, wanted: MessageId | int) -> set[int]:
    """The serials of the messages meant, of what they were made of, and of all that was made of those."""
    named: set[int] = {wanted} if isinstance(wanted, int) else set()
    children: list[Array] = []
    known = False
    for _, _, chunk in reader.chunks():
        arrivals = chunk.arrivals
        if isinstance(wanted, MessageId):
            named.update(wanted.among(arrivals, chunk.names).tolist())
            if len(named) > MAX_RELATIONS:
                raise TooManyMessages(f"more than {MAX_RELATIONS} messages have that id: name one by serial")
        else:
            known = known or bool((arrivals["position"] == wanted).any())
        made = arrivals.compress(are_children(arrivals))
        if len(made):
            children.append(np.stack([made["position"], made["parent_serial"]], axis=1))
    if isinstance(wanted, int) and not known:
        return set()
    return _with_relations(named, np.concatenate(children).tolist() if children else [])


def _with_relations(named: set[int], children: list[list[int]]) -> set[int]:
    """Up to what each was made of, then down to all that was made of that."""
    parents = {pair[0]: pair[1] for pair in children}
    found: set[int] = set()
    for serial in named:
        while serial not in found:
            found.add(serial)
            serial = parents.get(serial, serial)
    for child, parent in children:  # ascending: a parent comes before its children
        if parent in found:
            found.add(child)
    return found
