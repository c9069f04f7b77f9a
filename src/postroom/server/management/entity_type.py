"""What the management node must know of each kind of thing that it manages."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, TypeVar

from postroom.server.kernel.broker_state import BrokerState
from postroom.server.management.request import (
    CONFLICT,
    CREATED,
    NO_CONTENT,
    OK,
    Attributes,
    Later,
    Request,
    RequestError,
    Response,
)

T = TypeVar("T")
Definition = TypeVar("Definition")

Operation = Callable[[Request, int], Response | Later]
"""Carries out a request, given the time in µs; may raise `RequestError` or a ``ManagerError``."""

Columns = Mapping[str, Callable[[T], object]]
"""The attributes of a thing, and how each is got from it."""


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


class UnlistedEntityType:
    """Things of which there are too many to be listed."""

    def attribute_names(self) -> list[str]:
        return []

    def count(self) -> int:
        return 0

    def rows(self, offset: int, count: int) -> list[Attributes]:
        return []


class ListedEntityType(ABC, Generic[T]):
    """Rows and operations of an entity type whose things are somewhere at hand, all of one class."""

    def __init__(self, broker: BrokerState) -> None:
        self.broker: Final = broker
        self.manager: Final = broker.manager
        self.columns: Final[Columns[T]] = {
            "name": self.name_of,
            "identity": self.name_of,
            "type": lambda thing: self.type,
            **self.make_columns(),
        }
        self.operations: Final = self.make_operations()

    @property
    @abstractmethod
    def type(self) -> str:
        """Its name in requests."""

    def make_columns(self) -> Columns[T]:
        """The attributes beside name, identity and type."""
        return {}

    def make_operations(self) -> Mapping[str, Operation]:
        """What can be done, by the names that requests have for it."""
        return {"READ": self.read}

    @abstractmethod
    def all(self) -> Iterable[T]:
        """All there are, oldest first."""

    @abstractmethod
    def find(self, request: Request) -> T:
        """The one that a request names. Raises `RequestError` or a ``ManagerError``."""

    def name_of(self, thing: T) -> str:
        """By which `find` finds it."""
        name: str = thing.name  # type: ignore[attr-defined]  # whose things have none says otherwise
        return name

    def attribute_names(self) -> list[str]:
        """Of every row, whether there is one or not."""
        return list(self.columns)

    def shown(self, thing: T) -> Attributes:
        """One as a row."""
        return {name: get(thing) for name, get in self.columns.items()}

    def count(self) -> int:
        """How many rows there are."""
        return sum(1 for _ in self.all())

    def rows(self, offset: int, count: int) -> list[Attributes]:
        """Up to `count` rows from the one at `offset`."""
        return [self.shown(thing) for thing in islice(self.all(), offset, offset + count)]

    def read(self, request: Request, now_us: int) -> Response:
        """The operation READ."""
        return Response(OK, "OK", self.shown(self.find(request)))


class DefinedEntityType(ListedEntityType[T], Generic[T, Definition]):
    """Things with a definition, a dataclass with a name and settings, which clients create, update and
    delete."""

    kind: str
    """What a thing is called in descriptions of errors."""
    definition: Callable[..., Definition]
    """The class of definitions."""
    settable: Mapping[str, type]
    """The settings that requests may set, and their types."""

    def make_operations(self) -> Mapping[str, Operation]:
        return {"CREATE": self.create, "READ": self.read, "UPDATE": self.update, "DELETE": self.delete}

    @abstractmethod
    def define(self, definition: Definition, now_us: int) -> T:
        """Make a thing. Raises a ``ManagerError``, as the next two."""

    @abstractmethod
    def alter(self, definition: Definition, now_us: int) -> T:
        """Give the thing of that name this definition."""

    @abstractmethod
    def drop(self, name: str, now_us: int) -> None:
        """End the thing of that name."""

    def settings(self, request: Request) -> Attributes:
        """What a request sets."""
        return request.settings(self.kind, self.settable)

    def create(self, request: Request, now_us: int) -> Response:
        """The operation CREATE."""
        name = request.required_name()
        if any(self.name_of(thing) == name for thing in self.all()):
            raise RequestError(CONFLICT, f"{self.kind} {name!r} exists already")
        definition = self.definition(name=name, **self.settings(request))
        return Response(CREATED, "created", self.shown(self.define(definition, now_us)))

    def update(self, request: Request, now_us: int) -> Response:
        """The operation UPDATE."""
        known: Any = self.find(request)
        changed = replace(known.definition, **self.settings(request))
        return Response(OK, "OK", self.shown(self.alter(changed, now_us)))

    def delete(self, request: Request, now_us: int) -> Response:
        """The operation DELETE."""
        self.drop(request.required_name(), now_us)
        return Response(NO_CONTENT, "deleted", {})


def same_named(*names: str, of: str = "") -> Columns[Any]:
    """Attributes that are attributes of the thing, or of what it has as ``of``, by the same names."""
    return {name: attrgetter(f"{of}.{name}" if of else name) for name in names}
