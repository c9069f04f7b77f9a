"""What pages show of the depth of queues: the states that messages are in, and their colours.

The colours are those of the audit's report: one look for both.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple


class Share(NamedTuple):
    """A state that messages can be in, as counters name it."""

    counter: str
    title: str
    color: str
    """A variable of the style sheet."""


CURRENT: Final = Share("messages_current", "current", "s1")
PENDING: Final = (
    Share("messages_unacknowledged", "unacknowledged", "s8"),
    Share("messages_uncommitted_put", "uncommitted puts", "s5"),
    Share("messages_uncommitted_get", "uncommitted gets", "s7"),
    Share("messages_browse_locked", "locked by a browse", "s2"),
    Share("messages_unborn", "not yet due", "s3"),
    Share("messages_redelivery_delay", "redelivery delay", "s6"),
    Share("messages_ordered", "waiting for their order", "node"),
    Share("messages_paused", "paused", "quiet"),
)
DEPTHS: Final = (CURRENT, *PENDING)
RATES: Final = (
    Share("messages_received", "put", "s1"),
    Share("messages_consumed", "consumed", "s2"),
)
COUNTERS: Final = tuple(share.counter for share in (*DEPTHS, *RATES))
BAR_WIDTH: Final = 1000


def sample_of(attributes: Mapping[str, Any]) -> dict[str, float]:
    """The figures that are kept over time."""
    return {name: attributes[name] for name in COUNTERS}


def chart(kind: str, shares: Sequence[Share], unit: str) -> dict[str, object]:
    """What `charts.js` draws: ``kind`` "rate" (per second, of counters) or "depth" (levels, stacked)."""
    return {"kind": kind, "unit": unit, "series": [share._asdict() for share in shares]}


class Part(NamedTuple):
    """A share of a bar."""

    share: Share
    messages: int
    x: float
    width: float


def depth_bar(attributes: Mapping[str, Any]) -> list[Part]:
    """The states that messages are in now, as parts of a bar `BAR_WIDTH` wide."""
    total = sum(attributes[share.counter] for share in DEPTHS)
    parts, x = [], 0.0
    for share in DEPTHS:
        messages = attributes[share.counter]
        if messages:
            width = messages / total * BAR_WIDTH
            parts.append(Part(share, messages, round(x, 2), round(width, 2)))
            x += width
    return parts
