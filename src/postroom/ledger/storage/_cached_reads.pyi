from collections.abc import Callable
from typing import Any

from postroom.ledger.storage.body_requests import BodyPlace

def find_starts(wanted: list[BodyPlace], rows: Any, exact: bool, /) -> bytes: ...
def read(
    fd: int,
    wanted: list[BodyPlace],
    starts: bytes,
    gap_bytes: int,
    crc32: Callable[[bytes], int],
    /,
) -> tuple[list[bytes], list[int], int, int] | None: ...
