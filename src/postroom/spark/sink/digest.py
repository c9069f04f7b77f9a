"""Which offsets a batch has, by the checkpoint's own log: what the broker records of a batch that it has
decided, so that another batch of the same id is told from it.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from postroom.ledger.errors import LedgerError
from postroom.spark.places.objects import Objects
from postroom.spark.sink.errors import SinkError

OFFSETS: Final = "offsets"
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
    name = f"{OFFSETS}/{batch_id}"
    try:
        told = Objects(_uri(checkpoint)).read(name)
    except (OSError, LedgerError) as error:
        raise SinkError(
            f"the checkpoint's {name} can't be read in {checkpoint}: {error}. Name the checkpoint in the"
            ' option "checkpoint" as pyarrow knows it: a folder of this machine, file://, s3://, gs://,'
            " abfss:// or hdfs://"
        ) from error
    lines = told.decode().splitlines()[LINES_BEFORE:]
    if not lines:
        raise SinkError(f"the checkpoint's {name} in {checkpoint} has no offsets: the file is damaged")
    text = "\n".join(lines)
    return Offsets(hashlib.sha256(text.encode()).hexdigest(), _short(text))


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
