"""Which small files are worth putting together, so that they stay few and rows are seldom copied.

Files of one part, day and ledger are taken from the smallest up, as many as are together at least
`LEAST_FILES` times as large as the largest of them. So a row that is copied ends in a file `LEAST_FILES`
times as large as any it came from: it is copied at most log(target / first size) / log(`LEAST_FILES`) times
in its life, and what is left grows by LEAST_FILES / (LEAST_FILES - 1) from file to file, so that it is few.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from postroom.spark.data_source.portions import portions
from postroom.spark.store.protocol import DataFile

LEAST_FILES: Final = 8


def bins(files: Iterable[DataFile], target_bytes: int) -> list[list[DataFile]]:
    """The groups of files to put together, each of about `target_bytes` at most, in the order of their
    positions."""
    by_place: defaultdict[tuple[str, str, str], list[DataFile]] = defaultdict(list)
    for file in files:
        by_place[file.part, file.day or "", file.ledger_id].append(file)
    found = (
        portions(_worth(by_place[place]), lambda file: file.size_bytes, target_bytes)
        for place in sorted(by_place)
    )
    return [bin for of_place in found for bin in of_place if len(bin) > 1]


def _worth(files: Sequence[DataFile]) -> list[DataFile]:
    """The most of the smallest files that are together `LEAST_FILES` times as large as the largest."""
    ascending = sorted(files, key=lambda file: file.size_bytes)
    total = count = 0
    for number, file in enumerate(ascending, 1):
        total += file.size_bytes
        if total >= LEAST_FILES * file.size_bytes:
            count = number
    return sorted(ascending[:count], key=lambda file: (file.first_position, file.last_position))
