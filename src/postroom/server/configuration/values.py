"""What the tables of the configuration have in common: bounded values, the error of one that can't be, and
keys that are settings of the queue manager."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, cast

from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType, defstruct

from postroom.model.settings import MAX_NUMBER, Bounds, bounds_of

Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]


class PlacedError(ValueError):
    """A value that its type alone can't refuse; ``path`` leads to it from the object that was being made."""

    def __init__(self, path: tuple[str | int, ...], what: str) -> None:
        self.path = path
        super().__init__(what)


if TYPE_CHECKING:

    class SettingsTable:
        """A table, whose keys `settings_of` gives it: type checkers don't know them."""

        definition_class: ClassVar[type]
        settings: ClassVar[Mapping[str, str]]

        def __init__(self, **values: Any) -> None: ...
        def __getattr__(self, key: str) -> Any: ...
        def values(self) -> dict[str, Any]: ...

else:

    class SettingsTable(Struct, frozen=True, forbid_unknown_fields=True):
        """A table, whose keys `settings_of` gives it."""

        definition_class: ClassVar[type] = object
        """Where the settings are declared."""
        settings: ClassVar[Mapping[str, str]] = {}
        """Each key, and the setting that it is."""

        def values(self):
            """What the table says, by setting."""
            found = {setting: getattr(self, key) for key, setting in self.settings.items()}
            return {setting: value for setting, value in found.items() if value is not UNSET}


Table = TypeVar("Table", bound=SettingsTable)


def settings_of(
    definition: Any,
    names: Iterable[str] | None = None,
    renamed: Mapping[str, str] = MappingProxyType({}),
    defaults: Mapping[str, object] = MappingProxyType({}),
) -> Callable[[type[Table]], type[Table]]:
    """A decorator that gives a table a key for each of these settings of the dataclass ``definition``: with
    the same name (``names``; None: all), or ``renamed`` (key → setting). Types, bounds and defaults are those
    of the setting; ``defaults`` has other ones: NODEFAULT, the key is required; UNSET, what it is by default
    is known elsewhere."""
    bounds = bounds_of(definition)
    usual = {each.name: each.default for each in fields(definition)}
    settings = {**renamed, **{name: name for name in (usual if names is None else names)}}

    def give(table: type[Table]) -> type[Table]:
        keys = [
            _key(key, usual[setting], bounds.get(setting), defaults.get(key, usual[setting]))
            for key, setting in settings.items()
            if key not in table.__annotations__
        ]
        own = {"__doc__": table.__doc__, "definition_class": definition, "settings": settings}
        made = defstruct(table.__name__, keys, bases=(table,), namespace=own, module=table.__module__)
        return cast("type[Table]", made)

    return give


def _key(key: str, usual: object, bounds: Bounds | None, default: object) -> tuple[str, Any, Any]:
    """A field of a table: name, type, default."""
    kind: Any = str if usual is MISSING else type(usual)
    if bounds is not None and bounds.choices:
        kind = Literal[bounds.choices]
    elif bounds is not None:
        kind = Annotated[int, Meta(ge=bounds.least, le=None if bounds.most == MAX_NUMBER else bounds.most)]
    if default is UNSET:
        kind = kind | UnsetType
    return key, kind, NODEFAULT if default is MISSING else default


def check_names(table: str, names: list[str], key: str = "name") -> None:
    """No two rows of a table have one name. Raises `PlacedError`."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            raise PlacedError((table, index, key), f"{table} {name!r} is defined twice")
        seen.add(name)
