"""Who holds entries of a queue by the verbs of the message store: confirm ids and browse locks."""

from typing import Final, final

from mypy_extensions import i64

from postroom.manager.kernel.entry import Entry
from postroom.model import numbers as n

NO_CONFIRM_ID: Final = 0
"""Unassured: nothing is to be confirmed."""
NO_LOCK: Final = 0

MAX_CONFIRMED: Final = 10_000
"""Confirmed gets of one queue that are remembered, so that a confirmation can be repeated."""


@final
class BrowseLock:
    """One browse with lock: every entry that it found, as long as nobody has unlocked, got or deleted it."""

    def __init__(self, id: i64, confirm_id: i64, until_us: i64) -> None:
        self.id: i64 = id
        """Also the lock id that the client gives."""
        self.confirm_id: i64 = confirm_id
        """Which undo unlocks what is locked; `NO_CONFIRM_ID` none."""
        self.until_us: i64 = until_us
        """The end of its lease; 0 never."""
        self.entries: dict[int, Entry] = {}
        """Locked now, by serial, in the order of the browse."""
        self.got: i64 = 0
        """Got through it and not confirmed: an undo locks them again."""
        self.over = False
        """Its lease has ended: what an undo brings back is unlocked at once."""
        self.since_us: i64 = 0
        self.user = ""
        """Who has asked for it."""


@final
class ConfirmIdHolder:
    """What was put or got under one confirm id; ``lock`` is the one that it was got through, if any."""

    def __init__(self, id: i64, confirm_id: i64, lock: BrowseLock | None) -> None:
        self.id: i64 = id
        self.kind: i64 = n.CONFIRM_ID
        self.confirm_id: i64 = confirm_id
        self.lock = lock
        self.entries: dict[int, Entry] = {}
        self.since_us: i64 = 0
        """When its first entry came."""
        self.user = ""
        """Who has put or got that."""


@final
class QueueStore:
    """The holders of one queue, and the requests that wait there."""

    def __init__(self) -> None:
        self.holders: dict[tuple[int, int], ConfirmIdHolder] = {}
        """By confirm id and lock id (`NO_LOCK`)."""
        self.locks: dict[int, BrowseLock] = {}
        self.held: dict[int, Entry] = {}
        """Everything that they hold, by serial."""
        self.serials: dict[bytes, int] = {}
        """Of what they hold, by unique id."""
        self.unique_ids: dict[int, bytes] = {}
        self.confirmed: dict[bytes, int] = {}
        """Gets that were confirmed last, since the start: confirm ids by unique id."""
        self.unread: list[int] = []
        """Held since before the start: their unique ids have to be read."""
        self.expiry_us: i64 = 0
        """Not later than the first expiry of anything held; 0 none."""
