"""Who writes ledgers beside a pipeline that is measured; told what to do on its input, a line each.

python -m bench.spark_writer files FOLDER          more [READ]: one more sealed file of the workload, and
                                                   away with those up to position READ; answers its end
python -m bench.spark_writer live FOLDER BLOCKS    at once N: so many events, synced once; rate N: so many
                                                   a second from now on; stop: no more
"""

import os
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO
from zlib import crc32

from bench.spark_workload import (
    BODY_BYTES,
    CONSUMER,
    EVENTS_A_MESSAGE,
    ID_BYTES,
    NEAR_EVENTS,
    PRODUCER,
    QUEUES,
    Folder,
    Records,
    Source,
    pattern_of,
)
from postroom.ledger.format.entry_records import Arrival, EntryEvent
from postroom.ledger.format.records import RecordType
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.model.codes import Event, HolderKind, IdType, Outcome, State
from postroom.model.message import RecordedProperties

TURN_S: Final = 0.01
"""A block so often."""
OPEN_EVERY: Final = 10
"""Every tenth message is never taken."""
KEPT_EVENTS: Final = 2_000_000
"""Of what was read, so much stays: a batch may be planned once more."""
WINDOW: Final = int(NEAR_EVENTS / 2 / EVENTS_A_MESSAGE)
"""Messages between arrival and confirmation."""
_ACQUIRE: Final = EntryEvent(Event.ACQUIRE, State.AVAILABLE, State.GET_UNCONFIRMED, HolderKind.CONSUMER)
_CONFIRM: Final = EntryEvent(
    Event.CONFIRM, State.GET_UNCONFIRMED, State.DELETED, HolderKind.CONSUMER, Outcome.CONSUMED
)
_CONFIRM.count(1, 0)


@dataclass(frozen=True, slots=True)
class Written:
    """A sealed file."""

    first_position: int
    last_position: int
    path: Path


def files(folder: Path) -> None:
    """Sealed files on demand, behind which the newest is always empty."""
    out, source = Folder(folder), Source(pattern_of())
    written: deque[Written] = deque()

    def add(records: Records) -> None:
        written.append(Written(records.first_position, records.last_position, out.seal(records)))
        out.begin(records)

    add(source.definitions())
    out.vouch(written[0].first_position)
    for line in sys.stdin:
        _, *read = line.split()
        add(source.take())
        gone: list[Path] = []
        while read and written[0].last_position <= int(read[0]) - KEPT_EVENTS:
            gone.append(written.popleft().path)
        out.vouch(written[0].first_position)
        for path in gone:
            path.unlink()
        print(written[-1].last_position, flush=True)
    out.close()


class Live:
    """A real ledger with messages of the workload's kinds: 90 % are taken some thousand positions later."""

    def __init__(self, folder: Path, blocks: TextIO) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._ledger: Final = Ledger.open(folder, LedgerOptions(), _now_us())
        self._blocks: Final = blocks
        self._waiting: Final[deque[tuple[int, int]]] = deque()
        self._body: Final = os.urandom(BODY_BYTES)
        self._crc: Final = crc32(self._body)
        self._count = 0
        for queue in range(1, QUEUES + 1):
            self._define(RecordType.QUEUE_DEFINED, queue, 0, 0, b'{"name": "queue.%d"}' % queue)
        self._define(RecordType.PRODUCER_OPENED, 0, PRODUCER, 0, b'{"name": "sender"}')
        self._define(RecordType.HOLDER_OPENED, 0, CONSUMER, HolderKind.CONSUMER, b'{"name": "taker"}')

    def _define(self, type: int, queue: int, holder: int, kind: int, detail: bytes) -> None:
        self._ledger.builder.record(type, 0, queue, holder, kind, 0, detail)

    def block(self, events: int) -> None:
        """About so many events, durable when this returns."""
        builder = self._ledger.builder
        now_us = _now_us()
        builder.set_time(now_us)
        first = builder.next_position
        while builder.next_position - first < events:
            self._put()
            if len(self._waiting) > WINDOW:
                self._take(*self._waiting.popleft())
        self._ledger.tend(now_us)
        self._ledger.flush()
        self._blocks.write(f"{now_us} {self._ledger.durable_through}\n")

    def _put(self) -> None:
        self._count += 1
        queue = 1 + self._count % QUEUES
        name = os.urandom(ID_BYTES // 2).hex().encode()
        properties = RecordedProperties()
        properties.message_id, properties.message_id_type = name, IdType.STRING
        arrival = Arrival(queue, Event.PUT, State.AVAILABLE, properties, priority=4, flags=1, expiry_us=0)
        arrival.producer = PRODUCER
        arrival.body, arrival.body_crc = self._body, self._crc
        serial = self._ledger.builder.arrival(arrival)
        if self._count % OPEN_EVERY:
            self._waiting.append((serial, queue))

    def _take(self, serial: int, queue: int) -> None:
        self._ledger.builder.entry_event(serial, queue, CONSUMER, _ACQUIRE)
        self._ledger.builder.entry_event(serial, queue, CONSUMER, _CONFIRM)

    def idle(self) -> None:
        """Readers may have all of it."""
        self._ledger.flush()
        self._ledger.mark_idle()
        self._ledger.wait()
        self._blocks.flush()

    def paced(self, rate: int, stop: threading.Event) -> None:
        """So many events a second until told to stop."""
        per_turn = int(rate * TURN_S)
        due = time.monotonic()
        while not stop.is_set():
            self.block(per_turn)
            due += TURN_S
            time.sleep(max(0.0, due - time.monotonic()))
        self.idle()

    def close(self) -> None:
        self._ledger.close()


def _now_us() -> int:
    return time.time_ns() // 1000


def live(folder: Path, blocks: Path) -> None:
    """A real ledger, written to as its input says."""
    stop, pacing = threading.Event(), None
    with blocks.open("w") as blocks_file:
        ledger = Live(folder, blocks_file)
        for line in sys.stdin:
            words = line.split()
            if words[0] == "at":
                for _ in range(int(words[2]) // 1000):
                    ledger.block(1000)
                ledger.idle()
            elif words[0] == "rate":
                pacing = threading.Thread(target=ledger.paced, args=(int(words[1]), stop))
                pacing.start()
            else:
                stop.set()
                assert pacing is not None
                pacing.join()
            print("done", flush=True)
        stop.set()
        if pacing is not None:
            pacing.join()
        ledger.close()


def main() -> int:
    """One of the two."""
    kind, *paths = sys.argv[1:]
    if kind == "files":
        files(Path(paths[0]))
    else:
        live(Path(paths[0]), Path(paths[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
