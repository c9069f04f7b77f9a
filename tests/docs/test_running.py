"""How tests are run: what a sample has, which tests a change needs, how work is handed out, what it cost."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools import changed_tests

from tests import again, coverage, load, long, sampling, scheduling, times


class Case:
    """What the choice looks at of a case of a test."""

    def __init__(self, nodeid: str, params: dict[str, int]) -> None:
        self.nodeid, self.callspec = nodeid, SimpleNamespace(params=params)


@given(st.lists(st.integers(), max_size=60), st.integers(1, 20))
def test_a_spread_sample_has_first_and_last_and_keeps_the_order(cases: list[int], most: int) -> None:
    numbered = list(enumerate(cases))
    kept = sampling.spread(numbered, most)
    assert len(kept) == (len(cases) if sampling.WHOLE else min(most, len(cases)))
    assert kept == sorted(set(kept))
    assert len(cases) < 2 or most < 2 or (kept[0], kept[-1]) == (numbered[0], numbered[-1])


@pytest.mark.parametrize(("most", "kept"), [(12, 12), (1, 6), (99, 24)])
def test_a_sample_of_cases_has_every_value_of_every_parameter(most: int, kept: int) -> None:
    cases: list[Any] = [
        Case(f"test_many[{one}-{other}]", {"one": one, "other": other})
        for one in range(4)
        for other in range(6)
    ]
    found = sampling.chosen(cases, most)
    assert kept <= len(found) <= max(kept, 4 + 6)
    values = {value for case in found for value in case.callspec.params.items()}  # type: ignore[attr-defined]
    assert len(values) == 4 + 6
    assert found == sampling.chosen(cases[::-1], most)


def test_fewer_examples_are_made_in_a_sample() -> None:
    numbers = [sampling.examples(whole) for whole in (1, 10, 100, 500)]
    assert numbers == ([1, 10, 100, 500] if sampling.WHOLE else [1, 4, 20, 100])


@pytest.mark.parametrize(
    ("nodeid", "piece"),
    [
        ("tests/foreign/test_rabbitmq.py::test_one[a::b]", "RabbitMQ and Artemis"),
        ("tests/spark/sink/test_sink.py::test_two", "Spark"),
        ("tests/spark/store/test_commits.py::test_two", "tests/spark/store/test_commits.py"),
        ("tests/server/links/test_links.py::test_two", "tests/server/links/test_links.py"),
    ],
)
def test_a_file_is_a_piece_of_work_or_the_folder_that_shares_servers(nodeid: str, piece: str) -> None:
    assert scheduling.piece(nodeid) == piece


def test_long_pieces_are_handed_out_before_quick_ones() -> None:
    files = ["tests/model/test_xa.py", "tests/server/test_clock.py", "tests/spark/session/test_sql.py"]
    assert sorted(files, key=scheduling.place) == files[::-1]


def test_whatever_is_named_for_scheduling_exists() -> None:
    shared = sum(scheduling.TOGETHER.values(), ())
    named = [*shared, *scheduling.ORDER, *(f"tests/{name}" for name in sampling.PURE)]
    assert [path for path in named if not (changed_tests.ROOT / path).exists()] == []


# -- the tests that a change needs


def test_a_change_of_the_report_runs_no_test_with_sockets() -> None:
    found = changed_tests.tests_of("src/postroom/spark/report/sankey.py")
    assert "tests/spark/report/test_page.py" in found
    assert {Path(file).parts[1] for file in found} <= {"spark", "cli", "docs"}


def test_a_module_s_tests_are_those_of_its_room_and_those_near_it() -> None:
    found = changed_tests.tests_of("src/postroom/model/xa.py")
    assert {"tests/model/test_xa.py", "tests/manager/transactions/test_xa_verbs.py"} <= found
    assert "tests/spark/report/test_page.py" not in found


@pytest.mark.parametrize(
    ("file", "test"),
    [
        ("tests/server/links/test_links.py", "tests/server/links/test_links.py"),
        ("tests/server/harness.py", "tests/cli/queues/test_queue_show.py"),
        ("tests/cli/conftest.py", "tests/cli/queues/test_queue_show.py"),
        ("src/postroom/server/console/templates/queue.html", "tests/server/console/test_shell.py"),
        ("tools/architecture.py", "tests/docs/test_architecture.py"),
        ("deploy/systemd/postroom@.service", "tests/docs/test_deploy.py"),
    ],
)
def test_a_changed_file_leads_to_a_test(file: str, test: str) -> None:
    assert test in changed_tests.tests_of(file)


def test_what_is_gone_leads_nowhere() -> None:
    assert changed_tests.tests_of("tests/model/test_that_was_removed.py") == set()


def test_most_changes_lead_to_few_test_files() -> None:
    files = [str(path.relative_to(changed_tests.ROOT)) for path in changed_tests.ROOT.glob("src/**/*.py")]
    counts = sorted(len(changed_tests.tests_of(file)) for file in files[::10])
    assert counts[len(counts) // 2] <= 12


# -- what a run cost


def cost(test: str, seconds: float, worker: str = "gw0") -> dict[str, object]:
    return {
        "test": test,
        "began": 10.0,
        "worker": worker,
        "outcome": "passed",
        "wall_s": seconds,
        "processor_s": 2 * seconds,
        "setup_s": 0.5,
    }


def test_the_tables_of_a_run_add_up() -> None:
    tests = [
        cost("tests/model/test_xa.py::test_a[1]", 1.0),
        cost("tests/model/test_xa.py::test_a[2]", 2.0),
        cost("tests/server/links/test_links.py::test_b", 4.0, "gw1"),
        cost("tests/spark/sink/test_sink.py::test_c", 8.0, "gw1"),
    ]
    lines = list(times.report({"began": 8.0, "wall_s": 20.0, "tests": tests}, 2))
    assert lines[0] == "4 tests in 20 s, 2 processes, 30 s of processor time in tests"
    assert "  gw1: first test after 2 s, last after 10 s" in lines
    found = [line.split() for line in lines]
    assert ["16.0", "8.0", "0.5", "1", "Spark"] in found
    assert ["6.0", "3.0", "1.0", "2", "1", "more"] in found
    whole = [line.split() for line in times.report({"began": 8.0, "wall_s": 20.0, "tests": tests}, 9)]
    assert ["6.0", "3.0", "1.0", "2", "tests/model/test_xa.py::test_a"] in whole


TWO_TESTS = """
import subprocess, sys

def test_busy():
    subprocess.run([sys.executable, "-c", "sum(range(5_000_000))"], check=True)

def test_failing():
    assert False
"""


def test_a_run_is_measured_with_its_processes(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(TWO_TESTS)
    plugins = ("-p", "tests.times", "-p", "no:cacheprovider", "-p", "no:xdist")
    command = [sys.executable, "-m", "pytest", *plugins, "--times", "times.json", "test_two.py"]
    environment = {**os.environ, "PYTHONPATH": str(changed_tests.ROOT)}
    environment.pop(times.WORKER, None)
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    busy, failing = json.loads((tmp_path / "times.json").read_text())["tests"]
    assert (busy["outcome"], failing["outcome"]) == ("passed", "failed")
    assert busy["processor_s"] > 0.02
    assert failing["processor_s"] < busy["processor_s"]


def test_a_process_that_crashes_ends_one_test(tmp_path: Path) -> None:
    """The others are played by another."""
    (tmp_path / "test_crash.py").write_text("import os\ndef test_crash():\n    os.abort()\n")
    (tmp_path / "test_other.py").write_text("def test_other():\n    pass\n")
    plugins = (
        "-p",
        "tests.times",
        "-p",
        "tests.scheduling",
        "-p",
        "tests.sampling",
        "-p",
        "no:cacheprovider",
    )
    command = [sys.executable, "-m", "pytest", *plugins, "-n", "1", "--times=times.json", "."]
    environment = {**os.environ, "PYTHONPATH": str(changed_tests.ROOT)}
    environment.pop(times.WORKER, None)
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    tests = json.loads((tmp_path / "times.json").read_text())["tests"]
    assert {each["test"]: each["outcome"] for each in tests} == {
        "test_crash.py::test_crash": "failed",
        "test_other.py::test_other": "passed",
    }


# -- failed tests, once more


def results(path: Path, **outcomes: str) -> str:
    """The file of a run of tests, by name with their outcomes."""
    tests = [{"test": name, "outcome": outcome} for name, outcome in outcomes.items()]
    path.write_text(json.dumps({"tests": tests}))
    return str(path)


@pytest.mark.parametrize(
    ("failed", "passes", "code"),
    [
        (["tests/server/test_start.py::test_a"], True, 0),
        (["tests/server/test_start.py::test_a"], False, 1),
        (["tests/model/test_xa.py::test_a"], True, 1),  # there is no chance in it
        ([f"tests/server/test_start.py::test_{number}" for number in range(6)], True, 1),
        ([], True, 1),  # it ended for another reason
    ],
)
def test_a_failure_that_may_be_by_chance_is_tried_once_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failed: list[str], passes: bool, code: int
) -> None:
    played: list[str] = []
    monkeypatch.setattr(again, "passes_alone", lambda test: played.append(test) or passes)
    file = results(tmp_path / "times.json", **dict.fromkeys(failed, "failed"), other="passed")
    monkeypatch.setattr(sys, "argv", ["again", file])
    assert again.main() == code
    assert played == (failed if len(failed) == 1 and "model" not in failed[0] else [])


def test_a_run_without_results_stays_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["again", str(tmp_path / "none.json")])
    assert again.main() == 1


# -- coverage


def test_a_share_that_falls_is_told_and_chance_is_not() -> None:
    before = {"manager/queues": {"lines": 90.0, "own lines": 80.0}, "gone": {"lines": 100.0}}
    now = {"manager/queues": {"lines": 89.9, "own lines": 70.0}, "new": {"lines": 0.0}}
    assert list(coverage.smaller(before, now)) == ["manager/queues: own lines 70.0 %, was 80.0 %"]


def test_a_room_has_changed_when_its_source_or_its_tests_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(coverage, "SOURCE", tmp_path / "src")
    monkeypatch.setattr(coverage, "TESTS", tmp_path / "tests")
    for name in ("src/manager/queues/band.py", "src/manager/turn.py", "tests/manager/queues/test_band.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    before = coverage.sums()
    assert list(before) == ["manager", "manager/queues"]
    (tmp_path / "tests/manager/queues/test_band.py").write_text("more = 1")
    after = coverage.sums()
    assert (after["manager"], after["manager/queues"] != before["manager/queues"]) == (
        before["manager"],
        True,
    )
    (tmp_path / "src/manager/turn.py").write_text("more = 1")
    assert coverage.sums()["manager"] != before["manager"]


# -- beside a load


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("false", 1)])
def test_a_command_is_run_so_often_beside_a_load_that_ends_with_it(
    command: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["load", "--times", "2", "--processes", "1", command])
    assert load.main() == code
    assert capsys.readouterr().out.splitlines()[-1] == f"{2 - 2 * code} passed, {2 * code} failed"
    assert not multiprocessing.active_children()


# -- the long run


def test_a_long_run_that_is_stopped_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(long, "STATE", tmp_path / "state.json")
    state = long.loaded(7, again=False)
    state.ran = {"done": long.Ran(1, 60.0, "9 passed"), "broken": long.Ran(1, 5.0, "1 failed", "pytest …")}
    state.save()
    again = long.loaded(8, again=False)
    assert (again.first, list(again.ran)) == (7, ["done"])
    anew = long.loaded(8, again=True)
    assert (anew.first, anew.ran) == (8, {})
    monkeypatch.setattr(long, "source_sum", lambda: "another")
    assert long.loaded(9, again=False).ran == {}


def test_every_test_folder_is_a_step_of_the_long_run() -> None:
    names = [step.name for step in long.steps()]
    assert {"tests/server", "tests/spark/sink", "tests/docs", "planted bugs"} <= set(names)
    assert len(set(names)) == len(names)
    assert sum(step.share for step in long.steps()) == pytest.approx(1)
