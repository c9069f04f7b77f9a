"""Every public command of the queue manager is called by a rule of the random test.

A command that no rule comes by fails here; one that is left out stands in `EXCEPTIONS`, with the reason.
"""

import ast
import inspect
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from hypothesis.stateful import RULE_MARKER

from postroom import manager
from postroom.manager.manager import QueueManager
from postroom.manager.message_store.pending_requests import StoreRequest
from postroom.manager.services.sinks import SinkService
from postroom.manager.services.spark_subscriptions import SparkSubscriptionService
from tests.manager.random_commands.random_use import RandomUse

_XA = "test_xa_random.py gives branches and their sessions at random, against a reference of their own"
EXCEPTIONS: dict[str, str] = {
    **dict.fromkeys(("open_xa_session", "close_xa_session", "branches", "delete_branch"), _XA),
    **dict.fromkeys(("xa_start", "xa_end", "xa_prepare", "xa_commit", "xa_rollback"), _XA),
    **dict.fromkeys(("xa_forget", "xa_recover", "heuristic_commit", "heuristic_rollback"), _XA),
}
"""Commands and requests that no rule calls, and why."""

SERVICES = {"sinks": SinkService, "spark_subscriptions": SparkSubscriptionService}
"""By the attribute of the queue manager."""

HERE = Path(__file__).parent
MACHINE, WORLD, FACE, JOB = "self", "world", "face", "job"
"""Whose functions: the machine's (a rule's own), the world's, the store face's and the Spark job's, as calls
name them."""
SOURCES = {
    **dict.fromkeys([*HERE.glob("machine*.py"), *HERE.glob("*_rules.py")], MACHINE),
    HERE.parent / "world.py": WORLD,
    HERE.parent / "over_ledger.py": WORLD,
    HERE.parent / "store_face.py": FACE,
    HERE.parent / "sink_world.py": JOB,
}

Function = tuple[str, str]
"""Whose, and its name."""


@dataclass
class Body:
    """What a function mentions."""

    commands: set[str] = field(default_factory=set)
    """Of the queue manager: whatever it takes of something called "manager"."""
    calls: set[Function] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


@cache
def functions() -> dict[Function, Body]:
    """All functions of the random test and of what it works with."""
    found: dict[Function, Body] = {}
    for path, whose in SOURCES.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                body = found.setdefault((whose, node.name), Body())
                for inner in ast.walk(node):
                    _note(body, whose, inner)
    return found


def _note(body: Body, whose: str, node: ast.AST) -> None:
    if isinstance(node, ast.Name):
        body.names.add(node.id)
        body.calls.add((whose, node.id))
    elif isinstance(node, ast.Attribute):
        of = node.value
        owner = str(getattr(of, "attr", getattr(of, "id", "")))
        if owner == "manager":
            body.commands.add(node.attr)
        elif owner in SERVICES:
            body.commands.add(f"{owner}.{node.attr}")
        body.calls.add((whose if owner in ("self", "") else owner, node.attr))


def rules() -> list[str]:
    """The functions of the rules, and what begins and ends each run."""
    members = [member for _, member in inspect.getmembers(RandomUse)]
    marked = [getattr(member, RULE_MARKER) for member in members if hasattr(member, RULE_MARKER)]
    return sorted({rule.function.__code__.co_name for rule in marked} | {"start", "teardown"})


def reached_from(rule: str) -> Body:
    """What a rule mentions, itself or by what it calls."""
    whole, left, seen = Body(), [(MACHINE, rule)], set[Function]()
    while left:
        function = left.pop()
        if function not in seen:
            seen.add(function)
            body = functions().get(function, Body())
            left += body.calls
            whole.commands |= body.commands
            whole.names |= body.names
    return whole


@cache
def callers() -> dict[str, list[str]]:
    """The rules that call each command or make each request."""
    found: dict[str, list[str]] = {}
    for rule in rules():
        body = reached_from(rule)
        for name in body.commands | (body.names & set(requests())):
            found.setdefault(name, []).append(rule)
    return found


def commands() -> list[str]:
    """The public methods of the queue manager, and of the services that it has for parts of its work."""
    own = [name for name, _ in inspect.getmembers(QueueManager, callable) if not name.startswith("_")]
    for service, kind in SERVICES.items():
        found = [name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")]
        own += [f"{service}.{name}" for name in found]
    return own


def requests() -> list[str]:
    """The requests that `submit_request` takes."""
    for module in iter_modules(manager.__path__, manager.__name__ + "."):
        import_module(module.name)
    found, left = [], StoreRequest.__subclasses__()
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        if not kind.__subclasses__():
            found.append(kind.__name__)
    return sorted(found)


@pytest.mark.parametrize("name", [*commands(), *requests()])
def test_a_rule_calls_every_command(name: str) -> None:
    if name in EXCEPTIONS:
        assert name not in callers(), "no exception any more"
    else:
        assert name in callers(), "no rule of the random test calls it: add one, or say here why not"


def test_exceptions_are_commands() -> None:
    assert set(EXCEPTIONS) <= {*commands(), *requests()}
