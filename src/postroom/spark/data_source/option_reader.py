"""Options by name, as texts, flags and numbers; what has no meaning is refused with the option's name."""

from collections.abc import Callable, Mapping
from typing import Final

from postroom.ledger.errors import LedgerError

Refusal = Callable[[str], LedgerError]
"""Makes the error of whoever reads: a source's, a sink's."""


class OptionReader:
    """Options by name, whatever its case. What it raises is made by `refusal`."""

    def __init__(self, options: Mapping[str, str], refusal: Refusal) -> None:
        self._options: Final = {name.lower(): text for name, text in options.items()}
        self.refusal: Final = refusal

    def text(self, name: str) -> str:
        """Empty where it isn't given."""
        return self._options.get(name.lower(), "").strip()

    def flag(self, name: str, otherwise: bool = False) -> bool:
        """``true`` or ``false``."""
        text = self.text(name).lower()
        if text not in ("", "true", "false"):
            raise self.refusal(f'option "{name}" is true or false, not {text!r}')
        return text == "true" if text else otherwise

    def number(self, name: str, least: int, most: int, otherwise: int | None) -> int | None:
        """A whole number from `least` to `most`."""
        text = self.text(name)
        if not text:
            return otherwise
        if not text.isdecimal() or not least <= int(text) <= most:
            raise self.refusal(f'option "{name}" is a whole number from {least} to {most}, not {text!r}')
        return int(text)

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """None of these may be given."""
        for name in names:
            if self.text(name):
                raise self.refusal(f'option "{name}" is {why}')
