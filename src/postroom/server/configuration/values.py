"""What the tables of the configuration have in common: bounded values, and the error of one that can't be."""

from typing import Annotated

from msgspec import Meta

Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
Limit = Annotated[int, Meta(ge=-1)]


class PlacedError(ValueError):
    """A value that its type alone can't refuse; ``path`` leads to it from the object that was being made."""

    def __init__(self, path: tuple[str | int, ...], what: str) -> None:
        self.path = path
        super().__init__(what)
