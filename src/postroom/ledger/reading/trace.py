"""The life of one message, from the ledger: every event of it, of what it was made of, and of what was made
of it (dead letters, redirected and moved messages).

Offline, beside the broker that writes, or by the broker itself, which looks at so many records at a time: a
message is found among the arrivals (`find`), and its events from there on (`follow`).
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np

from postroom.ledger.format.expand import Chunk
from postroom.ledger.format.layout import Array, are_children
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.dump import Filter, Line, chunk_lines
from postroom.ledger.reading.reader import LedgerReader
from postroom.model.codes import IdType

MAX_RELATIONS: Final = 10_000
"""Messages in one trace; an id that more of them have is no way to name one."""


class TooManyMessages(Exception):
    """The id is that of more messages than a trace can show, or more were made of them."""


class MessageId:
    """A message id as the ledger has it."""

    def __init__(self, raw: bytes, kind: IdType) -> None:
        self.raw: Final = raw
        self.kind: Final = kind

    def among(self, arrivals: Array, names: Array) -> Array:
        """Those of the arrivals that have it."""
        size = len(self.raw)
        same = (arrivals["message_id_type"] == self.kind) & (arrivals["message_id_len"] == size)
        candidates = arrivals.compress(same)
        if size == 0 or len(candidates) == 0:
            return candidates[:0]
        places = candidates["message_id_offset"].astype(np.int64)[:, None] + np.arange(size)
        equal: Array = candidates[(names[places] == np.frombuffer(self.raw, np.uint8)).all(axis=1)]
        return equal


class Piece(NamedTuple):
    """Some records, one behind the other, and what they speak of."""

    chunk: Chunk
    definitions: Callable[[], Definitions]


class History(Protocol):
    """The records of a ledger, as far back as there are any."""

    @property
    def first_position(self) -> int: ...

    @property
    def durable_through(self) -> int: ...

    def pieces(self, first: int, last: int) -> Iterator[Piece]:
        """The records with positions first to last, as far as they are there, ascending."""


class FolderHistory:
    """What one look at a folder has found."""

    def __init__(self, reader: LedgerReader) -> None:
        self._reader: Final = reader
        self.first_position: Final = reader.first_position
        self.durable_through: Final = reader.durable_through

    def pieces(self, first: int, last: int) -> Iterator[Piece]:
        """As `History` has it."""
        known: dict[int, Callable[[], Definitions]] = {}
        for segment, source, chunk in self._reader.chunks(first, last):
            if segment.number not in known:
                known = {segment.number: cache(partial(source.definitions, segment.last_position))}
            yield Piece(chunk, known[segment.number])


def trace(folder: Path, wanted: MessageId | int, beyond_durable: bool = False) -> Iterator[Line]:
    """The events, oldest first, as `dump` tells them; none where the ledger knows no such message.

    ``wanted`` is a message id or a serial. Raises ``NoLedger``, ``LedgerCorrupt``, ``TooManyMessages``.
    """
    yield from trace_in(FolderHistory(LedgerReader(folder, beyond_durable)), wanted)


def trace_in(history: History, wanted: MessageId | int) -> Iterator[Line]:
    """The same of a ledger that has been looked at."""
    last = history.durable_through
    serials = find(history, wanted, history.first_position, last)
    if serials:
        for lines in follow(history, serials, min(serials), last):
            yield from lines


def find(history: History, wanted: MessageId | int, first: int, last: int) -> set[int]:
    """The serials of the messages meant that arrived in a range of positions, and of what they were made of.

    A serial from before the history is taken at its word: the message may have been there since.
    """
    if isinstance(wanted, int):
        arrival = _arrival(history, wanted)
        if arrival is None:
            return {wanted} if wanted < history.first_position else set()
        return _with_origins(history, {wanted: _parents(arrival)[0]})
    named: dict[int, int] = {}
    for chunk, _ in history.pieces(first, last):
        arrivals = wanted.among(chunk.arrivals, chunk.names)
        named |= dict(zip(arrivals["position"].tolist(), _parents(arrivals), strict=True))
        if len(named) > MAX_RELATIONS:
            raise TooManyMessages(f"more than {MAX_RELATIONS:,} messages have that id: name one by serial")
    return _with_origins(history, named)


def follow(history: History, serials: set[int], first: int, last: int) -> Iterator[list[Line]]:
    """The events of messages in a range of positions, some at a time; what is made of them in it is added to
    ``serials``."""
    for chunk, definitions in history.pieces(first, last):
        made = chunk.arrivals.compress(are_children(chunk.arrivals))
        for serial, parent in zip(made["position"].tolist(), made["parent_serial"].tolist(), strict=True):
            if parent in serials:  # ascending: a parent comes before its children
                serials.add(serial)
        if len(serials) > MAX_RELATIONS:
            raise TooManyMessages(f"more than {MAX_RELATIONS:,} messages were made of it")
        yield chunk_lines(chunk, definitions(), Filter(serials=frozenset(serials)))


def _with_origins(history: History, named: dict[int, int]) -> set[int]:
    """Messages, of which the parents are given (0: none), and all that they were made of."""
    found: set[int] = set()
    for serial, parent in named.items():
        found.add(serial)
        while parent and parent not in found:
            found.add(parent)
            parent = _parent(history, parent)
    return found


def _parent(history: History, serial: int) -> int:
    """What a message was made of; 0: of nothing, or its arrival isn't there any more."""
    arrival = _arrival(history, serial)
    return 0 if arrival is None else _parents(arrival)[0]


def _parents(arrivals: Array) -> list[int]:
    parents: list[int] = np.where(are_children(arrivals), arrivals["parent_serial"], 0).tolist()
    return parents


def _arrival(history: History, serial: int) -> Array | None:
    """The arrival of a message, alone in its array."""
    for chunk, _ in history.pieces(serial, serial):
        found: Array = chunk.arrivals[chunk.arrivals["position"] == serial]
        if len(found):
            return found
    return None
