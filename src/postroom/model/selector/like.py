"""LIKE patterns: ``%`` any run of characters, ``_`` any one character, an escape takes their meaning away.

Matching goes from left to right and never back by more than the run that it is in, so its time is bounded by
the product of the two lengths, whatever the pattern.
"""

from typing import Final, final

from mypy_extensions import i64

ANY_CHAR: Final = ""
"""Stands for ``_`` in a piece."""


@final
class Pattern:
    """A parsed pattern: pieces between the ``%`` signs, each a list of characters or `ANY_CHAR`."""

    def __init__(self, pattern: str, escape: str) -> None:
        """Raises ValueError for an escape character that escapes nothing."""
        pieces: list[list[str]] = [[]]
        at = 0
        while at < len(pattern):
            char = pattern[at]
            if escape and char == escape:
                at += 1
                if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                    raise ValueError(f"the escape character {escape!r} must stand before %, _ or itself")
                pieces[-1].append(pattern[at])
            elif char == "%":
                pieces.append([])
            else:
                pieces[-1].append(ANY_CHAR if char == "_" else char)
            at += 1
        self._pieces = [_Piece(piece) for piece in pieces]

    def matches(self, text: str) -> bool:
        """Whether the whole of ``text`` is as the pattern says."""
        pieces = self._pieces
        first, last = pieces[0], pieces[-1]
        if len(pieces) == 1:
            return len(text) == first.length and first.stands_at(text, 0)
        start = first.length
        end = len(text) - last.length
        if end < start or not first.stands_at(text, 0) or not last.stands_at(text, end):
            return False
        for piece in pieces[1:-1]:
            start = piece.find(text, start, end)
            if start < 0:
                return False
            start += piece.length
        return True


@final
class _Piece:
    def __init__(self, chars: list[str]) -> None:
        self._chars = chars
        self.length: i64 = len(chars)
        self._plain = "" if ANY_CHAR in chars else "".join(chars)

    def stands_at(self, text: str, at: i64) -> bool:
        if self._plain:
            return text.startswith(self._plain, at)
        return all(not char or text[at + index] == char for index, char in enumerate(self._chars))

    def find(self, text: str, start: i64, end: i64) -> i64:
        """Where it first stands in ``text[start:end]``; −1 nowhere."""
        if self._plain:
            return text.find(self._plain, start, end)
        while start + self.length <= end:
            if self.stands_at(text, start):
                return start
            start += 1
        return -1
