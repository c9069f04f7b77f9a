"""What all messages have: headers, properties, annotations, a body that may be read-only, and an outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, IntEnum
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar, overload

from postroom.amqp.frames.outcomes import ACCEPTED, RELEASED, DeliveryState
from postroom.client.destinations import Destination
from postroom.client.exceptions import (
    LOG,
    IllegalStateException,
    JMSException,
    MessageFormatException,
    MessageNotWriteableException,
)
from postroom.client.messages import message_ids
from postroom.client.messages.message_ids import MessageId
from postroom.client.messages.outcomes import PROCESSING_FAILED, failed, given_up, text_of
from postroom.client.messages.properties import MessageProperties, PropertyAccess, as_properties

DEFAULT_PRIORITY: Final = 4
NO_DELIVERY: Final = -1
DELIVERY_TIME: Final = "x-opt-delivery-time"
"""Message annotation (ms since 1970) of what is to be delivered later."""

T = TypeVar("T")


Post = Callable[[Callable[[], None]], None]
"""Has something done in the thread of the connection's loop, soon, and in order; waits for nothing."""


class BodyKind(Enum):
    """Which section a body is in."""

    DATA = "data"
    """Bytes."""
    VALUE = "value"
    """One AMQP value: text, a number, a list, a map, or nothing."""
    SEQUENCE = "sequence"
    """A list of values in a section of its own kind."""


class DeliveryMode(IntEnum):
    """Whether a message survives a restart of the broker; the numbers are those of JMS."""

    NON_PERSISTENT = 1
    PERSISTENT = 2


class Done(Awaitable[None]):
    """What has been done when it is returned: may be awaited, need not be."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


DONE: Final = Done()


class Receiver(Protocol):
    """Where a message was received, which takes its outcome."""

    def acknowledge(self, message: Message) -> Awaitable[None]:
        """As :meth:`Message.acknowledge`."""

    def send_outcome(self, message: Message, state: DeliveryState) -> Awaitable[None]:
        """The outcome; IllegalStateException where it isn't the application's to say."""

    def check_open(self, message: Message) -> None:
        """Raises IllegalStateException where the outcome isn't the application's to say."""

    def holds(self, message: Message) -> bool:
        """Whether it has no outcome yet."""


class BodyField:
    """The body as a field of a message: what is set goes through the message, which may refuse it."""

    @overload
    def __get__(self, message: None, owner: type) -> object: ...

    @overload
    def __get__(self, message: Message, owner: type) -> object: ...

    def __get__(self, message: Message | None, owner: type) -> object:
        """Without a message: the default of the field."""
        return None if message is None else message._get_body()

    def __set__(self, message: Message, value: object) -> None:
        message._check_writeable()
        message._set_body(value)


class PropertiesField:
    """The properties as a field of a message: any mapping is taken, MessageProperties are kept."""

    @overload
    def __get__(self, message: None, owner: type) -> None: ...

    @overload
    def __get__(self, message: Message, owner: type) -> MessageProperties: ...

    def __get__(self, message: Message | None, owner: type) -> MessageProperties | None:
        """Without a message: the default of the field."""
        return None if message is None else message._properties

    def __set__(self, message: Message, value: Mapping[str, object] | None) -> None:
        message.put_properties(as_properties(value, read_only=False))


@dataclass
class Message(PropertyAccess):
    """A message; every argument but the body goes by name.

    The body of a plain ``Message`` is anything that AMQP can carry; ``TextMessage``, ``BytesMessage``,
    ``MapMessage``, ``StreamMessage`` and ``ObjectMessage`` are those of JMS. Values of the body, the
    properties and the annotations are those of :mod:`postroom.amqp.encoding.types`: plain Python where it
    says all, classes such as ``Int`` or ``Symbol`` where the AMQP type matters.

    Body and properties of a received message are read-only until ``clear_body()`` and ``clear_properties()``:
    MessageNotWriteableException. Headers can always be set.
    """

    body: BodyField = BodyField()
    _: KW_ONLY
    properties: PropertiesField = PropertiesField()
    """Application properties: simple values by name."""

    durable: bool = True
    """Persistent in the words of JMS: survives a restart of the broker."""
    priority: int = DEFAULT_PRIORITY
    """0 to 9, 9 first."""
    ttl_ms: int | None = None
    """Time to live; 0: for ever; None: as the producer says, for ever unless it says otherwise."""
    delivery_delay_ms: int | None = None
    """So long after it is sent it can be received, and not before; None: as the producer says. See
    `delivery_time_ms`.
    """
    delivery_count: int = 0
    """Failed attempts before this one (JMSXDeliveryCount less one); set by the broker."""
    first_acquirer: bool = False

    message_id: MessageId | None = None
    """JMSMessageID; made by the producer where it is None."""
    correlation_id: MessageId | None = None
    """JMSCorrelationID."""
    destination: Destination | None = None
    """JMSDestination, where it is sent to: the producer sets it. A str is a queue."""
    reply_to: Destination | None = None
    """JMSReplyTo. A str is a queue."""
    subject: str | None = None
    """JMSType."""
    user_id: bytes | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    expiration_ms: int | None = None
    """JMSExpiration: absolute, since 1970; made by the producer from ``ttl_ms``."""
    timestamp_ms: int | None = None
    """JMSTimestamp: when it was sent, since 1970; made by the producer where it is None."""
    group_id: str | None = None
    """JMSXGroupID."""
    group_sequence: int | None = None
    """JMSXGroupSeq."""
    reply_to_group_id: str | None = None

    annotations: dict[str, object] = field(default_factory=dict)
    """Message annotations, by symbol."""
    delivery_annotations: dict[str, object] = field(default_factory=dict)
    footer: dict[str, object] = field(default_factory=dict)

    body_kind: BodyKind | None = None
    """Which section the body is in. None: as its type says; of a plain message DATA for bytes, else VALUE."""
    delivery_id: int = NO_DELIVERY
    """Which delivery it came in; NO_DELIVERY for a message made here."""

    def __post_init__(self) -> None:
        self.stamp: dict[str, object] = {}
        """What a producer set, and the next one makes anew (:mod:`postroom.client.messages.send_headers`)."""
        self.receiver: Receiver | None = None
        """Where it was received, which takes its outcome; None for a message made here."""

    _body: object = field(default=None, init=False, repr=False, compare=False)
    _properties: MessageProperties = field(init=False, repr=False, compare=False)
    _body_is_read_only = False

    def __getstate__(self) -> dict[str, object]:
        """A copy, in another process, too, is nobody's delivery."""
        return {**self.__dict__, "receiver": None}

    # --- state

    @property
    def is_body_read_only(self) -> bool:
        """Whether the body can't be changed before ``clear_body()``."""
        return self._body_is_read_only

    def _get_body(self) -> object:
        return self._body

    def _set_body(self, value: object) -> None:
        self._body = value

    def _check_writeable(self) -> None:
        if self._body_is_read_only:
            raise MessageNotWriteableException("the body is read-only: clear_body() first")

    def clear_body(self) -> None:
        """No body any more; it can be written then, that of a received message, too."""
        self._body_is_read_only = False
        self._set_body(None)

    def make_read_only(self, properties: Mapping[str, object]) -> None:
        """As a message is when it is received, with these properties: they and the body can be read only."""
        self._body_is_read_only = True
        self._properties = as_properties(properties, read_only=True)

    def put_properties(self, properties: MessageProperties) -> None:
        """Have these properties."""
        self._properties = properties

    def before_send(self) -> None:
        """A producer is about to read the body."""

    # --- JMS's view of the headers

    @property
    def delivery_mode(self) -> DeliveryMode:
        """JMSDeliveryMode: ``durable`` in the words of JMS."""
        return DeliveryMode.PERSISTENT if self.durable else DeliveryMode.NON_PERSISTENT

    @delivery_mode.setter
    def delivery_mode(self, mode: DeliveryMode) -> None:
        self.durable = DeliveryMode(mode) is DeliveryMode.PERSISTENT

    @property
    def delivery_time_ms(self) -> int | None:
        """Since when it can be received, since 1970 (JMSDeliveryTime); None: since it was sent."""
        value = self.annotations.get(DELIVERY_TIME)
        return value if isinstance(value, int) else None

    @property
    def redelivered(self) -> bool:
        """Whether there were failed attempts before this one (JMSRedelivered)."""
        return self.delivery_count > 0

    @property
    def jms_message_id(self) -> str | None:
        """JMSMessageID as text that begins with ``ID:``, whatever the AMQP type of ``message_id`` is."""
        return message_ids.jms_message_id(self.message_id)

    @property
    def jms_correlation_id(self) -> str | None:
        """JMSCorrelationID as text. What is set may be another message's ``jms_message_id``: the id of that
        AMQP type is sent. Setting raises JMSException for what claims to be a UUID, a number or bytes and
        isn't.
        """
        return message_ids.jms_correlation_id(self.correlation_id)

    @jms_correlation_id.setter
    def jms_correlation_id(self, text: str | None) -> None:
        self.correlation_id = message_ids.id_of_jms(text)

    # --- body

    def get_body(self, kind: type[T]) -> T | None:
        """The body, which is a ``kind`` (str of text, bytes of bytes, dict of a map); None where there is
        none.

        Raises MessageFormatException where it is something else.
        """
        if not self.is_body_assignable_to(kind):
            raise MessageFormatException(f"the body of a {type(self).__name__} is no {kind.__name__}")
        body = self.body
        return body if isinstance(body, kind) else None

    def is_body_assignable_to(self, kind: type) -> bool:
        """Whether ``get_body(kind)`` gives it."""
        return self.body is None or isinstance(self.body, kind)

    # --- outcomes

    def acknowledge(self) -> Awaitable[None]:
        """The message is done: in mode CLIENT with everything that its session has received, in mode
        INDIVIDUAL, which :meth:`Connection.consumer` has, alone. In other modes, and of a message that wasn't
        received, nothing happens.

        In asyncio the answer may be awaited, as that of the other outcomes: it comes at once, or, of a
        consumer with ``settle_second``, when the broker has answered. Raises IllegalStateException when the
        session is closed.
        """
        return DONE if self.receiver is None else self.receiver.acknowledge(self)

    def retry(self, *, after_s: float | None = None, reason: str = "") -> Awaitable[None]:
        """This attempt has failed: the message comes again, and becomes a dead letter where it has failed
        more often than its queue allows (AMQP: modified, delivery-failed).

        ``after_s``: not before so many seconds have passed, whatever the queue says; brokers other than
        Postroom give it no heed. ``reason`` is the annotation ``x-opt-failure-reason`` of the next attempt,
        and stands in the description of the dead letter. Raises ValueError for a negative ``after_s``,
        IllegalStateException where the outcome isn't the application's to say: it has one already, it was
        said in mode AUTO as the message was received, or a transaction says it.
        """
        return self._received_by().send_outcome(self, failed(after_s, reason))

    def release(self) -> Awaitable[None]:
        """Give it back as if it had never left: no attempt is counted. Raises as :meth:`retry`."""
        return self._received_by().send_outcome(self, RELEASED)

    def dead_letter(self, reason: str, *, condition: str = PROCESSING_FAILED) -> Awaitable[None]:
        """It will never be good: the broker moves it to the dead letters (AMQP: rejected), where
        ``condition`` is its reason and ``reason`` the description. Raises as :meth:`retry`.
        """
        return self._received_by().send_outcome(self, given_up(reason, condition))

    def process(self, *, retry_after_s: float | None = None, suppress: bool = False) -> Processing:
        """``async with message.process():`` (in the blocking face ``with``) accepts the message at the end.

        An exception is a failed attempt with its text as the reason, ``retry_after_s`` as of :meth:`retry`,
        and goes on to the caller; with ``suppress`` its traceback is logged and the program goes on behind
        the block, to the next message. What stops the program or the task (CancelledError, KeyboardInterrupt,
        SystemExit) releases the message, and goes on always. An outcome that is said within the block stays.

        Entering raises IllegalStateException as :meth:`retry`.
        """
        return Processing(self, self._received_by(), retry_after_s, suppress)

    def _received_by(self) -> Receiver:
        if self.receiver is None:
            raise IllegalStateException("only a message that a consumer has received has an outcome")
        return self.receiver


class Processing:
    """What :meth:`Message.process` returns: leaving it says what became of the message."""

    def __init__(self, message: Message, receiver: Receiver, retry_after_s: float | None, suppress: bool):
        failed(retry_after_s, "")  # a time that is none is an error now, not with the first failure
        self._message = message
        self._receiver = receiver
        self._retry_after_s = retry_after_s
        self._suppress = suppress

    def __enter__(self) -> Message:
        self._receiver.check_open(self._message)
        return self._message

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._receiver.holds(self._message):
            try:
                self._send_outcome(error)
            except JMSException as failure:
                self._unsaid(failure, error)
        return self._goes_on(error)

    async def __aenter__(self) -> Message:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._receiver.holds(self._message):
            try:
                await self._send_outcome(error)
            except JMSException as failure:
                self._unsaid(failure, error)
        return self._goes_on(error)

    def _send_outcome(self, error: BaseException | None) -> Awaitable[None]:
        """The outcome: an interrupted attempt is none, and isn't counted."""
        if error is None:
            return self._receiver.send_outcome(self._message, ACCEPTED)
        outcome: DeliveryState = RELEASED
        if isinstance(error, Exception):
            outcome = failed(self._retry_after_s, text_of(error))
        return self._receiver.send_outcome(self._message, outcome)

    def _unsaid(self, failure: JMSException, error: BaseException | None) -> None:
        """Its link is gone: the broker gives the message out again by itself, which matters to the
        application only where it believes that the work is done.
        """
        if error is None:
            raise failure
        LOG.warning("the outcome of a message couldn't be said: %s", failure)

    def _goes_on(self, error: BaseException | None) -> bool:
        if not self._suppress or not isinstance(error, Exception):
            return False
        LOG.error("a message could not be processed (%s)", self._message.message_id, exc_info=error)
        return True
