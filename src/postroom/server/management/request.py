"""A request to the management node and its answer, as plain values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from postroom.amqp import errors
from postroom.manager.kernel import errors as refusals
from postroom.manager.kernel.effects import Sink
from postroom.manager.kernel.errors import ManagerError
from postroom.server.configuration.config import is_reserved

if TYPE_CHECKING:
    from postroom.server.links.sink_context import SinkContext
    from postroom.server.links.xa_context import XaContext

OK: Final = 200
CREATED: Final = 201
ACCEPTED: Final = 202
"""In the record of acts: taken up, and answered when it is done."""
NO_CONTENT: Final = 204
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
CONFLICT: Final = 409
LIMIT: Final = 429
INTERNAL: Final = 500
NOT_IMPLEMENTED: Final = 501
BAD_GATEWAY: Final = 502
"""Somebody else, whom the broker has asked, gives no answer."""

CONDITIONS: Final = {
    BAD_REQUEST: errors.INVALID_FIELD,
    FORBIDDEN: errors.NOT_ALLOWED,
    NOT_FOUND: errors.NOT_FOUND,
    CONFLICT: errors.PRECONDITION_FAILED,
    LIMIT: errors.RESOURCE_LIMIT_EXCEEDED,
    NOT_IMPLEMENTED: errors.NOT_IMPLEMENTED,
}
"""The AMQP error condition that goes with a status."""

NAMING: Final = ("name", "identity", "type")
"""Attributes that say which thing is meant; they set nothing."""

_STATUS: Final[dict[str, int]] = {
    errors.INVALID_FIELD: BAD_REQUEST,
    errors.NOT_FOUND: NOT_FOUND,
    errors.PRECONDITION_FAILED: CONFLICT,
    errors.RESOURCE_LOCKED: CONFLICT,
    errors.NOT_ALLOWED: CONFLICT,
    errors.ILLEGAL_STATE: CONFLICT,
    errors.RESOURCE_LIMIT_EXCEEDED: LIMIT,
    errors.LINK_MESSAGE_SIZE_EXCEEDED: LIMIT,
    refusals.NoMatchingMessage.condition: NOT_FOUND,
    refusals.DuplicateMessage.condition: CONFLICT,
    refusals.CheckpointReplaced.condition: CONFLICT,
    refusals.SubscriptionEnded.condition: CONFLICT,
    refusals.PositionRefused.condition: CONFLICT,
    refusals.SinkFenced.condition: CONFLICT,
    refusals.SinkQueryReplaced.condition: CONFLICT,
    refusals.SinkBatchReplaced.condition: CONFLICT,
    refusals.SinkBranchUnknown.condition: NOT_FOUND,
    refusals.SinkBranchOpen.condition: CONFLICT,
    refusals.SinkBranchFull.condition: LIMIT,
    refusals.SinkBranchSpoiled.condition: CONFLICT,
}
"""The status that goes with the condition of a refusal; of all others it is INTERNAL."""

Attributes = dict[str, Any]


class RequestError(Exception):
    """A request that can't be carried out: ``status`` as in HTTP, and why; ``condition``, where it isn't the
    one that goes with the status."""

    def __init__(self, status: int, description: str, condition: str = "") -> None:
        super().__init__(description)
        self.status: Final = status
        self.condition: Final = condition or CONDITIONS.get(status, "")
        self.description: Final = description

    def response(self) -> "Response":
        """The answer to the request."""
        return Response(self.status, self.description, {}, condition=self.condition)


def check_not_reserved(name: str) -> None:
    """Raise `RequestError` for the name of something to be made that belongs to the broker itself."""
    if is_reserved(name):
        raise RequestError(FORBIDDEN, f"{name!r} is reserved for the broker itself")


@dataclass(frozen=True)
class Requester:
    """The connection that a request has come over."""

    user: str = ""
    remote: str = ""
    container: str = ""
    roles: tuple[str, ...] = ()
    """That the user's token gives."""


NOBODY: Final = Requester()


class Request:
    """One management request, as its message said it."""

    def __init__(
        self,
        properties: Mapping[str, object],
        body: object,
        requester: Requester = NOBODY,
        xa: "Callable[[], XaContext] | None" = None,
        postpone: Callable[[Callable[[int], None]], Sink] | None = None,
        sink: "SinkContext | None" = None,
    ) -> None:
        """``properties`` are the message's application properties, ``xa`` gives what the session that it came
        on is to XA. ``postpone`` has something done, with the time, as soon as nothing is blocked at the sink
        that it returns. ``sink`` is what the connection is to Spark sinks."""
        self.properties: Final = properties
        self.body: Final = body
        self.user: Final = requester.user
        self.roles: Final = requester.roles
        self.xa: Final = xa
        self.postpone: Final = postpone
        self.sink: Final = sink
        self.remote: Final = requester.remote
        self.container: Final = requester.container
        self.operation: Final = self.text("operation")
        self.type: Final = self.text("type")
        self.name: Final = self.text("name") or self.text("identity")

    def text(self, key: str) -> str:
        """A string among the properties; "" where there is none."""
        value = self.properties.get(key)
        return value if isinstance(value, str) else ""

    def flag(self, key: str) -> bool:
        """Whether a property is there and true."""
        return self.properties.get(key) is True

    def number(self, key: str, default: int) -> int:
        """A whole number among the properties."""
        value = self.properties.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise RequestError(BAD_REQUEST, f"{key} is {value!r}, must be a whole number of 0 or more")
        return int(value)

    def required_name(self) -> str:
        """The name of the thing that is meant. Raises `RequestError` where the request has none."""
        if not self.name:
            raise RequestError(BAD_REQUEST, f"{self.operation} needs a `name`")
        return self.name

    def attributes(self) -> Attributes:
        """The body as a map of attributes."""
        if self.body is None:
            return {}
        if not isinstance(self.body, dict):
            raise RequestError(BAD_REQUEST, f"the body of {self.operation} must be a map of attributes")
        return {str(key): value for key, value in self.body.items()}

    def _check_same(self, key: str, value: object) -> None:
        """Raise `RequestError` for a change of what says which thing is meant."""
        if self.operation == "UPDATE" and value not in (self.name, self.type):
            raise RequestError(BAD_REQUEST, f"{key} can't be changed: it says which {self.type} is meant")

    def settings(self, kind: str, settable: Mapping[str, type]) -> Attributes:
        """The attributes that set something, checked against the types they must have.

        Raises `RequestError` for one that a thing of this kind hasn't, or that has another type.
        """
        found: Attributes = {}
        for key, value in self.attributes().items():
            if key in NAMING:
                self._check_same(key, value)
                continue
            wanted = settable.get(key)
            if wanted is None:
                raise RequestError(BAD_REQUEST, f"a {kind} has no attribute {key!r} that can be set")
            if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
                raise RequestError(BAD_REQUEST, f"{key} is {value!r}, must be of type {wanted.__name__}")
            found[key] = wanted(value)
        return found


class Later:
    """Given instead of an answer that isn't there yet; the operation gives that to `answer` when it is."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        """``cancel`` is called when nobody wants the answer any more."""
        self.cancel: Final = cancel
        self._then: Callable[[Response, int], None] | None = None

    def then(self, action: Callable[["Response", int], None]) -> None:
        """Have ``action`` called with the answer and the time."""
        self._then = action

    def answer(self, response: "Response", now_us: int) -> None:
        """Here it is; everything that it tells of is durable."""
        if self._then is not None:
            self._then(response, now_us)


class Response:
    """The answer: a status as in HTTP, what it means, and a body."""

    def __init__(
        self, status: int, description: str, body: object, count: int = -1, condition: str = ""
    ) -> None:
        self.status: Final = status
        self.description: Final = description
        self.body: Final = body
        self.count: Final = count
        """Rows in the body of a QUERY; −1 for other operations."""
        self.condition: Final = condition
        """The AMQP error condition of a request that failed."""


def refusal(error: ManagerError) -> Response:
    """The answer to a request that the queue manager has refused."""
    return Response(
        _STATUS.get(error.condition, INTERNAL), error.description, error.info, condition=error.condition
    )
