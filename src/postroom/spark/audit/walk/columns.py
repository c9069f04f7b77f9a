"""What comes out of the walk: rows of several kinds, and the columns of each."""

from typing import Final

import pyarrow as pa

from postroom.spark.audit.rows import ENTRY_KEY
from postroom.spark.ledger_source.columns import EVENTS_SCHEMA, TIMESTAMP
from postroom.spark.ledger_source.state_names import OUTCOMES

EVENT: Final = 0
LIFE: Final = 1
STAY: Final = 2
ASSIGNMENT: Final = 3
WAIT: Final = 4
BREACH: Final = 5
TOTAL: Final = 6
REFUSAL: Final = 7
ID: Final = 8
"""The kinds of rows: an event; what became of an entry; an entry in the hands of a transaction or batch, or
of a Spark subscription; one that had to wait; an event that doesn't follow; sums of a queue; a message that
was refused and whose sender had settled it, which is no entry; a number for an id that a queue took."""

FROM_ARRIVAL: Final = (
    *("producer_id", "message_id", "stored", "adverse", "body_bytes", "creation"),
    *("parent_serial", "parent_queue_id", "channel", "origin_ledger_id", "origin_serial"),
)
"""Columns of the events table that an entry has from its arrival."""

EVENT_COLUMNS: Final = (
    *ENTRY_KEY,
    *("epoch", "position", "ordinal", "queue", "time", "event", "from_state", "to_state", "outcome"),
    *("causes", "holder_kind", "holder_id", "holder", "due", "reason", "priority"),
    *FROM_ARRIVAL,
)
"""The columns of the events table that the audit reads."""

_LONG: Final = pa.int64()
_TEXT: Final = pa.string()

_ENTRY: Final = (("ledger_id", _TEXT), ("serial", _LONG), ("queue_id", _LONG), ("queue", _TEXT))

STAYS: Final = pa.schema(
    [
        *_ENTRY,
        *(("kind", _TEXT), ("holder", _LONG), ("name", _TEXT), ("entered", _LONG), ("left", _LONG)),
        *(("left_time", TIMESTAMP), ("end", _TEXT)),
    ]
)
"""A stay is an entry in the hands of one transaction, XA branch or batch: from the event that took it to the
one that gave it up, ``left`` (null while it lasts), and how it ended (`stays.ENDS`). Only branches of Spark
sinks have a name."""

ASSIGNMENTS: Final = pa.schema(
    [*_ENTRY, ("holder", _LONG), ("entered", _LONG), ("left", _LONG), ("is_confirmed", pa.bool_())]
)
"""The same of a Spark subscription."""

WAITS: Final = pa.schema(
    [
        *_ENTRY,
        *(("epoch", _LONG), ("position", _LONG), ("ordinal", _LONG), ("event", _TEXT), ("from_state", _TEXT)),
        *((f"before_{name}", _LONG) for name in ("epoch", "position", "ordinal")),
        *(("before_causes", _TEXT), ("sender", _LONG), ("rank", _LONG), ("birth", TIMESTAMP)),
    ]
)
"""``before_…``: of the event before of that entry; ``sender``, ``rank`` and ``birth``: producer, priority and
due time of its first event."""

BREACHES: Final = pa.schema(
    [
        *_ENTRY,
        *(("rule", _TEXT), ("rule_if_carried", _TEXT), ("before_position", _LONG), ("position", _LONG)),
        *(("detail", _TEXT), ("is_open", pa.bool_())),
    ]
)
"""``is_open``: the rule is broken only if no checkpoint carries the entry beyond the event;
``rule_if_carried``: what is broken else."""

ENDED: Final = tuple(f"ended_{name}" for name in OUTCOMES)
EARLY_ENDED: Final = tuple(f"early_{name}" for name in ENDED)

SUMS: Final = (
    *("events", "arrivals", *ENDED, "early_events", "early_arrivals", *EARLY_ENDED),
    *("entries", "held", "available", "delayed", "unconfirmed", "in_transit", "seen"),
    *("crossing", "kin", "returned", "stored_lost", "stays", "of_sinks", "assigned", "waited", "breaches"),
    "refused",
)
"""Numbers of a queue's events and entries. ``early_…``: up to the checkpoint that the ledger opens from;
``kin``: made of others, or others were made of them; ``of_sinks``: stays with branches of Spark sinks;
``refused``: of no queue."""

LOWEST: Final = ("first_time_us",)
HIGHEST: Final = ("last_time_us", "carried_through", "holder")
"""``carried_through``: position of the checkpoint that carries entries; ``holder``: the highest id of one."""

TOTALS: Final = pa.schema(
    [
        *(("ledger_id", _TEXT), ("queue_id", _LONG), ("queue", _TEXT), ("queue_of_events", _TEXT)),
        *((name, _LONG) for name in (*SUMS, *LOWEST, *HIGHEST)),
    ]
)
"""Of what was refused ``queue_id`` is 0."""

LIVES: Final = pa.schema(
    [
        *_ENTRY,
        *((name, EVENTS_SCHEMA.field(name).type) for name in FROM_ARRIVAL),
        *(("is_carried", pa.bool_()), ("arrival_time", TIMESTAMP), ("arrival_event", _TEXT)),
        *(("taken_position", _LONG), ("state", _TEXT), ("outcome", _TEXT), ("reason", _TEXT)),
        *(("holder_kind", _TEXT), ("holder_id", _LONG), ("last_position", _LONG)),
    ]
)
"""``taken_position``: where it first was more than somebody's provisional put; null if that is not seen.
Outcome and reason of what has ended, holders of what is held."""

REFUSALS: Final = pa.schema(
    [("ledger_id", _TEXT), ("position", _LONG), ("time", TIMESTAMP), ("holder", _TEXT), ("reason", _TEXT)]
)

IDS: Final = pa.schema([("number", _LONG)])
