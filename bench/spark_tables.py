"""The Spark figures as the page shows them: beside what was asked for, and what follows from them."""

from typing import Final

from bench.tables import facts, markdown_table

Figures = dict[str, float]

EVENT_BYTES: Final = 100
"""Of an `.events` file, with an id of 36 bytes on each arrival."""
CLUSTER_EVENTS_PER_S: Final = 10_000_000
PETABYTE: Final = 10**15
PETABYTE_CORES: Final = 1000
DAY_S: Final = 86_400
UPKEEP_SHARE: Final = 0.7
"""Of the processors that tasks may use, with stragglers and commits."""


def figures(seen: Figures) -> str:
    """One row a figure, with its goal."""
    rows = [
        ["Spark's range → Parquet (the yardstick)", _millions(seen, "yardstick_to_parquet_rows_per_s"), ""],
        ["source → nothing", _millions(seen, "source_to_noop_rows_per_s"), "≥ 3.5 M/s"],
        ["source → Parquet", _millions(seen, "source_to_parquet_rows_per_s"), ""],
        ["the same / yardstick", _share(seen, "source_to_parquet_share_of_yardstick"), "≥ 80 %"],
        [
            "batches that are there already → Parquet: the most of any source in Python",
            _millions(seen, "batches_to_parquet_rows_per_s"),
            "",
        ],
        ["the same / yardstick", _share(seen, "batches_to_parquet_share_of_yardstick"), ""],
        ["stream in one batch → Parquet", _millions(seen, "stream_to_parquet_rows_per_s"), ""],
        ["the same / yardstick", _share(seen, "stream_to_parquet_share_of_yardstick"), "≥ 60 %"],
        ["export, per s of processor time", _millions(seen, "export_events_per_cpu_s"), "≥ 3 M/s"],
        ["export, one process, by the clock", _millions(seen, "export_events_per_s"), ""],
        ["entries made anew from events, written", _millions(seen, "refold_events_per_s"), "≥ 1 M/s"],
        ["pipeline, all tables", _thousands(seen, "pipeline_events_per_s"), "≥ 400 k/s"],
        [
            "pipeline, events and entries alone",
            _thousands(seen, "pipeline_two_tables_events_per_s"),
            "≥ 400 k/s",
        ],
        [
            "pipeline, all tables, a tenth of the data",
            _thousands(seen, "pipeline_events_per_s_at_a_tenth"),
            "",
        ],
        ["cost of an event at 10 times the data", _times(seen, "pipeline_cost_of_an_event_at_10_times"), ""],
        ["rows copied for each that came", _plain(seen, "pipeline_copied_per_row"), "≤ 2"],
        ["the same, a tenth of the data", _plain(seen, "pipeline_copied_per_row_at_a_tenth"), ""],
        ["bytes of all tables for each event", _plain(seen, "pipeline_bytes_per_event"), ""],
        ["audit, everything", _thousands(seen, "audit_events_per_s"), "≥ 150 k/s"],
    ]
    shown = [row for row in rows if row[1]]
    head = f"{seen['events']:,.0f} events, local[{seen['cores']:.0f}]"
    return markdown_table([head, "events a second", "goal"], shown)


def messages(seen: Figures) -> str:
    """Queues as source and sink, beside what they are measured by."""
    rows = [
        ["sink, a stream of micro-batches", _thousands(seen, "sink_messages_per_s"), ""],
        [
            "two processes of our client, transactions as large",
            _thousands(seen, "client_messages_per_s"),
            "",
        ],
        ["sink / our client", _share(seen, "sink_of_client"), "≥ 80 %"],
        ["two processes of the C client, likewise", _thousands(seen, "c_client_messages_per_s"), ""],
        ["sink / C client", _share(seen, "sink_of_c_client"), ""],
    ]
    for name in ("tap", "consume"):
        rows += [
            [f"{name}, rows", _thousands(seen, f"{name}_rows_per_s"), ""],
            [f"{name}, MB of bodies", _plain(seen, f"{name}_mb_per_s", 0), ""],
            ["ledger source, the same positions", _thousands(seen, f"{name}_yardstick_rows_per_s"), ""],
            [f"{name} / ledger source", _share(seen, f"{name}_of_yardstick"), "≥ 50 %"],
        ]
    rows += [
        ["triage: plan by the bodies", _thousands(seen, "triage_messages_per_s"), ""],
        ["triage: carrying it out", _thousands(seen, "act_messages_per_s"), "≥ 100 k/s"],
    ]
    head = f"{seen['messages']:,.0f} messages of 1 KB, local[{seen['cores']:.0f}]"
    return markdown_table([head, "a second", "goal"], [row for row in rows if row[1]])


def long_runs(seen: Figures) -> str:
    """Speed over time, and freshness."""
    rows = [
        ["at full speed, s", _plain(seen, "speed_s", 0), ""],
        ["events", _plain(seen, "speed_events", 0), ""],
        ["first tenth", _thousands(seen, "speed_first_tenth_events_per_s"), ""],
        ["last tenth", _thousands(seen, "speed_last_tenth_events_per_s"), ""],
        ["last / first", _share(seen, "speed_last_over_first"), "≥ 90 %"],
        ["slowest tenth", _thousands(seen, "speed_slowest_tenth_events_per_s"), ""],
        ["paced writer, events a second", _plain(seen, "freshness_events_per_s", 0), ""],
        ["versions of each table before", _plain(seen, "freshness_commits_before", 0), ""],
        ["age of events in entries, p50", _seconds(seen, "freshness_entries_p50_s"), "< 3 s"],
        ["p99", _seconds(seen, "freshness_entries_p99_s"), "< 10 s"],
        ["in the slowest table, p50", _seconds(seen, "freshness_slowest_table_p50_s"), "< 3 s"],
        ["p99", _seconds(seen, "freshness_slowest_table_p99_s"), "< 10 s"],
        ["a batch, median", _seconds(seen, "freshness_batch_median_s"), ""],
    ]
    return markdown_table(["", "seen", "goal"], [row for row in rows if row[1]])


def plan(seen: Figures) -> str:
    """What a cluster and a petabyte would take, as arithmetic from the figures."""
    if not {"pipeline_events_per_s", "source_to_noop_rows_per_s", "refold_events_per_s"} <= set(seen):
        return ""
    cores = seen["cores"]
    pipeline, refold = seen["pipeline_events_per_s"] / cores, seen["refold_events_per_s"] / cores
    reading = seen["source_to_noop_rows_per_s"] / cores
    petabyte = PETABYTE / EVENT_BYTES
    stored = seen["pipeline_bytes_per_event"]
    usable = PETABYTE_CORES * UPKEEP_SHARE
    rows = {
        "pipeline, events/s a core": f"{pipeline:,.0f}",
        f"cores for {CLUSTER_EVENTS_PER_S:,} events/s, all tables, {UPKEEP_SHARE:.0%} of them at work": (
            f"{CLUSTER_EVENTS_PER_S / pipeline / UPKEEP_SHARE:,.0f}"
        ),
        "ledger that these make a day": f"{CLUSTER_EVENTS_PER_S * DAY_S * EVENT_BYTES / 1e12:,.0f} TB",
        "their tables a day": f"{CLUSTER_EVENTS_PER_S * DAY_S * stored / 1e12:,.0f} TB",
        "events in a petabyte of ledger": f"{petabyte:.1e}",
        f"reading it once on {PETABYTE_CORES:,} cores": _days(petabyte / (reading * usable)),
        "what the network must bring meanwhile": f"{reading * usable * EVENT_BYTES / 1e9:,.0f} GB/s",
        f"all its tables on {PETABYTE_CORES:,} cores": _days(petabyte / (pipeline * usable)),
        f"entries anew from events on {PETABYTE_CORES:,} cores": _days(petabyte / (refold * usable)),
        "all its tables": f"{petabyte * stored / 1e12:,.0f} TB",
    }
    return facts(rows)


def _days(seconds: float) -> str:
    return f"{seconds / DAY_S:,.1f} days" if seconds > 2 * DAY_S else f"{seconds / 3600:,.1f} hours"


def _millions(seen: Figures, name: str) -> str:
    return f"{seen[name] / 1e6:.2f} M" if name in seen else ""


def _thousands(seen: Figures, name: str) -> str:
    return f"{seen[name] / 1e3:,.0f} k" if name in seen else ""


def _share(seen: Figures, name: str) -> str:
    return f"{seen[name]:.0%}" if name in seen else ""


def _times(seen: Figures, name: str) -> str:
    return f"× {seen[name]:.2f}" if name in seen else ""


def _plain(seen: Figures, name: str, digits: int = 2) -> str:
    return f"{seen[name]:,.{digits}f}" if name in seen else ""


def _seconds(seen: Figures, name: str) -> str:
    return f"{seen[name]:.2f} s" if name in seen else ""
