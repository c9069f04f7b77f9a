"""How large functions may be: so many parameters, so many lines. What says more is a value with names.

Counted are all parameters but ``self`` and ``cls``, with or without a default.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "postroom"
MOST_PARAMETERS = 8
MOST_LINES = 69

HOT = {"amqp/frames/frames.py:write_transfer"}
"""The one exception on the hot path: the fields of a transfer, as they go out with every message."""
BY_NAME = {
    "amqp/engine/session.py:Session.attach_receiver",
    "amqp/frames/transfers.py:Flow.__init__",
    "amqp/frames/transfers.py:Transfer.__init__",
    "app/application.py:App.subscriber",
    "client/aio/connection.py:Connection.consumer",
    "client/aio/context.py:ConnectionFactory.__init__",
    "client/aio/context.py:connect",
    "client/sessions/session_state.py:SessionState.receiving",
    "client/aio/session.py:Session.consumer",
    "client/sync/connection.py:Connection.consumer",
    "client/sync/context.py:ConnectionFactory.__init__",
    "client/sync/context.py:connect",
    "client/sync/session.py:Session.consumer",
}
"""Options of the client's interface and of attaching a link, fields of performatives: nobody can swap them,
for they have to be named where they are given, and each has a default."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Named = tuple[str, Function, bool]


def functions(tree: ast.AST, within: str = "", is_class: bool = False) -> Iterator[Named]:
    """Every function with its name, as ``Class.name``, and whether its first parameter is the object."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{within}{node.name}.", True)
        elif isinstance(node, Function):
            decorators = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
            yield within + node.name, node, is_class and "staticmethod" not in decorators
            yield from functions(node, f"{within}{node.name}.")
        else:
            yield from functions(node, within, is_class)


@cache
def trees() -> list[tuple[str, ast.Module]]:
    """Of each module, by its path in the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return [(str(path.relative_to(PACKAGE)), ast.parse(path.read_text())) for path in paths]


def named() -> Iterator[Named]:
    for path, tree in trees():
        for name, function, is_method in functions(tree):
            yield f"{path}:{name}", function, is_method


def by_position(function: Function, is_method: bool) -> int:
    return len(function.args.posonlyargs) + len(function.args.args) - is_method


def is_command(function: Function) -> bool:
    """Whether its parameters are the options of a command: Click gives them by name."""
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "command"
        for each in function.decorator_list
    )


def test_no_function_has_too_many_parameters() -> None:
    too_many = set()
    for name, function, is_method in named():
        count = by_position(function, is_method) + len(function.args.kwonlyargs)
        if count > MOST_PARAMETERS and not is_command(function):
            too_many.add(name)
    assert too_many == HOT | BY_NAME


def test_what_has_to_be_named_has_few_parameters_by_position() -> None:
    positions = {name: by_position(function, is_method) for name, function, is_method in named()}
    assert {name for name in BY_NAME if positions[name] > 3} == set()


def test_no_function_is_too_long() -> None:
    lengths = {name: (f.end_lineno or 0) - f.lineno + 1 for name, f, _ in named()}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_call_gives_too_many_by_position() -> None:
    """Nor to what has no parameters of its own, as a dataclass: only a struct has its fields in order."""
    found = set()
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                starred = any(isinstance(each, ast.Starred) for each in node.args)
                if len(node.args) > MOST_PARAMETERS and not starred:
                    found.add(f"{path}:{node.func.id}")
    assert found == {"amqp/engine/sender.py:write_transfer"}
