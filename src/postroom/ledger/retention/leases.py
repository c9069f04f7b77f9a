"""Leases: what readers have been promised to find, within bounds of time and bytes.

A lease keeps the events files from a position on (and, for a tap, the bodies of what has ended) that
retention would let go. It is broken when its time is over, when it keeps more bytes than it may, and, whoever
needs it, when the disk runs short, before new messages would be refused. A broken lease stays in the table so
that its reader can be told what it misses. Every change is a record; files go only when the record that lets
them go is durable.

For the broker's thread; time is an argument.
"""

import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, NamedTuple

from postroom.ledger.errors import (
    LeaseBroken,
    LeaseExists,
    LeaseInvalid,
    LeaseLimit,
    LeaseTooOld,
    LeaseUnknown,
)
from postroom.ledger.format.block import BlockBuilder, DictionaryRecord
from postroom.ledger.format.dictionary import subject_id
from postroom.ledger.format.records import RecordType
from postroom.ledger.options import LedgerOptions
from postroom.ledger.retention.kept_history import NEVER, NO_FLOORS, Floors, Keep, lowest

MAX_TEXT_BYTES: Final = 255
"""Of a lease's name, of its owner, and of the name of a queue."""

MAX_QUEUES: Final = 256
"""That one lease may name."""

TIME_OVER: Final = "time"
TOO_MANY_BYTES: Final = "bytes"
SPACE_SHORT: Final = "space"
FILES_MISSING: Final = "missing"
"""Why a lease was broken. "missing": the files were not there when the broker started."""

_SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Lease:
    """A promise to keep what stands at `position` and behind; broken if it has a `reason`."""

    id: int
    name: str
    owner: str
    position: int
    bodies: bool
    duration_s: int
    max_bytes: int
    granted_us: int
    """When it was granted or last renewed."""
    expires_us: int
    reason: str = ""
    broken_us: int = 0
    broken_position: int = 0
    """Position of the record that broke it."""
    held_bytes: int = 0
    """What it alone kept from going when it was broken."""
    queues: tuple[str, ...] = ()
    """Names of queues, subscriptions and topics whose non-persistent messages have their bodies stored, too,
    for as long as it is in force."""

    @property
    def in_force(self) -> bool:
        return not self.reason

    def floors(self) -> Floors:
        """What it keeps."""
        if not self.in_force:
            return NO_FLOORS
        return Floors(self.position, self.position if self.bodies else NEVER)

    def encode(self) -> bytes:
        """The detail of its record."""
        written = {key: value for key, value in asdict(self).items() if key not in _NOT_WRITTEN}
        return json.dumps(written).encode()


_NOT_WRITTEN: Final = ("id", "broken_position")
_WRITTEN: Final = {each.name for each in fields(Lease)} - set(_NOT_WRITTEN)


def lease_from(id: int, detail: dict[str, Any], position: int) -> Lease:
    """The lease that a record at `position` tells of. Raises TypeError where its detail tells of none."""
    known = {key: value for key, value in detail.items() if key in _WRITTEN}
    known["queues"] = tuple(known.get("queues", ()))
    return Lease(id=id, broken_position=position if detail.get("reason") else 0, **known)


def leases_from(records: Iterable[DictionaryRecord]) -> list[Lease]:
    """The leases in force, or broken and not forgotten, by name."""
    leases = [
        lease_from(subject_id(each.record, each.type), json.loads(each.detail), each.position)
        for each in records
    ]
    return sorted(leases, key=lambda lease: lease.name)


def unread_from(records: Iterable[DictionaryRecord]) -> int:
    """From where on Spark subscriptions that are in force have to read; NEVER: there are none."""
    found = [json.loads(record.detail) for record in records]
    return min(
        (1 + detail.get("confirmed", 0) for detail in found if not detail.get("ended_us")), default=NEVER
    )


class Missing(NamedTuple):
    """Positions of a lease that are not there any more, both included; 0, 0 if all are."""

    first: int
    last: int


class Leases:
    """All leases of a ledger: granted, renewed, released, broken through the ledger's builder."""

    def __init__(
        self,
        builder: BlockBuilder,
        keep: Keep,
        options: LedgerOptions,
        leases: Iterable[Lease],
        also: int = NEVER,
    ) -> None:
        """``also``: see `also_keep`."""
        self._builder = builder
        self._keep = keep
        self._options = options
        self._by_name = {lease.name: lease for lease in leases}
        self._also = also
        self.also_reason = ""
        """Why what `also_keep` keeps must be let go of: "bytes" or "space"; "" it need not."""
        self._settled = self._wanted()
        """What the durable records keep."""
        self._unsettled: deque[tuple[int, Floors]] = deque()
        """What is kept after each record that isn't durable yet."""
        self.queues = self._named()
        """The queues that leases in force name; the same object while nothing has changed."""
        self._publish()
        self._check_due = True
        """Whether the bounds have to be looked at whatever the time."""
        self._next_expiry_us = self._earliest_expiry_us()

    def all(self) -> list[Lease]:
        """Those in force and the broken ones, in the order in which they were granted first."""
        return list(self._by_name.values())

    def get(self, name: str) -> Lease:
        """Raises LeaseUnknown."""
        if name not in self._by_name:
            raise LeaseUnknown(f"there is no lease {name!r}")
        return self._by_name[name]

    def next_expiry_us(self) -> int:
        """When the first lease in force runs out; 0 if there is none."""
        return self._next_expiry_us

    def held_bytes(self, lease: Lease) -> int:
        """Bytes on the disk that would be free if no lease kept them and this one does."""
        if not lease.in_force:
            return lease.held_bytes
        held = self._keep.held_events + (self._keep.held_bodies if lease.bodies else ())
        return sum(one.size_bytes for one in held if one.last_position >= lease.position)

    def missing(self, lease: Lease) -> Missing:
        """Which of its positions are gone: none while it is in force, nor as soon as it is broken."""
        last = self._keep.last_gone(lease.bodies)
        return Missing(lease.position, last) if last >= lease.position else Missing(0, 0)

    def grant(
        self,
        name: str,
        owner: str,
        now_us: int,
        position: int | None = None,
        bodies: bool = False,
        duration_s: int | None = None,
        max_bytes: int | None = None,
        queues: Sequence[str] = (),
    ) -> Lease:
        """Keep what is at `position` (None: what comes from now on; 0: the oldest there is) and behind.

        Who names `queues` wants `bodies`, and those of non-persistent messages that come to them from now on,
        too. A broken lease of that name is taken up again. Raises LeaseInvalid, LeaseExists, LeaseLimit, and
        LeaseTooOld where some of it has gone.
        """
        _check_text("name", name, 1)
        _check_text("owner", owner, 0)
        _check_queues(queues)
        bodies = bodies or bool(queues)
        old = self._by_name.get(name)
        if old is not None and old.in_force:
            raise LeaseExists(f"lease {name!r} is in force already, granted to {old.owner!r}: renew it")
        lease = self._within_bounds(
            Lease(
                id=old.id if old is not None else self._free_id(),
                name=name,
                owner=owner,
                position=self._position(position, bodies),
                bodies=bodies,
                duration_s=self._options.max_lease_s if duration_s is None else duration_s,
                max_bytes=self._options.max_lease_bytes if max_bytes is None else max_bytes,
                granted_us=now_us,
                expires_us=0,
                queues=tuple(sorted(set(queues))),
            )
        )
        if old is None:
            self._check_room()
        if not self._keep.claim(lease.position, bodies):
            raise LeaseTooOld(
                f"position {lease.position} is not there any more: {'bodies' if bodies else 'events'} are"
                f" kept from position {self._keep.last_gone(bodies) + 1} on"
            )
        self._write(RecordType.LEASE_GRANTED, lease, now_us)
        if len(self._by_name) > self._options.max_leases:
            self._forget(min(self._broken(), key=lambda each: each.broken_us), now_us)
        return lease

    def renew(
        self,
        name: str,
        now_us: int,
        position: int | None = None,
        duration_s: int | None = None,
        max_bytes: int | None = None,
    ) -> Lease:
        """Keep it for its duration from now on, and nothing before `position`.

        Raises LeaseUnknown, LeaseBroken, LeaseInvalid.
        """
        lease = self.get(name)
        if not lease.in_force:
            raise LeaseBroken(self._broken_text(lease))
        if position is not None and not lease.position <= position <= self._builder.next_position:
            raise LeaseInvalid(
                f"position {position} is not within {lease.position} to {self._builder.next_position}:"
                " a lease moves forward only"
            )
        changed = replace(
            lease,
            position=lease.position if position is None else position,
            duration_s=lease.duration_s if duration_s is None else duration_s,
            max_bytes=lease.max_bytes if max_bytes is None else max_bytes,
            granted_us=now_us,
        )
        return self._write(RecordType.LEASE_GRANTED, self._within_bounds(changed), now_us)

    def _broken_text(self, lease: Lease) -> str:
        """What its reader must know once it is broken."""
        missing = self.missing(lease)
        gone = "nothing is missing yet"
        if missing.last:
            gone = f"positions {missing.first} to {missing.last} are not whole any more"
        return (
            f"lease {lease.name!r} was broken ({lease.reason}) at position {lease.broken_position}: {gone};"
            " grant it again from where you are"
        )

    def also_keep(self, position: int) -> None:
        """Beside all leases, keep the events at `position` and behind, until told otherwise; NEVER: none.

        What may go by that goes when everything written so far is durable. Bounded as a lease is, by
        `also_reason`: whoever asked is to let go then.
        """
        if position != self._also:
            self._also = position
            self.also_reason = ""
            self._unsettled.append((self._builder.next_position - 1, self._wanted()))
            self._check_due = True
            self._publish()

    def release(self, name: str, now_us: int) -> None:
        """End it: what it kept may go. A broken one is forgotten. Raises LeaseUnknown."""
        self._forget(self.get(name), now_us)

    def tend(self, now_us: int, space_is_short: bool) -> list[Lease]:
        """Break what is out of its bounds; returns those broken. Cheap where nothing has changed."""
        due = 0 < self._next_expiry_us <= now_us
        if not (due or self._check_due or self._keep.has_news or space_is_short):
            return []
        self._check_due = self._keep.has_news = False
        broken = []
        for lease in self.all():
            reason = self._reason(lease, now_us, space_is_short)
            if lease.in_force and reason:
                broken.append(self._break(lease, reason, now_us))
        self.also_reason = self._reason_also(space_is_short)
        return broken

    def durable(self, position: int) -> bool:
        """Everything up to `position` is durable; whether files may go now that were kept before."""
        while self._unsettled and self._unsettled[0][0] <= position:
            self._settled = self._unsettled.popleft()[1]
        return self._publish()

    @property
    def waits(self) -> bool:
        """Whether a change is not durable yet."""
        return bool(self._unsettled)

    def _reason(self, lease: Lease, now_us: int, space_is_short: bool) -> str:
        held_bytes = self.held_bytes(lease)
        if self.missing(lease).last:
            return FILES_MISSING
        if lease.expires_us <= now_us:
            return TIME_OVER
        if held_bytes > lease.max_bytes:
            return TOO_MANY_BYTES
        return SPACE_SHORT if space_is_short and held_bytes else ""

    def _reason_also(self, space_is_short: bool) -> str:
        held = self._keep.held_events
        held_bytes = sum(one.size_bytes for one in held if one.last_position >= self._also)
        if held_bytes > self._options.max_lease_bytes:
            return TOO_MANY_BYTES
        return SPACE_SHORT if space_is_short and held_bytes else ""

    def _break(self, lease: Lease, reason: str, now_us: int) -> Lease:
        broken = replace(
            lease,
            reason=reason,
            broken_us=now_us,
            broken_position=self._builder.next_position,
            held_bytes=self.held_bytes(lease),
        )
        return self._write(RecordType.LEASE_BROKEN, broken, now_us)

    def _position(self, wanted: int | None, bodies: bool) -> int:
        if wanted is None:
            return self._builder.next_position
        if not 0 <= wanted <= self._builder.next_position:
            raise LeaseInvalid(f"position {wanted} is not within 0 to {self._builder.next_position}")
        return wanted or self._keep.last_gone(bodies) + 1

    def _within_bounds(self, lease: Lease) -> Lease:
        """With its end reckoned. Raises LeaseInvalid for a duration or a size beyond the options."""
        options = self._options
        for name, value, most in (
            ("duration_s", lease.duration_s, options.max_lease_s),
            ("max_bytes", lease.max_bytes, options.max_lease_bytes),
        ):
            if not 0 < value <= most:
                raise LeaseInvalid(f"{name} is {value}, must be 1 to {most}")
        return replace(lease, expires_us=lease.granted_us + lease.duration_s * _SECOND_US)

    def _check_room(self) -> None:
        """One more may be granted if a broken one can be forgotten for it."""
        if len(self._by_name) >= self._options.max_leases and not self._broken():
            raise LeaseLimit(f"there are {len(self._by_name)} leases, as many as max_leases allows")

    def _broken(self) -> list[Lease]:
        return [lease for lease in self._by_name.values() if not lease.in_force]

    def _free_id(self) -> int:
        return 1 + max((lease.id for lease in self._by_name.values()), default=0)

    def _write(self, kind: RecordType, lease: Lease, now_us: int) -> Lease:
        self._by_name[lease.name] = lease
        self._record(kind, lease.id, lease.encode(), now_us)
        return lease

    def _forget(self, lease: Lease, now_us: int) -> None:
        del self._by_name[lease.name]
        self._record(RecordType.LEASE_RELEASED, lease.id, b"", now_us)

    def _record(self, kind: RecordType, id: int, detail: bytes, now_us: int) -> None:
        self._builder.set_time(now_us)
        at = self._builder.record(kind, 0, 0, id, 0, 0, detail)
        self._unsettled.append((at, self._wanted()))
        named = self._named()
        if named != self.queues:
            self.queues = named
        self._next_expiry_us = self._earliest_expiry_us()
        self._check_due = True
        self._publish()

    def _wanted(self) -> Floors:
        also = Floors(self._also, NEVER)
        return lowest([also, *(lease.floors() for lease in self._by_name.values())])

    def _publish(self) -> bool:
        """Until a record is durable, both what it says and what was before is kept."""
        return self._keep.hold(lowest([self._settled, *(floors for _, floors in self._unsettled)]))

    def _named(self) -> frozenset[str]:
        return frozenset(name for lease in self._by_name.values() if lease.in_force for name in lease.queues)

    def _earliest_expiry_us(self) -> int:
        return min((lease.expires_us for lease in self._by_name.values() if lease.in_force), default=0)


def _check_text(what: str, text: str, least_bytes: int) -> None:
    if not least_bytes <= len(text.encode()) <= MAX_TEXT_BYTES or not text.isprintable():
        raise LeaseInvalid(
            f"the {what} {text[:MAX_TEXT_BYTES]!r} must be {least_bytes} to {MAX_TEXT_BYTES} bytes"
            " of printable text"
        )


def _check_queues(queues: Sequence[str]) -> None:
    if len(queues) > MAX_QUEUES:
        raise LeaseInvalid(f"{len(queues)} queues are named, a lease takes at most {MAX_QUEUES}")
    for name in queues:
        _check_text("name of a queue", name, 1)
