"""What a job is told; the process that does it is `worker.py`."""

from typing import Final

import msgspec

TABLE_APP: Final = "kills"


class Job(msgspec.Struct, frozen=True):
    """What a job does. `kind`: what becomes of the rows."""

    kind: str
    master: str
    broker: str
    data: str
    folder: str
    """Its checkpoint and its table are there."""
    queue: str
    subscription: str = ""
    """None: the queue is tapped."""
    target: str = ""
    """The queue of kind `sink`."""
    confirm: str = ""
    options: dict[str, str] = {}
    """More of the source's."""
    sink_options: dict[str, str] = {}

    @property
    def checkpoint(self) -> str:
        return f"{self.folder}/checkpoint"

    @property
    def table(self) -> str:
        return f"{self.folder}/table"
