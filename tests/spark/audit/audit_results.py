"""What an audit may have found."""

from typing import Final

from postroom.spark.audit.result import (
    AuditResult,
    CrossingSums,
    Cut,
    QueueSums,
    RefusedSums,
    TableCovered,
    Violation,
)
from postroom.spark.audit.rules import CROSSING_VERDICTS
from postroom.spark.ledger_source.state_names import OUTCOMES

ENDED: Final = dict.fromkeys(OUTCOMES, 0) | {"consumed": 4, "lost": 1}

RESULT: Final = AuditResult(
    cuts=(
        Cut("a", "london", "/data/london", 1, 90, 100, 2, "ee" * 16, 1_790_000_000_000_000, 0),
        Cut("b", "paris", "/data/paris", 7, 9, 10, 1, "ff" * 16, 0, 8),
    ),
    events=30,
    entries=10,
    managers=(QueueSums("a", None, "", 0, 10, 5, 1, ENDED, 0, "balanced", 3, 1, 1),),
    queues=(QueueSums("a", 1, "orders", 0, 10, 5, 1, ENDED, 0, "balanced", 3, 1, 1),),
    crossings=(CrossingSums("a", "PARIS", "b", dict.fromkeys(CROSSING_VERDICTS, 0) | {"arrived": 4}, 0),),
    lost=("signal-1",),
    refused=(RefusedSums("a", "app/s", "nowhere", "amqp:not-found", 2),),
    duplicates={"resent": 2},
    violation_counts={},
    violations=(),
    unproven=(),
    tables=(TableCovered("entries", 3, 2, 4096, 10),),
)
"""A clean one."""

VIOLATION: Final = Violation("second arrival", "a", 1, "orders", 7, (7, 9), "put")
