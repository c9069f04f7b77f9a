"""From a trace: every promise that the broker wrote to a socket follows the sync of the bytes it promises.

Three promises are followed:

- ``accepted`` to a sender: the message's bytes were written to the ledger, a sync of that file began after
  the write had ended, and it ended before the answer's write began;
- a delivery to a receiver: the same of the message delivered;
- the answer to a receiver's confirm: after the confirm was read, ledger bytes were written and synced.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.crash.strace_log import READS, SYNCS, WRITES, Call
from tests.crash.wire import ACCEPTED, DISPOSITION, TRANSFER, Frame, FrameStream

MARKER = re.compile(rb"MARK-\d{9}-")
ROLE_RECEIVER = True


def marker(number: int) -> bytes:
    """What makes a message's body findable in the ledger's bytes."""
    return b"MARK-%09d-" % number


@dataclass
class Ledger:
    """Writes and syncs of the ledger's files, as places in the trace."""

    folder: str
    written: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    """Of each marker: the file, and the place where its first write ended."""
    syncs: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    writes: list[tuple[str, int, int]] = field(default_factory=list)

    def saw(self, call: Call) -> None:
        """One call on a file."""
        if not call.file.startswith(self.folder) or call.result < 0:
            return
        if call.name in SYNCS:
            self.syncs.setdefault(call.file, []).append((call.began, call.ended))
        elif call.name in WRITES:
            self.writes.append((call.file, call.began, call.ended))
            for found in MARKER.findall(call.data):
                self.written.setdefault(found, (call.file, call.ended))

    def durable_at(self, found: bytes) -> int | None:
        """Where the first sync ended that began after the marker's write had ended."""
        if found not in self.written:
            return None
        file, ended = self.written[found]
        return self._synced(file, ended)

    def _synced(self, file: str, written: int) -> int | None:
        syncs = self.syncs.get(file, [])
        at = bisect_left(syncs, (written, 0))
        return syncs[at][1] if at < len(syncs) else None

    def synced_write_after(self, place: int) -> int | None:
        """Where the first write that began after `place` was durable."""
        ends = (self._synced(file, ended) for file, began, ended in self.writes if began > place)
        return min((end for end in ends if end is not None), default=None)


@dataclass
class Promise:
    """Something written to a socket that the disk must have had before."""

    kind: str
    what: str
    place: int
    """Where its write began."""
    durable: int | None

    @property
    def kept(self) -> bool:
        """Whether the disk came first."""
        return self.durable is not None and self.durable < self.place


class _Connection:
    """One connection's frames, broker side: in from reads, out from writes."""

    def __init__(self) -> None:
        self.incoming, self.outgoing = FrameStream(), FrameStream()
        self.markers: dict[int, bytes] = {}
        """By delivery id of the peer's transfers."""
        self.partial = b""
        self.current: int | None = None
        self.confirms: dict[int, int] = {}
        """By delivery id of our transfers: where the peer's confirm was read."""

    def take_in(self, frame: Frame) -> None:
        """A frame from the peer."""
        if frame.code == TRANSFER:
            if frame.field(1) is not None:
                self.current, self.partial = int(frame.field(1)), b""
            self.partial += frame.payload
            found = MARKER.search(self.partial)
            if found and self.current is not None:
                self.markers[self.current] = found[0]
        elif frame.code == DISPOSITION and frame.field(0) == ROLE_RECEIVER:
            for delivery in _range(frame):
                self.confirms.setdefault(delivery, frame.place)

    def promises(self, frame: Frame, ledger: Ledger) -> Iterable[Promise]:
        """What a frame to the peer promises."""
        if frame.code == TRANSFER:
            for found in MARKER.findall(frame.payload):
                yield Promise("delivery", found.decode(), frame.place, ledger.durable_at(found))
        elif frame.code == DISPOSITION and frame.field(0) == ROLE_RECEIVER and _is_accepted(frame):
            for delivery in _range(frame):
                found = self.markers.get(delivery, b"a message without a marker")
                yield Promise("accepted", found.decode(), frame.place, ledger.durable_at(found))
        elif frame.code == DISPOSITION and frame.field(0) != ROLE_RECEIVER:
            for delivery in _range(frame):
                read = self.confirms.get(delivery)
                durable = None if read is None else ledger.synced_write_after(read)
                yield Promise("answer", f"delivery {delivery}", frame.place, durable)


def _range(frame: Frame) -> range:
    first = int(frame.field(1))
    last = frame.field(2)
    return range(first, (first if last is None else int(last)) + 1)


def _is_accepted(frame: Frame) -> bool:
    state = frame.field(4)
    return state is not None and int(state.descriptor) == ACCEPTED


def promises(calls: Iterable[Call], ledger_folder: str) -> list[Promise]:
    """All promises of a trace, in their order, each with the place where the disk had what it promises."""
    ledger = Ledger(ledger_folder)
    connections: dict[str, _Connection] = {}
    outgoing: list[tuple[_Connection, Frame]] = []
    for call in calls:
        if not call.is_socket:
            ledger.saw(call)
            continue
        connection = connections.setdefault(call.file, _Connection())
        if call.name in READS:
            for frame in connection.incoming.feed(call.data, call.ended):
                connection.take_in(frame)
        elif call.name in WRITES:
            outgoing += [(connection, frame) for frame in connection.outgoing.feed(call.data, call.began)]
    return [promise for connection, frame in outgoing for promise in connection.promises(frame, ledger)]
