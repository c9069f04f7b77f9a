"""Generates the sync face of the client from its asyncio face.

    python tools/async_to_sync.py            write src/postroom/client/sync/*.py
    python tools/async_to_sync.py --check    exit 1, with the difference, when they are something else

Each public class of ``postroom.client.aio`` becomes a class of the same name in the file of the same name,
with the same methods and arguments; each method runs its asyncio twin in the connection's own thread
(``client/sync/portal.py``) and waits for it. Methods that begin with an underscore are left out.

What has no connection of its own, and only drives others, runs in the caller's thread instead
(``client/sync/caller.py``), over the sync face.
"""

from __future__ import annotations

import ast
import difflib
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ASYNC = ROOT / "src" / "postroom" / "client" / "aio"
SYNC = ROOT / "src" / "postroom" / "client" / "sync"
PACKAGE = "postroom.client"
FILES = (
    *("producer", "consumer", "replies", "management_client", "message_store"),
    *("session", "context", "xa", "connection"),
    *("transaction", "transaction_manager", "postgresql"),
)
DRIVEN = {
    "transaction": ("Resource", "Transaction"),
    "transaction_manager": ("TransactionManager",),
    "postgresql": ("PostgreSQLResource",),
}
"""Files with what runs in the caller's thread, and its classes."""

WRITTEN = dict.fromkeys(("Closable", "Face", "Portal"), "portal")
WRITTEN |= dict.fromkeys(("Driven", "awaited", "waiting_here"), "caller")
"""Names of the sync face that are not generated, and where they are."""
FACTORY = "ConnectionFactory"
CONSUMER = "MessageConsumer"
"""Its messages are taken in the caller's thread where they are here already."""
MANAGER = "TransactionManager"
MADE = (FACTORY, MANAGER, "PostgreSQLResource")
"""What applications make by themselves; the factory opens the thread."""
PROTOCOL = "Protocol"
AWAITED = ("Resource", "PostgreSQLResource", "AsyncConnection")
"""Types of arguments that are of the sync face, and that the asyncio twin awaits."""
TWINS = {"AsyncConnection": "Connection"}
"""Of other libraries: what the sync face has in the place of a class."""
MAX_STATEMENT = 102
"""Characters, in a method."""
OPENING = "Opening"
CLOSES = {"Connection": "is_closed", "JMSContext": "is_connection_closed"}
"""They end the thread, when their connection is closed: that may have been refused."""
CALLBACKS = ("MessageCallback", "FailureCallback", "ExceptionListener")
"""Types of functions of the application that the connection calls: in a thread of their own."""
MESSAGES = ("Message", "Message | None")
RENAMED = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}
WORDS = (
    ("async with await ", "with "),
    ("async with", "with"),
    ("async for", "for"),
    ("await ", ""),
    (f"{PACKAGE}.aio", f"{PACKAGE}.sync"),
)
HEADER = '''"""{summary}

Generated from aio/{name}.py by tools/async_to_sync.py: change that, and run the tool.
{rest}"""

from __future__ import annotations

'''

Method = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Source:
    """One file of the asyncio face."""

    name: str
    tree: ast.Module
    origins: dict[str, str] = field(default_factory=dict)
    """Where each name comes from: its module."""
    modules: set[str] = field(default_factory=set)
    """Those imported whole."""
    classes: list[ast.ClassDef] = field(default_factory=list)
    """Those to be generated: public, and with a coroutine."""
    functions: list[ast.FunctionDef] = field(default_factory=list)
    """Those to be generated: they open something."""


def read_source(name: str) -> Source:
    """Parse a file and find its names and classes."""
    tree = ast.parse((ASYNC / f"{name}.py").read_text())
    source = Source(name, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            source.origins.update({alias.asname or alias.name: node.module for alias in node.names})
        elif isinstance(node, ast.Import):
            source.modules.update(alias.name for alias in node.names)
    for node in tree.body:
        for defined in set(names_defined(node)) - {"__all__"}:
            source.origins[defined] = f"{PACKAGE}.aio.{name}"
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and is_generated(node)]
    source.classes = [node for node in classes if node.name in DRIVEN.get(name, (node.name,))]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    source.functions = [node for node in functions if opened_by(node) is not None]
    return source


def opened_by(node: Method) -> str | None:
    """What a method returns that may be awaited or entered, ``Opening[…]``: the blocking face has it at
    once; None for another method.
    """
    returns = node.returns
    if isinstance(returns, ast.Subscript) and ast.unparse(returns.value) == OPENING:
        return ast.unparse(returns.slice)
    return None


def names_defined(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def is_generated(node: ast.ClassDef) -> bool:
    """Whether a class has a twin: it is public and something in it waits."""
    return not node.name.startswith("_") and any(isinstance(item, ast.AsyncFunctionDef) for item in node.body)


class Generator:
    """Writes one file of the sync face."""

    def __init__(self, source: Source, homes: dict[str, str]) -> None:
        self.source = source
        self.homes = homes
        """The file in which each class of the sync face is."""
        self.is_driven = source.name in DRIVEN

    def file(self) -> str:
        """The whole text, not yet formatted."""
        defined = [self.function(node) for node in self.source.functions]
        defined += [self.class_(node) for node in self.source.classes]
        summary, _, rest = sync_words(ast.get_docstring(self.source.tree) or "").partition("\n")
        header = HEADER.format(
            summary=summary.replace("asyncio", "sync"),
            name=self.source.name,
            rest=f"{rest}\n" if self.is_driven else "",
        )
        return header + self.imports() + "\n\n" + "\n\n".join(defined)

    def imports(self) -> str:
        """All that the source imports, from this face where that has it: ruff drops what isn't used."""
        own = {node.name for node in self.source.classes} | {node.name for node in self.source.functions}
        lines = [f"from {PACKAGE}.aio import {self.source.name} as aio"]
        lines += [f"import {name}" for name in sorted(self.source.modules)]
        others = {name: f"{PACKAGE}.sync.{home}" for name, home in self.homes.items()}
        lines += [
            f"from {module} import {TWINS.get(name, name)}"
            for name, module in (self.source.origins | others).items()
            if name not in own and (name not in TWINS.values() or not self.is_driven)
        ]
        exported = ", ".join(f'"{name}"' for name in sorted(own))
        return "\n".join(lines) + f"\n\n__all__ = [{exported}]\n"

    def function(self, node: ast.FunctionDef) -> str:
        """What opens a connection, by the factory of this face."""
        arguments = call_arguments(node)
        body = f"    return {FACTORY}({arguments}).create_connection()"
        return "\n".join([self.head(node).removeprefix("    "), docstring(node, 4), body]) + "\n"

    def class_(self, node: ast.ClassDef) -> str:
        methods = [self.method(node, item) for item in methods_of(node) if is_public(item)]
        bases = [name for name in map(ast.unparse, node.bases) if name in self.homes or name == PROTOCOL]
        if not bases and node.name != FACTORY:
            bases = ["Driven" if self.is_driven else "Face"]
        if not set(bases) <= {*WRITTEN, PROTOCOL}:
            methods.insert(0, f"    _inner: aio.{node.name}\n")
        elif node.name in MADE:
            methods.insert(0, self.init(node))
        bases = [f"{base}[aio.{node.name}]" if base in WRITTEN else base for base in bases]
        head = f"class {node.name}({', '.join(bases)}):" if bases else f"class {node.name}:"
        return f"{head}\n{docstring(node, 4)}\n" + "\n".join(methods)

    def init(self, node: ast.ClassDef) -> str:
        """Those that applications make, make the twin."""
        original = next(item for item in methods_of(node) if item.name == "__init__")
        made = f"aio.{node.name}({call_arguments(original)})"
        if node.name == MANAGER:
            made = f"waiting_here({made})"
        return f"{self.head(original)}\n        self._inner = {made}\n"

    def head(self, node: Method) -> str:
        """The ``def`` line, with the same arguments."""
        given = node.returns
        if opened_by(node) is not None:
            assert isinstance(given, ast.Subscript)
            given = given.slice
        returns = f" -> {ast.unparse(given)}" if given is not None else ""
        text = f"    def {RENAMED.get(node.name, node.name)}({ast.unparse(node.args)}){returns}:"
        for asynchronous, plain in TWINS.items():
            text = text.replace(asynchronous, plain)
        return text

    def method(self, owner: ast.ClassDef, node: Method) -> str:
        lines = [f"    @{ast.unparse(decorator)}" for decorator in node.decorator_list]
        lines.append(self.head(node))
        text = docstring(node, 8)
        if text:
            lines.append(text)
        if PROTOCOL not in map(ast.unparse, owner.bases):
            lines += [f"        {line}" for line in self.body(owner.name, node)]
        return "\n".join(lines) + "\n"

    def body(self, owner: str, node: Method) -> list[str]:
        call = f"self._inner.{node.name}({call_arguments(node)})"
        opened = opened_by(node)
        if opened is not None:
            return wrapping(opened, f"{call}.open()")
        if not isinstance(node, ast.AsyncFunctionDef):
            return self.plain_body(node)
        if node.name == "__aenter__":
            return [*(["self._portal.call(self._inner.__aenter__())"] * (len(node.body) > 1)), "return self"]
        if node.name == "__aexit__":
            return leaving(node)
        if owner == FACTORY:
            assert node.returns is not None
            return [f"return {ast.unparse(node.returns)}(*Portal.open(lambda: {call}))"]
        if node.name == "close" and not self.is_driven:
            return closing(owner)
        if node.name == "__anext__":
            return [f"return self._portal.{'next_message' if owner == CONSUMER else 'next'}(self._inner)"]
        if owner == CONSUMER and node.name == "receive":
            return ["return self._portal.receive(self._inner, timeout_s)"]
        if node.returns is not None and ast.unparse(node.returns) in self.homes:
            return wrapping(ast.unparse(node.returns), call)
        return self.result(node, f"self._portal.call({call})")

    def plain_body(self, node: ast.FunctionDef) -> list[str]:
        """What waits for nothing is asked of the twin as it is; what returns its own object still does."""
        if node.name in RENAMED:
            return ["return self"]
        decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
        if f"{node.name}.setter" in decorators:
            return [f"self._inner.{node.name} = {call_arguments(node)}"]
        if decorators:
            return self.result(node, f"self._inner.{node.name}")
        call = f"self._inner.{node.name}({call_arguments(node)})"
        if node.returns is not None and ast.unparse(node.returns) == "None":
            return [f"self._portal.do(lambda: {call})"]  # what changes something does so in the thread
        return self.result(node, call)

    def result(self, node: Method, call: str) -> list[str]:
        returns = ast.unparse(node.returns) if node.returns is not None else "None"
        if returns == "Self":
            return [call, "return self"]
        if returns in MESSAGES:
            return [f"return self._portal.received({call})"]
        if returns in self.homes:
            return [f"return {returns}({'' if self.is_driven else 'self._portal, '}{call})"]
        return [call if returns == "None" else f"return {call}"]


def wrapping(kind: str, call: str) -> list[str]:
    """What the twin makes, as one of this face: in one line, if that is not too long."""
    line = f"return {kind}(self._portal, self._portal.call({call}))"
    if len(line) <= MAX_STATEMENT:
        return [line]
    return [f"making = {call}", f"return {kind}(self._portal, self._portal.call(making))"]


def leaving(node: ast.AsyncFunctionDef) -> list[str]:
    """The end of ``with``: what its twin does, if that is more than to close."""
    last = ast.unparse(node.body[-1])
    if last in ("await self.close()", "await self.delete()"):
        return [last.removeprefix("await ")]
    arguments = [each for each in node.args.args if each.arg != "self"]
    names = ", ".join(each.arg for each in arguments)
    return ["if self._portal.is_running:", f"    self._portal.call(self._inner.__aexit__({names}))"]


def closing(owner: str) -> list[str]:
    """``close`` of a connection ends its thread; after that, closing anything again does nothing."""
    if owner in CLOSES:
        ending = [f"    if self._inner.{CLOSES[owner]}:", "        self._portal.stop()"]
        return ["try:", "    super().close()", "finally:", *ending]
    return ["super().close()"]


def methods_of(node: ast.ClassDef) -> list[Method]:
    return [item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]


def is_public(node: Method) -> bool:
    return node.name in RENAMED or not node.name.startswith("_")


def call_arguments(node: Method) -> str:
    """The arguments handed on as they came; functions that are called back, as the portal calls them; what is
    of this face, as something to be awaited.
    """
    given = [handed_on(each) for each in [*node.args.posonlyargs, *node.args.args] if each.arg != "self"]
    if node.args.vararg is not None:
        given.append(f"*map(awaited, {node.args.vararg.arg})")
    return ", ".join(given + [f"{each.arg}={handed_on(each)}" for each in node.args.kwonlyargs])


def handed_on(argument: ast.arg) -> str:
    names = names_in(argument)
    if any(name in CALLBACKS for name in names):
        return f"self._portal.callback({argument.arg})"
    return f"awaited({argument.arg})" if any(name in AWAITED for name in names) else argument.arg


def names_in(argument: ast.arg) -> list[str]:
    """The names that the type of an argument is made of."""
    found = ast.walk(argument.annotation) if argument.annotation is not None else []
    return [each.id for each in found if isinstance(each, ast.Name)]


def docstring(node: ast.ClassDef | Method, indent: int) -> str:
    """The docstring, of a face without await, at its indentation."""
    found = ast.get_docstring(node, clean=True)
    if found is None:
        return ""
    margin = " " * indent
    lines = sync_words(found).split("\n")
    if len(lines) == 1:
        return f'{margin}"""{lines[0]}"""'
    rest = "\n".join(f"{margin}{line}".rstrip() for line in lines[1:])
    return f'{margin}"""{lines[0]}\n{rest}\n{margin}"""'


def sync_words(text: str) -> str:
    for asynchronous, plain in WORDS:
        text = text.replace(asynchronous, plain)
    return text


OWN_IMPORTS = 'lint.isort.known-first-party = ["postroom"]'
"""Told to ruff, which else looks for the files, some of which may not be written yet."""
NO_COMMAS = ("lint.isort.split-on-trailing-comma = false", "format.skip-magic-trailing-comma = true")
"""Of imports that were longer before some of their names were dropped."""


def formatted(text: str, path: Path) -> str:
    """As ruff would have it: imports that are used, sorted, and wrapped lines."""
    ruff = [sys.executable, "-m", "ruff"]
    sort = ["check", "--select", "I,F401", "--config", OWN_IMPORTS, "--fix", "--quiet"]
    sort += ["--config", NO_COMMAS[0]]
    for command in (sort, ["format", "--quiet", "--config", NO_COMMAS[1]]):
        done = subprocess.run(
            [*ruff, *command, "--stdin-filename", str(path), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = done.stdout
    return text


def generate() -> dict[Path, str]:
    """All files of the sync face."""
    sources = [read_source(name) for name in FILES]
    homes = {node.name: source.name for source in sources for node in source.classes} | WRITTEN
    texts = {SYNC / f"{source.name}.py": Generator(source, homes).file() for source in sources}
    return {path: formatted(text, path) for path, text in texts.items()}


def main(arguments: list[str]) -> int:
    drifted = False
    for path, text in generate().items():
        present = path.read_text() if path.exists() else ""
        if arguments == ["--check"]:
            if text != present:
                drifted = True
                sys.stderr.writelines(
                    difflib.unified_diff(
                        present.splitlines(True), text.splitlines(True), str(path), "as generated"
                    )
                )
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    if drifted:
        print("the sync face has drifted from the asyncio face: run tools/async_to_sync.py", file=sys.stderr)
    return int(drifted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
