"""Acts of administrators, and what was refused, as the ledger has them: who, from where, what, on what, and
the answer. They outlive the history that they were recorded in (see ``acts_retention_bytes``)."""

import json
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.expand import Chunk
from postroom.ledger.format.file_names import acts_name
from postroom.ledger.format.records import RecordType
from postroom.ledger.reading.reader import SNAPSHOT_ATTEMPTS, LedgerReader
from postroom.ledger.reading.segments import folder_of
from postroom.ledger.storage.acts_files import acts_blocks, find_acts_files, require_acts
from postroom.ledger.storage.superblock import read_superblock

Act = dict[str, Any]
"""``position`` and ``time_us``, then what `postroom.manager.security.acts.Act` has."""

_ALL: Final = (1 << 64) - 1


def read_acts(folder: Path, first: int | None = None, last: int | None = None) -> Iterator[Act]:
    """The acts in a range of positions, both included, oldest first. Raises ``NoLedger``,
    ``LedgerCorrupt``."""
    position = (first or 1) - 1
    for attempt in range(SNAPSHOT_ATTEMPTS):
        try:
            for act in takewhile(lambda act: act["position"] <= (last or _ALL), _acts(folder, position)):
                position = act["position"]
                yield act
            return
        except FileNotFoundError:  # history went meanwhile, and its acts are elsewhere now
            if attempt == SNAPSHOT_ATTEMPTS - 1:
                raise


def _acts(folder: Path, after: int) -> Iterator[Act]:
    """Those behind a position, of one look: first what outlived its history, then the history."""
    reader = LedgerReader(folder)
    for where, chunk in _kept(folder, reader):
        yield from (act for act in _parsed(where, chunk) if after < act["position"] < reader.first_position)
    for segment, _, chunk in reader.chunks(max(after + 1, reader.first_position)):
        yield from _parsed(segment.name, chunk)


def _kept(folder: Path, reader: LedgerReader) -> Iterator[tuple[str, Chunk]]:
    with folder_of(folder) as disk:
        superblock, ledger_id = read_superblock(disk), reader.ledger_id.bytes
        files = find_acts_files(disk, ledger_id)
        if superblock is not None:
            require_acts(disk, superblock, files)
        for file in files:
            for block in acts_blocks(disk, file.number, ledger_id):
                yield acts_name(file.number), block.chunk


def _parsed(where: str, chunk: Chunk) -> Iterator[Act]:
    try:
        yield from acts_of(chunk)
    except ValueError as error:
        raise LedgerCorrupt(where, 0, f"an act is no JSON: {error}") from error


def acts_of(chunk: Chunk) -> Iterator[Act]:
    """The acts among some records. Raises ValueError for one that is no JSON object."""
    for record in chunk.transitions[chunk.types == RecordType.ADMINISTRATIVE_ACT]:
        start = int(record["detail_offset"])
        detail = json.loads(chunk.names[start : start + int(record["detail_len"])].tobytes())
        if not isinstance(detail, dict):
            raise ValueError(f"position {int(record['position'])}")
        yield {"position": int(record["position"]), "time_us": int(record["time_us"]), **detail}
