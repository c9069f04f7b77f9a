"""What the body of a request about messages says."""

from typing import Final, TypeVar
from uuid import UUID

from postroom.amqp.errors import UNAUTHORIZED_ACCESS, AmqpError
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.rewrite import reply_to_of
from postroom.manager.message_store.filter import ANY_PRIORITY, StoreFilter
from postroom.model.codes import IdType
from postroom.model.ids import pack_unique_id
from postroom.model.message import MessageHead
from postroom.model.rights import Right
from postroom.server.access.access import Requester, access_of, missing
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.management.request import BAD_REQUEST, FORBIDDEN, LIMIT, Request, RequestError

T = TypeVar("T")

MAX_NUMBER: Final = (1 << 63) - 1
MAX_PRIORITY: Final = 9
PLACE_NUMBERS: Final = 3
US_A_MS: Final = 1_000
_ULONG_BYTES: Final = 8


class Arguments:
    """The body of a request about messages, taken apart."""

    def __init__(self, request: Request, now_us: int) -> None:
        self.name: Final = request.name
        """Of the queue."""
        self.user: Final = request.user
        """Who asks."""
        self.roles: Final = request.roles
        """That a token gives beside those of the user."""
        self._attributes: Final = request.attributes()
        self._now_us: Final = now_us

    def value(self, name: str, kind: type[T], default: T) -> T:
        """An argument of that type."""
        value = self._attributes.get(name, default)
        if not isinstance(value, kind):
            raise RequestError(BAD_REQUEST, f"{name} is {value!r}, must be of type {kind.__name__}")
        return value

    def number(self, name: str, default: int = 0) -> int:
        """A whole number that is not negative."""
        value = self._attributes.get(name, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not min(default, 0) <= value <= MAX_NUMBER
        ):
            raise RequestError(BAD_REQUEST, f"{name} is {value!r}, must be a whole number of 0 or more")
        return int(value)

    def until_us(self, max_wait_ms: int) -> int:
        """When ``timeout_ms`` is over, which may be ``max_wait_ms`` at most."""
        return self._now_us + min(self.number("timeout_ms"), max_wait_ms) * US_A_MS

    def filter(self) -> StoreFilter:
        """Which messages are meant."""
        made = StoreFilter()
        made.unique_id = self.unique_id()
        made.message_id, made.message_id_type = self.message_id()
        made.correlation_id, made.correlation_id_type = _id_of(
            "correlation_id", self._attributes.get("correlation_id")
        )
        made.priority = self.number("priority", ANY_PRIORITY)
        if made.priority > MAX_PRIORITY:
            raise RequestError(BAD_REQUEST, f"priority is {made.priority}, must be 0 to {MAX_PRIORITY}")
        made.properties = self._properties()
        made.lock_id = self.number("lock_id")
        return made

    def message_id(self) -> tuple[bytes, int]:
        """As the ledger has it, and its IdType."""
        return _id_of("message_id", self._attributes.get("message_id"))

    def unique_id(self) -> bytes:
        """Packed; b"" where there is none."""
        origin, time = self._attributes.get("origin"), self._attributes.get("time")
        if origin is None and time is None:
            return b""
        if not isinstance(origin, str) or isinstance(time, bool) or not isinstance(time, int):
            raise RequestError(BAD_REQUEST, "a unique id is both: origin, a string, and time, a whole number")
        try:
            return pack_unique_id(origin, time)
        except ValueError as error:
            raise RequestError(BAD_REQUEST, str(error)) from None

    def place(self) -> list[int]:
        """Where a page begins: what the answer before it gave as ``after``."""
        value = self._attributes.get("after")
        if value is None:
            return []
        is_place = isinstance(value, list) and len(value) == PLACE_NUMBERS and all(map(_is_number, value))
        if is_place and value[0] <= MAX_PRIORITY:
            return [int(each) for each in value]
        raise RequestError(BAD_REQUEST, "after must be what the answer before gave")

    def _properties(self) -> dict[str, object]:
        value = self._attributes.get("properties")
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise RequestError(BAD_REQUEST, "properties must be a map of application properties")
        return {str(name): wanted for name, wanted in value.items()}


def check_reply_to(
    broker: BrokerState, sender: Requester, head: MessageHead, message: bytes, start: int | None = None
) -> None:
    """Raise `RequestError` for a message that asks for reports to where its sender may not put; its sections
    begin at ``start``, or where its head says."""
    if head.report != 0:
        reply_to = reply_to_of(message[head.bare_offset if start is None else start :])
        if reply_to and not access_of(broker).may(sender, Right.PUT, reply_to):
            raise RequestError(FORBIDDEN, missing(sender.user, Right.PUT, reply_to), UNAUTHORIZED_ACCESS)


def new_message(broker: BrokerState, arguments: Arguments) -> tuple[MessageHead, bytes]:
    """The argument `message`: its head, and its sections without header and delivery annotations. Raises
    `RequestError` for one that can't be taken now, or at all."""
    message = arguments.value("message", bytes, b"")
    if broker.space_low:
        raise RequestError(LIMIT, "the broker's disk is nearly full: put it later")
    try:
        head = scan_head(message)
    except AmqpError as error:
        raise RequestError(BAD_REQUEST, f"message: {error.description}") from None
    check_reply_to(broker, arguments, head, message)
    return head, message[head.bare_offset :]


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER


def _id_of(name: str, value: object) -> tuple[bytes, int]:
    """An id as the index has it, and its IdType."""
    if value is None:
        return b"", int(IdType.NONE)
    if isinstance(value, str):
        return value.encode(), int(IdType.STRING)
    if isinstance(value, bytes):
        return value, int(IdType.BINARY)
    if isinstance(value, UUID):
        return value.bytes, int(IdType.UUID)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64:
        return value.to_bytes(_ULONG_BYTES, "big"), int(IdType.ULONG)
    raise RequestError(BAD_REQUEST, f"{name} is {value!r}, must be a string, binary, uuid or ulong")
