"""Names that reach over connections: containers, links that are attached, links that are gone but kept.

A link is (user, container id, name, role of this end): no user's link is taken over by another. While it is
kept, what it held stays held: a terminus lives on by its expiry policy (part 3, section 3.5.6), and the time
that it asked for counts from that policy's event. Bounded in number and time by the options.
"""

import heapq
import itertools
from enum import IntEnum
from typing import Final, cast

from postroom.amqp.engine.delivery import Delivery
from postroom.amqp.engine.link import Link
from postroom.amqp.engine.shared_state import SessionState
from postroom.amqp.frames.termini import EXPIRY_CONNECTION_CLOSE, EXPIRY_NEVER, EXPIRY_SESSION_END
from postroom.server.configuration.config import LimitsConfig
from postroom.server.kernel.bound_link import BoundLink
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.kernel.connection_state import ConnectionState

LinkKey = tuple[str, str, str, bool]
US_PER_S: Final = 1_000_000


class Gone(IntEnum):
    """How a link went."""

    CLOSED = 0
    """By its own wish: its terminus goes with it."""
    DETACHED = 1
    SESSION_ENDED = 2
    CONNECTION_CLOSED = 3
    CONNECTION_LOST = 4


class Kept:
    """A link that is gone and may be resumed."""

    def __init__(self, key: LinkKey, bound: BoundLink, session: SessionState) -> None:
        self.key: Final = key
        self.bound: Final = bound
        self.session: Final = session
        self.due_us = 0
        """When it ends for good; 0 while its session or connection still lives."""


class Registry:
    """Every link and container of the broker by name."""

    def __init__(self, limits: LimitsConfig) -> None:
        self._limits = limits
        self._containers: Final[dict[str, set[ConnectionState]]] = {}
        self._attached: Final[dict[LinkKey, BoundLink]] = {}
        self._kept: Final[dict[LinkKey, Kept]] = {}
        self._deadlines: Final[list[tuple[int, int, Kept]]] = []
        self._order: Final = itertools.count()

    # Containers.

    def opened(self, binding: ConnectionState) -> None:
        """``binding`` has told its container id."""
        self._containers.setdefault(binding.container_id, set()).add(binding)

    def others_of(self, binding: ConnectionState) -> list[ConnectionState]:
        """The other connections that are open and have its container id."""
        return [each for each in self._containers.get(binding.container_id, set()) if each is not binding]

    def connection_ended(self, binding: ConnectionState, now_us: int) -> None:
        """``binding`` is over: its container id is free, and what was kept as long as it lived begins to
        run out.
        """
        bindings = self._containers.get(binding.container_id)
        if bindings is not None:
            bindings.discard(binding)
            if not bindings:
                del self._containers[binding.container_id]
        for kept in list(self._kept.values()):
            if kept.due_us == 0 and kept.bound.binding is binding:
                self._start_clock(kept, now_us)

    def session_ended(self, session: SessionState, now_us: int) -> None:
        """What was kept as long as ``session`` lived begins to run out."""
        for kept in list(self._kept.values()):
            if (
                kept.due_us == 0
                and kept.session is session
                and kept.bound.expiry_policy == EXPIRY_SESSION_END
            ):
                self._start_clock(kept, now_us)

    # Links.

    def claim(self, key: LinkKey, now_us: int) -> BoundLink | None:
        """A link is about to attach under ``key``: whatever has that name now is taken off its connection.

        What it left (suspended now, or before) is returned, to be resumed or closed; None where there is
        nothing.
        """
        attached = self._attached.get(key)
        if attached is not None:
            attached.steal(now_us)
        kept = self._kept.pop(key, None)
        return None if kept is None else kept.bound

    def attached(self, key: LinkKey, bound: BoundLink) -> None:
        """``bound`` is attached under ``key``."""
        bound.key = key
        self._attached[key] = bound

    def gone(self, bound: BoundLink, link: Link, unsettled: list[Delivery], how: Gone, now_us: int) -> bool:
        """``bound`` is detached: keep it where its terminus is to live on, else close it; whether it is
        kept.
        """
        key = bound.key
        if key is not None and self._attached.get(key) is bound:
            del self._attached[key]
        keeps = how != Gone.CLOSED and key is not None and len(self._kept) < self._limits.suspended_links
        timeout_us = self._timeout_us(bound)
        waits = _outlives(bound.expiry_policy, how)
        longest_us = self._limits.suspended_timeout_s * US_PER_S
        if not keeps or (timeout_us == 0 and not waits) or not bound.suspend(unsettled, longest_us, now_us):
            bound.close(how == Gone.CONNECTION_LOST or bound.binding.closed_here, now_us)
            if how == Gone.CLOSED:
                bound.end_terminus(now_us)
            return False
        assert key is not None
        kept = Kept(key, bound, link.session)
        self._kept[key] = kept
        if not waits:
            self._start_clock(kept, now_us)
        return True

    def forget(self, bound: BoundLink) -> None:
        """``bound`` has ended from this side, attached or kept."""
        key = bound.key
        if key is None:
            return
        if self._attached.get(key) is bound:
            del self._attached[key]
        kept = self._kept.get(key)
        if kept is not None and kept.bound is bound:
            del self._kept[key]

    # Time.

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never."""
        return self._deadlines[0][0] if self._deadlines else 0

    def on_time(self, now_us: int) -> None:
        """Close what has run out."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now_us:
            kept = heapq.heappop(deadlines)[2]
            if self._kept.get(kept.key) is kept:
                self._expire(kept, now_us)

    def kept_count(self) -> int:
        """Links that are gone and may be resumed."""
        return len(self._kept)

    def _start_clock(self, kept: Kept, now_us: int) -> None:
        timeout_us = self._timeout_us(kept.bound)
        if timeout_us == 0:
            self._expire(kept, now_us)
        else:
            kept.due_us = now_us + timeout_us
            heapq.heappush(self._deadlines, (kept.due_us, next(self._order), kept))

    def _expire(self, kept: Kept, now_us: int) -> None:
        del self._kept[kept.key]
        kept.bound.close(True, now_us)

    def _timeout_us(self, bound: BoundLink) -> int:
        if bound.expiry_policy == EXPIRY_NEVER:
            return self._limits.suspended_timeout_s * US_PER_S
        return min(bound.timeout_s, self._limits.suspended_timeout_s) * US_PER_S


def _outlives(expiry_policy: str, how: Gone) -> bool:
    """Whether a terminus of this policy still waits for the event that starts its clock."""
    if expiry_policy == EXPIRY_SESSION_END:
        return how == Gone.DETACHED
    if expiry_policy == EXPIRY_CONNECTION_CLOSE:
        return how in (Gone.DETACHED, Gone.SESSION_ENDED)
    return False


def registry_of(broker: BrokerState) -> Registry:
    """That of a broker."""
    return cast(Registry, broker.state(Registry))
