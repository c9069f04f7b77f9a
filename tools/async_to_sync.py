"""Generates the sync face of the client from its asyncio face.

    python tools/async_to_sync.py            write src/postroom/client/sync/*.py
    python tools/async_to_sync.py --check    exit 1, with the difference, when they are something else

Each public class of ``postroom.client.aio`` becomes a class of the same name in the file of the same name,
with the same methods and arguments; each method runs its asyncio twin in the connection's own thread
(``client/sync/portal.py``) and waits for it. Methods that begin with an underscore are left out.

What has no connection of its own, and only drives others, is translated word by word instead: it runs in the
caller's thread, over the sync face.
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
    *("closable", "producer", "consumer", "requestor", "management_client", "message_store"),
    *("temporary_destinations", "session", "context", "xa", "connection"),
)

TRANSLATED = ("transaction", "transaction_manager", "postgresql")

FACTORY = "ConnectionFactory"
"""The one class that applications make by themselves, and that opens the thread."""
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
DRIVEN_WORDS = (
    ("async def ", "def "),
    ("__aenter__", "__enter__"),
    ("__aexit__", "__exit__"),
    ("AsyncConnection", "Connection"),
    ("asyncio", "sync"),
    *WORDS,
)
GENERATED = """
Generated from aio/{name}.py by tools/async_to_sync.py: change that, and run the tool.
"""
HEADER = '''"""{summary}

Generated from aio/{name}.py by tools/async_to_sync.py: change that, and run the tool.
"""

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
        for defined in names_defined(node):
            source.origins[defined] = f"{PACKAGE}.aio.{name}"
    source.classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and is_generated(node)]
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
        """The file in which each generated class is."""
        self.used: set[str] = set()

    def file(self) -> str:
        """The whole text, not yet formatted."""
        classes = [self.function(node) for node in self.source.functions]
        classes += [self.class_(node) for node in self.source.classes]
        summary = sync_words((ast.get_docstring(self.source.tree) or "").split("\n")[0]).replace(
            "asyncio", "sync"
        )
        header = HEADER.format(summary=summary, name=self.source.name)
        return header + self.imports() + "\n\n" + "\n\n".join(classes)

    def imports(self) -> str:
        lines = [
            f"from {PACKAGE}.aio import {self.source.name} as aio",
            f"from {PACKAGE}.sync.portal import Portal",
        ]
        own = {node.name for node in self.source.classes} | {node.name for node in self.source.functions}
        for name in sorted(self.used - own):
            if name in self.source.modules:
                lines.append(f"import {name}")
            elif name in self.homes:
                lines.append(f"from {PACKAGE}.sync.{self.homes[name]} import {name}")
            elif name in self.source.origins:
                lines.append(f"from {self.source.origins[name]} import {name}")
        exported = ", ".join(f'"{name}"' for name in sorted(own))
        return "\n".join(lines) + f"\n\n__all__ = [{exported}]\n"

    def function(self, node: ast.FunctionDef) -> str:
        """What opens a connection, by the factory of this face."""
        arguments = call_arguments(node)
        body = f"    return {FACTORY}({arguments}).create_connection()"
        return "\n".join([self.head(node).removeprefix("    "), docstring(node, 4), body]) + "\n"

    def class_(self, node: ast.ClassDef) -> str:
        methods = [self.init(node)]
        methods += [self.method(node, item) for item in methods_of(node) if is_public(item)]
        bases = self.bases(node)
        self.used.update(bases)
        head = f"class {node.name}({', '.join(bases)}):" if bases else f"class {node.name}:"
        return f"{head}\n{docstring(node, 4)}\n" + "\n".join(methods)

    def bases(self, node: ast.ClassDef) -> list[str]:
        """Those that have twins."""
        return [name for name in map(ast.unparse, node.bases) if name in self.homes]

    def init(self, node: ast.ClassDef) -> str:
        if node.name == FACTORY:
            original = next(item for item in methods_of(node) if item.name == "__init__")
            head = self.head(original)
            return f"{head}\n        self._inner = aio.{FACTORY}({call_arguments(original)})\n"
        head = f"    def __init__(self, portal: Portal, inner: aio.{node.name}) -> None:\n"
        if self.bases(node):
            return (
                f"{head}        super().__init__(portal, inner)\n"
                f"        self._inner: aio.{node.name} = inner\n"
            )
        return f"{head}        self._portal = portal\n        self._inner = inner\n"

    def head(self, node: Method) -> str:
        """The ``def`` line, with the same arguments."""
        given = node.returns
        if opened_by(node) is not None:
            assert isinstance(given, ast.Subscript)
            given = given.slice
        for part in [node.args, given]:
            if part is not None:
                self.used |= {found.id for found in ast.walk(part) if isinstance(found, ast.Name)}
        returns = f" -> {ast.unparse(given)}" if given is not None else ""
        return f"    def {RENAMED.get(node.name, node.name)}({ast.unparse(node.args)}){returns}:"

    def method(self, owner: ast.ClassDef, node: Method) -> str:
        lines = [f"    @{ast.unparse(decorator)}" for decorator in node.decorator_list]
        lines.append(self.head(node))
        text = docstring(node, 8)
        if text:
            lines.append(text)
        lines += [f"        {line}" for line in self.body(owner.name, node)]
        return "\n".join(lines) + "\n"

    def body(self, owner: str, node: Method) -> list[str]:
        opened = opened_by(node)
        if opened is not None:
            call = f"self._inner.{node.name}({call_arguments(node)})"
            return [f"return {opened}(self._portal, self._portal.call({call}.open()))"]
        if not isinstance(node, ast.AsyncFunctionDef):
            return self.plain_body(owner, node)
        if node.name == "__aenter__":
            return ["return self"]
        if node.name == "__aexit__":
            return leaving(node)
        call = f"self._inner.{node.name}({call_arguments(node)})"
        if owner == FACTORY:
            assert node.returns is not None
            return [
                f"portal, inner = Portal.open(lambda: {call})",
                f"return {ast.unparse(node.returns)}(portal, inner)",
            ]
        if node.name == "close":
            return closing(owner, call)
        if node.name == "__anext__":
            return [
                "if not self._portal.is_running:",
                "    raise StopIteration",
                "try:",
                f"    return self._portal.received(self._portal.call({call}))",
                "except StopAsyncIteration:",
                "    raise StopIteration from None",
            ]
        return self.result(node, f"self._portal.call({call})")

    def plain_body(self, owner: str, node: ast.FunctionDef) -> list[str]:
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
            return [f"return {returns}(self._portal, {call})"]
        return [call if returns == "None" else f"return {call}"]


def leaving(node: ast.AsyncFunctionDef) -> list[str]:
    """The end of ``with``: what its twin does, if that is more than to close."""
    last = ast.unparse(node.body[-1])
    if last in ("await self.close()", "await self.delete()"):
        return [last.removeprefix("await ")]
    arguments = [each for each in node.args.args if each.arg != "self"]
    names = ", ".join(each.arg for each in arguments)
    return ["if self._portal.is_running:", f"    self._portal.call(self._inner.__aexit__({names}))"]


def closing(owner: str, call: str) -> list[str]:
    """``close`` of a connection ends its thread; after that, closing anything again does nothing."""
    lines = ["if self._portal.is_running:"]
    if owner in CLOSES:
        return [
            *lines,
            "    try:",
            f"        self._portal.call({call})",
            "    finally:",
            f"        if self._inner.{CLOSES[owner]}:",
            "            self._portal.stop()",
        ]
    return [*lines, f"    self._portal.call({call})"]


def methods_of(node: ast.ClassDef) -> list[Method]:
    return [item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]


def is_public(node: Method) -> bool:
    return node.name in RENAMED or not node.name.startswith("_")


def call_arguments(node: Method) -> str:
    """The arguments handed on as they came; functions that are called back, as the portal calls them."""
    positional = [handed_on(each) for each in [*node.args.posonlyargs, *node.args.args] if each.arg != "self"]
    return ", ".join(positional + [f"{each.arg}={handed_on(each)}" for each in node.args.kwonlyargs])


def handed_on(argument: ast.arg) -> str:
    named = ast.walk(argument.annotation) if argument.annotation is not None else []
    if any(isinstance(found, ast.Name) and found.id in CALLBACKS for found in named):
        return f"self._portal.callback({argument.arg})"
    return argument.arg


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


def translated(name: str) -> str:
    """A file word by word, with a line that says so below its first."""
    text = (ASYNC / f"{name}.py").read_text()
    for asynchronous, plain in DRIVEN_WORDS:
        text = text.replace(asynchronous, plain)
    first, rest = text.split("\n", 1)
    if first.endswith('"""') and len(first) > len('"""'):
        return f'{first[:-3]}\n{GENERATED.format(name=name)}"""\n{rest}'
    return f"{first}\n{GENERATED.format(name=name)}{rest}"


OWN_IMPORTS = 'lint.isort.known-first-party = ["postroom"]'
"""Told to ruff, which else looks for the files, some of which may not be written yet."""


def formatted(text: str, path: Path) -> str:
    """As ruff would have it: sorted imports, wrapped lines."""
    ruff = [sys.executable, "-m", "ruff"]
    sort = ["check", "--select", "I", "--config", OWN_IMPORTS, "--fix", "--quiet"]
    for command in (sort, ["format", "--quiet"]):
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
    homes = {node.name: source.name for source in sources for node in source.classes}
    texts = {SYNC / f"{source.name}.py": Generator(source, homes).file() for source in sources}
    texts |= {SYNC / f"{name}.py": translated(name) for name in TRANSLATED}
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
