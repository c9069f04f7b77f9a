"""`state of QUEUE as of T` is what replaying the events until then gives."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from postroom.cli import main
from postroom.spark.report.queue_state import Held, state_of_queue
from postroom.spark.store.reader import Reader
from tests.spark.local_pipeline import piped, settle_all
from tests.spark.report_ledgers import made_tables


@pytest.fixture(scope="module", params=["open", "settled"])
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    made = made_tables(folder)
    if request.param == "settled":
        settle_all(piped(made, folder / "london", folder / "paris"))
    return made


def _events(tables: Path, queue: str) -> list[dict[str, Any]]:
    columns = ["serial", "queue", "position", "ordinal", "time", "to_state", "delivery_delta"]
    rows = [row for piece in Reader(str(tables)).stored("events", columns) for row in piece.to_pylist()]
    return sorted(
        (row for row in rows if row["queue"] == queue), key=lambda row: (row["position"], row["ordinal"])
    )


def _replayed(events: list[dict[str, Any]], until: datetime) -> Iterator[tuple[int, str, datetime, int]]:
    state: dict[int, tuple[str, datetime, int]] = {}
    for row in events:
        if row["time"] <= until:
            before = state.get(row["serial"], ("", until, 0))
            state[row["serial"]] = (row["to_state"], row["time"], before[2] + row["delivery_delta"])
    return ((serial, *held) for serial, held in sorted(state.items()) if held[0] != "deleted")


def _as_tuples(found: list[Held]) -> list[tuple[int, str, datetime | None, int]]:
    return [(one.serial, one.state, one.since, one.deliveries) for one in found]


@pytest.mark.parametrize("queue", ["orders", "PARIS", "parcels"])
def test_at_every_event_the_state_is_what_the_events_until_then_led_to(tables: Path, queue: str) -> None:
    events = _events(tables, queue)
    for time in sorted({row["time"] for row in events}):
        assert _as_tuples(state_of_queue(str(tables), queue, time)) == list(_replayed(events, time))
    last = events[-1]["time"]
    assert _as_tuples(state_of_queue(str(tables), queue)) == list(_replayed(events, last))
    assert state_of_queue(str(tables), queue, events[0]["time"] - timedelta(seconds=1)) == []


def test_who_holds_a_message_and_what_delays_it_is_told(tables: Path) -> None:
    delayed = [one for one in state_of_queue(str(tables), "parcels") if one.state == "delayed"]
    assert [one.why for one in delayed] == ["paused"]
    events = _events(tables, "orders")
    held = next(row for row in events if row["to_state"] == "get_unconfirmed")
    found = state_of_queue(str(tables), "orders", held["time"])
    assert next(one.why for one in found if one.state == "get_unconfirmed").startswith("consumer")


def test_the_command_shows_it_and_says_when_there_is_nothing(tables: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["state", *arguments, "--tables", str(tables)])
        return done.exit_code, done.output

    code, text = run("orders", "--count", "2")
    assert code == 0
    assert "order-8" in text and "order-9" not in text and "3 in all, 2 shown" in text
    code, text = run("orders", "--json")
    assert (code, len(text.splitlines())) == (0, 3)
    code, text = run("no such queue")
    assert code == 4 and "nothing is there" in text
    assert run("orders", "--as-of", "yesterday")[0] == 2
    early = datetime(2020, 1, 1, tzinfo=UTC).isoformat()
    assert run("orders", "--as-of", early)[0] == 4


def test_without_events_only_the_present_is_known(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Reader.snapshot
    monkeypatch.setattr(
        Reader, "snapshot", lambda self, name: None if name == "events" else known(self, name)
    )
    time = _time_between(tables)
    done = CliRunner().invoke(main, ["state", "orders", "--tables", str(tables), "--as-of", time.isoformat()])
    assert done.exit_code == 1
    assert "leave --as-of out" in done.output


def _time_between(tables: Path) -> datetime:
    found = state_of_queue(str(tables), "orders")[0].arrival
    assert found is not None
    return found
