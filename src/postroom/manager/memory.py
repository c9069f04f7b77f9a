"""Bodies and objects in memory: what is kept, what is counted, what is let go."""

from mypy_extensions import i64

from postroom.manager.core import Core
from postroom.manager.entry import ENTRY_OVERHEAD_BYTES, Entry
from postroom.manager.queue import Queue
from postroom.model import numbers as n


def stored(entry: Entry) -> bool:
    """Whether the body can be read from the ledger again."""
    return entry.flags & n.FLAG_BODY_STORED != 0


def admit(core: Core, entry: Entry) -> None:
    """A new object: count it, and keep its body only if the cache has room or the ledger hasn't got it."""
    entry.counted = True
    core.live_entries += 1
    if not stored(entry):
        core.volatile_bytes += entry.body_len + ENTRY_OVERHEAD_BYTES
    elif entry.body is not None:
        if core.cached_bytes + entry.body_len > core.body_cache_bytes:
            entry.body = None
        else:
            core.cached_bytes += entry.body_len


def drop_body(core: Core, entry: Entry) -> None:
    """It has been handed out: a stored body is read again if it should come back."""
    if entry.body is not None and stored(entry):
        core.cached_bytes -= entry.body_len
        entry.body = None


def forget(core: Core, entry: Entry) -> None:
    """The entry has ended, or lives on in packed form."""
    if entry.counted:
        entry.counted = False
        core.live_entries -= 1
    if not stored(entry):
        core.volatile_bytes -= entry.body_len + ENTRY_OVERHEAD_BYTES
    elif entry.body is not None:
        core.cached_bytes -= entry.body_len
    entry.body = None


class BodyMissing(Exception):
    """A live entry's body is not what the ledger was given: a defect or damage that must not be delivered."""


def check_body(entry: Entry, body: bytes) -> None:
    """Raise BodyMissing unless ``body`` can be that of ``entry``, which is live."""
    if len(body) != entry.body_len:
        raise BodyMissing(
            f"message {entry.serial} of queue {entry.queue.name!r} has a body of {entry.body_len} bytes, "
            f"but {len(body)} were read; run postroom ledger verify"
        )


def keep_body(core: Core, entry: Entry, body: bytes) -> None:
    """A body has been read for an available entry."""
    if entry.body is None:
        entry.body = body
        core.cached_bytes += entry.body_len


def must_pack(core: Core, live_count: i64, backlog_count: i64) -> bool:
    """Whether a new entry goes to the backlog instead of becoming an object."""
    if backlog_count > 0 or live_count >= core.live_head:
        return True
    return core.live_entries >= core.max_live_entries and live_count >= core.min_live_head


def note_unbodied(queue: Queue, entry: Entry) -> None:
    """``entry`` becomes available; without its body someone must read it before it can go out."""
    if entry.body is None:
        queue.unbodied += 1
