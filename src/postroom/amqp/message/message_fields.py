"""A stored message as selectors see it: by the names of JMS, decoded only as far as somebody asks.

The names and how AMQP values become JMS ones follow the mapping that Qpid JMS implements (an id that is no
string, or lacks its ``ID:``, is shown as ``ID:AMQP_…``). A property whose type JMS doesn't have (binary,
uuid, …) is there but equals nothing. Sections that can't be decoded have no fields: a bad message harms no
reader.
"""

from typing import Final, final
from uuid import UUID

from mypy_extensions import i64

from postroom.amqp.encoding import descriptors as d
from postroom.amqp.encoding.field_reader import read_descriptor
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.types import Symbol, ULong
from postroom.amqp.errors import DecodeError
from postroom.amqp.message.plain_values import (
    ABSENT,
    GROUP_ID,
    GROUP_SEQUENCE,
    NOT_PLAIN,
    plain_group,
    plain_property,
    plain_value,
)
from postroom.model.selector.expressions import Fields
from postroom.model.selector.names import AMQP_PREFIX, ANNOTATION_PREFIX

_PROPERTY_INDEX: Final = {
    "message_id": 0,
    "user_id": 1,
    "to": 2,
    "subject": 3,
    "reply_to": 4,
    "correlation_id": 5,
    "content_type": 6,
    "content_encoding": 7,
    "absolute_expiry_time": 8,
    "creation_time": 9,
    "group_id": 10,
    "group_sequence": 11,
    "reply_to_group_id": 12,
}
"""Places in the properties section (AMQP part 3, section 3.2.4)."""

_FROM_PROPERTIES: Final = {
    "JMSMessageID": 0,
    "JMSXUserID": 1,
    "JMSType": 3,
    "JMSCorrelationID": 5,
    "JMSTimestamp": 9,
    "JMSXGroupID": 10,
    "JMSXGroupSeq": 11,
}
_MESSAGE_ID: Final = 0
_USER_ID: Final = 1
_CORRELATION_ID: Final = 5

_ID_PREFIX: Final = "ID:"
_OWN_PREFIX: Final = "ID:AMQP_"


@final
class MessageFields(Fields):
    """One message; ``sections`` are its bytes after header and delivery-annotations.

    ``annotations`` are those that outcomes have added since. Each section is decoded once, when first asked
    for.
    """

    def __init__(
        self,
        priority: i64,
        durable: bool,
        delivery_count: i64,
        sections: bytes,
        annotations: dict[str, object] | None,
    ) -> None:
        self.priority: i64 = priority
        self.durable = durable
        self.delivery_count: i64 = delivery_count
        self._sections = sections
        self._changed = annotations
        self._scanned = False
        self._annotations_at: i64 = -1
        self._properties_at: i64 = -1
        self._application_at: i64 = -1
        self._annotations: dict[str, object] | None = None
        self._properties: list[object] | None = None
        self._application: dict[str, object] | None = None

    def value(self, name: str) -> object:
        if name.startswith("JMS"):
            return self._jms_value(name)
        if name.startswith(AMQP_PREFIX):
            return self._amqp_value(name)
        return self.application_property(name)

    def property_value(self, name: str, encoded: bytes) -> object:
        if self._application is not None:
            return self.application_property(name)
        at = plain_property(self._sections, self._find(d.APPLICATION_PROPERTIES), encoded)
        if at == NOT_PLAIN:
            return self.application_property(name)
        return None if at == ABSENT else plain_value(self._sections, at)

    def application_property(self, name: str) -> object:
        """As it was sent; None if there is none of that name."""
        return self.application().get(name)

    def application(self) -> dict[str, object]:
        """All application properties, as they were sent."""
        found = self._application
        if found is None:
            found = self._texts_at(self._find(d.APPLICATION_PROPERTIES))
            self._application = found
        return found

    def annotation(self, name: str) -> object:
        """A message annotation, as changed by outcomes; None if there is none of that name."""
        if self._changed is not None and name in self._changed:
            return self._changed[name]
        return self.annotations().get(name)

    def annotations(self) -> dict[str, object]:
        """All message annotations, as they were sent."""
        found = self._annotations
        if found is None:
            found = self._map_at(self._find(d.MESSAGE_ANNOTATIONS))
            self._annotations = found
        return found

    def property_at(self, index: i64) -> object:
        """A field of the properties section by its place; None if absent."""
        found = self._properties
        if found is None:
            found = self._list_at(self._find(d.PROPERTIES))
            self._properties = found
        return found[index] if index < len(found) else None

    def group_id(self) -> str:
        """JMSXGroupID; "" if it has none."""
        found = self.property_at(GROUP_ID)
        return str(found) if isinstance(found, str) else ""

    def group_sequence(self) -> i64:
        """JMSXGroupSeq, an int of Java: an unsigned one of AMQP above 2³¹ is negative; 0 if it has none."""
        found = self.property_at(GROUP_SEQUENCE)
        return _signed(int(found)) if isinstance(found, int) else 0

    def group(self) -> tuple[bytes, i64]:
        """JMSXGroupID in UTF-8, b"" if it has none, and JMSXGroupSeq; other properties are passed over."""
        name, sequence = plain_group(self._sections, self._find(d.PROPERTIES))
        if sequence == NOT_PLAIN:
            return self.group_id().encode(), self.group_sequence()
        return name, sequence

    # Names.

    def _jms_value(self, name: str) -> object:
        index = _FROM_PROPERTIES.get(name, -1)
        if index >= 0:
            return self._jms_property(index)
        if name == "JMSPriority":
            return int(self.priority)
        if name == "JMSDeliveryMode":
            return "PERSISTENT" if self.durable else "NON_PERSISTENT"
        if name == "JMSXDeliveryCount":
            return int(self.delivery_count) + 1
        return self.application_property(name)

    def _jms_property(self, index: i64) -> object:
        value = self.property_at(index)
        if value is None:
            return None
        if index == _MESSAGE_ID:
            return message_id_text(value)
        if index == _CORRELATION_ID:
            return correlation_id_text(value)
        if index == _USER_ID:
            return value.decode("utf-8", "replace") if isinstance(value, bytes) else None
        if index == GROUP_SEQUENCE:
            return int(self.group_sequence())
        return value

    def _amqp_value(self, name: str) -> object:
        if name.startswith(ANNOTATION_PREFIX):
            return self.annotation(name[len(ANNOTATION_PREFIX) :])
        field = name[len(AMQP_PREFIX) :]
        if field == "priority":
            return int(self.priority)
        if field == "durable":
            return self.durable
        if field == "delivery_count":
            return int(self.delivery_count)
        value = self.property_at(_PROPERTY_INDEX[field])
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace") if field == "user_id" else value.hex()
        return str(value) if isinstance(value, UUID) else value

    # Sections.

    def _find(self, code: i64) -> i64:
        """Where the value of a section begins; −1 if it is absent."""
        if not self._scanned:
            self._scanned = True
            try:
                self._scan()
            except DecodeError:
                self._application_at = -1
        if code == d.PROPERTIES:
            return self._properties_at
        return self._application_at if code == d.APPLICATION_PROPERTIES else self._annotations_at

    def _scan(self) -> None:
        r = Reader(self._sections, 0, len(self._sections))
        while r.pos < r.end:
            code = read_descriptor(r)
            if code == d.MESSAGE_ANNOTATIONS:
                self._annotations_at = r.pos
            elif code == d.PROPERTIES:
                self._properties_at = r.pos
            elif code == d.APPLICATION_PROPERTIES:
                self._application_at = r.pos
                return  # the last before the body
            else:
                return
            r.skip()

    def _value_at(self, at: i64) -> object:
        if at < 0:
            return None
        try:
            return Reader(self._sections, at, len(self._sections)).value()
        except DecodeError:
            return None

    def _texts_at(self, at: i64) -> dict[str, object]:
        """As `_map_at`, at once for a map of which all keys are strings."""
        found: dict[str, object] | None = {}
        if at >= 0:
            try:
                found = Reader(self._sections, at, len(self._sections)).text_map()
            except DecodeError:
                found = {}
        return found if found is not None else self._map_at(at)

    def _map_at(self, at: i64) -> dict[str, object]:
        found: dict[str, object] = {}
        value = self._value_at(at)
        if isinstance(value, dict):
            for key, item in value.items():
                if isinstance(key, str):
                    found[str(key)] = item
        return found

    def _list_at(self, at: i64) -> list[object]:
        value = self._value_at(at)
        return value if isinstance(value, list) else []


def message_id_text(value: object) -> str | None:
    """The JMSMessageID that a client of Qpid JMS sees."""
    if isinstance(value, str) and not isinstance(value, Symbol):
        if not value.startswith(_ID_PREFIX):
            return f"{_OWN_PREFIX}NO_PREFIX:{value}"
        return f"{_OWN_PREFIX}STRING:{value}" if value.startswith(_OWN_PREFIX) else value
    return _typed_id(value)


def correlation_id_text(value: object) -> str | None:
    """The JMSCorrelationID that a client of Qpid JMS sees: a string is what the application gave."""
    if isinstance(value, str) and not isinstance(value, Symbol):
        return f"{_OWN_PREFIX}STRING:{value}" if value.startswith(_OWN_PREFIX) else value
    return _typed_id(value)


def _typed_id(value: object) -> str | None:
    if isinstance(value, UUID):
        return f"{_OWN_PREFIX}UUID:{value}"
    if isinstance(value, ULong):
        return f"{_OWN_PREFIX}ULONG:{int(value)}"
    if isinstance(value, bytes):
        return f"{_OWN_PREFIX}BINARY:{value.hex().upper()}"
    return None


def _signed(value: int) -> i64:
    return value - (1 << 32) if value >= 1 << 31 else value
