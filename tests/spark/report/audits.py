"""What an audit says of ledgers in order."""

from dataclasses import replace

from postroom.spark.audit.result import AuditResult, CrossingSums, Cut, QueueSums
from postroom.spark.report.data import Span

T0 = 1_790_000_000_000_000


S = 1_000_000


SPAN = Span("0195f2a0-0000-7000-8000-00000000000a", "LONDON", 2, 900)


CUT = Cut(SPAN.ledger_id, "LONDON", "/data/london", 1, 900, 900, 2, "ab" * 16, T0 + 300 * S, 0)


SUMS = QueueSums(SPAN.ledger_id, None, "LONDON", 0, 222, 15, 0, {"consumed": 205, "lost": 2}, 0, "balanced")


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
