"""The report's sums are those of the ledgers, from open rows or settled ones, from events or from minutes."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from postroom.cli import main
from postroom.model.names import DYNAMIC_PREFIX
from postroom.spark.report import depths, naming
from postroom.spark.report.collect import collect
from postroom.spark.report.data import ReportData
from postroom.spark.report.page import page
from postroom.spark.store.reader import Reader
from tests.ledger.ledger_maker import LedgerMaker
from tests.spark.local_pipeline import catch_up, piped, settle_all
from tests.spark.report.audits import CLEAN
from tests.spark.report_ledgers import LONDON, made_tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_tables(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def data(tables: Path) -> ReportData:
    return collect(str(tables), None)


def test_flows_lead_from_producers_through_queues_and_channels_to_ends(data: ReportData) -> None:
    assert {(flow.source, flow.target, flow.kind, flow.entries) for flow in data.flows} == {
        ("app", "london: orders", "put", 10),
        ("london: orders", "consumed", "end", 6),
        ("london: orders", "held", "end", 3),
        ("london: orders", "london: orders.dead", "dead_letter", 1),
        ("london: orders.dead", "held", "end", 1),
        ("app", "london: PARIS", "put", 2),
        ("london: PARIS", "paris: parcels", "channel", 2),
        ("paris: parcels", "held", "end", 2),
    }


def test_queues_hold_what_arrived_and_has_not_ended(data: ReportData) -> None:
    sums = {one.queue: (one.arrivals, one.held, dict(one.outcomes)) for one in data.queues}
    assert sums["london: orders"] == (10, 3, {"consumed": 6, "dead_lettered": 1})
    assert sums["paris: parcels"] == (2, 2, {})
    assert all(one.arrivals == one.held + sum(one.outcomes.values()) for one in data.queues)


def test_depths_end_with_what_is_held_by_state_and_cause(data: ReportData) -> None:
    at_end = {one.queue: {layer: one.at_end(layer) for layer in one.layers} for one in data.depths}
    assert at_end["paris: parcels"] == {"available": 1, "paused": 1}
    assert at_end["london: orders"]["available"] == 3
    held = {one.queue: one.held for one in data.queues}
    assert {one.queue: one.last for one in data.depths} == held


def test_minutes_give_the_depths_that_events_give(tables: Path) -> None:
    reader, steps = Reader(str(tables)), depths.steps(1_789_999_980_000_000, 1_790_000_100_000_000, 60)
    by_event, by_minute = (depths.Grid(steps, lambda ledger, queue: queue) for _ in range(2))
    depths.add_events(by_event, reader.stored("events", depths.EVENT_COLUMNS))
    depths.add_minutes(by_minute, reader.stored("destinations", depths.MINUTE_COLUMNS))
    depths.add_delays(by_minute, reader.whole("delays", depths.DELAY_COLUMNS))
    assert by_event.depths() == by_minute.depths()
    assert by_event.depths()[0].arrivals > 0


def test_waiting_times_and_reasons(data: ReportData) -> None:
    dwell = {(one.queue, one.state): one for one in data.dwells}
    assert dwell["london: orders", "delayed"].entries == 1
    assert dwell["london: orders", "delayed"].p50_us == pytest.approx(501_000, rel=0.02)
    reasons = [(one.queue, one.outcome, one.entries, one.most_retries) for one in data.undelivered]
    assert reasons == [("london: orders", "dead_lettered", 1, 0)]
    channels = {(one.ledger, one.channel, one.direction): one.messages for one in data.channels}
    assert channels["paris", "LONDON.PARIS", "received"] == 2


def test_the_slowest_message_has_its_phases(data: ReportData) -> None:
    slowest = data.slowest[0]
    assert slowest.message_id == "order-5"
    states = [phase.state for phase in slowest.phases]
    assert states == ["available", "get_unconfirmed", "delayed", "available", "get_unconfirmed"]
    assert slowest.phases[2].why == "redelivery delay"
    assert slowest.ended_us is not None
    took = sum(phase.end_us - phase.begin_us for phase in slowest.phases)
    assert took == slowest.ended_us - slowest.arrival_us
    assert [one.outcome for one in data.oldest] == [""] * len(data.oldest)
    assert {one.queue for one in data.oldest} == {"london: orders", "london: orders.dead", "paris: parcels"}


def test_settled_tables_say_the_same(tmp_path: Path) -> None:
    tables = made_tables(tmp_path)
    before = collect(str(tables), None)
    pipeline = piped(tables, tmp_path / "london", tmp_path / "paris")
    settle_all(pipeline)
    assert Reader(str(tables)).rows("dwell_times") > 0
    after = collect(str(tables), None)
    assert _sorted(after) == _sorted(before)


def _sorted(data: ReportData) -> ReportData:
    return replace(
        data,
        queues=sorted(data.queues, key=lambda one: one.queue),
        flows=sorted(data.flows, key=lambda one: (one.source, one.target, one.kind)),
    )


def test_names_by_chance_are_one() -> None:
    assert naming.container("postroom-1ea2070c-b8c3-4f89-92d0-1ed136e54dfb/parcels") == "postroom"
    assert naming.container("61cfac68-4166-4c85-b7e9-bacba5579556/x") == naming.NAMELESS
    assert naming.steady("postroom.dynamic.645362e907aa48309d6880af5090165f") == "postroom.dynamic"
    assert naming.steady("orders.2026") == "orders.2026"


# --- commands -------------------------------------------------------------------------------------


def test_the_command_writes_the_page_with_the_audits_verdict(tables: Path, tmp_path: Path) -> None:
    cut = replace(CLEAN.cuts[0], ledger_id=str(LONDON), name="LONDON")
    (tmp_path / "audit.json").write_text(json.dumps(replace(CLEAN, cuts=(cut,)).to_json()))
    out = tmp_path / "new" / "report.html"
    arguments = ["--tables", str(tables), "--out", str(out), "--audit", str(tmp_path)]
    done = CliRunner().invoke(main, ["report", *arguments, "--pictures", str(tmp_path / "pictures")])
    assert done.exit_code == 0, done.output
    text = out.read_text()
    assert "Every persistent message is accounted for" in text
    assert "LONDON: orders" in text and "order-5" in text
    assert {one.name for one in (tmp_path / "pictures").iterdir()} == {"flow.svg", "depth.svg"}


def test_what_cannot_be_read_is_one_line_and_code_1(tables: Path, tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["report", "--out", str(tmp_path / "r.html"), *arguments])
        assert done.exit_code == 1
        assert re.fullmatch(r"Error: .*\n", done.output)
        return done.output

    assert "no tables" in refused("--tables", str(tmp_path))
    assert "audit.json" in refused("--tables", str(tables), "--audit", str(tmp_path))
    (tmp_path / "audit.json").write_text("{}")
    assert "not what postroom audit writes" in refused("--tables", str(tables), "--audit", str(tmp_path))


def test_pages_of_real_tables_are_whole(data: ReportData) -> None:
    assert "Slowest messages" in page(data)
    assert "Not audited" in page(data)


def test_dynamic_queues_are_one_unless_all_are_asked_for(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "one", LONDON)
    names = [f"{DYNAMIC_PREFIX}{number:032x}" for number in (1, 2)]
    for queue_id in map(maker.queue, names):
        maker.put(queue_id)
    tables = tmp_path / "tables"
    catch_up(piped(tables, maker.finish()))
    together = collect(str(tables), None)
    assert [(one.queue, one.arrivals) for one in together.queues] == [(DYNAMIC_PREFIX.rstrip("."), 2)]
    apart = collect(str(tables), None, every=True)
    assert sorted((one.queue, one.arrivals) for one in apart.queues) == [(name, 1) for name in names]
    out = tmp_path / "page.html"
    written = CliRunner().invoke(main, ["report", "--tables", str(tables), "--out", str(out), "--all"])
    assert written.exit_code == 0
    assert all(name in out.read_text() for name in names)
