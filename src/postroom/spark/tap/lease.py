"""A lease that a stream keeps on what it has yet to read: bodies of what ends meanwhile, and of
non-persistent messages to its queues. On the driver; it moves with the stream."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from postroom.client.exceptions import (
    ConnectionLostException,
    InvalidDestinationException,
    JMSTimeoutException,
    ManagementException,
)
from postroom.ledger.errors import LedgerError
from postroom.spark.broker.management import BrokerLink
from postroom.spark.broker.options import Broker

LEASE: Final = "postroom.lease"

RENEWALS_A_DURATION: Final = 4
"""So often within its duration a lease is renewed at least."""

MOVE_INTERVAL_S: Final = 1.0
"""At most so often it is moved on."""

ANSWER_S: Final = 15.0
"""So long the broker may take for an answer; a lease goes on meanwhile."""

_UNREACHABLE: Final = (ConnectionLostException, JMSTimeoutException, OSError)
_MISSING: Final = ("missing_first", "missing_last")


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """Which lease a stream keeps, and where; None: as the broker has it."""

    name: str
    broker: Broker
    queues: tuple[str, ...]
    duration_s: int | None
    max_bytes: int | None


class LeaseBroken(LedgerError):
    """A stream's lease is broken: from here on not all bodies may be there.

    `first` and `last` are the positions that are not whole any more; 0, 0 if nothing is missing yet.
    """

    def __init__(self, name: str, reason: str, first: int, last: int) -> None:
        gone = f"bodies of positions {first} to {last} are missing" if last else "nothing is missing yet"
        super().__init__(
            f"lease {name} was broken ({reason}): {gone}. To go on with what there is, release it"
            f" (postroom ledger lease release {name}) and start the query again: it is granted anew then"
        )
        self.first: Final = first
        self.last: Final = last


class TapLease:
    """The lease of one stream. For one thread."""

    def __init__(self, options: LeaseOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options: Final = options
        self._clock: Final = clock
        self._link: Final = BrokerLink(options.broker, ANSWER_S)
        self._position = 0
        self._renewed_s: float | None = None
        """When it was granted or renewed last; None: not yet by this stream."""
        self._duration_s = 0

    def keep(self, position: int) -> None:
        """What stands at a position and behind is yet to be read. Cheap where there is nothing to be done.

        A broker that can't be asked is borne for as long as the lease lasts. Raises ``LeaseBroken``; what the
        client raises where it can't be granted.
        """
        now_s = self._clock()
        if self._renewed_s is None:
            self._begin(position)
        else:
            since_s = now_s - self._renewed_s
            moved = position > self._position and since_s >= MOVE_INTERVAL_S
            if not moved and since_s * RENEWALS_A_DURATION < self._duration_s:
                return
            try:
                self._renew(position)
            except _UNREACHABLE as error:
                self.close()
                if since_s > self._duration_s:
                    raise LeaseBroken(self._options.name, f"not renewed: {error}", 0, 0) from error
                return
        self._position, self._renewed_s = position, now_s

    def close(self) -> None:
        """Close the connection. The lease goes on for its duration."""
        self._link.close()

    def _begin(self, position: int) -> None:
        """Take up the lease that an earlier run of the stream has left, or have one granted."""
        lease = self._read()
        if lease is None:
            self._duration_s = int(self._create(position)["duration_s"])
            return
        self._require_whole(lease)
        self._duration_s = int(lease["duration_s"])
        self._renew(max(position, int(lease["position"])))

    def _renew(self, position: int) -> None:
        try:
            self._link.management().update(
                LEASE, self._options.name, {"position": position, **self._bounds()}
            )
        except ManagementException as error:
            self._require_whole(self._read() or {"reason": "it is gone"})
            raise error
        except InvalidDestinationException as error:
            raise LeaseBroken(self._options.name, "released by somebody", 0, 0) from error

    def _require_whole(self, lease: dict[str, Any]) -> None:
        if lease["reason"]:
            first, last = (int(lease.get(name, 0)) for name in _MISSING)
            raise LeaseBroken(self._options.name, str(lease["reason"]), first, last)

    def _read(self) -> dict[str, Any] | None:
        try:
            return dict(self._link.management().read(LEASE, self._options.name))
        except InvalidDestinationException:
            return None

    def _create(self, position: int) -> dict[str, Any]:
        kept = {"position": position, "bodies": True, "queues": list(self._options.queues)}
        return dict(self._link.management().create(LEASE, self._options.name, kept | self._bounds()))

    def _bounds(self) -> dict[str, object]:
        bounds = {"duration_s": self._options.duration_s, "max_bytes": self._options.max_bytes}
        return {name: value for name, value in bounds.items() if value is not None}
