"""What goes wrong, by the names that JMS gives it.

Each exception carries the AMQP error that it was made from: ``condition`` (a symbol such as
``amqp:not-found``, or None where nothing came from the broker) and ``description``. :func:`from_error`
chooses the class by the condition, as Qpid JMS does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from postroom.amqp import errors
from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.violations import UsageError
from postroom.amqp.extensions import XA_CODE
from postroom.model.xa import XaCode

LOG: Final = logging.getLogger("postroom.client")
"""For what goes wrong and is raised to nobody."""


class JMSException(Exception):
    """Base of all errors of the client."""

    def __init__(self, description: str, condition: str | None = None) -> None:
        super().__init__(f"{description} ({condition})" if condition else description)
        self.description: Final = description
        self.condition: Final = condition


class InvalidDestinationException(JMSException):
    """The broker has no such queue, or it is gone."""


class InvalidClientIDException(JMSException):
    """Another connection has the same container id."""


class InvalidSelectorException(JMSException):
    """The broker doesn't understand the selector."""


class IllegalStateException(JMSException):
    """Not possible in this state: after close, or in a session of another mode."""


class JMSSecurityException(JMSException):
    """Wrong user or password, or not allowed for this user."""


class MessageFormatException(JMSException):
    """A value that no AMQP type can hold, or bytes that are no message."""


class MessageEOFException(JMSException):
    """Nothing is left to read in a BytesMessage or StreamMessage."""


class MessageNotReadableException(JMSException):
    """The body is being written: a BytesMessage or StreamMessage before ``reset()``."""


class MessageNotWriteableException(JMSException):
    """The body or the properties of a received message, or a body that was reset or sent, are read-only."""


class ResourceAllocationException(JMSException):
    """A bound of the broker is reached: queue full, message too large, too many links, disk full."""


class TransactionInProgressException(JMSException):
    """Not while a global transaction decides: ``commit`` or ``rollback`` of an XA session."""


class TransactionRolledBackException(JMSException):
    """The broker rolled the transaction back."""


class XAException(JMSException):
    """A resource manager says no to a verb of XA, or can't be reached: ``error_code`` is X/Open's code."""

    def __init__(self, description: str, error_code: XaCode, condition: str | None = None) -> None:
        super().__init__(f"{description} [{error_code.name}]", condition)
        self.error_code: Final = error_code


class HeuristicMixedException(JMSException):
    """Some branches of the transaction are committed and some are not, or nobody knows: somebody else decided
    about one of them.
    """


class HeuristicRollbackException(JMSException):
    """The transaction was to be committed, and somebody else has rolled back all of its branches."""


class HeuristicCommitException(JMSException):
    """The transaction was to be rolled back, and somebody else has committed all of its branches."""


class DecisionLogException(JMSException):
    """The decision log of a transaction manager is in use, damaged, full, or its disk failed."""


class MessageRejectedException(JMSException):
    """The broker refused the message for a reason that has no exception of its own."""


class NoMatchingMessageException(JMSException):
    """The message store has no such message that the caller may see: Except_Q_NoMatchingMsg of MQ
    Everyplace.
    """


class DuplicateMessageException(JMSException):
    """The message store has a message of that unique id already."""


class MessageReleasedException(JMSException):
    """The broker didn't take the message, and says nothing against another attempt."""


class MessageModifiedException(JMSException):
    """The broker tried the message and gave it back: outcome modified."""


class ConnectionLostException(JMSException):
    """The connection broke. What was not answered yet may or may not have happened."""


class ConnectionRedirectedException(ConnectionLostException):
    """The broker sent the connection elsewhere (amqp:connection:redirect); ``info`` says where: hostname,
    network-host, port.
    """

    def __init__(self, description: str, info: dict[str, object]) -> None:
        super().__init__(description, errors.CONNECTION_REDIRECT)
        self.info: Final = info


class JMSTimeoutException(JMSException):
    """The broker didn't answer within the time allowed for a request."""


class ManagementException(JMSException):
    """A request to the management node failed; ``status_code`` is the broker's, as of HTTP, and ``info`` what
    it says for programs.
    """

    def __init__(
        self,
        description: str,
        condition: str | None,
        status_code: int,
        info: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(description, condition)
        self.status_code: Final = status_code
        self.info: Final[Mapping[str, object]] = info or {}


INVALID_FIELD_CONTAINER_ID: Final = "container-id"
"""What a refused connection names as the invalid field when its container id is taken (AMQP part 2, section
2.7.1).
"""

INVALID_FIELD_FILTER: Final = "source.filter"
"""What a refused attach names as the invalid field when it is the selector."""

XA_ERROR: Final = "postroom:xa-error"
"""Condition of a refused verb of XA; the info has the code."""

_BY_CONDITION: Final[dict[str, type[JMSException]]] = {
    errors.NOT_FOUND: InvalidDestinationException,
    errors.RESOURCE_DELETED: InvalidDestinationException,
    errors.UNAUTHORIZED_ACCESS: JMSSecurityException,
    errors.RESOURCE_LIMIT_EXCEEDED: ResourceAllocationException,
    errors.RESOURCE_LOCKED: ResourceAllocationException,
    errors.LINK_MESSAGE_SIZE_EXCEEDED: ResourceAllocationException,
    errors.ILLEGAL_STATE: IllegalStateException,
    errors.DECODE_ERROR: MessageFormatException,
    errors.TRANSACTION_ROLLBACK: TransactionRolledBackException,
    errors.TRANSACTION_TIMEOUT: TransactionRolledBackException,
    errors.CONNECTION_FORCED: ConnectionLostException,
    "postroom:no-matching-message": NoMatchingMessageException,
    "postroom:duplicate-message": DuplicateMessageException,
}


def from_error(error: Error | None, what: str, default: type[JMSException] = JMSException) -> JMSException:
    """The exception for an error of the broker; ``what`` begins the description: what was refused or
    ended.
    """
    if error is None:
        return default(f"{what} by the broker, without a reason")
    if error.condition == XA_ERROR:
        return XAException(f"{what}: {error.description}", _xa_code(error), error.condition)
    invalid = _invalid_field(error)
    kind: type[JMSException]
    if invalid == INVALID_FIELD_CONTAINER_ID:
        kind = InvalidClientIDException
    elif invalid == INVALID_FIELD_FILTER:
        kind = InvalidSelectorException
    else:
        kind = _BY_CONDITION.get(error.condition, default)
    return kind(f"{what}: {error.description or 'no description'}", error.condition)


@contextmanager
def usage_errors(what: str) -> Iterator[None]:
    """Turns what the engine refuses to do, before anything is sent, into the exceptions of this client."""
    try:
        yield
    except UsageError as error:
        raise from_error(Error(error.condition, error.description), what) from None


def _invalid_field(error: Error) -> object:
    """Which field ``error`` calls invalid; None where it doesn't say."""
    if error.condition != errors.INVALID_FIELD or not error.info:
        return None
    return error.info.get("invalid-field")


def _xa_code(error: Error) -> XaCode:
    """What the broker answered to the verb; XAER_RMERR where it says nothing that X/Open knows."""
    code = (error.info or {}).get(XA_CODE)
    return XaCode(code) if isinstance(code, int) and code in set(XaCode) else XaCode.XAER_RMERR
