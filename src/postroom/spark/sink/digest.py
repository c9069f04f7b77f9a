"""Which offsets a batch has, by the checkpoint's own log: what the broker records of a batch that it has
decided, so that another batch of the same id is told from it. Of a source of files the names of the files
count, too.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from postroom.spark.data_source.offset_log import Checkpoint, CheckpointUnreadable, SourceOffset
from postroom.spark.sink.errors import SinkError

SOURCES: Final = "sources"
COMPACT: Final = ".compact"
"""Ending of an entry that holds all before it, too."""
MAX_OFFSETS_BYTES: Final = 16 << 10
"""What the broker keeps of them, for people; the digest is of all."""
CUT: Final = " … (cut)"


@dataclass(frozen=True, slots=True)
class Offsets:
    """Of one batch."""

    digest: str
    """SHA-256, in hexadecimal digits."""
    text: str
    """A line for each source."""


def offsets_of(checkpoint: str, batch_id: int) -> Offsets:
    """What the checkpoint's log says of a batch. Raises ``SinkError``."""
    try:
        return _read_offsets(Checkpoint(checkpoint), batch_id)
    except CheckpointUnreadable as error:
        raise SinkError(f'{error} (option "checkpoint", else "checkpointLocation")') from error


def _read_offsets(checkpoint: Checkpoint, batch_id: int) -> Offsets:
    ends = _ends(checkpoint, batch_id)
    entries = {end.source: entry for end in ends if (entry := _file_entry(end.offset)) is not None}
    before = _ends(checkpoint, batch_id - 1) if entries and batch_id else []
    after = {end.source: _file_entry(end.offset) for end in before}
    of_files = [_files(checkpoint, source, after.get(source), last) for source, last in entries.items()]
    text = "\n".join(end.offset for end in ends)
    data = text.encode()
    cut = text
    if len(data) > MAX_OFFSETS_BYTES:
        cut = data[: MAX_OFFSETS_BYTES - len(CUT.encode())].decode(errors="ignore") + CUT
    full_text = "\n".join([text, *of_files])
    return Offsets(hashlib.sha256(full_text.encode()).hexdigest(), cut)


def _ends(checkpoint: Checkpoint, batch_id: int) -> list[SourceOffset]:
    found = checkpoint.offsets(batch_id)
    if found is None:
        raise SinkError(
            f"checkpoint {checkpoint.location} has no offsets of batch {batch_id}: is it this query's?"
            ' (option "checkpoint", else "checkpointLocation")'
        )
    return found


def _files(checkpoint: Checkpoint, source: str, after: int | None, last: int) -> str:
    """What a source of files has read from one entry of its own log to another: its offset is only the
    entry's number.
    """
    found: list[str] = []
    for entry in range(last if after is None else min(after + 1, last), last + 1):
        name = f"{SOURCES}/{source}/{entry}"
        lines = checkpoint.lines(name + COMPACT if checkpoint.has(name + COMPACT) else name)
        found += sorted(line for line in lines[1:] if json.loads(line).get("batchId") == entry)
    return "\n".join(found)


def _file_entry(offset: str) -> int | None:
    """The number of a source of files; None for the offset of another source."""
    try:
        fields = json.loads(offset)
    except ValueError:
        return None
    number = fields.get("logOffset") if isinstance(fields, dict) else None
    return number if isinstance(number, int) else None
