"""A ledger's files: opened, and damaged."""

from pathlib import Path

from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.body_reader import FoundMessages
from tests.ledger.workload import START_US

LARGE = LedgerOptions(reserve_bytes=0)


def opened(folder: Path, options: LedgerOptions = LARGE) -> Ledger:
    return Ledger.open(folder, options, START_US, maintenance="manual")


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def bodies_of(found: FoundMessages) -> list[bytes]:
    return [bytes(found.bodies[a:b]) for a, b in zip(found.starts, found.ends, strict=True)]
