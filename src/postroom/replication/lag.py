"""How far behind the log's end a member is: in entries, bytes, and the age of what it lacks."""

import time
from bisect import bisect_right
from typing import Final, NamedTuple

MAX_SAMPLES: Final = 10_000
"""Of a member, one each two seconds: what is older than all of them is told as at least as old."""


class Lag(NamedTuple):
    """What a member lacks."""

    entries: int
    size_bytes: int
    """Up to what is written in the time of one sample too much; what came before the samples is missing."""
    seconds: float
    """The age of the oldest entry that it lacks, by this process' clock."""


class Growth:
    """The log's end over time, as one member saw it. Any thread may read."""

    def __init__(self) -> None:
        self._samples: tuple[tuple[int, float, int], ...] = ()
        """Last sequence, when (monotonic, s), bytes appended until then; ascending."""

    def sample(self, last: int, size_bytes: int = 0) -> None:
        """The log ends with this entry now; `size_bytes`: of all that were appended since any beginning."""
        self._samples = (*self._samples[1 - MAX_SAMPLES :], (last, time.monotonic(), size_bytes))

    def lag(self, sequence: int) -> Lag:
        """Of who has everything up to that entry, as of the newest sample."""
        samples = self._samples
        if not samples or sequence >= samples[-1][0]:
            return Lag(0, 0, 0.0)
        at = bisect_right(samples, sequence, key=lambda sample: sample[0])
        had_bytes = samples[max(0, at - 1)][2]
        return Lag(samples[-1][0] - sequence, samples[-1][2] - had_bytes, time.monotonic() - samples[at][1])
