"""What is wrong with a selector, and where."""

from typing import Final

SHOWN_CHARS: Final = 40
"""Of the selector, from the place of the error on."""


class SelectorInvalid(ValueError):
    """The text is no selector. ``position`` counts characters from 0; ``problem`` says what was expected."""

    def __init__(self, position: int, text: str, problem: str) -> None:
        rest = text[position : position + SHOWN_CHARS]
        where = f"before {rest!r}" if rest else "at its end"
        super().__init__(f"invalid selector at character {position + 1}, {where}: {problem}")
        self.position = position
        self.text = text
        self.problem = problem
