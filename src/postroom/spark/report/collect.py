"""From the tables to the report's data: the sums that are drawn."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from postroom.spark.audit.result import AuditResult, folded
from postroom.spark.report import depths, flows, lives, sums
from postroom.spark.report.data import Depth, Life, ReportData, Span, Steps
from postroom.spark.report.naming import Naming, naming_of
from postroom.spark.store.protocol import TableError
from postroom.spark.store.reader import MAX_ROWS, Reader
from postroom.spark.tables.dwell_times import DWELL_TIMES
from postroom.spark.tables.range import Range

FINE_SPAN_S: Final = 2 * 3600
"""What happened within so short a time is drawn from events, in steps finer than a minute."""


def collect(root: str, audit: AuditResult | None, every: bool = False) -> ReportData:
    """Everything that the page shows, of the tables in a folder; ``every``: each dynamic queue of clients by
    itself. Raises ``LedgerError``, ``OSError``."""
    if audit is not None and not every:
        audit = replace(audit, queues=tuple(folded(audit.queues)))
    return Collecting(root, audit, every).data()


class Collecting:
    """One report as it is put together."""

    def __init__(self, root: str, audit: AuditResult | None, every: bool = False) -> None:
        self.reader = Reader(root)
        self.audit = audit
        self.remarks: dict[str, str] = {}
        self.spans = self._spans(root)
        self.naming: Naming = naming_of(root, (one.ledger_id for one in self.spans), audit, every)

    def _spans(self, root: str) -> list[Span]:
        names = ("entries", "destinations", "events")
        known = next((found for name in names if (found := self.reader.snapshot(name))), None)
        if known is None:
            raise TableError(f"there are no tables in {root}: postroom pipeline run makes them")
        return [
            Span(ledger, "", position.epoch, position.position)
            for ledger, position in sorted(known.state.positions.items())
        ]

    def data(self) -> ReportData:
        """The page's data."""
        naming = self.naming
        flow_counts, longest, times = flows.FlowCounts(), lives.Longest(), Times()
        for piece in self._entries():
            flow_counts.add(piece)
            longest.add(piece)
            times.add(piece)
        steps, depth = self._depths(times)
        slowest, oldest = self._lives(longest, times.last_us or 0)
        return ReportData(
            spans=[Span(s.ledger_id, naming.ledger(s.ledger_id), s.epoch, s.position) for s in self.spans],
            first_us=times.first_us,
            last_us=times.last_us,
            queues=sums.queues(self.reader.stored("destinations", sums.QUEUE_COLUMNS), naming),
            flows=flow_counts.flows(naming.queue),
            steps=steps,
            depths=depth,
            dwells=sums.dwells(self._dwells(), naming),
            undelivered=sums.undelivered(self.reader.whole("undelivered", sums.UNDELIVERED_COLUMNS), naming),
            slowest=slowest,
            oldest=oldest,
            channels=sums.channels(self.reader.stored("channels", sums.CHANNEL_COLUMNS), naming),
            audit=self.audit,
            remarks=self.remarks,
        )

    def _entries(self) -> Iterator[pa.Table]:
        """Entries in all columns that single messages are counted by."""
        rows = self.reader.rows("entries")
        if rows > MAX_ROWS:
            remark = f"Of {rows:,} rows of the table entries, the newest {MAX_ROWS:,} were looked at."
            self.remarks |= {"flow": remark, "slowest": remark}
        columns = dict.fromkeys((*flows.COLUMNS, *lives.COLUMNS, *TIME_COLUMNS))
        return self.reader.whole("entries", list(columns))

    def _dwells(self) -> Iterator[pa.Table]:
        """The sketches, and those of entries that have ended and aren't settled: they get there later."""
        yield from self.reader.stored("dwell_times", sums.DWELL_COLUMNS)
        for piece in self.reader.partial("entries"):
            ended = piece.filter(pc.equal(piece["state"], "deleted"))
            sketches = DWELL_TIMES.units(Range(ended)).cast(DWELL_TIMES.schema)
            yield sketches.select(sums.DWELL_COLUMNS)

    def _depths(self, times: "Times") -> tuple[Steps | None, list[Depth]]:
        if times.first_us is None or times.last_us is None:
            return None, []
        is_fine = times.last_us - times.first_us <= FINE_SPAN_S * 1e6
        if is_fine and 0 < self.reader.rows("events") <= MAX_ROWS:
            grid = depths.Grid(depths.steps(times.first_us, times.last_us), self.naming.queue)
            depths.add_events(grid, self.reader.stored("events", depths.EVENT_COLUMNS))
        else:
            steps = depths.steps(times.first_us, times.last_us, depths.MINUTE_S)
            grid = depths.Grid(steps, self.naming.queue)
            depths.add_minutes(grid, self.reader.stored("destinations", depths.MINUTE_COLUMNS))
            depths.add_delays(grid, self.reader.whole("delays", depths.DELAY_COLUMNS))
        if grid.left_out:
            self.remarks["depth"] = f"{len(grid.left_out):,} further queues are left out."
        return grid.steps, grid.depths()

    def _lives(self, longest: lives.Longest, now_us: int) -> tuple[list[Life], list[Life]]:
        rows = longest.rows()
        since = min((row["serial"] for row in rows), default=0)
        events = lives.events_of(rows, self.reader.newest("events", lives.EVENT_COLUMNS, since))

        def life(row: lives.Row) -> Life:
            queue = self.naming.queue(row["ledger_id"], row["queue"] or str(row["queue_id"]))
            return lives.life(row, events[lives.key_of(row)], queue, now_us)

        return [life(row) for row in longest.ended], [life(row) for row in longest.open]


TIME_COLUMNS: Final = ("arrival_time", "last_event_time", "is_carried")


class Times:
    """The first and the last time that any event of an entry tells."""

    def __init__(self) -> None:
        self.first_us: int | None = None
        self.last_us: int | None = None

    def add(self, rows: pa.Table) -> None:
        """Look at some folded rows of entries."""
        known = rows.filter(pc.invert(pc.fill_null(rows["is_carried"], False)))
        first = pc.min(lives.micros(known["arrival_time"])).as_py()
        last = pc.max(lives.micros(rows["last_event_time"])).as_py()
        self.first_us = min((one for one in (self.first_us, first) if one is not None), default=None)
        self.last_us = max((one for one in (self.last_us, last) if one is not None), default=None)
