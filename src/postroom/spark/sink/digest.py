"""Which offsets a batch has, by the checkpoint's own log: what the broker records of a batch that it has
decided, so that another batch of the same id is told from it. Of a source of files the names of the files
count, too.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from postroom.ledger.errors import LedgerError
from postroom.spark.places.objects import Objects
from postroom.spark.sink.errors import SinkError

OFFSETS: Final = "offsets"
SOURCES: Final = "sources"
COMPACT: Final = ".compact"
"""Ending of an entry that holds all before it, too."""
LINES_BEFORE: Final = 2
"""The log's version, and what Spark notes beside the offsets: times, which differ in each attempt to plan."""
MAX_OFFSETS_BYTES: Final = 16 << 10
"""What the broker keeps of them, for people; the digest is of all."""
CUT: Final = " … (cut)"
HADOOP_SCHEMES: Final = {"s3a://": "s3://", "s3n://": "s3://"}
"""How Hadoop calls what pyarrow calls otherwise."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """Of one batch."""

    digest: str
    """SHA-256, in hexadecimal digits."""
    text: str
    """A line for each source."""


def offsets_of(checkpoint: str, batch_id: int) -> Offsets:
    """What the checkpoint's log says of a batch. Raises ``SinkError``."""
    log = _Log(checkpoint)
    told = log.offsets(batch_id)
    has_files = any(_file_entry(line) is not None for line in told)
    before = log.offsets(batch_id - 1) if has_files and batch_id else []
    of_files = [
        log.files(source, _file_entry(before[source]) if source < len(before) else None, last)
        for source, line in enumerate(told)
        if (last := _file_entry(line)) is not None
    ]
    text = "\n".join(told)
    told_of_all = "\n".join([text, *of_files])
    return Offsets(hashlib.sha256(told_of_all.encode()).hexdigest(), _short(text))


class _Log:
    """A checkpoint's files."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint: Final = checkpoint
        try:
            self._objects: Final = Objects(_uri(checkpoint))
        except (OSError, LedgerError) as error:
            raise self._unreadable("", error) from error

    def offsets(self, batch_id: int) -> list[str]:
        """A line for each source."""
        name = f"{OFFSETS}/{batch_id}"
        found = self._lines(name)[LINES_BEFORE:]
        if not found:
            raise SinkError(f"the checkpoint's {name} in {self._checkpoint} is damaged: it has no offsets")
        return found

    def files(self, source: int, after: int | None, last: int) -> str:
        """What a source of files has read from one entry of its own log to another: its offset is only the
        entry's number.
        """
        first = last if after is None else min(after + 1, last)
        return "\n".join(line for entry in range(first, last + 1) for line in self._files_of(source, entry))

    def _files_of(self, source: int, entry: int) -> list[str]:
        name = f"{SOURCES}/{source}/{entry}"
        told = self._lines(name + COMPACT if self._objects.exists(name + COMPACT) else name)
        return sorted(line for line in told[1:] if json.loads(line).get("batchId") == entry)

    def _lines(self, name: str) -> list[str]:
        try:
            return self._objects.read(name).decode().splitlines()
        except (OSError, LedgerError) as error:
            raise self._unreadable(name, error) from error

    def _unreadable(self, name: str, error: Exception) -> SinkError:
        return SinkError(
            f"the checkpoint's {name} can't be read in {self._checkpoint}: {error}. Name the checkpoint in"
            ' the option "checkpoint" as pyarrow knows it: a folder of this machine, file://, s3://, gs://,'
            " abfss:// or hdfs://"
        )


def _file_entry(offset: str) -> int | None:
    """The number of a source of files; None for the offset of another source."""
    try:
        told = json.loads(offset)
    except ValueError:
        return None
    number = told.get("logOffset") if isinstance(told, dict) else None
    return number if isinstance(number, int) else None


def _uri(checkpoint: str) -> str:
    for scheme, own in HADOOP_SCHEMES.items():
        if checkpoint.startswith(scheme):
            return own + checkpoint.removeprefix(scheme)
    return checkpoint


def _short(text: str) -> str:
    data = text.encode()
    if len(data) <= MAX_OFFSETS_BYTES:
        return text
    return data[: MAX_OFFSETS_BYTES - len(CUT.encode())].decode(errors="ignore") + CUT
