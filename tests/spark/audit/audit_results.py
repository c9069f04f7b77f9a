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
        Cut(
            ledger_id="a",
            name="london",
            uri="/data/london",
            first_position=1,
            first_look=90,
            position=100,
            epoch=2,
            epoch_id="ee" * 16,
            last_time_us=1_790_000_000_000_000,
            opened_from=0,
        ),
        Cut(
            ledger_id="b",
            name="paris",
            uri="/data/paris",
            first_position=7,
            first_look=9,
            position=10,
            epoch=1,
            epoch_id="ff" * 16,
            last_time_us=0,
            opened_from=8,
        ),
    ),
    events=30,
    entries=10,
    managers=(
        QueueSums(
            ledger_id="a",
            queue_id=None,
            queue="",
            opening=0,
            arrivals=10,
            held=5,
            in_transit=1,
            outcomes=ENDED,
            difference=0,
            verdict="balanced",
            available=3,
            delayed=1,
            unconfirmed=1,
        ),
    ),
    queues=(
        QueueSums(
            ledger_id="a",
            queue_id=1,
            queue="orders",
            opening=0,
            arrivals=10,
            held=5,
            in_transit=1,
            outcomes=ENDED,
            difference=0,
            verdict="balanced",
            available=3,
            delayed=1,
            unconfirmed=1,
        ),
    ),
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
