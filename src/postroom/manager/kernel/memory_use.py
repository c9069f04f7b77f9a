"""What is in memory of entries and bodies, and the bounds of it."""

from typing import final

from mypy_extensions import i64

from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.options import ManagerOptions


@final
class SharedBody:
    """A body that the entries of many subscriptions share: in memory once, read once. It is known while an
    entry has it in memory."""

    def __init__(self, body: bytes | None) -> None:
        self.body = body
        self.users: i64 = 0
        """Entries that have it."""


@final
class MemoryUse:
    """Counted everywhere in the queue manager."""

    def __init__(self, options: ManagerOptions) -> None:
        self.live_entries: i64 = 0
        """Entries that are objects."""
        self.cached_bytes: i64 = 0
        """Stored bodies in memory."""
        self.volatile_bytes: i64 = 0
        """Non-persistent messages in memory, overhead included."""
        self.shared_bodies: dict[int, SharedBody] = {}
        """In memory, of entries that share theirs; by the serial of the arrival."""
        self.shared_reads: dict[int, list[Entry]] = {}
        """Shared bodies that are being read, and who waits for each beside the one that has asked."""

        # Options that the hot path reads, as plain numbers.
        self.live_head: i64 = options.live_head
        self.min_live_head: i64 = options.min_live_head
        self.max_live_entries: i64 = options.max_live_entries
        self.body_cache_bytes: i64 = options.body_cache_bytes
        self.max_volatile_bytes: i64 = options.max_volatile_bytes
