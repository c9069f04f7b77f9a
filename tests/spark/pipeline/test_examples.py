"""The examples beside the pipeline: what they name is there."""

import re
import shlex
from configparser import ConfigParser
from pathlib import Path

import yaml
from click import Context
from prometheus_client import CollectorRegistry

from postroom.cli.spark.pipeline import run_command
from postroom.spark.pipeline.errors import EXIT_IN_USE, EXIT_STOPPED
from postroom.spark.pipeline.operations.metrics import PREFIX, Metrics

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"


def _metric_names() -> set[str]:
    registry = CollectorRegistry()
    Metrics(registry)
    families = list(registry.collect())
    suffixes = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",)}
    return {family.name + suffix for family in families for suffix in suffixes.get(family.type, ("",))}


def test_alert_rules_parse_and_name_metrics_that_there_are() -> None:
    rules = yaml.safe_load((EXAMPLES / "alerts" / "postroom-pipeline.yml").read_text())
    found = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in found}) == len(found) > 3
    for rule in found:
        assert rule["annotations"]["summary"]
        assert re.fullmatch(r"\d+[smh]", rule["for"])
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert set(re.findall(rf"{PREFIX}_\w+", rule["expr"])) <= _metric_names()


def test_every_metric_is_documented() -> None:
    record = (ROOT / "docs" / "reference" / "pipeline.md").read_text()
    for name in _metric_names():
        assert re.sub("_(bucket|count|sum)$", "", name) in record, name


def test_every_option_is_documented() -> None:
    record = (ROOT / "docs" / "reference" / "pipeline.md").read_text()
    for parameter in run_command.params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            assert f"`{option}" in record, option


def test_the_unit_runs_a_command_that_is_there_and_does_not_repeat_what_cannot_succeed() -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(EXAMPLES / "systemd" / "postroom-pipeline.service")
    service = unit["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program.endswith("/postroom")
    assert arguments[:2] == ["pipeline", "run"]
    parsed = run_command.make_context("run", arguments[2:])
    assert isinstance(parsed, Context)
    assert not parsed.params["once"]
    assert set(service["RestartPreventExitStatus"].split()) == {"2", str(EXIT_STOPPED), str(EXIT_IN_USE)}
    assert service["KillMode"] == "mixed"
