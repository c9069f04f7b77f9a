"""Bodies and objects in memory: what is kept, what is counted, what is let go."""

from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import ENTRY_OVERHEAD_BYTES, Entry
from postroom.manager.kernel.turn_state import MemoryUse, SharedBody
from postroom.model import numbers as n


def stored(entry: Entry) -> bool:
    """Whether the body can be read from the ledger again."""
    return entry.flags & n.FLAG_BODY_STORED != 0


def admit(core: Core, entry: Entry) -> None:
    """A new object: count it, and keep its body only if the cache has room or the ledger hasn't got it."""
    memory = core.memory
    entry.counted = True
    memory.live_entries += 1
    if not stored(entry):
        memory.volatile_bytes += ENTRY_OVERHEAD_BYTES
        memory.volatile_bytes += _share(core, entry, entry.body)
    elif entry.body is not None:
        if (
            memory.cached_bytes + entry.body_len > memory.body_cache_bytes
            and shared_body(core, entry) is None
        ):
            entry.body = None
        else:
            memory.cached_bytes += _share(core, entry, entry.body)


def drop_body(core: Core, entry: Entry) -> None:
    """It has been handed out: a stored body is read again if it should come back."""
    if entry.body is not None and stored(entry):
        core.memory.cached_bytes -= _unshare(core, entry)
        entry.body = None


def forget(core: Core, entry: Entry) -> None:
    """The entry has ended, or lives on in packed form."""
    if entry.counted:
        entry.counted = False
        core.memory.live_entries -= 1
    if not stored(entry):
        core.memory.volatile_bytes -= _unshare(core, entry) + ENTRY_OVERHEAD_BYTES
    elif entry.body is not None:
        core.memory.cached_bytes -= _unshare(core, entry)
    entry.body = None


def shared_body(core: Core, entry: Entry) -> bytes | None:
    """The body of ``entry``, if it shares it with one that has it in memory."""
    if entry.flags & n.FLAG_PUBLISHED == 0:
        return None
    shared = core.memory.shared_bodies.get(entry.body_serial)
    return None if shared is None else shared.body


def _share(core: Core, entry: Entry, body: bytes | None) -> i64:
    """``entry`` has its body; how many bytes more are in memory by that."""
    if entry.flags & n.FLAG_PUBLISHED == 0:
        return entry.body_len
    shared = core.memory.shared_bodies.get(entry.body_serial)
    if shared is None:
        shared = core.memory.shared_bodies[entry.body_serial] = SharedBody(body)
    shared.users += 1
    return entry.body_len if shared.users == 1 else 0


def _unshare(core: Core, entry: Entry) -> i64:
    """``entry`` gives up its body; how many bytes fewer are in memory by that."""
    if entry.flags & n.FLAG_PUBLISHED == 0:
        return entry.body_len
    shared = core.memory.shared_bodies[entry.body_serial]
    shared.users -= 1
    if shared.users > 0:
        return 0
    del core.memory.shared_bodies[entry.body_serial]
    return entry.body_len


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
        core.memory.cached_bytes += _share(core, entry, body)


def must_pack(core: Core, live_count: i64, backlog_count: i64) -> bool:
    """Whether a new entry goes to the backlog instead of becoming an object."""
    return backlog_count > 0 or _are_enough(core.memory, live_count, core.memory.live_head)


def must_pack_delayed(core: Core, object_count: i64) -> bool:
    """Whether an entry that begins to wait for a time doesn't stay an object, of which there are so many."""
    return _are_enough(core.memory, object_count, core.memory.delayed_head)


def _are_enough(memory: MemoryUse, count: i64, bound: i64) -> bool:
    """Whether a queue has as many objects of a kind as it may have, or all queues together have."""
    if count >= bound:
        return True
    return memory.live_entries >= memory.max_live_entries and count >= memory.min_live_head
