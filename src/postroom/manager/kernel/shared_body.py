"""A body that the entries of many subscriptions share: in memory once, read once."""

from typing import final

from mypy_extensions import i64


@final
class SharedBody:
    """Known while an entry has it in memory."""

    def __init__(self, body: bytes | None) -> None:
        self.body = body
        self.users: i64 = 0
        """Entries that have it."""
