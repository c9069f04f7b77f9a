"""Messages read beside a broker: from every kind of file, in any order, whole, damaged, gone."""

from pathlib import Path
from random import Random
from zlib import crc32

import numpy as np
import pytest

from postroom.ledger import Ledger, LedgerOptions
from postroom.ledger.body_reader import BodyReader, BodyState, FoundMessages
from postroom.ledger.layout import Array
from postroom.model.codes import Event, State
from tests.ledger.workload import START_US

SMALL = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=0)
LARGE = LedgerOptions(reserve_bytes=0)
GET = (State.AVAILABLE, State.DELETED, 0, 0, 1, 0, 0, 0, 0, 0)
UPLOADED = 600 << 10


def opened(folder: Path, options: LedgerOptions = LARGE) -> Ledger:
    return Ledger.open(folder, options, START_US, maintenance="manual")


def put(ledger: Ledger, body: bytes | None, name: bytes = b"", correlation: bytes = b"", of: int = 0) -> int:
    """An arrival; `of`: a serial whose body it shares."""
    head = (1, State.AVAILABLE, Event.PUT, 0, 0, 0, 4, 1, 0, 0, 0, 0, 0)
    names = (name, 4 if name else 0, correlation, 4 if correlation else 0, b"", 0)
    return ledger.builder.arrival(*head, body, crc32(body or b""), *names)


def get(ledger: Ledger, serial: int) -> None:
    ledger.builder.entry_event(serial, 1, Event.GET, *GET)


def settle(ledger: Ledger) -> None:
    """All is durable, readers are told so, and what maintenance can do is done."""
    ledger.flush()
    while ledger.maintenance_step():
        pass
    if ledger.mark_idle():
        ledger.wait()


def serials(*values: int) -> Array:
    return np.array(values, np.uint64)


def bodies_of(found: FoundMessages) -> list[bytes]:
    return [found.bodies[a:b] for a, b in zip(found.offsets, found.offsets[1:], strict=False)]


def names_of(found: FoundMessages, field: str) -> list[bytes]:
    rows = zip(found.arrivals[f"{field}_offset"], found.arrivals[f"{field}_len"], strict=True)
    return [bytes(found.names[at : at + size]) for at, size in rows]


def filled(ledger: Ledger, random: Random) -> tuple[dict[int, bytes], set[int]]:
    """Bodies over journal, sealed and packed files by serial, and the serials of those that have ended."""
    bodies, ended = {}, set()
    for number in range(1200):
        body = random.randbytes(random.choice((1, 20, 300, 1000)))
        serial = put(ledger, body, b"id-%d" % number, b"c" * (number % 5))
        bodies[serial] = body
        if number <= 900 and number % 7:
            get(ledger, serial)
            ended.add(serial)
        if random.random() < 0.1:
            ledger.flush()
            ledger.maintenance_step()
    settle(ledger)
    return bodies, ended


@pytest.mark.parametrize("seed", range(3))
def test_any_messages_in_any_order_from_any_file(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    ledger = opened(tmp_path, SMALL)
    bodies, ended = filled(ledger, random)
    kinds = {path.suffix for path in tmp_path.iterdir()}
    assert {".journal", ".bodies", ".packed"} <= kinds
    wanted = random.choices(sorted(bodies), k=900)
    found = BodyReader(tmp_path).read(serials(*wanted))
    live = [n for n, serial in enumerate(wanted) if serial not in ended]
    states = found.states.tolist()
    assert [states[n] for n in live] == [BodyState.PRESENT] * len(live)
    assert [bodies_of(found)[n] for n in live] == [bodies[wanted[n]] for n in live]
    for n, serial in enumerate(wanted):
        body = bodies_of(found)[n]
        assert (states[n], body) in ((BodyState.PRESENT, bodies[serial]), (BodyState.DROPPED, b""))
    assert BodyState.DROPPED in states
    assert not found.errors
    ledger.close()
