"""What an audit says of ledgers in order."""

from dataclasses import replace

from postroom.spark.audit.result import AuditResult, CrossingSums, Cut, QueueSums
from postroom.spark.report.data import Span

T0 = 1_790_000_000_000_000


S = 1_000_000


SPAN = Span("0195f2a0-0000-7000-8000-00000000000a", "LONDON", 2, 900)


CUT = Cut(
    ledger_id=SPAN.ledger_id,
    name="LONDON",
    uri="/data/london",
    first_position=1,
    first_look=900,
    position=900,
    epoch=2,
    epoch_id="ab" * 16,
    last_time_us=T0 + 300 * S,
    opened_from=0,
)


SUMS = QueueSums(
    ledger_id=SPAN.ledger_id,
    queue_id=None,
    queue="LONDON",
    opening=0,
    arrivals=222,
    held=15,
    in_transit=0,
    outcomes={"consumed": 205, "lost": 2},
    difference=0,
    verdict="balanced",
)


CLEAN = AuditResult(
    cuts=(CUT,),
    events=900,
    entries=300,
    managers=(SUMS,),
    queues=(replace(SUMS, queue_id=1, queue="orders"),),
    crossings=(CrossingSums(SPAN.ledger_id, "PARIS", None, {"arrived": 12, "lost": 1, "in doubt": 0}, 0),),
    lost=("signal-7",),
    refused=(),
    duplicates={},
    violation_counts={},
    violations=(),
    unproven=(),
)
