"""Definitions as text: TOML, or JSON of the same shape, read within bounds, and written in a fixed order."""

import json
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from postroom.cli.definitions.kinds import BY_TABLE, KINDS
from postroom.server.configuration.toml_lines import line_of

MAX_FILE_BYTES: Final = 4 << 20
"""As of a configuration file."""
MAX_FAULTS: Final = 20
"""That are told of one file."""
EXIT_FILE: Final = 2
STANDARD_INPUT: Final = "-"

Table = dict[str, Any]
Tree = dict[str, list[Table]]


class DefinitionsError(click.ClickException):
    """A file that can't be used: each fault in a line."""

    exit_code = EXIT_FILE

    def __init__(self, faults: Sequence[str]) -> None:
        more = len(faults) - MAX_FAULTS
        lines = [*faults[:MAX_FAULTS], *([f"and {more} more"] if more > 0 else [])]
        super().__init__("\n".join(lines))


class Source:
    """The text of a file, and where its faults are."""

    def __init__(self, name: str, text: str) -> None:
        self.name: Final = name
        self.text: Final = text
        self.is_json: Final = text.lstrip()[:1] == "{"

    def fault(self, table: str, index: int, key: str, what: str, name: str = "") -> str:
        """One line: file, line (of TOML), table, which one of them, its name, key, and what is wrong."""
        if index < 0:
            place, path = table, (table,)
        else:
            place, path = f"{table}[{index}]", (table, index, key)  # type: ignore[assignment]
        line = "" if self.is_json else f":{line_of(self.text, path)}"
        named = f" {name!r}" if name else ""
        return f"{self.name}{line}: {place}{named}{f': {key}' if key else ''}: {what}"

    def tree(self) -> Any:
        """What it says. Raises `DefinitionsError`."""
        try:
            return json.loads(self.text) if self.is_json else tomllib.loads(self.text)
        except RecursionError:
            what = "is nested too deeply"
        except ValueError as error:  # of either language, and of numbers with thousands of digits
            what = str(error)
        raise DefinitionsError([f"{self.name}: {what}"])


def read_source(file: str) -> Source:
    """The file, or ("-") standard input. Raises `DefinitionsError`."""
    name = "standard input" if file == STANDARD_INPUT else file
    try:
        if file == STANDARD_INPUT:
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise DefinitionsError([f"{name}: can't be read: {error.strerror}"]) from error
    if len(data) > MAX_FILE_BYTES:
        raise DefinitionsError([f"{name}: is longer than {MAX_FILE_BYTES:,} bytes"])
    try:
        return Source(name, data.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        what = f"is not UTF-8: byte 0x{data[error.start]:02x} at {error.start}"
        raise DefinitionsError([f"{name}: {what}"]) from error


def check_tree(source: Source, tree: Any) -> Tree:
    """The tables of a file, whose keys are known and of the right types. Raises `DefinitionsError`."""
    if not isinstance(tree, dict):
        raise DefinitionsError([f"{source.name}: must be an object with the tables {', '.join(BY_TABLE)}"])
    faults: list[str] = []
    found: Tree = {}
    for table, rows in tree.items():
        if table not in BY_TABLE:
            faults.append(source.fault(table, -1, "", _unknown_table(table)))
        elif not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
            faults.append(source.fault(table, -1, "", f"must be a list of tables: [[{table}]]"))
        else:
            found[table] = rows
            for index, row in enumerate(rows):
                faults += _faults_of(source, table, index, row)
    if faults:
        raise DefinitionsError(faults)
    return found


def _unknown_table(table: str) -> str:
    if table == "users":
        return "passwords are in no definitions: name users as [[user]], which get theirs by `postroom user`"
    return f"unknown table: definitions have {', '.join(BY_TABLE)}; all else is the configuration file's"


def _faults_of(source: Source, table: str, index: int, row: Table) -> Iterable[str]:
    kind = BY_TABLE[table]
    name = row.get("name", "")
    of = name if isinstance(name, str) else ""
    if kind.has_name and (not isinstance(name, str) or not name):
        yield source.fault(table, index, "name", "must be text, and not empty")
    for key, value in row.items():
        wanted = str if key == "name" and kind.has_name else kind.keys.get(key)
        if wanted is None:
            yield source.fault(table, index, key, "unknown key", of)
        elif not _fits(value, wanted):
            yield source.fault(table, index, key, f"is {value!r:.100}, must be {_TYPES[wanted]}", of)


_TYPES: Final[Mapping[type, str]] = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    list: "a list of texts",
}


def _fits(value: object, wanted: type) -> bool:
    if wanted is list:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return isinstance(value, wanted) and not (wanted is int and isinstance(value, bool))


# Writing.


def as_json(tree: Tree) -> str:
    """The tables as JSON."""
    return json.dumps(_ordered(tree), ensure_ascii=False, indent=2) + "\n"


def as_toml(tree: Tree, heading: str = "") -> str:
    """The tables as TOML, below ``heading`` as a comment."""
    parts = [f"# {heading}\n"] if heading else []
    for table, rows in _ordered(tree).items():
        if not rows:
            parts.append(f"{table} = []\n")
    for table, rows in _ordered(tree).items():
        for row in rows:
            lines = [f"[[{table}]]", *(f"{key} = {_toml(value)}" for key, value in row.items())]
            parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _ordered(tree: Tree) -> Tree:
    return {kind.table: tree[kind.table] for kind in KINDS if kind.table in tree}


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):  # JSON's escapes are TOML's, but for this one that JSON needn't have
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)
