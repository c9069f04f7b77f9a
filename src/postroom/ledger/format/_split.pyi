from typing import Any

from postroom.ledger.format.layout import Array

def split(
    records: Array,
    size: int,
    at: int,
    mask: int,
    only: int,
    types: Array,
    words: Array,
    counts: Array,
    fields: tuple[tuple[int, int, Any], ...],
    /,
) -> int: ...
