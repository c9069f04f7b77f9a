"""Importing messages, as WebLogic JMS has it: each is created, or takes the place of the one that has its
message id."""

from typing import Final, final

from mypy_extensions import i64

from postroom.manager.administration.message_moves import taken
from postroom.manager.administration.message_queries import check_there
from postroom.manager.administration.message_search import Search, Wanted
from postroom.manager.administration.message_states import CHANGEABLE
from postroom.manager.kernel import overrides
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import (
    DestinationPaused,
    LimitExceeded,
)
from postroom.manager.kernel.transitions import step
from postroom.manager.message_store.pending_requests import StoreRequest
from postroom.manager.producing.put import (
    Message,
    error_of,
    lacking,
    no_room_text,
    store,
    unfit,
)
from postroom.manager.queues.placement import ended
from postroom.manager.queues.queue import Queue
from postroom.model import numbers as n
from postroom.model.message import MessageHead

MAX_IMPORTED: Final = 1000
"""Messages in one request."""


@final
class Imported:
    """What an import has done."""

    def __init__(self) -> None:
        self.created: i64 = 0
        self.replaced: i64 = 0


@final
class ImportMessages(StoreRequest):
    """importMessages: production need not be enabled (WebLogic JMS wants it paused); insertion must be.

    One message after the other: what was imported before one that is refused stays, and importing it again
    replaces it.
    """

    def __init__(
        self,
        queue: Queue,
        target: Asker,
        producer: Producer,
        messages: list[tuple[MessageHead, bytes]],
        with_overrides: bool,
    ) -> None:
        """``messages``: of each the head, and the sections without header and delivery-annotations."""
        super().__init__(queue, target)
        self.producer = producer
        self.messages = messages
        self.with_overrides = with_overrides
        self.done = Imported()
        self.search: Search | None = None
        """For the message that the next one replaces."""

    def run(self, core: Core) -> object:
        check_there(self.queue)
        if self.queue.switches.insertion_paused:
            raise DestinationPaused(f"queue {self.queue.name!r} takes no messages: insertion is paused")
        try:
            while self.messages:
                self._import_next(core)
        finally:
            core.agenda.woken.append(self.queue)  # for what is there already, whatever comes next
        return self.done

    def _import_next(self, core: Core) -> None:
        head, body = self.messages[0]
        earlier = self._earlier(core, head)
        self._check(core, head, len(body))
        for each in earlier:
            entry = taken(core, self.queue, each)
            if entry is None:
                continue
            step(core, entry, n.EVENT_DELETE, 0, 0, None, 0)
            ended(core, entry)
        if self.with_overrides and self.queue.overrides is not None:
            overrides.apply(core.now_us, self.queue.overrides, head)
        store(core, self.producer, self.queue, Message(head, body))
        if earlier:
            self.done.replaced += 1
        else:
            self.done.created += 1
        self.messages.pop(0)
        self.search = None
        core.ledger.boundary()

    def _earlier(self, core: Core, head: MessageHead) -> list[Entry]:
        """What has the message id already and isn't held. Raises ReadsNeeded."""
        if head.message_id_type == 0:
            return []
        if self.search is None:
            wanted = Wanted(CHANGEABLE)
            wanted.message_id, wanted.message_id_type = head.message_id, head.message_id_type
            self.search = Search(wanted)
        self.search.go_on(core, self)
        return self.search.found

    def _check(self, core: Core, head: MessageHead, size: i64) -> None:
        queue = self.queue
        refused = unfit(core, queue, size, head.durable)
        if refused is not None:
            raise error_of((refused[0], refused[1]))
        pool = lacking(core, queue, size)
        if pool is not None:
            raise LimitExceeded(no_room_text(pool, size))
