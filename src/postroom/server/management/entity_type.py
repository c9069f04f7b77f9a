"""What the management node must know of each kind of thing that it manages."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Generic, Protocol, TypeVar

from postroom.server.management.request import OK, Attributes, Later, Request, Response

T = TypeVar("T")

Operation = Callable[[Request, int], Response | Later]
"""Carries out a request, given the time in µs; may raise `RequestError` or a ``ManagerError``."""


class EntityType(Protocol):
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


class ListedEntityType(ABC, Generic[T]):
    """Rows and READ of an entity type whose things are somewhere at hand, all of one class."""

    @abstractmethod
    def all(self) -> Iterable[T]:
        """All there are, oldest first."""

    @abstractmethod
    def find(self, request: Request) -> T:
        """The one that a request names. Raises `RequestError` or a ``ManagerError``."""

    @abstractmethod
    def shown(self, thing: T, /) -> Attributes:
        """One as a row."""

    def count(self) -> int:
        """How many rows there are."""
        return sum(1 for _ in self.all())

    def rows(self, offset: int, count: int) -> list[Attributes]:
        """Up to `count` rows from the one at `offset`."""
        return [self.shown(thing) for thing in islice(self.all(), offset, offset + count)]

    def read(self, request: Request, now_us: int) -> Response:
        """The operation READ."""
        return Response(OK, "OK", self.shown(self.find(request)))
