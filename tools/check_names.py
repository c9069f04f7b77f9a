"""Refuses private words in names, and pronouns of persons for software: see docs/explanation/glossary.md.

``python -m tools.check_names`` checks the names of modules, classes, functions, parameters, attributes and
variables where they are made, by the words that they consist of, and comments and docstrings for pronouns.
What is left of older names is counted in ``private_names.toml`` by folder and word, and may only shrink:
``--shrink`` writes the counts anew once they have.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
LEFT: Final = Path(__file__).parent / "private_names.toml"
FOLDERS: Final = ("src/postroom/manager", "src", "tools", "bench", "demo", "tests")
"""A file belongs to the first that has it."""

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


def folder_of(file: str) -> str:
    """Which of `FOLDERS` it counts for."""
    return next(folder for folder in FOLDERS if file.startswith(f"{folder}/"))


def check_all(root: Path = ROOT) -> list[Finding]:
    """All that is refused in all files."""
    files = {path for folder in FOLDERS for path in (root / folder).rglob("*.py")}
    named = sorted((path.relative_to(root).as_posix(), path) for path in files)
    return [found for name, path in named for found in check_file(name, path.read_text(encoding="utf-8"))]


def counted(findings: list[Finding]) -> dict[str, dict[str, int]]:
    """How many there are, by folder and word."""
    counts = Counter((folder_of(one.file), one.word) for one in findings)
    folders = sorted({folder for folder, _ in counts})
    return {
        folder: {word: counts[folder, word] for word in sorted([*REFUSED, *PRONOUNS]) if counts[folder, word]}
        for folder in folders
    }


def changes(
    left: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, int]]
) -> tuple[list[str], bool]:
    """Which ``folder: word`` there are more of than are left, and whether there are fewer of any."""
    keys = {(folder, word) for counts in (left, now) for folder, words in counts.items() for word in words}
    pairs = {key: (left.get(key[0], {}).get(key[1], 0), now.get(key[0], {}).get(key[1], 0)) for key in keys}
    more = [f"{folder}: {word}" for (folder, word), (was, is_now) in sorted(pairs.items()) if is_now > was]
    return more, any(is_now < was for was, is_now in pairs.values())


def as_toml(counts: Mapping[str, Mapping[str, int]]) -> str:
    """The file of what is left."""
    lines = [
        "# How many names with private words are left; may only shrink: python -m tools.check_names --shrink"
    ]
    for folder, words in counts.items():
        lines += ["", f'["{folder}"]', *(f"{word} = {count}" for word, count in words.items())]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """The command: 1 where something is refused."""
    findings = check_all()
    left = tomllib.loads(LEFT.read_text(encoding="utf-8"))
    now = counted(findings)
    more, has_fewer = changes(left, now)
    for finding in findings:
        if f"{folder_of(finding.file)}: {finding.word}" in more:
            print(finding)
    if more:
        return 1
    if has_fewer and "--shrink" in arguments:
        LEFT.write_text(as_toml(now), encoding="utf-8")
    elif has_fewer:
        print(f"fewer are left than {LEFT.name} has: run python -m tools.check_names --shrink")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
