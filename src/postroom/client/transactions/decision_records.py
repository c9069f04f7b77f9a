"""What the decision log says, and its form on disk: pure functions over bytes.

The log of presumed abort holds as little as can be: that a transaction was decided to *commit*, with the
branches that have to hear of it, before the first of them does; that it *ended*, when all have; and
*heuristic* outcomes, until they are *forgotten*, for somebody has taken note. A transaction that the log
doesn't name has been rolled back, or is to be.

The file is a row of blocks, each at a multiple of `ALIGNMENT_BYTES`: a header with length, sequence number
and checksum, then JSON. A block is written with one call and followed by another only after it was synced: so
a block that isn't whole is a torn last write, unless a whole one comes behind it, which is damage.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

ALIGNMENT_BYTES: Final = 4096
"""Of blocks: no write touches a sector that holds an earlier one."""
MAGIC: Final = b"PRTM"
HEADER: Final = struct.Struct("<4sIQI")
"""Magic, bytes of the payload, sequence number, CRC-32 of those two and the payload."""
CHECKED: Final = struct.Struct("<IQ")
FIRST_SEQUENCE: Final = 1

Record = dict[str, Any]


class DamagedLog(Exception):
    """A block of the log isn't whole, and it isn't the last one."""


@dataclass(frozen=True)
class BranchName:
    """A branch of a transaction: its qualifier, and which resource manager it is in."""

    bqual: bytes
    resource: str


@dataclass(frozen=True)
class Decision:
    """A transaction that was decided to commit, and whose branches may not all have heard of it."""

    gtrid: bytes
    branches: tuple[BranchName, ...]
    decided_ms: int
    """Since 1970."""

    def record(self) -> Record:
        """As the log has it."""
        names = [[branch.bqual.hex(), branch.resource] for branch in self.branches]
        return {"commit": self.gtrid.hex(), "branches": names, "at_ms": self.decided_ms}


@dataclass(frozen=True)
class HeuristicOutcome:
    """A branch that was decided by somebody else, against the decision or not known with which outcome."""

    gtrid: bytes
    branch: BranchName
    decision: str
    """What was decided here: ``commit`` or ``rollback``."""
    code: int
    """What the resource manager said: an XaCode of heuristics."""
    noted_ms: int = field(compare=False)
    """Since 1970."""

    def record(self) -> Record:
        """As the log has it."""
        return {
            "heuristic": self.gtrid.hex(),
            "branch": [self.branch.bqual.hex(), self.branch.resource],
            "decision": self.decision,
            "code": self.code,
            "at_ms": self.noted_ms,
        }


def ended(gtrid: bytes) -> Record:
    """The record of a transaction of which all branches have heard."""
    return {"end": gtrid.hex()}


def forgotten(gtrid: bytes) -> Record:
    """The record of a transaction that somebody has taken note of: nothing of it is kept any more."""
    return {"forget": gtrid.hex()}


@dataclass
class LogState:
    """What the records of a log come to."""

    owner_id: bytes = b""
    """The prefix of all global transaction ids of this log's owner."""
    epoch: int = 0
    """Counts the owner's lives."""
    decisions: dict[bytes, Decision] = field(default_factory=dict)
    heuristics: dict[bytes, list[HeuristicOutcome]] = field(default_factory=dict)

    def apply(self, record: Record) -> None:
        """One more record. Raises KeyError, TypeError or ValueError for what is none."""
        match record:
            case {"owner": str(owner_id), "epoch": int(epoch)}:
                self.owner_id, self.epoch = bytes.fromhex(owner_id), epoch
            case {"commit": str(gtrid), "branches": list(branches), "at_ms": int(at_ms)}:
                decision = Decision(bytes.fromhex(gtrid), tuple(map(_branch, branches)), at_ms)
                self.decisions[decision.gtrid] = decision
            case {"end": str(gtrid)}:
                self.decisions.pop(bytes.fromhex(gtrid), None)
            case {"heuristic": str(gtrid)}:
                self._note(bytes.fromhex(gtrid), _heuristic(record))
            case {"forget": str(gtrid)}:
                self.decisions.pop(bytes.fromhex(gtrid), None)
                self.heuristics.pop(bytes.fromhex(gtrid), None)
            case _:
                raise ValueError(f"no record of a decision log: {record}")

    def _note(self, gtrid: bytes, outcome: HeuristicOutcome) -> None:
        known = self.heuristics.setdefault(gtrid, [])
        if outcome not in known:  # a new file may say it twice, and so may a recovery that was cut short
            known.append(outcome)

    def records(self) -> Iterator[Record]:
        """As few records as come to the same."""
        yield {"owner": self.owner_id.hex(), "epoch": self.epoch}
        for decision in self.decisions.values():
            yield decision.record()
        for outcomes in self.heuristics.values():
            for outcome in outcomes:
                yield outcome.record()


def _branch(pair: list[str]) -> BranchName:
    bqual, resource = pair
    return BranchName(bytes.fromhex(bqual), resource)


def _heuristic(record: Record) -> HeuristicOutcome:
    return HeuristicOutcome(
        bytes.fromhex(record["heuristic"]),
        _branch(record["branch"]),
        record["decision"],
        int(record["code"]),
        int(record["at_ms"]),
    )


def encode_block(sequence: int, records: Iterable[Record]) -> bytes:
    """A block of ``records``, filled up with zeros."""
    payload = json.dumps(list(records), separators=(",", ":")).encode()
    checked = CHECKED.pack(len(payload), sequence)
    block = HEADER.pack(MAGIC, len(payload), sequence, crc32(payload, crc32(checked))) + payload
    return block + bytes(-len(block) % ALIGNMENT_BYTES)


def read_log(data: bytes) -> LogState:
    """What a log of the bytes ``data`` says; a torn last block counts for nothing.

    Raises DamagedLog for a block that isn't whole with a whole one behind it, and for a first one that isn't.
    """
    state = LogState()
    offset, sequence = 0, FIRST_SEQUENCE
    while (payload := _payload(data, offset, sequence)) is not None:
        try:
            for record in json.loads(payload):
                state.apply(record)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedLog(f"the block at byte {offset} can't be read: {error}") from None
        offset += _aligned(HEADER.size + len(payload))
        sequence += 1
    if sequence == FIRST_SEQUENCE:
        raise DamagedLog("its first block is not whole")
    for behind in range(_aligned(offset + 1), len(data), ALIGNMENT_BYTES):
        if _payload(data, behind, None) is not None:
            raise DamagedLog(f"the block at byte {offset} is not whole, but the one at byte {behind} is")
    return state


def _payload(data: bytes, offset: int, sequence: int | None) -> bytes | None:
    """The payload of the block at ``offset``; None where no whole block of that sequence number is."""
    if offset + HEADER.size > len(data):
        return None
    magic, length, found, crc = HEADER.unpack_from(data, offset)
    start = offset + HEADER.size
    if magic != MAGIC or start + length > len(data) or sequence not in (None, found):
        return None
    payload = data[start : start + length]
    return payload if crc32(payload, crc32(CHECKED.pack(length, found))) == crc else None


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
