"""Find the line on which a key of a TOML document stands, so that an error can point at it.

`tomllib` reports lines for syntax errors only. This scanner runs on text that `tomllib` has accepted already,
so it may trust the grammar: it follows table headers, keys, multi-line strings and open brackets.
"""

import re
from typing import Final

_KEY_PART: Final = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED: Final = rf"{_KEY_PART}(?:\s*\.\s*{_KEY_PART})*"
_ARRAY_HEADER: Final = re.compile(rf"\s*\[\[\s*({_DOTTED})\s*\]\]")
_TABLE_HEADER: Final = re.compile(rf"\s*\[\s*({_DOTTED})\s*\]")
_ASSIGNMENT: Final = re.compile(rf"\s*({_DOTTED})\s*=")
_TOKEN: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|' + r"'''.*?'''|"
    r'"(?:[^"\\\n]|\\.)*"|' + r"'[^'\n]*'|#[^\n]*|[\[\]{}]|\n",
    re.DOTALL,
)

Path = tuple[str | int, ...]


def key_lines(text: str) -> dict[Path, int]:
    """The line (from 1) of every table header and every key that stands at the start of a line."""
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for line_number, line in _statements(text):
        if header := _ARRAY_HEADER.match(line):
            name = _inside_arrays(_split(header[1]), counts)
            counts[name] = counts.get(name, -1) + 1
            table = (*name, counts[name])
            found[table] = line_number
            found.setdefault(name, line_number)
        elif header := _TABLE_HEADER.match(line):
            table = _inside_arrays(_split(header[1]), counts)
            found[table] = line_number
        elif assignment := _ASSIGNMENT.match(line):
            found[(*table, *_split(assignment[1]))] = line_number
    return found


def line_of(text: str, path: Path) -> int:
    """The line (from 1) of the key at ``path``, or of the nearest key around it, else 1."""
    lines = key_lines(text)
    for length in range(len(path), 0, -1):
        line = lines.get(path[:length])
        if line is not None:
            return line
    return 1


def _statements(text: str) -> list[tuple[int, str]]:
    """Every line that begins a statement, with its number: none inside brackets or long strings."""
    continued = set()
    line, depth = 1, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        inside = depth > 0 or len(token) > 1
        for _ in range(token.count("\n")):
            line += 1
            if inside:
                continued.add(line)
    return [
        (number, content) for number, content in enumerate(text.split("\n"), 1) if number not in continued
    ]


def _split(dotted: str) -> Path:
    return tuple(part.strip("\"'") for part in re.findall(_KEY_PART, dotted))


def _inside_arrays(name: Path, counts: dict[Path, int]) -> Path:
    """``name`` with the index of the last element put behind each part that is an array of tables."""
    path: Path = ()
    for place, part in enumerate(name):
        path = (*path, part)
        if path in counts and place < len(name) - 1:
            path = (*path, counts[path])
    return path
