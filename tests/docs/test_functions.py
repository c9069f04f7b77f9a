"""How large functions may be: so many parameters, so many lines. What says more is a value with names.

Counted are all parameters but ``self`` and ``cls``, with or without a default.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "postroom"
MOST_PARAMETERS = 8
MOST_LINES = 69

HOT = {"amqp/frames/frames.py:write_transfer"}
"""The one exception on the hot path: the fields of a transfer, as they go out with every message."""
PERFORMATIVES = {"amqp/frames/transfers.py:Flow.__init__", "amqp/frames/transfers.py:Transfer.__init__"}
"""Composites of AMQP 1.0 (part 2, sections 2.7.4 and 2.7.5), their fields in its words."""
BY_NAME = {
    "amqp/engine/link.py:Link.accept_attach",
    "amqp/engine/session.py:Session.attach_receiver",
    "amqp/engine/session.py:Session.attach_sender",
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
"""Options of the client's interface and of attaching a link: nobody can swap them, for they have to be named
where they are given, and each has a default."""

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


def named() -> Iterator[Named]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for name, function, is_method in functions(ast.parse(path.read_text())):
            yield f"{path.relative_to(PACKAGE)}:{name}", function, is_method


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
    assert too_many == HOT | PERFORMATIVES | BY_NAME


def test_what_has_to_be_named_has_few_parameters_by_position() -> None:
    positions = {name: by_position(function, is_method) for name, function, is_method in named()}
    assert {name for name in BY_NAME if positions[name] > 3} == set()


def test_no_function_is_too_long() -> None:
    lengths = {name: (f.end_lineno or 0) - f.lineno + 1 for name, f, _ in named()}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}
