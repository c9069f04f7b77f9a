"""The error conditions of AMQP 1.0 and the exceptions that carry them.

Every exception of this room is an :class:`AmqpError`: a condition (a symbol of the specification), a
description for people, and optional info. The engine turns it into the ``error`` field of close, end, detach
or rejected.

Sources: OASIS AMQP 1.0 part 2 (transport) sections 2.8.15 to 2.8.18, part 4 (transactions) section 4.5.8.
"""

from typing import Final

# Part 2, section 2.8.15: amqp-error.
INTERNAL_ERROR: Final = "amqp:internal-error"
NOT_FOUND: Final = "amqp:not-found"
UNAUTHORIZED_ACCESS: Final = "amqp:unauthorized-access"
DECODE_ERROR: Final = "amqp:decode-error"
RESOURCE_LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
INVALID_FIELD: Final = "amqp:invalid-field"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
RESOURCE_LOCKED: Final = "amqp:resource-locked"
PRECONDITION_FAILED: Final = "amqp:precondition-failed"
RESOURCE_DELETED: Final = "amqp:resource-deleted"
ILLEGAL_STATE: Final = "amqp:illegal-state"
FRAME_SIZE_TOO_SMALL: Final = "amqp:frame-size-too-small"

# Section 2.8.16: connection-error.
CONNECTION_FORCED: Final = "amqp:connection:forced"
CONNECTION_FRAMING_ERROR: Final = "amqp:connection:framing-error"
CONNECTION_REDIRECT: Final = "amqp:connection:redirect"

# Section 2.8.17: session-error.
SESSION_WINDOW_VIOLATION: Final = "amqp:session:window-violation"
SESSION_ERRANT_LINK: Final = "amqp:session:errant-link"
SESSION_HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
SESSION_UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"

# Section 2.8.18: link-error.
LINK_DETACH_FORCED: Final = "amqp:link:detach-forced"
LINK_TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"
LINK_MESSAGE_SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"
LINK_REDIRECT: Final = "amqp:link:redirect"
LINK_STOLEN: Final = "amqp:link:stolen"

# Part 4, section 4.5.8: transaction-error.
TRANSACTION_UNKNOWN_ID: Final = "amqp:transaction:unknown-id"
TRANSACTION_ROLLBACK: Final = "amqp:transaction:rollback"
TRANSACTION_TIMEOUT: Final = "amqp:transaction:timeout"


class AmqpError(Exception):
    """An error with an AMQP condition.

    ``condition`` is a symbol of the specification (or of an extension), ``description`` says what was wrong,
    where and what to do, ``info`` is the map that goes into the error's ``info`` field (None: absent).
    """

    def __init__(self, condition: str, description: str, info: dict[object, object] | None = None) -> None:
        super().__init__(description)
        self.condition: Final = condition
        self.description: Final = description
        self.info: Final = info


class DecodeError(AmqpError):
    """Bytes that are not the AMQP value, performative or message section they should be."""

    def __init__(self, description: str, condition: str = DECODE_ERROR) -> None:
        super().__init__(condition, description)


class EncodeError(AmqpError):
    """A Python value without an AMQP encoding: wrong type, out of range, or a mandatory field left out."""

    def __init__(self, description: str) -> None:
        super().__init__(INVALID_FIELD, description)


class FramingError(AmqpError):
    """A frame header that cannot be right; nothing after it on the connection can be read."""

    def __init__(self, description: str) -> None:
        super().__init__(CONNECTION_FRAMING_ERROR, description)


class ProtocolHeaderError(AmqpError):
    """The peer's first eight bytes are not a protocol header that is spoken here (part 2, section 2.2).

    ``received`` is what it sent, as far as it was read. The answer is the header that is spoken here, then
    the socket is closed.
    """

    def __init__(self, description: str, received: bytes) -> None:
        super().__init__(CONNECTION_FRAMING_ERROR, description)
        self.received: Final = received
