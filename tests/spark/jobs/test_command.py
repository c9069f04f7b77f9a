"""`postroom job` as an orchestrator runs it: what it prints, and how it ends; the how-tos as written."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from postroom.cli import main
from postroom.cli.spark import job
from postroom.client import Message
from postroom.server.configuration.config import QueueConfig
from postroom.spark.jobs.errors import Exit
from tests.spark.jobs.job_broker import Scene, rule, scene

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.timeout(900)]

DOCS = Path(__file__).resolve().parents[3] / "docs"
OFFERS = [
    QueueConfig(name=name, dead_letter_queue="dead") for name in ("orders", "offers")
] + [QueueConfig(name=name) for name in ("dead", "to.look.at", "audit")]  # fmt: skip


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Scene]:
    with scene(tmp_path, queue=OFFERS) as made:
        yield made


@pytest.fixture(autouse=True)
def _session(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    """The tests' own session, which a command doesn't stop."""

    @contextmanager
    def session(cores: int) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(job, "_session", session)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["job", *arguments])


def triage(at: Scene, text: str, *more: str) -> Result:
    file = at.folder.parent / "rules.toml"
    file.write_text(text)
    arguments = ["--queue", "dead", "--data", str(at.folder), "--rules", str(file)]
    return run("triage", *arguments, *more)


def applied(at: Scene, *more: str) -> list[str]:
    return ["--apply", "--out", str(at.out), "--broker", at.broker.url, *more]


DISCARD = rule("true", "discard", name="all")


def test_targets_and_queues_that_are_not_there_are_told_before_anything_is_looked_at(at: Scene) -> None:
    at.put("dead", ["a"])
    ended = triage(at, rule("true", "forward", "audti"), *applied(at))
    assert ended.exit_code == Exit.USAGE
    assert "line 1: rule 'rule 1': `to`: there is no queue 'audti'; did you mean 'audit'?" in ended.stderr
    for command in (("triage", "--rules", str(at.folder.parent / "rules.toml")), ("deduplicate",)):
        ended = run(*command, "--queue", "daed", "--data", str(at.folder))
        assert ended.exit_code == Exit.CANNOT
        assert "has no queue 'daed'; did you mean 'dead'?" in ended.stderr
    assert at.depth("dead") == 1 and not at.out.exists()


def test_a_dry_run_says_what_would_be_done_and_does_nothing(at: Scene) -> None:
    at.put("dead", ["a", "b"])
    text = rule("text = 'a'", "forward", "audit", "the a")
    ended = triage(at, text)
    assert ended.exit_code == Exit.DONE
    assert re.search(r"the a +forward audit +1", ended.stdout)
    assert re.search(r"\(no rule\) +leave +1", ended.stdout)
    assert "1 messages would be acted on; nothing has been done" in ended.stdout
    output = json.loads(triage(at, text, "--json").stdout)
    assert (output["applied"], output["plan"], [each["messages"] for each in output["counts"]]) == (
        False,
        None,
        [1, 1],
    )
    assert at.depth("dead") == 2 and not at.out.exists()


def test_everything_done_is_0_and_again_too(at: Scene) -> None:
    at.put("dead", ["a", "b"])
    ended = triage(at, DISCARD, *applied(at, "--job", "one"))
    assert (ended.exit_code, at.depth("dead")) == (Exit.DONE, 0)
    assert "triage of dead: messages: 2 done" in ended.stdout
    at.put("dead", ["later"])
    again = triage(at, DISCARD, *applied(at, "--job", "one", "--json"))
    assert again.exit_code == Exit.DONE and json.loads(again.stdout)["answers"] == {"done": 2}
    assert at.depth("dead") == 1, "the job of that id is done"
    assert triage(at, rule("false", "discard"), *applied(at)).exit_code == Exit.DONE, "nothing to do"


def test_messages_that_were_left_are_3(at: Scene) -> None:
    at.put("dead", ["a", "b"])
    assert triage(at, DISCARD, "--out", str(at.out), "--job", "one").exit_code == Exit.DONE
    consumer = at.consumer("dead")
    assert consumer.receive(10) is not None
    ended = run("act", str(at.out / "one"), "--broker", at.broker.url)
    assert ended.exit_code == Exit.NOT_ALL
    assert "1 done, 1 refused" in ended.stdout and "refused 1: the message is not free" in ended.stdout


def test_a_broker_that_is_not_there_is_1(at: Scene) -> None:
    at.put("dead", ["a"])
    ended = triage(
        at, DISCARD, "--apply", "--out", str(at.out), "--broker", "amqp://127.0.0.1:1", "--job", "x"
    )
    assert ended.exit_code == Exit.FAILED and "goes on with what is left" in ended.stderr
    assert triage(at, DISCARD, *applied(at, "--job", "x")).exit_code == Exit.DONE
    nothing = run("deduplicate", "--queue", "dead", "--data", str(at.folder / "nowhere"))
    assert nothing.exit_code == Exit.FAILED and len(nothing.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--apply"], "--apply needs --out"),
        (["--apply", "--out", "o"], "--apply needs --broker"),
        (["--job", "j"], "--job needs --out"),
        (["--out", "o", "--job", "../j"], "a job's id"),
        (["--out", "nosuch://x"], "nosuch"),
        (["--in-flight", "99"], "--in-flight"),
    ],
)
def test_wrong_usage_is_2(at: Scene, more: list[str], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POSTROOM_URL", raising=False)
    ended = triage(at, DISCARD, *more)
    assert ended.exit_code == Exit.USAGE and text in ended.stderr


def test_wrong_rules_and_columns_are_2(at: Scene) -> None:
    at.put("dead", ["a"])
    for text, problem in (("[[rule]]", "has no `when`"), (rule("nosuch", "leave"), "line 1: rule 'rule 1'")):
        ended = triage(at, text)
        assert ended.exit_code == Exit.USAGE and problem in ended.stderr
    both = triage(at, rule("nosuch", "leave", name="one") + rule("1", "leave", name="two"))
    assert [line.split(": rule ")[1][:5] for line in both.stderr.splitlines()] == ["'one'", "'two'"]
    assert run("deduplicate", "--queue", "dead", "--data", "x", "--by", "nosuch").exit_code == Exit.USAGE
    assert run("act", "x", "--broker", "http://y").exit_code in (Exit.USAGE, Exit.CANNOT)


def test_what_cannot_be_done_is_4(at: Scene, tmp_path: Path) -> None:
    at.put("dead", ["a"])
    assert triage(at, DISCARD, "--out", str(at.out), "--job", "one").exit_code == Exit.DONE
    other = triage(at, rule("false", "discard"), *applied(at, "--job", "one"))
    assert other.exit_code == Exit.CANNOT and "plan of another job" in other.stderr
    assert run("act", str(tmp_path), "--broker", at.broker.url).exit_code == Exit.CANNOT
    with scene(tmp_path / "other") as elsewhere:
        ended = run("act", str(at.out / "one"), "--broker", elsewhere.broker.url)
    assert ended.exit_code == Exit.CANNOT and "of ledger" in ended.stderr
    assert at.depth("dead") == 1


# --- the how-tos


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / "howto" / page).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(at: Scene, page: str) -> list[list[str]]:
    """The commands of a page as they are written, but for folders and the broker."""
    found = []
    here = {
        "/var/lib/postroom": str(at.folder),
        "/var/lib/triage": str(at.out),
        "amqp://127.0.0.1:5672": at.broker.url,
        "rules.toml": str(at.folder.parent / "rules.toml"),
    }
    for line in "".join(blocks(page, "console")).splitlines():
        if line.startswith("$ postroom job"):
            for written, meant in here.items():
                line = line.replace(written, meant)
            found.append([part.strip("'") for part in line.removeprefix("$ postroom job ").split()])
    return found


def test_the_triage_of_the_how_to_end_to_end(at: Scene) -> None:
    (rules,) = blocks("triage-dead-letters.md", "toml")
    (at.folder.parent / "rules.toml").write_text(rules)
    at.put("orders", ['{"n": 1}', "no json", '{"n": 2}'])
    at.reject("orders", ["app:database", "app:unreadable", "app:other"])
    at.put("offers", ["an offer", "another"])
    at.reject("offers", ["app:late", "app:late"])
    dry_run, act, both, undo = commands(at, "triage-dead-letters.md")
    ended = run(*dry_run)
    assert ended.exit_code == Exit.DONE and "4 messages would be acted on" in ended.stdout
    assert re.search(r"\(no rule\) +leave +1", ended.stdout)
    assert run(*act).exit_code == Exit.DONE
    assert at.texts("orders") == ['{"n": 1}']
    assert at.texts("to.look.at") == ["no json"]
    assert at.texts("dead") == ['{"n": 2}']
    assert run(*both).exit_code == Exit.DONE, "nothing is left to do"
    assert run(*undo).exit_code == Exit.DONE
    assert sorted(at.texts("dead")) == ["an offer", "another", '{"n": 2}']


def test_the_exit_codes_of_the_how_to_are_those_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DOCS / "howto" / "schedule-jobs.md").read_text()
    codes = [int(code) for code in re.findall(r"^\| (\d) \|", text, re.MULTILINE)]
    assert codes == sorted(Exit)
    (_, program) = blocks("schedule-jobs.md", "python")
    scope: dict[str, Any] = {}
    exec(program, scope)
    ended: list[int] = []
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], ended[-1]))
    fields = {}
    for code in Exit:
        ended.append(int(code))
        fields[code.name] = scope["run_job"]("act", "plan")
    assert fields == {"DONE": "next", "FAILED": "retry", "USAGE": "fail", "NOT_ALL": "next", "CANNOT": "fail"}


def test_the_shell_of_the_how_to_says_the_same() -> None:
    """What the Airflow task's script makes of each code."""
    (dag, _) = blocks("schedule-jobs.md", "python")
    (case,) = re.findall(r"case \$\? in\n.*?esac", dag, re.DOTALL)
    codes = {}
    for code in Exit:
        script = f"(exit {int(code)})\n{case}"
        codes[code.name] = subprocess.run(["sh", "-c", script], capture_output=True, check=False).returncode
    assert codes == {"DONE": 0, "FAILED": 1, "USAGE": 64, "NOT_ALL": 99, "CANNOT": 64}


def test_duplicates_go_by_the_command(at: Scene) -> None:
    at.put("orders", [Message("a", message_id="ID:1"), Message("b", message_id="ID:1")])
    ended = run("deduplicate", "--queue", "orders", "--data", str(at.folder), *applied(at))
    assert ended.exit_code == Exit.DONE and at.texts("orders") == ["a"]
