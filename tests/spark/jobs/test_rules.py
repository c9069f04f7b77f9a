"""The rules of a triage as TOML, and the parts of jobs that need neither Spark nor a broker."""

import string
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.manager.administration.message_jobs import ACTIONS, ANSWERS
from postroom.spark.jobs.errors import CannotBeDone, Exit, JobError, OptionInvalid, RulesInvalid
from postroom.spark.jobs.execution import answers_of, request_of
from postroom.spark.jobs.jobs import check_job_id, new_job_id
from postroom.spark.jobs.plan import (
    ACTIONS_SCHEMA,
    Count,
    Manifest,
    Plan,
    PlanFile,
    as_text,
    file_name,
    parse_manifest,
)
from postroom.spark.jobs.rules import MAX_RULES, check_targets, digest_of, parse_rules, read_rules

GOOD = """
[[rule]]
name = "timeouts"
when = "reason = 'app:timeout'"
action = "replay"

[[rule]]
when = '''
  age_s > 86400
  AND priority < 4
'''
action = "forward"
to = "archive"
"""


def test_rules_are_read_in_order() -> None:
    first, second = parse_rules(GOOD, "r").rules
    assert (first.name, first.when, first.action, first.to, first.line) == (
        "timeouts", "reason = 'app:timeout'", "replay", "", 2,
    )  # fmt: skip
    assert (second.name, second.to, second.line) == ("rule 2", "archive", 7)
    assert second.when == "age_s > 86400\n  AND priority < 4"


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("", "line 1: there is no rule"),
        ("rule = 5", "line 1: rules are a list"),
        ("[rule]\nwhen = 'true'", "line 1: rules are a list"),
        ("rules = []", "line 1: there is no setting 'rules'"),
        (
            "[[rule]]\nwhen = 'true'\naction = 'eat'",
            "line 3: rule 'rule 1': action is 'eat', must be replay,",
        ),
        ("[[rule]]\naction = 'leave'", "line 1: rule 'rule 1' has no `when`"),
        ("[[rule]]\nwhen = ' '\naction = 'leave'", "line 2: rule 'rule 1' has no `when`"),
        ("[[rule]]\nwhen = true\naction = 'leave'", "line 2: when is True, must be text"),
        ("[[rule]]\nwhen = 'true'\naction = 'forward'", "line 3: rule 'rule 1' forwards and has no `to`"),
        ("[[rule]]\nwhen = 'true'\naction = 'discard'\nto = 'q'", "line 4: rule 'rule 1' has a `to`"),
        ("[[rule]]\nwhen = 'true'\naction = 'leave'\nthen = 1", "line 4: a rule has no setting 'then'"),
        ('[[rule]]\nname = "a\\u0007"\nwhen = "true"\naction = "leave"', "line 2: a name has at most"),
        ("[[rule]]\nwhen = 'true", "r: "),
        (
            "[[rule]]\nname='a'\nwhen='true'\naction='leave'\n[[rule]]\nname='a'\nwhen='true'\naction='leave'",
            "line 5: rule 'a' has its name from line 1",
        ),
        ("[[rule]]\nwhen = 'true'\naction = 'leave'\n" * (MAX_RULES + 1), "at most 1,000 are allowed"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, expected_text: str) -> None:
    with pytest.raises(RulesInvalid) as record:
        parse_rules(text, "r")
    assert expected_text in str(record.value)
    assert record.value.exit_code == Exit.USAGE


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(RulesInvalid) as record:
        parse_rules("[[rule]]\naction = 'eat'\n[[rule]]\nwhen = 'true'\naction = 'forward'", "r")
    assert len(str(record.value).splitlines()) == 3


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RulesInvalid, match="No such file"):
        read_rules(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(RulesInvalid, match="UTF-8"):
        read_rules(tmp_path / "bytes")
    (tmp_path / "large").write_bytes(b"#" * (1 << 21))
    with pytest.raises(RulesInvalid, match="at most"):
        read_rules(tmp_path / "large")


words = st.text(string.printable, max_size=12)
tables = st.dictionaries(st.sampled_from(["name", "when", "action", "to", "other"]), words | st.integers())


@given(st.lists(tables, max_size=4))
def test_any_rules_are_read_or_refused(fields: list[dict[str, Any]]) -> None:
    text = "".join(
        "[[rule]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in rule.items()) for rule in fields
    )
    assert tomllib.loads(text).get("rule", []) == fields
    try:
        rules = parse_rules(text, "r")
    except RulesInvalid as error:
        assert all(line.startswith("r, line ") for line in str(error).splitlines())
        return
    assert len(rules.rules) == len(fields) > 0
    for rule, expected in zip(rules.rules, fields, strict=True):
        assert rule.when == expected["when"].strip() and rule.action in ACTIONS
        assert (rule.to != "") == ("to" in expected and expected["to"].strip() != "")


def _toml(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    return '"' + "".join(f"\\u{ord(char):04x}" for char in value) + '"'


def test_rules_are_the_same_if_they_do_the_same() -> None:
    renamed = GOOD.replace("timeouts", "late").replace("[[rule]]", "# more\n[[rule]]")
    assert parse_rules(GOOD, "r").digest == parse_rules(renamed, "other").digest
    other = parse_rules(GOOD.replace("archive", "old"), "r")
    assert other.digest != parse_rules(GOOD, "r").digest
    assert digest_of(reversed(other.rules)) != other.digest


KINDS = {"archive": "queue", "news": "topic", "client:a": "subscription", "far": "remote", "q": "quota"}


def test_targets_that_are_there() -> None:
    for to in ("archive", "client:a", "far", "anything@QM2"):
        rules = parse_rules(f"[[rule]]\nwhen = 'true'\naction = 'forward'\nto = '{to}'", "r")
        check_targets(rules, KINDS)
    check_targets(parse_rules("[[rule]]\nwhen = 'true'\naction = 'replay'", "r"), {})


def test_targets_that_are_not_there_are_told_with_their_lines() -> None:
    text = "".join(
        f"[[rule]]\nwhen = 'true'\naction = 'replay'\nto = '{to}'\n" for to in ("archve", "x", "news", "q")
    )
    with pytest.raises(RulesInvalid) as record:
        check_targets(parse_rules(text, "r"), KINDS)
    assert str(record.value).splitlines() == [
        "r, line 1: rule 'rule 1': `to`: there is no queue 'archve'; did you mean 'archive'?",
        "r, line 5: rule 'rule 2': `to`: there is no queue 'x'",
        "r, line 9: rule 'rule 3': `to` is the topic 'news': messages can be sent to queues only",
        "r, line 13: rule 'rule 4': `to` is the quota 'q': messages can be sent to queues only",
    ]


# --- plans


def an_action(serial: int, action: str = "discard", to: str = "", rule: str = "r") -> dict[str, Any]:
    return {
        "ledger_id": "l", "queue": "q", "position": serial, "ordinal": 0, "serial": serial,
        "delivery_count": 1, "action": action, "to": to, "rule": rule,
    }  # fmt: skip


actions = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from(["", "a"]), st.sampled_from("xy")), max_size=30
)


@given(actions, st.data())
def test_answers_come_back_to_their_actions(kinds: list[tuple[str, str, str]], data: st.DataObject) -> None:
    """However actions are grouped in a request."""
    rows = [an_action(serial, *kind) for serial, kind in enumerate(kinds, 1)]
    order, groups = request_of(rows, "job 1")
    serials = [serial for group in groups for serial in group["serials"]]
    assert sorted(serials) == [row["serial"] for row in rows]
    keys = [(group["action"], group["to"], group["reason"]) for group in groups]
    assert len(set(keys)) == len(keys)
    drawn = {serial: data.draw(st.sampled_from(ANSWERS)) for serial in serials}
    refused = [number for number, serial in enumerate(serials) if drawn[serial] == "refused"]
    fields = {
        "answers": [drawn[serial] for serial in serials],
        "refusals": [{"why": f"no {serials[number]}", "numbers": [number]} for number in refused],
    }
    answers = answers_of(fields, order)
    for row, (answer, why) in zip(rows, answers, strict=True):
        assert answer == drawn[row["serial"]]
        assert why == (f"no {row['serial']}" if answer == "refused" else None)


@pytest.mark.parametrize("fields", [{}, {"answers": "done"}, {"answers": ["done", "done"], "refusals": []}])
def test_an_answer_that_tells_of_others(fields: dict[str, Any]) -> None:
    with pytest.raises(JobError, match="doesn't tell of 1 messages"):
        answers_of(fields, [0])


@given(st.lists(st.integers(1, 7), max_size=5), st.integers(0, 30), st.integers(1, 9))
def test_batches_are_full_whatever_the_files_hold(sizes: list[int], skip: int, rows: int) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        plan = Plan(folder)
        files: list[PlanFile] = []
        serial = 0
        for number, size in enumerate(sizes):
            made = [an_action(serial + each) for each in range(size)]
            serial += size
            name = file_name("actions", number, "x")
            plan.write(name, ACTIONS_SCHEMA, pa.Table.from_pylist(made, schema=ACTIONS_SCHEMA).to_batches())
            files.append(PlanFile(name, size))
        found = [batch["serial"].to_pylist() for batch in plan.batches(files, skip, rows)]
    assert [serial for each in found for serial in each] == list(range(skip, serial))
    assert all(len(each) == rows for each in found[:-1]) and all(found)


def test_a_manifest_is_made_once_and_read_again(tmp_path: Path) -> None:
    plan = Plan(str(tmp_path / "plan"))
    assert plan.manifest() is None
    counts = (Count("r", "discard", "", 3), Count("r", "discard", "", 1, "why"))
    manifest = Manifest(
        job="j",
        kind="triage",
        queue="q",
        digest="d",
        created="now",
        ledger_id="l",
        position=7,
        files=(PlanFile("a", 3),),
        discarded=(),
        counts=counts,
    )
    plan.finish(manifest)
    assert plan.manifest() == manifest and manifest.rows() == 3
    with pytest.raises(JobError, match="another run"):
        plan.finish(manifest)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b"\xff", as_text(Manifest("j", "k", "q", "d", "c", format=9)).encode()]
)
def test_what_is_no_manifest(text: bytes) -> None:
    with pytest.raises(CannotBeDone, match="plan"):
        parse_manifest(text, "here")


@pytest.mark.parametrize("job", ["", "a/b", "..", ".a", "a\n", "x" * 121])
def test_ids_of_jobs_are_names_of_folders(job: str) -> None:
    with pytest.raises(OptionInvalid):
        check_job_id(job)
    assert check_job_id(new_job_id())
