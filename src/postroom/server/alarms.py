"""What somebody should know and do something about: each alarm has its name, since when, what, and its cure.

One list for all who ask: the log tells when one begins and when it ends, the management node, the metrics and
`postroom top` what there is now.
"""

import logging
from dataclasses import dataclass
from typing import Final

from postroom.server.logs import log

DISK_SHORT: Final = "disk-short"
PUTS_REFUSED: Final = "puts-refused"
MAINTENANCE_STOPPED: Final = "maintenance-stopped"
BODIES_UNREADABLE: Final = "bodies-unreadable"
CLOCK_AHEAD: Final = "clock-ahead"
THREAD_FAILING: Final = "thread-failing"

_LEVELS: Final = {DISK_SHORT: logging.WARNING, CLOCK_AHEAD: logging.WARNING}
CURES: Final = {
    DISK_SHORT: (
        "what can go is going: bodies of what has ended, leases and history; consume messages, or give the"
        " volume more space"
    ),
    PUTS_REFUSED: (
        "it ends by itself when there is room: consume or purge messages, or give the volume more space"
    ),
    BODIES_UNREADABLE: (
        "such messages wait and are read again every few seconds; look at the disk and the kernel's log"
    ),
    CLOCK_AHEAD: "what is delayed, expires or is leased goes by it; start the broker again to have it right",
    THREAD_FAILING: (
        "its work begins again after a pause, at least every half minute; the log has the traceback, which"
        " belongs into a report"
    ),
    MAINTENANCE_STOPPED: (
        "it is tried again every few seconds, and ends the process where it keeps new files waiting for a"
        " minute: remove the cause"
    ),
}
"""Of each alarm there is: what to do, or what is being done."""
_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that is so now."""

    name: str
    since_us: int
    """µs since 1970."""
    what: str
    cure: str
    """What to do, or what is being done."""

    def as_map(self) -> dict[str, object]:
        """As the management node tells it."""
        return {"name": self.name, "since_us": self.since_us, "what": self.what, "cure": self.cure}


class Alarms:
    """Those that are on, oldest first."""

    def __init__(self) -> None:
        self._on: Final[dict[str, Alarm]] = {}

    def all(self) -> list[Alarm]:
        return list(self._on.values())

    def begin(self, name: str, what: str, now_us: int) -> None:
        """From now on, unless it is on already."""
        if name not in self._on:
            alarm = self._on[name] = Alarm(name, now_us, what, CURES[name])
            level = _LEVELS.get(name, logging.ERROR)
            log(level, "alarm", name=name, what=what, cure=alarm.cure)

    def end(self, name: str, now_us: int) -> None:
        """It is over, if it was on."""
        alarm = self._on.pop(name, None)
        if alarm is not None:
            log(logging.INFO, "alarm-over", name=name, seconds=round((now_us - alarm.since_us) / _US, 1))

    def of_clock(self, ahead_us: int, now_us: int) -> None:
        """Whether the machine's clock was set back, and by how much the broker's time is before it."""
        if ahead_us:
            ahead = f"the broker's time is {ahead_us / _US:,.0f} s ahead of it"
            self.begin(CLOCK_AHEAD, f"the machine's clock was set back: {ahead}", now_us)
        else:
            self.end(CLOCK_AHEAD, now_us)

    def of_threads(self, failures: dict[str, str], now_us: int) -> None:
        """Why threads beside the loop have failed lately, by their names."""
        if failures:
            what = "; ".join(f"{name}: {why}" for name, why in failures.items())
            self.begin(THREAD_FAILING, what, now_us)
        else:
            self.end(THREAD_FAILING, now_us)

    def of_space(self, short: bool, low: bool, free_bytes: int, now_us: int) -> None:
        """What the ledger says of its volume."""
        if short:
            left = f"the data folder's volume has {free_bytes:,} bytes left"
            self.begin(DISK_SHORT, f"{left}, too few to set aside what new messages need", now_us)
        else:
            self.end(DISK_SHORT, now_us)
        if low:
            what = "new messages are refused; outcomes, commits and deletions, which make room, go on"
            self.begin(PUTS_REFUSED, what, now_us)
        else:
            self.end(PUTS_REFUSED, now_us)
