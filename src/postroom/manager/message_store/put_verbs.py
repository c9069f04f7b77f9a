"""The verbs of the message store by which messages come: putMessage and confirmPutMessage."""

from typing import Final, final

from mypy_extensions import i64

from postroom.manager.kernel import overrides
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.entry_creation import begin_held
from postroom.manager.kernel.errors import (
    DuplicateMessage,
    LimitExceeded,
)
from postroom.manager.kernel.memory import admit
from postroom.manager.message_store import entry_verbs as store
from postroom.manager.message_store.filter import StoreFilter, matching, need_ids, serials_by_id, unique_id_of
from postroom.manager.message_store.pending_requests import StoreRequest
from postroom.manager.message_store.verbs import (
    FilterVerb,
    StoreVerb,
    check_unique_id,
    done,
    may_confirm,
    no_match,
)
from postroom.manager.producing.put import (
    Message,
    due_of,
    error_of,
    lacking,
    new_entry,
    no_room_text,
    refusal,
)
from postroom.manager.producing.put import store as put_available
from postroom.manager.producing.report_checks import check_options
from postroom.manager.queues.entry_lookup import Location, find, find_busy
from postroom.manager.queues.queue import Queue
from postroom.manager.queues.store_holders import NO_CONFIRM_ID, ConfirmIdHolder
from postroom.model import numbers as n
from postroom.model.ids import MessageIds
from postroom.model.message import MessageHead

DUPLICATE_MSG: Final = "Except_Duplicate"


@final
class Put(StoreVerb):
    """putMessage."""

    def __init__(
        self,
        queue: Queue,
        target: Asker,
        producer: Producer,
        head: MessageHead,
        body: bytes,
        confirm_id: i64,
        resend: bool,
    ) -> None:
        """``resend`` is Msg_Resend: an earlier copy that nobody has seen or holds is replaced."""
        super().__init__(queue, target)
        self.producer = producer
        self.head = head
        self.body = body
        self.confirm_id: i64 = confirm_id
        self.resend = resend

    def run(self, core: Core) -> object:
        self.check_queue()
        queue, head = self.queue, self.head
        earlier = self._earlier(core) if head.unique_id else None
        if queue.overrides is not None:
            overrides.apply(core.now_us, queue.overrides, head)
        self._check_room(core)
        holder = self._holder(core)
        if earlier is not None:
            self._replace(core, earlier)
            holder = self._holder(core)  # it has gone if the earlier copy was all that it held
        if not self.producer.recorded:
            core.holders.open_producer(self.producer)
        serial = core.ledger.next_position  # the arrival is the next record
        answer = done(1)
        answer.unique_id = unique_id_of(core, serial, MessageIds(head.unique_id, b"", 0, b"", 0))
        if holder is None:
            put_available(core, self.producer, queue, Message(head, self.body))
            core.agenda.woken.append(queue)
        else:
            message = Message(self.head, self.body)
            entry = new_entry(core, self.producer, self.queue, message, due_of(core, self.head), holder)
            begin_held(entry, holder.kind, holder.id, holder)
            admit(core, entry)
            store.hold_put(core, entry, holder, answer.unique_id)
        return answer

    def _holder(self, core: Core) -> ConfirmIdHolder | None:
        if self.confirm_id == NO_CONFIRM_ID:
            return None
        return self.holder_of(core, self.confirm_id, None)

    def _check_room(self, core: Core) -> None:
        size: i64 = len(self.body)
        refused = refusal(core, self.queue, size, self.head.durable)
        if refused is None and self.head.report != 0:
            refused = check_options(core, self.queue, self.head, self.body)
        if refused is not None:
            raise error_of(refused)
        pool = lacking(core, self.queue, size)
        if pool is not None:
            raise LimitExceeded("Except_Q_Full: " + no_room_text(pool, size))

    def _earlier(self, core: Core) -> Entry | Location | None:
        """Another copy on the queue that is to be replaced. Raises DuplicateMessage, ReadsNeeded."""
        found = self.live_copy(core, self.head.unique_id)
        if found is None:
            return None
        entry = found.entry if isinstance(found, Location) else found
        unseen = entry.state == n.PUT_UNCONFIRMED and entry.holder_kind == n.CONFIRM_ID
        if self.resend and (unseen or isinstance(found, Location)):
            return found
        raise DuplicateMessage(
            f"{DUPLICATE_MSG}: queue {self.queue.name!r} has a message of that unique id already; "
            "if this is it again, because the answer was lost, say so (resend)"
        )

    def live_copy(self, core: Core, unique_id: bytes) -> Entry | Location | None:
        """The message of that unique id, in whatever state. Raises ReadsNeeded."""
        entry = self.held_entry(core, unique_id)
        if entry is not None:
            return entry
        wanted = StoreFilter()
        wanted.unique_id = unique_id
        for serial in serials_by_id(core, self, wanted).tolist():
            location = find(self.queue, serial)
            found: Entry | Location | None = (
                location if location is not None else find_busy(self.queue, serial)
            )
            if found is not None:
                ids = need_ids(self.queue, self, [serial])[0]
                if unique_id_of(core, serial, ids) == unique_id:
                    return found
        return None

    def _replace(self, core: Core, earlier: Entry | Location) -> None:
        if isinstance(earlier, Location):
            location = find(self.queue, earlier.entry.serial)
            if location is not None:
                store.delete(core, location)
        else:
            store.undo(core, earlier)


@final
class ConfirmPut(FilterVerb):
    """confirmPutMessage: by unique id; a second time it does nothing."""

    def run(self, core: Core) -> object:
        check_unique_id(self.filter, "CONFIRM-PUT")
        entry = self.held_entry(core, self.filter.unique_id)
        if entry is None:
            if not _is_confirmed(core, self, self.filter.unique_id):
                raise no_match(self.queue, "of that unique id that was put and not confirmed")
            return done(0)
        if entry.state != n.PUT_UNCONFIRMED or not may_confirm(entry, self.confirm_id):
            raise no_match(self.queue, "of that unique id put under that confirm id")
        store.confirm_put(core, entry)
        return done(1)


def _is_confirmed(core: Core, request: StoreRequest, unique_id: bytes) -> bool:
    """Whether it is available, or will be by itself: a repeated confirmation is nothing wrong."""
    wanted = StoreFilter()
    wanted.unique_id = unique_id
    if matching(core, request, wanted, 1):
        return True
    for serial in serials_by_id(core, request, wanted).tolist():
        busy = find_busy(request.queue, serial)
        if busy is not None and busy.state == n.DELAYED:
            ids = need_ids(request.queue, request, [serial])[0]
            if unique_id_of(core, serial, ids) == unique_id:
                return True
    return False
