"""A plan and its results as text and as JSON."""

import json
from collections.abc import Mapping
from typing import Any, Final

from postroom.cli.definitions.application import DONE, FAILED, NOT_DONE, Result
from postroom.cli.definitions.plan import ACTIONS, BLOCKED, CHANGE, CREATE, DELETE, Plan, Step

MARKS: Final = {CREATE: "+", CHANGE: "~", DELETE: "-", BLOCKED: "!"}
_TO_DO: Final = {
    CREATE: "to create",
    CHANGE: "to change",
    DELETE: "to delete",
    BLOCKED: "that can't be done here",
}
_PAST: Final = {CREATE: "created", CHANGE: "changed", DELETE: "deleted"}


def step_line(step: Step) -> str:
    """A step, readable."""
    text = f"{MARKS[step.action]} {step.label}"
    if step.action == CHANGE or step.before:
        changes = (
            f"{key} {_value(step.before.get(key))} → {_value(step.settings[key])}" for key in step.settings
        )
        text += f": {', '.join(changes)}"
    elif step.settings and step.action == CREATE:
        text += f": {', '.join(f'{key} {_value(value)}' for key, value in step.settings.items())}"
    return f"{text} ({step.why})" if step.why else text


def plan_summary(plan: Plan) -> str:
    """How much is to be done."""
    counts = [f"{len(plan.of(action)):,} {_TO_DO[action]}" for action in ACTIONS if plan.of(action)]
    text = ", ".join(counts) if counts else "no differences"
    if plan.not_in_file:
        text += f"; {plan.not_in_file:,} not in the file (--prune)"
    return text


def result_line(result: Result) -> str:
    """How a step went."""
    step = result.step
    if result.state == DONE:
        return f"{_PAST[step.action]} {step_line(step)[2:]}"
    if result.state == FAILED:
        return f"failed: {step_line(step)}: {' '.join(result.why.split())}"
    return f"not done: {step_line(step)}"


def results_summary(results: list[Result]) -> str:
    """How all went."""
    counts = {
        past: sum(each.state == DONE and each.step.action == action for each in results)
        for action, past in _PAST.items()
    }
    counts |= {state: sum(each.state == state for each in results) for state in (FAILED, NOT_DONE)}
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "nothing to do"


def step_json(step: Step) -> dict[str, Any]:
    """A step for programs."""
    found: dict[str, Any] = {"action": step.action, "kind": step.kind.table, "name": step.name}
    if step.before:
        found["changes"] = {
            key: {"from": step.before.get(key), "to": value} for key, value in step.settings.items()
        }
    elif step.settings:
        found["settings"] = dict(step.settings)
    return {**found, **({"why": step.why} if step.why else {})}


def result_json(result: Result) -> Mapping[str, Any]:
    """How a step went, for programs."""
    found = {**step_json(result.step), "state": result.state}
    return {**found, "error": result.why} if result.state == FAILED else found


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
