"""Who may do what: rights, and grants of them on destinations or on the queue manager. Pure.

A grant gives rights on the destinations that a pattern means, or on the queue manager. Nothing is denied:
what no grant gives, of the user's own or of a role's, is refused, and grants add up.

Patterns have the wildcards of topics, level by level: `*` stands for one level, or, beside other characters,
for any characters of one; `#`, as the last, for all levels that follow, none included.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

QUEUE_MANAGER: Final = "queue manager"
"""What a grant is on that is on no destination."""
ALL: Final = "all"
"""Stands for every right on what it is granted on."""
ADMINISTRATOR: Final = "administrator"
"""The role that is always there: every right on everything."""
LEVEL: Final = "."
ONE_LEVEL: Final = "*"
REST: Final = "#"
MAX_PATTERN_BYTES: Final = 255
MAX_DECISIONS: Final = 10_000
"""That one user's rights keep in mind, by right and name."""
_ON: Final = " on "


class Right(StrEnum):
    """One thing that may be done. The first line are rights on destinations, the second on the queue manager,
    the third on both."""

    PUT = "put"
    """Send to a queue, publish to a topic."""
    GET = "get"
    """Receive from a queue, subscribe to a topic, also as a Spark subscription."""
    BROWSE = "browse"
    """Look at messages, with their bodies, and leave them where they are."""
    PURGE = "purge"
    """End messages without receiving them."""
    MOVE = "move"
    """Take messages to another destination, on which it takes ``put``."""

    CHANNEL = "channel"
    """Call a message channel, as another queue manager's end of it."""
    RESOLVE = "resolve"
    """Decide about transactions, sinks' branches and channels of others, in doubt or not."""
    ADMINISTER_USERS = "administer-users"
    """Users, roles and grants."""
    READ_LEDGER = "read-ledger"
    """Where messages are and what has happened to them, acts of administrators, leases."""
    READ_BODIES = "read-bodies"
    """With ``read-ledger``: bodies and properties, too."""
    METRICS = "metrics"
    REPLICATE = "replicate"
    """All files of the ledger, bodies and what is kept of passwords included, as another member's copy."""

    INQUIRE = "inquire"
    """See definitions, states and counters."""
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    """Give another definition; set counters to 0."""
    PAUSE = "pause"
    """Pause and resume destinations; start and stop channels, close connections."""


ON_BOTH: Final = frozenset({Right.INQUIRE, Right.CREATE, Right.DELETE, Right.ALTER, Right.PAUSE})
ON_DESTINATIONS: Final = ON_BOTH | {Right.PUT, Right.GET, Right.BROWSE, Right.PURGE, Right.MOVE}
ON_QUEUE_MANAGER: Final = ON_BOTH | {
    Right.CHANNEL,
    Right.RESOLVE,
    Right.ADMINISTER_USERS,
    Right.READ_LEDGER,
    Right.READ_BODIES,
    Right.METRICS,
    Right.REPLICATE,
}


class GrantInvalid(ValueError):
    """The text says no grant; one line, what must be instead."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights on the destinations of a pattern, or on `QUEUE_MANAGER`."""

    rights: frozenset[Right]
    on: str

    def __str__(self) -> str:
        whole = self.rights == _all_on(self.on)
        return f"{ALL if whole else ', '.join(sorted(self.rights))}{_ON}{self.on}"


def parse_grant(text: str) -> Grant:
    """``RIGHT, RIGHT on PATTERN`` or ``… on queue manager``; ``all``: every right. Raises `GrantInvalid`."""
    named, mark, on = text.partition(_ON)
    if not mark:
        raise GrantInvalid(f"{text!r} is no grant: write RIGHT, RIGHT on PATTERN, or … on {QUEUE_MANAGER}")
    return make_grant(named.split(","), on.strip())


def make_grant(rights: Iterable[str], on: str) -> Grant:
    """A grant of the rights of these names. Raises `GrantInvalid`."""
    check_pattern(on)
    possible = _all_on(on)
    names = [name.strip() for name in rights]
    if names == [ALL]:
        return Grant(possible, on)
    for name in names:
        if name not in possible:
            known = ", ".join(sorted(possible))
            raise GrantInvalid(f"{name!r} is no right on {on!r}: must be of {known}, or {ALL} alone")
    return Grant(frozenset(map(Right, names)), on)


def check_pattern(on: str) -> None:
    """Raise `GrantInvalid` unless ``on`` can be what rights are granted on."""
    if not on or not on.isprintable() or len(on.encode("utf-8", "surrogatepass")) > MAX_PATTERN_BYTES:
        raise GrantInvalid(f"{on!r:.100}: a pattern is 1 to {MAX_PATTERN_BYTES} bytes that can be printed")
    if REST in on.split(LEVEL)[:-1]:
        raise GrantInvalid(f"{on!r}: {REST!r} stands for all levels that follow: make it the last")


def add_grants(grants: Iterable[Grant], more: Grant) -> tuple[Grant, ...]:
    """``grants`` with the rights of ``more`` too, one grant for each pattern."""
    return _merged([*grants, more])


def without_rights(grants: Iterable[Grant], less: Grant) -> tuple[Grant, ...]:
    """``grants`` without the rights of ``less`` on just its pattern; other patterns stay as they are."""
    kept = [Grant(each.rights - less.rights, each.on) if each.on == less.on else each for each in grants]
    return _merged(kept)


def _merged(grants: Iterable[Grant]) -> tuple[Grant, ...]:
    rights: dict[str, frozenset[Right]] = {}
    for each in grants:
        rights[each.on] = rights.get(each.on, frozenset()) | each.rights
    return tuple(Grant(rights[on], on) for on in sorted(rights) if rights[on])


def _all_on(on: str) -> frozenset[Right]:
    return ON_QUEUE_MANAGER if on == QUEUE_MANAGER else ON_DESTINATIONS


EVERYTHING: Final = (Grant(ON_DESTINATIONS, REST), Grant(ON_QUEUE_MANAGER, QUEUE_MANAGER))
"""The grants of `ADMINISTRATOR`."""


class Rights:
    """What somebody may do, from all of their grants."""

    def __init__(self, grants: Iterable[Grant]) -> None:
        self.grants: Final = _merged(grants)
        self._on_queue_manager: frozenset[Right] = frozenset()
        self._patterns: Final[dict[Right, list[str]]] = {}
        self._decisions: Final[dict[tuple[Right, str], bool]] = {}
        for grant in self.grants:
            if grant.on == QUEUE_MANAGER:
                self._on_queue_manager = grant.rights
                continue
            for right in grant.rights:
                self._patterns.setdefault(right, []).append(grant.on)

    def on_queue_manager(self, right: Right) -> bool:
        """Whether ``right`` is granted on the queue manager."""
        return right in self._on_queue_manager

    def on(self, right: Right, name: str) -> bool:
        """Whether ``right`` is granted on the destination ``name``; of topics' pattern, on all of them."""
        decided = self._decisions.get((right, name))
        if decided is None:
            decided = any(covers(pattern, name) for pattern in self._patterns.get(right, ()))
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions.clear()
            self._decisions[right, name] = decided
        return decided

    def everywhere(self, right: Right) -> bool:
        """Whether ``right`` is granted on every destination."""
        return REST in self._patterns.get(right, ())


def covers(pattern: str, name: str) -> bool:
    """Whether every destination that ``name`` means – one, or as a pattern of topics many – is meant by
    ``pattern``."""
    levels, wanted = pattern.split(LEVEL), name.split(LEVEL)
    for at, level in enumerate(levels):
        if level == REST:
            return True
        if at == len(wanted) or wanted[at] == REST:
            return False
        if level != ONE_LEVEL and (wanted[at] == ONE_LEVEL or not _level(level).fullmatch(wanted[at])):
            return False
    return len(levels) == len(wanted)


@lru_cache(maxsize=10_000)
def _level(level: str) -> re.Pattern[str]:
    """One level of a pattern: `*` is any characters."""
    return re.compile(".*".join(map(re.escape, level.split(ONE_LEVEL))), re.DOTALL)
