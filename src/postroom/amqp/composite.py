"""What all composite types (part 1, section 1.4) have in common, and the one that everybody uses: Error."""

from dataclasses import dataclass
from typing import final


class Composite:
    """A described list with named fields."""


@final
@dataclass
class Error(Composite):
    """Why something was closed, detached or rejected (part 2, section 2.8.14)."""

    condition: str
    description: str | None = None
    info: dict[object, object] | None = None
