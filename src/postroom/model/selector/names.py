"""What an identifier may be, and which fields of a message have a name of their own.

Besides application properties (any Java identifier) there are the header fields that JMS lets selectors use,
its JMSX properties, and every field of the AMQP sections as ``amqp.FIELD`` (bare or in double quotes, as
clients of other AMQP brokers write them) and ``"amqp.annotation.NAME"`` for a message annotation.
"""

import unicodedata
from typing import Final

RESERVED: Final = frozenset(
    ("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE")
)
"""In any case of letters."""

HEADER_FIELDS: Final = frozenset(
    ("JMSDeliveryMode", "JMSPriority", "JMSMessageID", "JMSTimestamp", "JMSCorrelationID", "JMSType")
)
"""The only header fields that the specification lets a selector use."""

AMQP_PREFIX: Final = "amqp."
ANNOTATION_PREFIX: Final = "amqp.annotation."
AMQP_FIELDS: Final = frozenset(
    (
        *("durable", "priority", "delivery_count"),
        *("message_id", "user_id", "to", "subject", "reply_to", "correlation_id"),
        *("content_type", "content_encoding", "absolute_expiry_time", "creation_time"),
        *("group_id", "group_sequence", "reply_to_group_id"),
    )
)

WITHOUT_SECTIONS: Final = frozenset(
    (
        *("JMSDeliveryMode", "JMSPriority", "JMSXDeliveryCount"),
        *("amqp.durable", "amqp.priority", "amqp.delivery_count"),
    )
)
"""Known without looking at the message's own bytes."""
CHANGING: Final = ("JMSXDeliveryCount", "amqp.delivery_count", ANNOTATION_PREFIX)
"""Names, or beginnings of names, whose values can change while a message is on its queue."""

_START: Final = frozenset(("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"))
_PART: Final = _START | {"Nd", "Mn", "Mc", "Cf"}


def starts_identifier(char: str) -> bool:
    """As ``Character.isJavaIdentifierStart``."""
    return unicodedata.category(char) in _START


def continues_identifier(char: str) -> bool:
    """As ``Character.isJavaIdentifierPart``."""
    return unicodedata.category(char) in _PART


def problem_with(name: str) -> str:
    """Why ``name`` can't be selected by; "" if it can."""
    if name.startswith(AMQP_PREFIX):
        field = name[len(AMQP_PREFIX) :]
        if field in AMQP_FIELDS or (
            name.startswith(ANNOTATION_PREFIX) and len(name) > len(ANNOTATION_PREFIX)
        ):
            return ""
        return f"{name!r} is no field of an AMQP message; amqp. goes with {', '.join(sorted(AMQP_FIELDS))}"
    if "." in name:
        return f"{name!r} is no identifier: a dot is allowed only after amqp"
    if name.startswith("JMS") and not name.startswith(("JMSX", "JMS_")) and name not in HEADER_FIELDS:
        return (
            f"{name!r} can't be selected by; of the header fields only {', '.join(sorted(HEADER_FIELDS))} can"
        )
    return ""
