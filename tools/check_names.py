"""Refuses private words in names, and pronouns of persons for software: see docs/explanation/glossary.md.

``python -m tools.check_names`` checks the names of modules, classes, functions, parameters, attributes and
variables where they are made, by the words that they consist of, and comments and docstrings for pronouns;
in the source, the tools and the tests alike.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("src", "tools", "bench", "demo", "tests")

REFUSED: Final = {
    "ask": "request, query, call",
    "asked": "requested, given",
    "asks": "requests",
    "book": "table, state, record",
    "books": "tables, states, records",
    "keeper": "upkeep, owner",
    "ladder": "steps, handler",
    "look": "snapshot, inspection, lookup",
    "looked": "inspected, snapshot",
    "looks": "snapshots, inspections",
    "said": "message, answer, attributes, text",
    "say": "describe, print, send",
    "says": "describes, has",
    "shelf": "view, store",
    "spot": "position, place",
    "spots": "positions, places",
    "tell": "notify, report, log",
    "tells": "notifies, reports",
    "told": "reported, recorded, detail, text",
}
"""Words of names, and what to write instead: what it is, by the field's term."""
PRONOUNS: Final = dict.fromkeys(("he", "him", "himself", "his"), "it, its, they; the consumer, the reader …")

ALLOWED: Final = frozenset({"first_look"})
"""Names that are part of a format: a field of the audit's result."""

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PRONOUN: Final = re.compile(rf"\b({'|'.join(PRONOUNS)})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Finding:
    """A refused word and where it is."""

    file: str
    line: int
    word: str
    name: str
    """The name, or the line of the text, that has it."""

    def __str__(self) -> str:
        instead = REFUSED.get(self.word) or PRONOUNS[self.word]
        return f"{self.file}:{self.line}: {self.name}: not {self.word!r} (rather {instead})"


def words_of(name: str) -> list[str]:
    """``tell_allNew`` → tell, all, new."""
    return [word.lower() for word in _WORD.findall(name)]


def check_file(file: str, source: str) -> list[Finding]:
    """All that is refused in a file; ``file`` is its path from the root of the repository."""
    tree = ast.parse(source)
    names = [(1, Path(file).stem), *_names(tree)]
    found = {
        Finding(file, line, word, name)
        for line, name in names
        if name not in ALLOWED
        for word in words_of(name)
        if word in REFUSED
    }
    found |= {
        Finding(file, line, match.group().lower(), text.strip())
        for line, text in [*_comments(source), *_docstrings(tree)]
        for match in _PRONOUN.finditer(text)
    }
    return sorted(found, key=lambda one: (one.line, one.word, one.name))


def _names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The names that a module makes; those of others, which it uses, are checked where they are made."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test_"):
                pass  # a sentence
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                yield node.lineno, name


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line by line; those behind attributes and constants, too."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield from enumerate(text.splitlines(), node.lineno)


def check_all(root: Path = ROOT) -> list[Finding]:
    """All that is refused in all files."""
    files = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    return [
        found
        for path in files
        for found in check_file(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    ]


def main(root: Path = ROOT) -> int:
    """The command: 1 where something is refused."""
    findings = check_all(root)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
