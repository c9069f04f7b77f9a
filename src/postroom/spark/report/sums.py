"""Sums that the tables have ready: of queues, channels, times in states, and of what wasn't delivered."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from postroom.model.mq import reason_name
from postroom.spark.ledger_source.state_names import OUTCOMES
from postroom.spark.report.data import ChannelSum, Dwell, QueueSum, Undelivered
from postroom.spark.report.naming import Naming
from postroom.spark.tables.dwell_times import middle_us

QUEUE_COLUMNS: Final = ("ledger_id", "queue_id", "queue", "arrivals", "depth_change", *OUTCOMES)
CHANNEL_COUNTS: Final = ("messages", "bytes", "batches", "backed_out", "dropped", "returned")
CHANNEL_COLUMNS: Final = ("ledger_id", "channel", "direction", *CHANNEL_COUNTS)
DWELL_COLUMNS: Final = ("ledger_id", "queue_id", "queue", "state", "bucket", "entries")
UNDELIVERED_COLUMNS: Final = (
    "ledger_id", "queue_id", "queue", "outcome", "rule", "condition", "reason_code", "retries", "last_time",
)  # fmt: skip

SHARES: Final = (0.5, 0.9, 0.99)

Totals = dict[tuple[Any, ...], dict[str, Any]]


def totals(pieces: Iterable[pa.Table], keys: Sequence[str], how: Mapping[str, str]) -> Totals:
    """By key, each column of ``how`` as the sum or max of all pieces."""
    found: Totals = {}
    for piece in pieces:
        grouped = piece.group_by(list(keys)).aggregate(list(how.items()))
        for row in grouped.to_pylist():
            key = tuple(row[name] for name in keys)
            known = found.get(key)
            values = {name: row[f"{name}_{kind}"] for name, kind in how.items()}
            for name, before in (known or {}).items():
                both = [one for one in (before, values[name]) if one is not None]
                values[name] = (sum if how[name] == "sum" else max)(both) if both else None
            found[key] = values
    return found


def queues(pieces: Iterable[pa.Table], naming: Naming) -> list[QueueSum]:
    """From the table destinations."""
    how = {"queue": "max", "arrivals": "sum", "depth_change": "sum", **dict.fromkeys(OUTCOMES, "sum")}
    found = totals(pieces, ("ledger_id", "queue_id"), how)
    together: dict[str, Counter[str]] = defaultdict(Counter)
    for (ledger, queue_id), row in found.items():
        name = naming.queue(ledger, row.pop("queue") or str(queue_id))
        together[name].update(row)
    return [
        QueueSum(name, row["arrivals"], row["depth_change"], {one: row[one] for one in OUTCOMES if row[one]})
        for name, row in together.items()
    ]


def channels(pieces: Iterable[pa.Table], naming: Naming) -> list[ChannelSum]:
    """From the table channels."""
    keys = ("ledger_id", "channel", "direction")
    found = totals(pieces, keys, dict.fromkeys(CHANNEL_COUNTS, "sum"))
    rows = [
        ChannelSum(naming.ledger(ledger), channel or "", direction, *(row[name] for name in CHANNEL_COUNTS))
        for (ledger, channel, direction), row in found.items()
    ]
    return sorted(rows, key=lambda one: (one.channel, one.direction, one.ledger))


def dwells(pieces: Iterable[pa.Table], naming: Naming) -> list[Dwell]:
    """From rows of the table dwell_times; the state with most entries first."""
    keys = ("ledger_id", "queue_id", "state", "bucket")
    sketches: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    found = totals(pieces, keys, {"entries": "sum", "queue": "max"})
    for (ledger, queue_id, state, bucket), row in found.items():
        sketches[naming.queue(ledger, row["queue"] or str(queue_id)), state][bucket] += row["entries"]
    rows = [
        Dwell(queue, state, sketch, *(quantile_us(sketch, share) for share in SHARES))
        for (queue, state), sketch in sketches.items()
    ]
    return sorted(rows, key=lambda one: (-one.entries, one.queue, one.state))


def quantile_us(sketch: Mapping[int, int], share: float) -> float:
    """How long the given share of a sketch's entries stayed at most (µs, within 2 %)."""
    wanted = share * sum(sketch.values())
    seen = 0
    for bucket in sorted(sketch):
        seen += sketch[bucket]
        if seen >= wanted:
            return middle_us(bucket)
    return 0.0


def undelivered(pieces: Iterable[pa.Table], naming: Naming) -> list[Undelivered]:
    """From the table undelivered: what ended so, by reason; the most frequent first."""
    keys = ("ledger_id", "queue_id", "queue", "outcome", "rule", "condition", "reason_code")
    how = {"entries": "sum", "retries": "max", "last_us": "max"}
    ended = (piece.filter(pc.is_valid(piece["outcome"])) for piece in pieces)
    counted = (
        rows.append_column("entries", pa.repeat(pa.scalar(1, pa.int64()), len(rows))).append_column(
            "last_us", rows["last_time"].cast(pa.int64())
        )
        for rows in ended
    )
    rows = []
    for (ledger, queue_id, queue, outcome, rule, condition, code), row in totals(counted, keys, how).items():
        name, reason = naming.queue(ledger, queue or str(queue_id)), _reason(condition, code, rule)
        rows.append(Undelivered(name, outcome, reason, row["entries"], row["retries"], row["last_us"]))
    return sorted(rows, key=lambda one: (-one.entries, one.queue, one.reason))


def _reason(condition: str | None, code: int | None, rule: str | None) -> str:
    """In a few words: the reason code's name, the AMQP condition, else the event that ended it."""
    texts = [text for text in (reason_name(code) if code else None, condition) if text]
    return ", ".join(texts) or (rule or "").replace("_", " ")
