"""What a setting may be, said once, where the setting is declared: as metadata of a dataclass's field.

From it follow the check of a definition, the type of the key in the configuration file, what the management
node lets be changed, and the tables of the reference.
"""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, TypeVar, cast

NO_LIMIT: Final = -1
"""For limits that may be off."""

MAX_NUMBER: Final = 1 << 52
"""Of any setting: as milliseconds 142,000 years, which are still a time in µs of 64 bits."""

_BOUNDS: Final = "bounds"

Definition = TypeVar("Definition")


@dataclass(frozen=True)
class Bounds:
    """The values that a setting may have: the numbers from ``least`` to ``most``, or one of ``choices``."""

    least: int = NO_LIMIT
    most: int = MAX_NUMBER
    choices: tuple[str, ...] = ()
    """"" among them: it may be left blank."""

    def fault(self, value: object) -> str:
        """What ``value`` must be instead; "" where it may be so."""
        if self.choices:
            named = ", ".join(each or "empty" for each in self.choices)
            return "" if value in self.choices else f"must be one of {named}"
        if not isinstance(value, int) or isinstance(value, bool) or self.least <= value <= self.most:
            return ""
        if self.most != MAX_NUMBER:
            return f"must be {self.least} to {self.most}"
        return f"must be {self.least} or more" if value < self.least else f"must be {self.most} or less"


def setting(
    default: object, *, least: int = NO_LIMIT, most: int = MAX_NUMBER, choices: tuple[str, ...] = ()
) -> Any:
    """The field of a dataclass that is a setting with bounds of its own."""
    return field(default=default, metadata={_BOUNDS: Bounds(least, most, choices)})


def bounds_of(definition: Any) -> dict[str, Bounds]:
    """The settings of a class of definitions that are numbers or choices, and what each may be."""
    found: dict[str, Bounds] = {}
    for each in fields(definition):
        if _BOUNDS in each.metadata:
            found[each.name] = each.metadata[_BOUNDS]
        elif isinstance(each.default, int) and not isinstance(each.default, bool):
            found[each.name] = Bounds()
    return found


def types_of(definition: Any) -> dict[str, type]:
    """Every setting that has a default, and its type."""
    return {each.name: type(each.default) for each in fields(definition) if each.default is not MISSING}


def record_of(definition: Any) -> dict[str, object]:
    """A definition as JSON-able fields."""
    return {each.name: getattr(definition, each.name) for each in fields(definition)}


def unusual_of(definition: Any, always: str) -> dict[str, object]:
    """As `record_of`, without what is as it is by default; the field ``always`` is there all the same."""
    usual = {each.name: each.default for each in fields(definition) if each.name != always}
    record = record_of(definition)
    return {name: value for name, value in record.items() if name not in usual or value != usual[name]}


def restored(definition: Callable[..., Definition], record: dict[str, object]) -> Definition:
    """The definition of this class of which ``record`` has the fields; what else is in it is passed over."""
    known = _field_names(definition)
    return definition(**{name: value for name, value in record.items() if name in known})


_FIELD_NAMES: Final[dict[object, frozenset[str]]] = {}
"""By class: to ask a dataclass for them takes as long as to make ten of it."""


def _field_names(definition: object) -> frozenset[str]:
    known = _FIELD_NAMES.get(definition)
    if known is None:
        known = frozenset(each.name for each in fields(cast("Any", definition)))
        _FIELD_NAMES[definition] = known
    return known


def first_fault(definition: object, bounds: dict[str, Bounds]) -> tuple[str, str]:
    """The first setting that is out of its bounds, and what is wrong: ``KEY is VALUE``, and what it must be;
    "" and "" where all are as they may be."""
    for key, allowed in bounds.items():
        value = getattr(definition, key)
        fault = allowed.fault(value)
        if fault:
            return key, f"{key} is {value!r}, {fault}"
    return "", ""
