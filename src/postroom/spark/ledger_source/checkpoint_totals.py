"""The totals that a checkpoint of the broker carries: what had arrived and ended of each queue until then."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from postroom.ledger.reading.carried_entries import Carried
from postroom.spark.ledger_source.state_names import OUTCOMES


@dataclass(frozen=True, slots=True)
class CheckpointTotals:
    """Per queue (arrivals, ends in the order of `OUTCOMES`) up to `position`."""

    position: int
    totals: Mapping[int, tuple[int, tuple[int, ...]]]

    def to_json(self) -> dict[str, object]:
        """``{"position": 812, "totals": {"<queue>": [arrivals, [ends by outcome]]}}``."""
        return {"position": self.position, "totals": msgspec.to_builtins(self.totals, str_keys=True)}

    @classmethod
    def from_json(cls, decoded: Mapping[str, Any]) -> "CheckpointTotals":
        """The inverse of `to_json`."""
        return msgspec.convert(decoded, cls, strict=False)


def totals_of(carried: Carried | None) -> CheckpointTotals | None:
    """A checkpoint's totals, of what it carries; None without one."""
    if carried is None:
        return None
    count = len(OUTCOMES)
    totals = {
        int(row["queue"]): (int(row["arrived"]), tuple(row["ended"].tolist()[1 : count + 1]))
        for row in carried.totals
    }
    return CheckpointTotals(carried.position, totals)
