"""The properties of a message: a dict, and the typed accessors of JMS on it.

What the broker, AMQP or JMS keeps elsewhere is a property of JMS, too: ``JMSXGroupID``, ``JMSXGroupSeq``,
``JMSXUserID``, ``JMSXDeliveryCount`` (:data:`JMSX_NAMES`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn, TypeVar

from postroom.amqp.encoding.types import Int
from postroom.client.exceptions import MessageFormatException, MessageNotWriteableException
from postroom.client.messages import conversion
from postroom.client.messages.conversion import Kind, of_kind

V = TypeVar("V")

GROUP_ID: Final = "JMSXGroupID"
GROUP_SEQUENCE: Final = "JMSXGroupSeq"
USER_ID: Final = "JMSXUserID"
DELIVERY_COUNT: Final = "JMSXDeliveryCount"
JMSX_NAMES: Final = (GROUP_ID, GROUP_SEQUENCE, USER_ID, DELIVERY_COUNT)
"""What :meth:`ConnectionMetaData.jmsx_property_names` tells."""

RESERVED: Final = frozenset(
    ["NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"]
)
"""Words of selectors, which no property is called."""


class MessageProperties(dict[str, object]):
    """Application properties by name."""

    read_only = False


class ReadOnlyProperties(MessageProperties):
    """Those of a received message, until :meth:`PropertyAccess.clear_properties`."""

    read_only = True

    def _refuse(self, *ignored: object, **also_ignored: object) -> NoReturn:
        raise MessageNotWriteableException(
            "the properties of a received message are read-only: clear_properties() first"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


def check_property_name(name: str) -> None:
    """Raises ValueError for a name that no selector could use: JMS's rule for property names."""
    if not name or (not name.isidentifier() and not name.replace("$", "_").isidentifier()):
        raise ValueError(f"{name!r} is no name of a property: letters, digits, _ and $, no digit first")
    if name.upper() in RESERVED:
        raise ValueError(f"{name!r} is a word of selectors, and no name of a property")


class PropertyAccess:
    """The typed accessors of JMS. A value keeps the type that it was set with; reading it as another one
    follows JMS's table of conversions (:mod:`postroom.client.messages.conversion`).

    A setter raises MessageNotWriteableException for a received message, ValueError for a bad name,
    MessageFormatException for a value outside of its type. A getter raises MessageFormatException where the
    table allows no conversion, and ValueError for text that is no number, or nothing where a number is asked
    for.
    """

    properties: object
    group_id: str | None
    group_sequence: int | None
    user_id: bytes | None
    delivery_count: int

    def property_exists(self, name: str) -> bool:
        """Whether it has a value."""
        return self.get_object_property(name) is not None

    def property_names(self) -> list[str]:
        """All that have a value, those of JMSX included."""
        names = [name for name in JMSX_NAMES if self._jmsx(name) is not None]
        return names + [name for name in self._mapping() if name not in JMSX_NAMES]

    def clear_properties(self) -> None:
        """No properties any more; they can be set then, those of a received message, too."""
        self.properties = {}
        self.group_id = self.group_sequence = self.user_id = None

    def get_object_property(self, name: str) -> object:
        """The value as it was set; None where there is none."""
        return self._jmsx(name) if name in JMSX_NAMES else self._mapping().get(name)

    def _get_as(self, kind: Kind[V], name: str) -> V:
        return kind.read(self.get_object_property(name), _what(name))

    get_boolean_property = of_kind(_get_as, conversion.BOOLEAN, "As boolean; False where there is none.")
    get_byte_property = of_kind(_get_as, conversion.BYTE, "As byte.")
    get_short_property = of_kind(_get_as, conversion.SHORT, "As short.")
    get_int_property = of_kind(_get_as, conversion.INT, "As int.")
    get_long_property = of_kind(_get_as, conversion.LONG, "As long.")
    get_float_property = of_kind(_get_as, conversion.FLOAT, "As float.")
    get_double_property = of_kind(_get_as, conversion.DOUBLE, "As double.")
    get_string_property = of_kind(_get_as, conversion.STRING, "As text; None where there is none.")

    def set_object_property(self, name: str, value: object) -> None:
        """Set a value of any type that JMS has properties of."""
        if name not in JMSX_NAMES:
            value = conversion.written_object(value, _what(name), bytes_allowed=False)
        self._set(name, value)

    def _set_as(self, kind: Kind[V], name: str, value: V) -> None:
        self._set(name, kind.written(value, _what(name)))

    set_boolean_property = of_kind(_set_as, conversion.BOOLEAN, "Set a boolean.")
    set_byte_property = of_kind(_set_as, conversion.BYTE, "Set a byte: −128 to 127.")
    set_short_property = of_kind(_set_as, conversion.SHORT, "Set a short: 16 bits, signed.")
    set_int_property = of_kind(_set_as, conversion.INT, "Set an int: 32 bits, signed.")
    set_long_property = of_kind(_set_as, conversion.LONG, "Set a long: 64 bits, signed.")
    set_float_property = of_kind(_set_as, conversion.FLOAT, "Set a float of 32 bits.")
    set_double_property = of_kind(_set_as, conversion.DOUBLE, "Set a float of 64 bits.")
    set_string_property = of_kind(_set_as, conversion.STRING, "Set text.")

    def _set(self, name: str, value: object) -> None:
        if name in JMSX_NAMES:
            self._set_jmsx(name, value)
        else:
            check_property_name(name)
            self._mapping()[name] = value

    def _mapping(self) -> MessageProperties:
        assert isinstance(self.properties, MessageProperties)
        return self.properties

    def _jmsx(self, name: str) -> object:
        if name == GROUP_ID:
            return self.group_id
        if name == GROUP_SEQUENCE:
            return None if self.group_sequence is None else Int(self.group_sequence)
        if name == USER_ID:
            return None if self.user_id is None else self.user_id.decode(errors="replace")
        return Int(self.delivery_count + 1)

    def _set_jmsx(self, name: str, value: object) -> None:
        if self._mapping().read_only:
            raise MessageNotWriteableException(f"{name} of a received message: clear_properties() first")
        if name == GROUP_ID and isinstance(value, str | None):
            self.group_id = value
        elif name == GROUP_SEQUENCE and isinstance(value, int | None):
            self.group_sequence = value
        elif name == USER_ID and isinstance(value, str | None):
            self.user_id = None if value is None else value.encode()
        else:
            raise MessageFormatException(f"{name} can't be set to {value!r}")


def _what(name: str) -> str:
    return f"property {name!r}"


def as_properties(given: Mapping[str, object] | None, read_only: bool) -> MessageProperties:
    """``given`` as the properties of a message."""
    return (ReadOnlyProperties if read_only else MessageProperties)(given or {})
