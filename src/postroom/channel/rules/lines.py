"""From the lines of a file to its entries: comments, blank lines, continuation.

An entry (control data or a rule) begins on a new line and goes on over as many lines as end with a
continuation sign: ``+`` joins the next line from its first character that is no blank, ``-`` from its first
column. What is joined may split keywords and values. Every character of an entry keeps its place in the file.
"""

from bisect import bisect_right
from typing import Final, final

from postroom.channel.rules.errors import Finding

MAX_TABLE_CHARS: Final = 1 << 20
MAX_LINE_CHARS: Final = 72
"""Significant characters of a line: up to its last that is no blank, a continuation sign included."""
BLANKS: Final = " \t\f\v\ufeff"


@final
class Entry:
    """The text of control data or of a rule, in one line, with the places that it came from."""

    def __init__(self) -> None:
        self.text = ""
        self._starts: list[int] = []
        self._places: list[tuple[int, int]] = []

    def add(self, part: str, line: int, column: int) -> None:
        """Append what stands at ``line`` from ``column`` on."""
        self._starts.append(len(self.text))
        self._places.append((line, column))
        self.text += part

    def place(self, at: int) -> tuple[int, int]:
        """Line and column of the character ``at``; its end is behind its last character."""
        index = bisect_right(self._starts, at) - 1
        line, column = self._places[index]
        return line, column + at - self._starts[index]


def entries_of(text: str, findings: list[Finding]) -> list[Entry]:
    """The entries of a table; what is wrong with its lines is added to ``findings``."""
    if len(text) > MAX_TABLE_CHARS:
        message = f"the table has {len(text)} characters, and may have {MAX_TABLE_CHARS}: split it"
        findings.append(Finding(1, 1, message))
        return []
    found: list[Entry] = []
    joining: Entry | None = None
    sign = ""
    sign_place = (1, 1)
    for number, raw in enumerate(_lines(text), 1):
        line = raw.rstrip(BLANKS)
        if _is_passed_over(line, joining is not None):
            continue
        _check_length(line, number, findings)
        column = 1 if sign == "-" else len(line) - len(line.lstrip(BLANKS)) + 1
        if joining is None:
            found.append(joining := Entry())
        sign = line[-1] if line[-1] in "+-" else ""
        sign_place = (number, len(line))
        joining.add(line[column - 1 : len(line) - len(sign)], number, column)
        if not sign:
            joining = None
    if joining is not None:
        message = f"the line says with {sign} that it goes on, and nothing follows: take the {sign} away"
        findings.append(Finding(*sign_place, message))
    return found


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _is_passed_over(line: str, continues: bool) -> bool:
    """Whether it is blank or a comment, whatever stands around it.

    A comment begins with an asterisk; where no entry is being continued, blanks before it do no harm.
    """
    return not line or line[0] == "*" or (not continues and line.lstrip(BLANKS)[:1] == "*")


def _check_length(line: str, number: int, findings: list[Finding]) -> None:
    if len(line) > MAX_LINE_CHARS:
        message = (
            f"the line has {len(line)} characters, more than {MAX_LINE_CHARS}: go on in the next, with +"
        )
        findings.append(Finding(number, MAX_LINE_CHARS + 1, message))
