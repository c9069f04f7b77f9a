"""What is wrong with a rules table, where, and what to do."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """One fault. ``line`` and ``column`` count from 1, columns in characters, in the text as it was given."""

    line: int
    column: int
    message: str
    is_error: bool = True
    """False: a warning; the table can be used."""

    def formatted(self, file: str) -> str:
        """As compilers say it: ``file:line:column: error: …``."""
        kind = "error" if self.is_error else "warning"
        return f"{file}:{self.line}:{self.column}: {kind}: {self.message}"
