"""The dead-letter queue handlers inside the broker, as the management node shows them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from postroom.model.entity_types import DEAD_LETTER_HANDLER_TYPE
from postroom.server.channels.dead_letter_handlers import QueueHandler
from postroom.server.configuration.dead_letter_handlers import Loaded
from postroom.server.management.entity_type import ListedEntityType, Operation
from postroom.server.management.request import NOT_FOUND, Attributes, Request, RequestError

if TYPE_CHECKING:
    from postroom.server.connection.broker import Broker


COUNTS: Final = ("retried", "forwarded", "discarded", "failed", "left", "without_header")
_ATTRIBUTES: Final = (
    *("name", "identity", "type", "state", "queue", "rules_file", "rules", "retry_interval_s", "error"),
    *("at_hand", *COUNTS),
)


class DeadLetterHandlerEntities(ListedEntityType[QueueHandler | Loaded]):
    """The handlers of one broker, by the files of their rules tables."""

    type: Final = DEAD_LETTER_HANDLER_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._broker: Final = broker
        self.operations: Final[Mapping[str, Operation]] = {"READ": self.read}

    def attribute_names(self) -> list[str]:
        return list(_ATTRIBUTES)

    def all(self) -> Iterable[QueueHandler | Loaded]:
        handlers = self._broker.dead_letters
        return [*handlers.running, *handlers.refused]

    def find(self, request: Request) -> QueueHandler | Loaded:
        """By its queue."""
        name = request.required_name()
        for each in self.all():
            if each.queue == name:
                return each
        raise RequestError(NOT_FOUND, f"there is no dead-letter queue handler of queue {name!r}")

    def shown(self, handler: QueueHandler | Loaded) -> Attributes:
        """What it works on and has done since the start, or why it wasn't begun."""
        control = handler.table.control if handler.table is not None else None
        return {
            "name": handler.queue,
            "identity": f"{handler.queue}:{handler.rules}",
            "type": DEAD_LETTER_HANDLER_TYPE,
            "queue": handler.queue,
            "rules_file": handler.rules,
            "rules": 0 if handler.table is None else len(handler.table.rules),
            "retry_interval_s": 0 if control is None else control.retry_interval_s,
            **_progress(handler),
        }


def _progress(handler: QueueHandler | Loaded) -> Attributes:
    if isinstance(handler, Loaded):
        return {"state": "not-started", "error": handler.error, "at_hand": 0, **dict.fromkeys(COUNTS, 0)}
    counts = {name: handler.counts[name] for name in COUNTS}
    return {"state": "running", "error": "", "at_hand": handler.at_hand_count, **counts}
