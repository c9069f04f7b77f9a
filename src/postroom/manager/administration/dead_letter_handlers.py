"""What a dead-letter queue handler asks of the queue manager: what has come to its queue, and to have one
message go elsewhere, or away, in one block of the ledger.

A message that stays as it is shares its body with what it becomes, as after a move; one that loses its
dead-letter header, or gets a transmission header, gets a body of its own.
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.message_head import merge_annotations
from postroom.amqp.message.rewrite import take_annotation
from postroom.manager.administration.message_moves import check_target
from postroom.manager.administration.message_queries import check_there
from postroom.manager.headers.dead_letter_header import DEAD_LETTER
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import NoMatchingMessage, RequestInvalid
from postroom.manager.kernel.outgoing_sections import fields_of, outgoing_sections
from postroom.manager.kernel.transitions import step
from postroom.manager.message_store.filter import body_of, need_ids
from postroom.manager.message_store.pending_requests import ReadsNeeded, StoreRequest, TurnOver
from postroom.manager.names.name_resolution import names_of, refused_name
from postroom.manager.names.remote_queues import ResolvedName
from postroom.manager.queues.entry_lookup import Location, find, locations, pick
from postroom.manager.queues.placement import ended
from postroom.manager.queues.queue import PRIORITIES, Queue
from postroom.manager.undeliverable.child_entries import make_rewritten, move_child, wake
from postroom.manager.undeliverable.dead_letters import DESCRIPTION_KEY, ORIGIN_KEY, REASON_KEY
from postroom.manager.undeliverable.expiry import expired
from postroom.model import numbers as n
from postroom.model.mq import Undelivered
from postroom.model.names import full_address

OWN_PREFIX: Final = "$"
"""Queues whose names begin so are the broker's."""
HEADER_KEYS: Final = (DEAD_LETTER, REASON_KEY, DESCRIPTION_KEY, ORIGIN_KEY)
"""Annotations that say why a message is a dead letter."""
MANY_KNOWN: Final = 1000
"""From so many known messages on, everything is looked at only once in `RECHECK_US`."""
RECHECK_US: Final = 60_000_000
MAX_NOTICED: Final = 100
"""Messages that one answer tells of."""


def without_header(sections: bytes) -> bytes:
    """A message, its sections from the message annotations on, as it was before it became a dead letter."""
    for key in HEADER_KEYS:
        _, sections = take_annotation(sections, key)
    return sections


@final
class Noticed:
    """A message that was available when it was looked for."""

    def __init__(self, serial: i64, fields: MessageFields) -> None:
        self.serial: i64 = serial
        self.fields = fields


@final
class Passed:
    """How far a handler has looked, so that what it leaves alone isn't looked at each time something comes.

    New messages come to stand behind what was there, but what somebody gives back does not: once in a while
    everything is looked at, and always as long as little is known.
    """

    def __init__(self) -> None:
        self.places: list[int] = []
        self.ordinals: list[int] = []
        self.all_us: i64 = 0
        """When everything is to be looked at again."""
        self.forget()

    def forget(self) -> None:
        """Look at everything."""
        self.places = [-1] * PRIORITIES
        self.ordinals = [0] * PRIORITIES


@final
class NoticeNew(StoreRequest):
    """Tell of what is available and not known yet, oldest places first; wait until there is something.

    Answers a list of `Noticed`. It waits as long as ``until_us`` says.
    """

    def __init__(self, queue: Queue, target: Asker, known: set[int], passed: Passed) -> None:
        super().__init__(queue, target)
        self.known = known
        """Serials."""
        self.passed = passed
        """Of this queue, from one request to the next."""
        self._found: list[Entry] | None = None
        self._priority: i64 = -1
        """Where it goes on looking; −1: it begins."""

    def run(self, core: Core) -> object:
        check_there(self.queue)
        if self._found is None:
            self._found = self._search(core)
        missing = [entry for entry in self._found if body_of(self, entry) is None]
        if missing:
            raise ReadsNeeded(missing, [], False)
        found, self._found = self._found, None
        bodies = [(entry, body_of(self, entry)) for entry in found]  # b"": it is gone by now
        answer = [Noticed(entry.serial, fields_of(entry, body)) for entry, body in bodies if body]
        if not answer:
            raise NoMatchingMessage(f"nothing new is on queue {self.queue.name!r}")
        return answer

    def _search(self, core: Core) -> list[Entry]:
        """Raises TurnOver when that was enough for one turn, having kept its place."""
        found: list[Entry] = []
        left: i64 = core.options.max_searched_per_turn
        passed = self.passed
        if self._priority < 0:
            self._priority = PRIORITIES - 1
            passed = self.passed
            if len(self.known) < MANY_KNOWN or passed.all_us <= core.now_us:
                passed.forget()
                passed.all_us = core.now_us + RECHECK_US
        while self._priority >= 0:
            at = self._priority
            for location in locations(self.queue, at, passed.places[at], passed.ordinals[at]):
                entry = location.entry
                if left <= 0 and not found:
                    raise TurnOver
                if left <= 0 or len(found) >= MAX_NOTICED:
                    self._priority = -1
                    return found
                left -= 1
                passed.places[at], passed.ordinals[at] = entry.place, entry.ordinal
                if int(entry.serial) not in self.known and not expired(core, entry):
                    found.append(entry.copy_for(self))
            self._priority -= 1
        return found


@final
class Relay(StoreRequest):
    """Have one message go to another queue, here or at another queue manager.

    Answers the address of the queue that it stands on now. Raises NoMatchingMessage where the message is no
    longer available, NameUnknown, NameUnusable, and what `moving.check_target` does.
    """

    def __init__(
        self, queue: Queue, target: Asker, serial: i64, to: tuple[str, str], keeps_header: bool, detail: bytes
    ) -> None:
        """``to``: a queue and its queue manager ("" this one). ``detail`` (JSON) goes to the ledger."""
        super().__init__(queue, target)
        self.serial: i64 = serial
        self.to = to
        self.keeps_header = keeps_header
        self.detail = detail

    def run(self, core: Core) -> object:
        location = _location(core, self.queue, self.serial)
        found = names_of(core).resolve(self.to[0], self.to[1])
        if isinstance(found, Undelivered):
            raise refused_name(found)
        target = found.queue
        if target.name.startswith(OWN_PREFIX):
            raise RequestInvalid(f"{target.name!r} is a queue of the broker's own: nothing is put there")
        check_target(core, self.queue, target, [location.entry])
        if found.header is None and self.keeps_header:
            ids = need_ids(self.queue, self, [int(self.serial)])[0]
            entry = pick(core, self.queue, location)
            move_child(core, entry, target, ids, entry.annotations)
            self._end(core, entry)
        else:
            self._rewrite(core, location, found)
        wake(core, target)
        return full_address(self.to[0], self.to[1])

    def _rewrite(self, core: Core, location: Location, found: ResolvedName) -> None:
        """With one header less, or more. Raises ReadsNeeded."""
        body = body_of(self, location.entry)
        if body is None:
            raise ReadsNeeded([location.entry], [], False)
        if not body:
            raise gone(self.queue, self.serial)
        changed = location.entry.annotations
        sections = outgoing_sections(location.entry, body)
        if changed is not None:
            sections = merge_annotations(sections, {key: changed[key] for key in changed})
        if not self.keeps_header:
            sections = without_header(sections)
        entry = pick(core, self.queue, location)
        make_rewritten(core, entry, found.queue, n.EVENT_MOVE, names_of(core).sent_to(found, sections))
        self._end(core, entry)

    def _end(self, core: Core, entry: Entry) -> None:
        step(core, entry, n.EVENT_MOVE, 0, 0, None, 0, self.detail)
        ended(core, entry)


@final
class Discard(StoreRequest):
    """Have one message go away. Answers True. Raises NoMatchingMessage where it is no longer available."""

    def __init__(self, queue: Queue, target: Asker, serial: i64, detail: bytes) -> None:
        """``detail`` (JSON) goes to the ledger."""
        super().__init__(queue, target)
        self.serial: i64 = serial
        self.detail = detail

    def run(self, core: Core) -> object:
        entry = pick(core, self.queue, _location(core, self.queue, self.serial))
        step(core, entry, n.EVENT_DISCARD, 0, 0, None, 0, self.detail)
        ended(core, entry)
        return True


def _location(core: Core, queue: Queue, serial: i64) -> Location:
    """Where the message stands. Raises NoMatchingMessage if it isn't available, QueueNotFound."""
    check_there(queue)
    location = find(queue, serial)
    if location is None or expired(core, location.entry):
        raise gone(queue, serial)
    return location


def gone(queue: Queue, serial: i64) -> NoMatchingMessage:
    """The message has been taken, or has expired, meanwhile."""
    return NoMatchingMessage(f"message {serial} is no longer available on queue {queue.name!r}")
