"""Only the modules of the life cycle change the state of an entry: the source of the house is read for it.

That an object whose type isn't to be seen could be an entry is assumed. It is none where the function says so
(an annotation, or the class that has just been called), or where it is the ``self`` of another class.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.manager.kernel.transition_table import IllegalTransition, ending, fixed, losing
from postroom.model import numbers as n
from postroom.model.codes import State

HOUSE = Path(__file__).parents[3] / "src" / "postroom"
KERNEL = HOUSE / "manager" / "kernel"
BELOW = ("amqp", "model", "ledger")
"""Packages that know no entry: imports run one way through the house, which import-linter holds."""
KEEPERS = ("transitions.py", "group_transitions.py", "entry_creation.py")
"""Of the queue manager: the life cycle."""
HELD = frozenset({"state", "holder_kind", "holder"})
"""Attributes of an entry that say where in its life it is."""
OWN = frozenset({("entry.py", "__init__"), ("entry.py", "copy_for")})
"""Methods of `Entry`: a new one is available, and a copy, which no event moves, is at the START."""
UNKNOWN = frozenset({"object", "Any"})


class _Reader(ast.NodeVisitor):
    """Finds what changes an entry, in one file."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.found: list[str] = []
        self._entries = {"Entry"}
        """The names that `Entry` has in this file."""
        self._class = ""
        self._function = ""
        self._types: dict[str, str] = {}
        self.visit(ast.parse(source))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._entries |= {each.asname for each in node.names if each.name == "Entry" and each.asname}

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        before, self._class = self._class, node.name
        self.generic_visit(node)
        self._class = before

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        before = self._function, self._types
        self._function, self._types = node.name, {**self._types, **_types_in(node)}
        self.generic_visit(node)
        self._function, self._types = before

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in HELD and not isinstance(node.ctx, ast.Load) and self._may_be_entry(node.value):
            own = self._class == "Entry" and (self.name, self._function) in OWN
            if not own:
                self._find(node, ast.unparse(node))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = _last_name(node.func)
        names = [each.value for each in node.args if isinstance(each, ast.Constant)]
        if called in ("setattr", "__setattr__", "delattr") and HELD.intersection(names):
            self._find(node, ast.unparse(node))
        self.generic_visit(node)

    def _may_be_entry(self, of: ast.expr) -> bool:
        if not isinstance(of, ast.Name):
            return True
        if of.id == "self" and self._class:
            return self._class in self._entries
        types = set(self._types.get(of.id, "object").replace("|", " ").split()) - {"None"}
        return bool(types & (self._entries | UNKNOWN))

    def _find(self, node: ast.expr, text: str) -> None:
        self.found.append(f"{self.name}:{node.lineno}: {text}")


def _types_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    """The types of the names in it; a name that is bound in two ways is anything."""
    found: dict[str, str] = {}
    arguments = function.args
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        found[each.arg] = _annotation(each.annotation)
    for node in ast.walk(function):
        for name, type_name in _bindings(node):
            found[name] = type_name if found.get(name, type_name) == type_name else "object"
    return found


def _bindings(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, _annotation(node.annotation)
    elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        called = _last_name(node.value.func) if isinstance(node.value, ast.Call) else ""
        yield node.targets[0].id, called if called[:1].isupper() else "object"
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield from ()  # seen with the statement that binds it, or unknown
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        for each in ast.walk(node.target):
            if isinstance(each, ast.Name):
                yield each.id, "object"


def _annotation(expression: ast.expr | None) -> str:
    if expression is None:
        return "object"
    text = expression.value if isinstance(expression, ast.Constant) else ast.unparse(expression)
    return str(text).strip("\"'")


def _last_name(of: ast.expr) -> str:
    if isinstance(of, ast.Attribute):
        return of.attr
    return of.id if isinstance(of, ast.Name) else ""


def changes(name: str, source: str) -> list[str]:
    """Where ``source`` changes what may be an entry."""
    return _Reader(name, source).found


def modules() -> list[Path]:
    """Of the house, without those that know no entry."""
    every = sorted(HOUSE.rglob("*.py"))
    return [path for path in every if path.relative_to(HOUSE).parts[0] not in BELOW]


def test_only_the_life_cycle_changes_an_entry() -> None:
    found = [
        where
        for path in modules()
        if path.parent.name != "kernel" or path.name not in KEEPERS
        for where in changes(path.name, path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize("name", KEEPERS)
def test_the_life_cycle_does_change_entries(name: str) -> None:
    assert changes(name, (KERNEL / name).read_text())


def function(body: str, arguments: str = "entry: Entry") -> str:
    return f"def act({arguments}) -> None:\n    {body}\n"


PLANTED = {
    "a parameter": function("entry.state = n.DELETED"),
    "one that is quoted": function("entry.state = 7", 'entry: "Entry"'),
    "one that may be none": function("entry.state = 7", "entry: Entry | None"),
    "one without a type": function("it.state = 7", "it"),
    "of a list": function("chunk.objects[0].state = n.DELETED", "chunk: Chunk"),
    "in a loop": function("for branch in branches:\n        branch.state = 7", "branches: list[Entry]"),
    "a new one": function("new = Entry(1)\n    new.state = n.DELAYED"),
    "found": function("branch = find()\n    branch.state = 7"),
    "a name with two meanings": function("it = Branch()\n    it = find()\n    it.state = 7"),
    "beside others": function("before, entry.state = entry.state, 7"),
    "counted up": function("entry.state += 1"),
    "annotated": function("entry.state: int = 7"),
    "taken off": function("del entry.state"),
    "by its name": function("setattr(entry, 'state', 7)"),
    "past the class": function("object.__setattr__(entry, 'holder_kind', 7)"),
    "the holder": function("entry.holder = spark.id"),
    "its kind": function("entry.holder_kind = n.CONSUMER"),
    "in its class": "class Entry:\n    def end(self) -> None:\n        self.state = 7\n",
    "under another name": "from postroom.manager.kernel.entry import Entry as E\n"
    + function("e.state = 7", "e: E"),
    "as a coroutine": "async " + function("entry.state = 7"),
}


@pytest.mark.parametrize("source", PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_change_is_found(source: str) -> None:
    assert len(changes("planted.py", source)) == 1


INNOCENT = {
    "a branch": function("branch.state = BranchState.PREPARED", "branch: Branch"),
    "a new branch": function("branch = Branch()\n    branch.state = 7"),
    "a channel's own": "class Supervised:\n    def __init__(self) -> None:\n        self.state = INACTIVE\n",
    "read": function("state = entry.state"),
    "compared": function("print(entry.holder_kind == n.CONSUMER)"),
    "another attribute": function("entry.due_us = 0"),
}


@pytest.mark.parametrize("source", INNOCENT.values(), ids=INNOCENT.keys())
def test_what_is_no_entry_may_change(source: str) -> None:
    assert changes("planted.py", source) == []


def written(path: Path) -> list[str]:
    """Where ``path`` writes by hand what a record says of entries: the event of one, the groups of many, or
    the state in which one arrives."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = _last_name(node.func)
            if name in ("entry_event", "EntryEvent", "Group", "groups_of", "group_of_many"):
                found.append(f"{path.name}:{node.lineno}: {name}")
            states = [each.attr for each in node.args if isinstance(each, ast.Attribute)]
            if name == "Arrival" and set(states) & set(State.__members__):
                found.append(f"{path.name}:{node.lineno}: {name} in a state")
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            named = [each.attr for each in node.targets if isinstance(each, ast.Attribute)]
            if "to_state" in named and node.value.attr in State.__members__:
                found.append(f"{path.name}:{node.lineno}: to_state")
        elif isinstance(node, ast.Attribute) and node.attr in ("ENTRY_EVENT", "GROUP_EVENT", "DECISION"):
            found.append(f"{path.name}:{node.lineno}: {node.attr}")
    return found


def test_only_the_life_cycle_writes_what_records_say_of_entries() -> None:
    keepers = {KERNEL / name for name in KEEPERS} | {KERNEL / "ranges.py"}  # which encodes the groups
    found = {path: written(path) for path in (HOUSE / "manager").rglob("*.py")}
    assert [where for path in found if path not in keepers for where in found[path]] == []
    assert found[KERNEL / "transitions.py"] and found[KERNEL / "group_transitions.py"]


@pytest.mark.parametrize("name", KEEPERS)
def test_where_a_move_leads_is_not_written_down_again(name: str) -> None:
    """But for the end, where the table has been asked for its outcome."""
    literal = set()
    for node in ast.walk(ast.parse((KERNEL / name).read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            if node.targets[0].attr == "state" and isinstance(node.value, ast.Attribute):
                literal.add(node.value.attr)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("OUTCOME_"):
            literal.add(node.attr)
    compared = {"OUTCOME_NONE", "OUTCOME_CONSUMED", "OUTCOME_EXPIRED", "OUTCOME_REDIRECTED"}
    assert literal <= {"DELETED", *compared}


@pytest.mark.parametrize(
    "cell",
    [
        (n.AVAILABLE, n.NO_HOLDER, n.EVENT_CONFIRM),  # kept
        (n.DELETED, n.NO_HOLDER, n.EVENT_GET),  # refused
        (n.START, n.NO_HOLDER, n.EVENT_ACQUIRE, n.CONSUMER),  # unreachable
        (n.AVAILABLE, n.NO_HOLDER, n.EVENT_ACQUIRE, n.XA_BRANCH),  # to another holder
        (n.AVAILABLE, n.NO_HOLDER, n.EVENT_ACQUIRE),  # to nobody
        (n.GET_UNCONFIRMED, n.CONSUMER, n.EVENT_FAIL),  # with a count
    ],
)
def test_a_cell_that_a_fast_path_cannot_do_is_refused(cell: tuple[int, ...]) -> None:
    with pytest.raises(IllegalTransition):
        fixed(*cell)


def test_fast_paths_get_what_the_table_has() -> None:
    assert fixed(n.AVAILABLE, n.NO_HOLDER, n.EVENT_ACQUIRE, n.CONSUMER) == n.GET_UNCONFIRMED
    assert fixed(n.START, n.NO_HOLDER, n.EVENT_PUT) == n.AVAILABLE
    assert ending(n.GET_UNCONFIRMED, n.CONSUMER, n.EVENT_CONFIRM) == n.OUTCOME_CONSUMED
    assert losing(n.AVAILABLE) == n.OUTCOME_LOST
    with pytest.raises(IllegalTransition):
        ending(n.GET_UNCONFIRMED, n.CONSUMER, n.EVENT_RELEASE)  # which is no end
    with pytest.raises(IllegalTransition):
        losing(n.DELETED)
