"""The dead-letter queue handlers inside the broker, as the management node shows them."""

from collections.abc import Iterable
from typing import Final

from postroom.model.entity_types import DEAD_LETTER_HANDLER_TYPE
from postroom.server.channels.dead_letter_handlers import QueueHandler, dead_letter_handlers_of
from postroom.server.configuration.dead_letter_handlers import Loaded
from postroom.server.management.entity_type import Columns, ListedEntityType, same_named
from postroom.server.management.request import NOT_FOUND, Attributes, Request, RequestError

COUNTS: Final = ("retried", "forwarded", "discarded", "failed", "left", "without_header")
_PROGRESS: Final = ("state", "error", "at_hand", *COUNTS)


class DeadLetterHandlerEntities(ListedEntityType[QueueHandler | Loaded]):
    """The handlers of one broker, by the files of their rules tables."""

    type: Final = DEAD_LETTER_HANDLER_TYPE

    def make_columns(self) -> Columns[QueueHandler | Loaded]:
        return {
            "identity": lambda handler: f"{handler.queue}:{handler.rules}",
            **same_named("queue"),
            "rules_file": lambda handler: handler.rules,
            "rules": lambda handler: 0 if handler.table is None else len(handler.table.rules),
            "retry_interval_s": (
                lambda handler: 0 if handler.table is None else handler.table.control.retry_interval_s
            ),
        }

    def all(self) -> Iterable[QueueHandler | Loaded]:
        handlers = dead_letter_handlers_of(self.broker)
        return [*handlers.running, *handlers.refused]

    def find(self, request: Request) -> QueueHandler | Loaded:
        """By its queue."""
        name = request.required_name()
        for each in self.all():
            if each.queue == name:
                return each
        raise RequestError(NOT_FOUND, f"there is no dead-letter queue handler of queue {name!r}")

    def name_of(self, thing: QueueHandler | Loaded) -> str:
        return thing.queue

    def attribute_names(self) -> list[str]:
        return [*super().attribute_names(), *_PROGRESS]

    def shown(self, thing: QueueHandler | Loaded) -> Attributes:
        """What it works on and has done since the start, or why it wasn't begun."""
        return super().shown(thing) | _progress(thing)


def _progress(handler: QueueHandler | Loaded) -> Attributes:
    """`_PROGRESS`."""
    if isinstance(handler, Loaded):
        return {"state": "not-started", "error": handler.error, "at_hand": 0, **dict.fromkeys(COUNTS, 0)}
    counts = {name: handler.counts[name] for name in COUNTS}
    return {"state": "running", "error": "", "at_hand": handler.at_hand_count, **counts}
