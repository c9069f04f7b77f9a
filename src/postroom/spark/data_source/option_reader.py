"""Options by name, as texts, flags and numbers; what has no meaning is refused with the option's name."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from postroom.ledger.errors import LedgerError

Refusal = Callable[[str], LedgerError]
"""Makes the error of whoever reads: a source's, a sink's."""


class OptionReader:
    """Options by name, whatever its case. What it raises is made by `refusal`."""

    def __init__(self, options: Mapping[str, str], refusal: Refusal) -> None:
        self._options: Final = {name.lower(): text for name, text in options.items()}
        self.refusal: Final = refusal

    def given(self, name: str) -> str | None:
        """As it is given; None where it isn't."""
        return self._options.get(name.lower())

    def text(self, name: str) -> str:
        """Without blanks around it; empty where it isn't given."""
        return (self.given(name) or "").strip()

    def needed(self, name: str, what: str) -> str:
        """As it is given, which it must be; `what` it is."""
        text = self.given(name) or ""
        if not text.strip():
            raise self.refusal(f'option "{name}" is missing: {what}')
        return text

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some words, in lower case; the first where it isn't given."""
        text = choices[0] if self.given(name) is None else self.text(name).lower()
        if text not in choices:
            raise self.refusal(f'option "{name}" is {" or ".join(choices)}, not {text!r}')
        return text

    def flag(self, name: str, otherwise: bool = False) -> bool:
        """``true`` or ``false``."""
        text = self.text(name).lower() or str(otherwise).lower()
        if text not in ("true", "false"):
            raise self.refusal(f'option "{name}" is true or false, not {text!r}')
        return text == "true"

    def number(self, name: str, least: int = 1, most: int | None = None) -> int | None:
        """A whole number from `least` to `most`; None where it isn't given."""
        if self.given(name) is None:
            return None
        text = self.text(name)
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            to = "" if most is None else f" to {most}"
            raise self.refusal(f'option "{name}" is a whole number from {least}{to}, not {text!r}')
        return int(text)

    def refuse(self, names: Iterable[str], why: str) -> None:
        """None of these may be given."""
        for name in names:
            if self.given(name) is not None:
                raise self.refusal(f'option "{name}" {why}')
