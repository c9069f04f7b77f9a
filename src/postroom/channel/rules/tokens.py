"""The words of an entry: keywords, each with the value in its brackets."""

import re
from dataclasses import dataclass
from typing import Final, final

from postroom.channel.rules.errors import Finding
from postroom.channel.rules.lines import BLANKS, Entry

_KEYWORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SEPARATORS: Final = BLANKS + ","
_UNQUOTED_END: Final = BLANKS + ",()'"
SHOWN_CHARS: Final = 20
"""Of text that means nothing."""


@dataclass(frozen=True)
class Word:
    """``KEYWORD(value)``. The keyword is in capitals; the value is folded to them unless it was quoted."""

    keyword: str
    at: int
    value: str
    value_at: int
    """Where the value begins, its quote if it has one, in the entry."""
    quoted: bool


@final
class Scanner:
    """Reads one entry. After a fault it goes on behind the next closing bracket, so that all are found."""

    def __init__(self, entry: Entry, findings: list[Finding]) -> None:
        self._entry = entry
        self._text = entry.text
        self._findings = findings
        self._at = 0

    def words(self) -> list[Word]:
        """The words of the entry that could be read."""
        found = []
        while self._skip(_SEPARATORS):
            word = self._word()
            if word is not None:
                found.append(word)
        return found

    def _skip(self, characters: str) -> bool:
        """Go on to the next character that is none of these; False at the end."""
        while self._at < len(self._text) and self._text[self._at] in characters:
            self._at += 1
        return self._at < len(self._text)

    def _report(self, at: int, message: str) -> None:
        self._findings.append(Finding(*self._entry.place(at), message))

    def _word(self) -> Word | None:
        start = self._at
        match = _KEYWORD.match(self._text, start)
        if match is None:
            self._report(start, f"a keyword is expected before {self._rest(start)}")
            self._recover()
            return None
        keyword = match.group().upper()
        self._at = match.end()
        if not self._skip(BLANKS) or self._text[self._at] != "(":
            self._report(start, f"{keyword} has no value: write {keyword}(…)")
            return None
        opening = self._at
        self._at += 1
        if not self._skip(BLANKS):
            self._report(opening, f"the bracket of {keyword} is not closed: add the missing )")
            return None
        return self._value(keyword, start, opening)

    def _value(self, keyword: str, start: int, opening: int) -> Word | None:
        at = self._at
        quoted = self._text[at] == "'"
        value = self._quoted() if quoted else self._unquoted()
        if value is None:
            return None
        if not value:
            self._report(at, f"{keyword} has an empty value: give at least one character, a blank as ' '")
        if self._skip(BLANKS) and self._text[self._at] == ")":
            self._at += 1
            return Word(keyword, start, value, at, quoted) if value else None
        if self._at == len(self._text):
            self._report(opening, f"the bracket of {keyword} is not closed: add the missing )")
        else:
            message = f"{keyword} has one value, and more follows at {self._rest(self._at)}: put it in quotes"
            self._report(self._at, f"{message} if it contains blanks, commas, quotes or brackets")
            self._recover()
        return None

    def _quoted(self) -> str | None:
        opening = self._at
        parts = []
        start = opening + 1
        while True:
            end = self._text.find("'", start)
            if end < 0:
                self._report(opening, "a value without its closing quote ('): a quote in it is written twice")
                self._at = len(self._text)
                return None
            parts.append(self._text[start:end])
            if self._text[end + 1 : end + 2] != "'":
                self._at = end + 1
                return "'".join(parts)
            start = end + 2

    def _unquoted(self) -> str:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in _UNQUOTED_END:
            self._at += 1
        return _folded(self._text[start : self._at])

    def _recover(self) -> None:
        """Go on behind the next closing bracket that stands in no quotes."""
        quoted = False
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if char == "'":
                quoted = not quoted
            elif char == ")" and not quoted:
                return

    def _rest(self, at: int) -> str:
        return repr(self._text[at : at + SHOWN_CHARS])


def _folded(text: str) -> str:
    """In capitals, of the letters that MQ's names have."""
    return "".join(char.upper() if "a" <= char <= "z" else char for char in text)
