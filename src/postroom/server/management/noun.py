"""What the management node must know of each kind of thing that it manages."""

from collections.abc import Callable, Mapping
from typing import Protocol

from postroom.server.management.request import Attributes, Later, Request, Response

Operation = Callable[[Request, int], Response | Later]
"""Carries out a request, given the time in µs; may raise `RequestError` or a ``ManagerError``."""


class Noun(Protocol):
    """One kind of thing: its type's name, what can be done with it, and all there are, in rows."""

    @property
    def type(self) -> str: ...

    @property
    def operations(self) -> Mapping[str, Operation]: ...

    def attribute_names(self) -> list[str]:
        """Of every row, whether there is one or not."""

    def count(self) -> int:
        """How many rows there are."""

    def rows(self, offset: int, count: int) -> list[Attributes]:
        """Up to `count` rows from the one at `offset`, oldest first; only these are built."""
