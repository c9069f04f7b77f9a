"""Writes the Grafana dashboard, ``deploy/grafana/postroom.json``, from the table of its panels.

``python -m tools.dashboard`` writes it; a test compares it, and runs its queries by what a broker shows.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "deploy" / "grafana" / "postroom.json"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS, WIDTH, HEIGHT = 24, 8, 8
SCHEMA_VERSION = 39
"""Grafana 10.4's; later ones take it."""

OF = 'instance=~"$instance"'
OF_QUEUES = f'{OF}, queue=~"$queue"'
RATE = "$__rate_interval"


@dataclass(frozen=True)
class Panel:
    """One graph: its queries, and what each line is called."""

    title: str
    unit: str
    queries: dict[str, str]
    meaning: str = ""
    kind: str = "timeseries"


def by_queue(metric: str) -> str:
    """The rate of a queue's counter."""
    return f"sum by (queue) (rate({metric}{{{OF_QUEUES}}}[{RATE}]))"


ROWS: dict[str, list[Panel]] = {
    "Now": [
        Panel(
            "Alarms",
            "dateTimeFromNow",
            {"{{name}}": f"postroom_alarm_since_seconds{{{OF}}} * 1000"},
            "On since then; empty is good.",
            "stat",
        ),
        Panel(
            "Messages held",
            "short",
            {"messages": f"sum(postroom_queue_messages{{{OF}}})"},
            "On all queues: current and pending.",
            "stat",
        ),
        Panel("Connections", "short", {"{{instance}}": f"postroom_connections{{{OF}}}"}, "Open now.", "stat"),
    ],
    "Queues": [
        Panel(
            "In", "cps", {"{{queue}}": by_queue("postroom_queue_received_total")}, "Messages taken, a second."
        ),
        Panel(
            "Out",
            "cps",
            {"{{queue}}": by_queue("postroom_queue_consumed_total")},
            "Messages consumed, a second.",
        ),
        Panel("In, bytes", "Bps", {"{{queue}}": by_queue("postroom_queue_received_bytes_total")}),
        Panel(
            "Depth",
            "short",
            {"{{queue}}": f"sum by (queue) (postroom_queue_messages{{{OF_QUEUES}}})"},
            "Current and pending.",
        ),
        Panel(
            "Pending, by cause",
            "short",
            {"{{state}}": f'sum by (state) (postroom_queue_messages{{{OF_QUEUES}, state!="current"}})'},
            "Delivered and unacknowledged, uncommitted, delayed, paused, locked.",
        ),
        Panel(
            "Oldest message",
            "s",
            {"{{queue}}": f"max by (queue) (postroom_queue_oldest_seconds{{{OF_QUEUES}}})"},
            "Of those that could be received now.",
        ),
        Panel(
            "Consumers", "short", {"{{queue}}": f"sum by (queue) (postroom_queue_consumers{{{OF_QUEUES}}})"}
        ),
        Panel("Bytes held", "bytes", {"{{queue}}": f"sum by (queue) (postroom_queue_bytes{{{OF_QUEUES}}})"}),
        Panel(
            "Blocked sends", "cps", {"{{queue}}": by_queue("postroom_queue_blocked_sends_total")}, "No room."
        ),
    ],
    "What was not consumed": [
        Panel(
            "Ended otherwise",
            "cps",
            {
                "{{queue}} {{outcome}}": "sum by (queue, outcome) "
                f"(rate(postroom_queue_ended_total{{{OF_QUEUES}}}[{RATE}])) > 0"
            },
            "Expired, dead-lettered, deleted, moved, lost …",
        ),
        Panel(
            "Undeliverable, by reason",
            "cps",
            {"{{reason}}": f"sum by (reason) (rate(postroom_undeliverable_total{{{OF}}}[{RATE}]))"},
            "Sent to a dead-letter queue, or discarded where there was none.",
        ),
        Panel(
            "Duplicates dropped", "cps", {"{{queue}}": by_queue("postroom_queue_duplicates_dropped_total")}
        ),
    ],
    "Ledger and disk": [
        Panel(
            "Not yet durable",
            "short",
            {
                "records": f"postroom_ledger_position{{{OF}}} - postroom_ledger_durable_through{{{OF}}}",
                "bytes": f"postroom_ledger_unsynced_bytes{{{OF}}}",
            },
            "Records made and bytes received that no sync covers.",
        ),
        Panel("Room on the disk", "bytes", {"{{instance}}": f"postroom_ledger_free_bytes{{{OF}}}"}),
        Panel(
            "Records",
            "cps",
            {"{{instance}}": f"rate(postroom_ledger_position{{{OF}}}[{RATE}])"},
            "Made, a second.",
        ),
        Panel(
            "Leases",
            "short",
            {"in all": f"postroom_ledger_leases{{{OF}}}", "broken": f"postroom_ledger_leases_broken{{{OF}}}"},
            "What readers keep of the history.",
        ),
        Panel(
            "Refused, stopped",
            "short",
            {
                "puts refused": f"postroom_ledger_space_low{{{OF}}}",
                "sealing stopped": f"postroom_ledger_maintenance_stopped{{{OF}}}",
            },
            "1 is an alarm.",
        ),
    ],
    "Connections": [
        Panel("New", "cps", {"{{instance}}": f"rate(postroom_connections_total{{{OF}}}[{RATE}])"}),
        Panel(
            "Throttled",
            "percentunit",
            {
                "{{kind}} {{name}}": "sum by (kind, name) "
                f"(rate(postroom_throttled_seconds_total{{{OF}}}[{RATE}]))"
            },
            "How long a limit keeps connections from being read.",
        ),
        Panel(
            "Failed sign-ins",
            "short",
            {"{{instance}}": f"postroom_sign_in_refusals_waiting{{{OF}}}"},
            "Slowed.",
        ),
        Panel(
            "Certificates end",
            "s",
            {
                "{{listen}}": f"postroom_certificate_expiry_timestamp_seconds{{{OF}}} - time()",
                "{{listen}} revocation list": "postroom_revocation_list_expiry_timestamp_seconds"
                f"{{{OF}}} - time()",
            },
        ),
    ],
    "Channels": [
        Panel(
            "State",
            "short",
            {"{{channel}} {{state}}": f"postroom_channel_state{{{OF}}}"},
            "As DISPLAY CHSTATUS has it.",
        ),
        Panel(
            "Messages",
            "cps",
            {"{{channel}}": f"sum by (channel) (rate(postroom_channel_messages_total{{{OF}}}[{RATE}]))"},
        ),
        Panel("In doubt", "short", {"{{channel}}": f"postroom_channel_in_doubt_messages{{{OF}}}"}),
    ],
    "Members": [
        Panel(
            "Behind",
            "s",
            {"{{member}}": f"max by (member) (postroom_member_behind_seconds{{{OF}}})"},
            "Age of the oldest entry that a member lacks.",
        ),
        Panel(
            "Behind, entries",
            "short",
            {"{{member}}": f"max by (member) (postroom_member_behind_entries{{{OF}}})"},
        ),
        Panel(
            "Last heard of",
            "s",
            {"{{member}}": f"time() - max by (member) (postroom_member_note_timestamp_seconds{{{OF}}})"},
        ),
    ],
    "Spark": [
        Panel(
            "Held for readers and by sinks",
            "short",
            {
                "subscriptions": f"postroom_spark_messages{{{OF}}}",
                "sinks": f"postroom_sink_messages{{{OF}}}",
            },
            "Messages.",
        ),
        Panel(
            "Subscriptions and branches",
            "short",
            {
                "subscriptions": f"postroom_spark_subscriptions{{{OF}}}",
                "branches": f"postroom_sink_branches{{{OF}}}",
            },
        ),
        Panel(
            "Leases that ended by themselves",
            "short",
            {
                "subscriptions": f"increase(postroom_spark_leases_ended_total{{{OF}}}[1h])",
                "branches": f"increase(postroom_sink_leases_ended_total{{{OF}}}[1h])",
            },
            "In an hour.",
        ),
    ],
    "HTTP": [
        Panel(
            "Requests",
            "reqps",
            {
                "{{path}} {{status}}": "sum by (path, status) "
                f"(rate(postroom_http_requests_total{{{OF}}}[{RATE}]))"
            },
        ),
        Panel(
            "Time of an answer, 99 of 100",
            "s",
            {
                "{{path}}": "histogram_quantile(0.99, sum by (path, le) "
                f"(rate(postroom_http_request_seconds_bucket{{{OF}}}[{RATE}])))"
            },
        ),
        Panel(
            "Bytes of answers",
            "Bps",
            {"{{path}}": f"sum by (path) (rate(postroom_http_response_bytes_total{{{OF}}}[{RATE}]))"},
        ),
    ],
    "Traces": [
        Panel(
            "Spans",
            "cps",
            {
                "sent": f"rate(postroom_trace_spans_exported_total{{{OF}}}[{RATE}])",
                "dropped: {{reason}}": f"rate(postroom_trace_spans_dropped_total{{{OF}}}[{RATE}])",
            },
        ),
        Panel("Spans that wait", "short", {"{{instance}}": f"postroom_trace_spans_waiting{{{OF}}}"}),
        Panel("Messages traced", "short", {"{{instance}}": f"postroom_trace_messages{{{OF}}}"}, "Alive."),
    ],
}


def dashboard() -> dict[str, Any]:
    """As Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(_row(title, y, len(panels)))
        y += 1
        for at, panel in enumerate(row):
            place = {
                "x": at * WIDTH % COLUMNS,
                "y": y + at * WIDTH // COLUMNS * HEIGHT,
                "w": WIDTH,
                "h": HEIGHT,
            }
            panels.append(_panel(panel, place, len(panels)))
        y += -(-len(row) * WIDTH // COLUMNS) * HEIGHT
    return {
        "title": "Postroom",
        "uid": "postroom",
        "tags": ["postroom", "messaging"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": panels,
    }


def _variables() -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return [
        source,
        _variable("instance", "label_values(postroom_info, instance)"),
        _variable("queue", f"label_values(postroom_queue_messages{{{OF}}}, queue)"),
    ]


def _variable(name: str, query: str) -> dict[str, Any]:
    shown = {"name": name, "label": name.capitalize(), "type": "query", "query": query, "refresh": 2}
    return shown | {"datasource": SOURCE, "multi": True, "includeAll": True, "allValue": ".*"}


def _row(title: str, y: int, number: int) -> dict[str, Any]:
    place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
    return {
        "type": "row",
        "id": number + 1,
        "title": title,
        "collapsed": False,
        "gridPos": place,
        "panels": [],
    }


def _panel(panel: Panel, place: dict[str, int], number: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query, "legendFormat": legend}
        for at, (legend, query) in enumerate(panel.queries.items())
    ]
    return {
        "type": panel.kind,
        "id": number + 1,
        "title": panel.title,
        "description": panel.meaning,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}}
        if panel.kind == "timeseries"
        else {},
        "targets": targets,
    }


def written() -> str:
    """The file's text."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write it."""
    FILE.write_text(written())
    return 0


if __name__ == "__main__":
    sys.exit(main())
