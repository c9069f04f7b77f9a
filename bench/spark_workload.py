"""The fixed workload of the Spark figures: a ledger of any length, written by numpy
straight into its files.

Messages of ten queues with random ids of 36 bytes, in a steady state: 70 % of them are acquired and confirmed
within 4,000 positions of their arrival, 20 % a million positions later, 10 % stay open. Positions are dense,
serials are positions of arrivals, and every event follows on the one before it, so that readers and the audit
accept the ledger. Sealed files have the size that the defaults give with messages of 1 KB (whose bodies are
left out); behind them is a checkpoint of what they come to, and a journal, such as a running broker has.

    python -m bench.spark_workload FOLDER [--events 20000000]
"""

import argparse
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from uuid import UUID

import numpy as np

from postroom.ledger.fold.checkpoint import write_checkpoint
from postroom.ledger.fold.fold import fold_image, prune_chunks
from postroom.ledger.fold.state import FoldState
from postroom.ledger.format.block import SealedParts
from postroom.ledger.format.dictionary import Dictionary, records_from
from postroom.ledger.format.file_names import events_name, journal_name
from postroom.ledger.format.headers import (
    NO_SEAL,
    FileHeader,
    encode_block,
    header_crc_of,
)
from postroom.ledger.format.layout import (
    ARRIVAL_DTYPE,
    BLOCK_DICTIONARY,
    BLOCK_ROW_DTYPE,
    TRANSITION_DTYPE,
    Array,
)
from postroom.ledger.format.records import ArrivalFlag, RecordType
from postroom.ledger.recovery.recovery import Images
from postroom.ledger.storage.disk import RealDisk
from postroom.ledger.storage.events_image import EventsImage, encode_image, write_durably
from postroom.ledger.storage.superblock import Superblock, create_superblock
from postroom.ledger.verification.acceptance import accept
from postroom.model.codes import Event, HolderKind, IdType, Outcome, State

ID_BYTES: Final = 36
QUEUES: Final = 10
BODY_BYTES: Final = 1000
CONSUMER: Final = 7
PRODUCER: Final = 3
LEDGER_ID: Final = UUID("0195f2a0-0000-7000-8000-0000000000be")
EPOCH_ID: Final = b"bench-spark-0001"
START_US: Final = 1_790_000_000_000_000
STEP_US: Final = 20
"""From one event to the next: 50,000 events a second."""

FILE_EVENTS: Final = 500_000
"""Of a sealed file: about 55 MB."""

TAIL_EVENTS: Final = 100_000
"""In the journal, at most."""
BLOCK_EVENTS: Final = 2_000

NEAR: Final = 0.7
FAR: Final = 0.2
"""Shares of the messages; the rest is never acquired."""
NEAR_EVENTS: Final = 4_000
FAR_EVENTS: Final = 1_000_000
EVENTS_A_MESSAGE: Final = 3 * (NEAR + FAR) + (1 - NEAR - FAR)
PUT: Final = 0
ACQUIRE: Final = 1
CONFIRM: Final = 2
SEED: Final = 7


@dataclass(frozen=True)
class Pattern:
    """The events of one file in their order, the same for every file: they tell of messages of this file and,
    `back` files earlier, of older ones."""

    messages: int
    kind: Array
    message: Array
    back: Array
    queue: Array
    """Of each message."""


def pattern_of(events: int = FILE_EVENTS, far_events: int = FAR_EVENTS) -> Pattern:
    """A steady state: as many events as the messages of one file have, wherever these fall."""
    rng = np.random.default_rng(SEED)
    messages = max(1, round(events / EVENTS_A_MESSAGE))
    put = np.arange(messages) * EVENTS_A_MESSAGE
    fate = rng.random(messages)
    taken = np.flatnonzero(fate < NEAR + FAR)
    is_far = fate[taken] >= NEAR
    late = np.where(is_far, far_events * rng.uniform(0.95, 1.05, len(taken)), 0.0)
    near = rng.uniform(2, NEAR_EVENTS, len(taken))
    acquired = put[taken] + late + near * rng.uniform(0.05, 0.95, len(taken))
    confirmed = put[taken] + late + near
    at = np.concatenate([put, acquired, confirmed])
    kind = np.repeat(np.array([PUT, ACQUIRE, CONFIRM], np.uint8), [messages, len(taken), len(taken)])
    message = np.concatenate([np.arange(messages), taken, taken])
    span = messages * EVENTS_A_MESSAGE
    back = (at // span).astype(np.int64)
    order = np.argsort(at - back * span, kind="stable")
    queue = rng.integers(1, QUEUES + 1, messages).astype(np.uint32)
    return Pattern(messages, kind[order], message[order], back[order], queue)


@dataclass
class Records:
    """Some events of the ledger, in order."""

    first_position: int
    arrivals: Array
    transitions: Array
    names: bytes
    """What the records' offsets count from."""

    @property
    def count(self) -> int:
        return len(self.arrivals) + len(self.transitions)

    @property
    def last_position(self) -> int:
        return self.first_position + self.count - 1

    def between(self, first: int, last: int) -> "Records":
        """Those of some positions, both included."""
        arrivals, transitions = (
            rows[np.searchsorted(rows["position"], first) : np.searchsorted(rows["position"], last + 1)]
            for rows in (self.arrivals, self.transitions)
        )
        return replace(self, first_position=first, arrivals=arrivals, transitions=transitions)


def time_at(position: int) -> int:
    """When it happened."""
    return START_US + STEP_US * position


class Source:
    """Files' worth of events, one after the other, without end."""

    def __init__(self, pattern: Pattern, start: int = 0) -> None:
        self._pattern: Final = pattern
        self._rng: Final = np.random.default_rng(SEED + 1 + start)
        self._serials: Final[deque[Array]] = deque(maxlen=int(pattern.back.max()) + 1)
        self._next = 1

    def definitions(self) -> Records:
        """The queues, the producer and the consumer: the first records of the ledger."""
        details = [
            *(b'{"name": "queue.%d"}' % number for number in range(1, QUEUES + 1)),
            b'{"name": "sender", "container": "shop", "user": "ann"}',
            b'{"name": "taker", "container": "till", "user": "bob"}',
        ]
        rows = np.zeros(len(details), TRANSITION_DTYPE)
        rows["position"] = np.arange(1, len(rows) + 1)
        rows["time_us"] = START_US
        rows["type"] = RecordType.QUEUE_DEFINED
        rows["queue"][:QUEUES] = np.arange(1, QUEUES + 1)
        rows["type"][QUEUES:] = (RecordType.PRODUCER_OPENED, RecordType.HOLDER_OPENED)
        rows["holder"][QUEUES:] = (PRODUCER, CONSUMER)
        rows["holder_kind"][QUEUES + 1] = HolderKind.CONSUMER
        rows["detail_len"] = [len(detail) for detail in details]
        rows["detail_offset"] = np.cumsum(rows["detail_len"]) - rows["detail_len"]
        self._next = len(rows) + 1
        return Records(1, np.zeros(0, ARRIVAL_DTYPE), rows, b"".join(details))

    def take(self) -> Records:
        """The next file's worth: fewer in the first files, which have no older messages to tell of."""
        p = self._pattern
        there = np.flatnonzero(p.back <= len(self._serials))
        kind, message, back = p.kind[there], p.message[there], p.back[there]
        positions = self._next + np.arange(len(there), dtype=np.uint64)
        is_put = kind == PUT
        serials = np.zeros(p.messages, np.uint64)
        serials[message[is_put]] = positions[is_put]
        self._serials.appendleft(serials)
        table = np.stack(self._serials)
        made = Records(
            self._next,
            self._arrivals(positions[is_put], message[is_put]),
            self._transitions(positions, kind, message, table[back, message], ~is_put),
            self._rng.integers(ord("a"), ord("z") + 1, p.messages * ID_BYTES, dtype=np.uint8).tobytes(),
        )
        self._next += len(there)
        return made

    def _arrivals(self, positions: Array, message: Array) -> Array:
        rows = np.zeros(len(positions), ARRIVAL_DTYPE)
        rows["position"] = rows["body_serial"] = positions
        rows["time_us"] = START_US + STEP_US * positions.astype(np.int64)
        rows["routing_set"] = self._pattern.queue[message]
        rows["producer"] = PRODUCER
        rows["to_state"], rows["event"], rows["priority"] = State.AVAILABLE, Event.PUT, 4
        rows["flags"] = ArrivalFlag.DURABLE
        rows["body_len"] = BODY_BYTES
        rows["message_id_offset"], rows["message_id_len"] = message * ID_BYTES, ID_BYTES
        rows["message_id_type"] = IdType.STRING
        return rows

    def _transitions(
        self, positions: Array, kind: Array, message: Array, serials: Array, chosen: Array
    ) -> Array:
        is_end = kind[chosen] == CONFIRM
        rows = np.zeros(len(is_end), TRANSITION_DTYPE)
        rows["position"] = positions[chosen]
        rows["time_us"] = START_US + STEP_US * positions[chosen].astype(np.int64)
        rows["serial"] = serials[chosen]
        rows["queue"] = self._pattern.queue[message[chosen]]
        rows["holder"], rows["holder_kind"] = CONSUMER, HolderKind.CONSUMER
        rows["type"] = RecordType.ENTRY_EVENT
        rows["event"] = np.where(is_end, Event.CONFIRM, Event.ACQUIRE)
        rows["from_state"] = np.where(is_end, State.GET_UNCONFIRMED, State.AVAILABLE)
        rows["to_state"] = np.where(is_end, State.DELETED, State.GET_UNCONFIRMED)
        rows["outcome"] = np.where(is_end, Outcome.CONSUMED, Outcome.NONE)
        return rows


class Folder:
    """A ledger's folder, written file by file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder: Final = folder
        self._disk: Final = RealDisk(folder)
        self._dictionary = Dictionary()
        self._seal = NO_SEAL
        self._number = 1

    def seal(self, records: Records) -> Path:
        """One .events file."""
        head, details = self._dictionary.encode()
        self._define(records)
        arrivals, transitions = _moved(records, len(details))
        dictionary = np.frombuffer(head, TRANSITION_DTYPE)
        first, last = records.first_position, records.last_position
        image = EventsImage(
            ledger_id=LEDGER_ID.bytes,
            epoch=1,
            epoch_id=EPOCH_ID,
            file_number=self._number,
            first_position=first,
            last_position=last,
            time_us=time_at(first),
            last_time_us=time_at(last),
            sealed=self._seal,
            last_block_crc=self._number,
            dictionary_count=len(dictionary),
            transitions=np.concatenate([dictionary, transitions]),
            arrivals=arrivals,
            names=memoryview(details + records.names),
            blocks=np.zeros(0, BLOCK_ROW_DTYPE),
        )
        name = events_name(self._number)
        write_durably(self._disk, name, encode_image(image))
        self._seal = image.seal()
        self._number += 1
        return self.folder / name

    def _define(self, records: Records) -> None:
        for record in records_from(records.transitions, memoryview(records.names)):
            self._dictionary.apply(record)

    def checkpoint(self) -> None:
        """What the sealed files come to, as a broker notes it when it has sealed one."""
        state = FoldState()
        images = Images(self._disk, state)
        for number in range(1, self._number):
            fold_image(state, images.image(number), images.arrivals)
        prune_chunks(state, images.arrivals)
        write_checkpoint(self._disk, state, LEDGER_ID.bytes)

    def journal(self, records: Records) -> None:
        """The newest file, its last block durable: in blocks of `BLOCK_EVENTS`."""
        first, start_us = records.first_position, time_at(records.first_position)
        header = FileHeader(LEDGER_ID.bytes, 1, EPOCH_ID, self._number, first, start_us, self._seal, 0)
        parts: list[bytes] = [header.encode()]
        crc = header_crc_of(parts[0])
        blocks = [(self._dictionary.as_block(first, start_us), BLOCK_DICTIONARY)]
        blocks += [(block, 0) for block in _blocks(records)]
        end = records.last_position
        blocks.append((SealedParts(end + 1, end, time_at(end), b"", b"", b"", [], []), 0))
        for block, flags in blocks:
            head = encode_block(block, header.identity(), block.last_position, crc, flags)
            crc = header_crc_of(head)
            parts += [head, block.arrivals, block.transitions, block.names]
        write_durably(self._disk, journal_name(self._number), list(parts))

    def begin(self, records: Records) -> None:
        """The newest file, without a record yet: it comes after these, which are sealed."""
        self.journal(records.between(records.last_position + 1, records.last_position))
        (self.folder / journal_name(self._number - 1)).unlink(missing_ok=True)

    def vouch(self, first_position: int) -> None:
        """The superblock: nothing is missing from this position on, up to the newest file, which is begun."""
        create_superblock(
            self._disk, Superblock(LEDGER_ID.bytes, self._number, first_position, newest_file=self._number)
        )

    def close(self) -> None:
        self._disk.unlock()


def _moved(records: Records, names_before: int) -> tuple[Array, Array]:
    """The records with other names before theirs in the heap."""
    arrivals, transitions = records.arrivals.copy(), records.transitions.copy()
    arrivals["message_id_offset"] += np.uint32(names_before)
    transitions["detail_offset"][transitions["detail_len"] > 0] += np.uint32(names_before)
    return arrivals, transitions


def _blocks(records: Records) -> Iterator[SealedParts]:
    names = np.frombuffer(records.names, np.uint8)
    for start in range(records.first_position, records.last_position + 1, BLOCK_EVENTS):
        last = min(start + BLOCK_EVENTS - 1, records.last_position)
        some = records.between(start, last)
        arrivals = some.arrivals.copy()
        offsets = arrivals["message_id_offset"].astype(np.int64)
        ids = names[offsets[:, None] + np.arange(ID_BYTES)]
        arrivals["message_id_offset"] = np.arange(len(arrivals)) * ID_BYTES
        yield SealedParts(
            start, last, time_at(last), arrivals.tobytes(), some.transitions.tobytes(), ids.tobytes(), [], []
        )


def make(folder: Path, events: int) -> int:
    """A ledger of so many events, in sealed files and a journal that a superblock vouches for; returns the
    last position."""
    out = Folder(folder)
    far = min(FAR_EVENTS, max(1, events // 20))  # in a small trial the far ends still come
    source = Source(pattern_of(min(FILE_EVENTS, max(1, events // 4)), far))
    definitions = source.definitions()
    out.seal(definitions)
    end = definitions.last_position + events
    records = source.take()
    while records.last_position < end:
        out.seal(records)
        records = source.take()
    tail = max(records.first_position, end + 1 - min(TAIL_EVENTS, events // 10))
    if tail > records.first_position:
        out.seal(records.between(records.first_position, tail - 1))
    out.checkpoint()
    out.journal(records.between(tail, end))
    out.close()
    accept(folder)
    return end


def main() -> int:
    """Writes the workload where it is told to."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("folder", type=Path)
    command.add_argument("--events", type=int, default=20_000_000)
    options = command.parse_args()
    start = time.perf_counter()
    last = make(options.folder, options.events)
    files = list(options.folder.iterdir())
    size = sum(file.stat().st_size for file in files)
    took = time.perf_counter() - start
    print(f"{last:,} records in {len(files)} files, {size:,} bytes, {took:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
