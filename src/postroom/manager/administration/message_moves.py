"""Deleting and moving messages as an administrator, and sending dead letters back to where they came from.

What nobody holds can be changed: visible, delayed and ordered messages. A deletion is done message by
message. A move is one command and so one block of the ledger: after a crash all of it is there or nothing. It
is carried out in one go, so that nobody can take a message half-way; that is why the source's consumption
need not be paused, as WebLogic JMS wants it (who wants it checked can ask for that).

Messages for a queue at another queue manager get a transmission header, and so a body of their own, which
must be read before and lies in that block, too: fewer of them go at once.
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.message.message_head import merge_annotations
from postroom.manager.administration.message_queries import check_there
from postroom.manager.administration.message_search import NO_SERIAL, Search, Wanted
from postroom.manager.administration.message_states import ALL_STATES, CHANGEABLE, TRANSACTION, states_of
from postroom.manager.destinations import registry as queues
from postroom.manager.headers.dead_letter_header import DEAD_LETTER
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import (
    DestinationPaused,
    LimitExceeded,
    MessageTooLarge,
    NotAllowed,
    OriginGone,
    RequestInvalid,
)
from postroom.manager.kernel.memory import stored
from postroom.manager.kernel.outgoing_sections import outgoing_sections
from postroom.manager.kernel.transitions import note_delete, step
from postroom.manager.message_store.filter import body_of
from postroom.manager.message_store.pending_requests import MAX_IDS_READ, ReadsNeeded, StoreRequest, TurnOver
from postroom.manager.names.name_resolution import names_of
from postroom.manager.names.remote_queues import ResolvedName
from postroom.manager.queues.entry_lookup import Location, find, find_again, pick
from postroom.manager.queues.placement import ended
from postroom.manager.queues.queue import Queue, Subscription
from postroom.manager.undeliverable.child_entries import make_rewritten, move_child
from postroom.manager.undeliverable.dead_letters import DESCRIPTION_KEY, ORIGIN_KEY, REASON_KEY
from postroom.model import numbers as n
from postroom.model.ids import MessageIds

MAX_ONWARD_BYTES: Final = 1 << 20
"""Bodies of messages that one command moves to another queue manager, unless it is one message alone."""

WHY_DEAD: Final = (REASON_KEY, DESCRIPTION_KEY, ORIGIN_KEY, DEAD_LETTER)
"""Annotations that a message loses when it goes back to where it came from."""


Pair = tuple[Entry, MessageIds]
"""A message and its ids."""


@final
class Changed:
    """What a request has done."""

    def __init__(self) -> None:
        self.count: i64 = 0
        """Messages."""
        self.more = False
        """There were more than one request may change."""
        self.without_origin: i64 = 0
        """Of a replay: messages that were put here, and so stay."""


def check_paused(queue: Queue, wanted: bool) -> None:
    """Raise NotAllowed if the caller wants the queue's consumption to be paused, and it isn't."""
    if wanted and not queue.switches.consumption_paused:
        raise NotAllowed(
            f"consumption of queue {queue.name!r} is not paused: pause it, or ask without if_paused"
        )


def taken(core: Core, queue: Queue, entry: Entry) -> Entry | None:
    """Take it out of the order or of what is delayed; None if that can't be done (any more)."""
    if entry.state == n.DELAYED and queue.delayed.holds(entry):
        if states_of(core, entry) & CHANGEABLE == 0:
            return None
        queue.delayed.discard(entry)
        return entry
    location = _location_of(queue, entry)
    if location is None or states_of(core, location.entry) & CHANGEABLE == 0:
        return None
    return pick(core, queue, location)


def _location_of(queue: Queue, entry: Entry) -> Location | None:
    """Where it is available now; what was delayed when the search came by has got a place since."""
    if entry.state == n.DELAYED:
        return find(queue, entry.serial)
    return find_again(queue, entry)


@final
class DeleteMessages(StoreRequest):
    """deleteMessages: end everything that is meant.

    What a prepared branch has received is meant only where it is named by an id, or its states are asked for.
    It ends when the branch is rolled back; a commit isn't spoilt by that (as Solace has it).
    """

    def __init__(self, queue: Queue, target: Asker, wanted: Wanted, if_paused: bool) -> None:
        super().__init__(queue, target)
        by_id = wanted.serial != NO_SERIAL or wanted.message_id_type != 0
        means_held = by_id or (wanted.states != ALL_STATES and wanted.states & TRANSACTION != 0)
        wanted.states &= CHANGEABLE | (TRANSACTION if means_held else 0)
        self.search = Search(wanted)
        self.if_paused = if_paused
        self.done = Changed()

    def run(self, core: Core) -> object:
        check_there(self.queue)
        check_paused(self.queue, self.if_paused)
        try:
            self.search.go_on(core, self)
        finally:
            self._delete(core)
        return self.done

    def _delete(self, core: Core) -> None:
        found = self.search.found
        self.search.found = []
        for each in found:
            if self._delete_one(core, each):
                self.done.count += 1
                core.ledger.boundary()

    def _delete_one(self, core: Core, each: Entry) -> bool:
        if each.state == n.GET_UNCONFIRMED and each.holder_kind == n.XA_PREPARED:
            if each.noted == n.EVENT_DELETE:
                return False
            note_delete(core, each)
            return True
        entry = taken(core, self.queue, each)
        if entry is None:
            return False
        step(core, entry, n.EVENT_DELETE, 0, 0, None, 0)
        ended(core, entry)
        return True


class _Move(StoreRequest):
    """What moves and replays have in common: find everything, read its ids, then go, all at once."""

    def __init__(self, queue: Queue, target: Asker, wanted: Wanted, if_paused: bool, in_pieces: bool) -> None:
        """``in_pieces``: where more than one move can take are meant, the first of them go and the rest
        stays; otherwise that is refused."""
        super().__init__(queue, target)
        wanted.states &= CHANGEABLE
        self.search = Search(wanted)
        self.if_paused = if_paused
        self.in_pieces = in_pieces
        self.learnt: i64 = 0
        """So many of those found have been asked about."""
        self.done = Changed()

    def run(self, core: Core) -> object:
        check_there(self.queue)
        check_paused(self.queue, self.if_paused)
        found = self._find(core)
        pairs = [(entry, self.ids[int(entry.serial)]) for entry in found if self._is_here(core, entry)]
        self.go(core, pairs)
        return self.done

    def go(self, core: Core, pairs: list[Pair]) -> None:
        """Move them, or raise without having moved any."""
        raise NotImplementedError

    def may_go(self, ids: MessageIds) -> bool:
        """Whether a message with these ids can be moved at all; asked once for each."""
        return True

    def _learn(self) -> None:
        """Read the ids of what has been found, and drop what can't be moved. Raises ReadsNeeded."""
        unread = [int(entry.serial) for entry in self.search.found if int(entry.serial) not in self.ids]
        if unread:
            raise ReadsNeeded([], unread[:MAX_IDS_READ], False)
        found = self.search.found[: self.learnt]
        for entry in self.search.found[self.learnt :]:
            if self.may_go(self.ids[int(entry.serial)]):
                found.append(entry)
            else:
                del self.ids[int(entry.serial)]
        self.search.found = found
        self.learnt = len(found)

    def _find(self, core: Core) -> list[Entry]:
        limit = core.options.max_moved_entries
        search = self.search
        try:
            search.go_on(core, self)
        except (TurnOver, ReadsNeeded):
            self._learn()
            if len(search.found) <= limit:
                raise
        self._learn()
        if len(search.found) > limit:
            if not self.in_pieces:
                raise LimitExceeded(
                    f"more than {limit} messages of queue {self.queue.name!r} match; one move takes no more "
                    "(max_moved_entries): narrow the selector, or move them in pieces"
                )
            search.over = True
            search.found = search.found[:limit]
            self.done.more = True
        return search.found

    def _is_here(self, core: Core, entry: Entry) -> bool:
        if entry.state == n.DELAYED and self.queue.delayed.holds(entry):
            return True
        location = _location_of(self.queue, entry)
        return location is not None and states_of(core, location.entry) & CHANGEABLE != 0

    def move(self, core: Core, pairs: list[Pair], to: ResolvedName, drop: tuple[str, ...]) -> None:
        """Move these to one queue, without some annotations. The caller has asked `check_target`, and
        `readable` where they leave the queue manager."""
        for each, ids in pairs:
            entry = taken(core, self.queue, each)
            if entry is None:
                continue
            move_one(core, self, entry, ids, to, drop, b"")
            self.done.count += 1

    def move_all(self, core: Core, pairs: list[Pair], to: ResolvedName, drop: tuple[str, ...]) -> None:
        """Move these to one queue, or raise without having moved any."""
        if to.header is not None:
            pairs = self.readable(pairs)
        check_target(core, self.queue, to.queue, [entry for entry, _ in pairs])
        self.move(core, pairs, to, drop)

    def readable(self, pairs: list[Pair]) -> list[Pair]:
        """Of messages that leave the queue manager, so many as go at once, with their bodies at hand; what
        has no body any more stays. Raises ReadsNeeded, LimitExceeded."""
        size: i64 = 0
        for index, (entry, _) in enumerate(pairs):
            size += entry.body_len
            if size > MAX_ONWARD_BYTES and index > 0:
                pairs = self._first(pairs, index)
                break
        need_bodies(self, [entry for entry, _ in pairs])
        return [pair for pair in pairs if body_of(self, pair[0])]

    def _first(self, pairs: list[Pair], count: int) -> list[Pair]:
        """The first of them, where the caller goes on in pieces."""
        if not self.in_pieces:
            raise LimitExceeded(
                f"the messages of queue {self.queue.name!r} that match have more than {MAX_ONWARD_BYTES} "
                "bytes; one move to another queue manager takes no more: move them in pieces"
            )
        self.done.more = True
        return pairs[:count]


def need_bodies(request: StoreRequest, entries: list[Entry]) -> None:
    """Raise ReadsNeeded unless the bodies of these are at hand, as far as there are any."""
    missing = [entry for entry in entries if stored(entry) and body_of(request, entry) is None]
    if missing:
        raise ReadsNeeded(missing, [], False)


def move_one(
    core: Core,
    request: StoreRequest,
    entry: Entry,
    ids: MessageIds,
    to: ResolvedName,
    drop: tuple[str, ...],
    detail: bytes,
) -> None:
    """Move an entry that is in no order, without some annotations. ``request`` has its body if ``to`` is at
    another queue manager; ``detail`` (JSON, or b"") goes to the ledger."""
    annotations = {key: value for key, value in (entry.annotations or {}).items() if key not in drop} or None
    if to.header is None:
        move_child(core, entry, to.queue, ids, annotations)
    else:
        _move_onward(core, request, entry, to, annotations)
    step(core, entry, n.EVENT_MOVE, 0, 0, None, 0, detail)
    ended(core, entry)


def _move_onward(
    core: Core, request: StoreRequest, entry: Entry, to: ResolvedName, annotations: dict[str, object] | None
) -> None:
    body = body_of(request, entry)
    assert body, "it has been asked for"
    body = outgoing_sections(entry, body)
    if annotations is not None:
        body = merge_annotations(body, {key: annotations[key] for key in annotations})
    make_rewritten(core, entry, to.queue, n.EVENT_MOVE, names_of(core).sent_to(to, body))


def check_target(core: Core, source: Queue, target: Queue, entries: list[Entry]) -> None:
    """Raise unless ``target`` can take these from ``source``, all of them together.

    Its overrides don't apply to what is moved; its limits do, and its quota unless both share it.
    """
    if target is source:
        raise RequestInvalid(f"queue {source.name!r} is where the messages are")
    if target.switches.closed_to_puts:
        switch = "production" if target.switches.production_paused else "insertion"
        raise DestinationPaused(f"queue {target.name!r} takes no messages: {switch} is paused")
    for entry in entries:
        if entry.body_len > target.limits.max_message_bytes:
            raise MessageTooLarge(
                f"message {entry.serial} of {entry.body_len} bytes is larger than the "
                f"{target.limits.max_message_bytes} bytes that queue {target.name!r} takes"
            )
        if entry.flags & n.FLAG_DURABLE != 0 and not target.limits.persistent:
            raise NotAllowed(f"queue {target.name!r} has no store and takes no persistent messages")
    if target.units is not None and target.units.full():
        raise LimitExceeded(f"queue {target.name!r} keeps no more units of order in mind (max_unit_members)")
    _check_room(source, target, entries)


def _check_room(source: Queue, target: Queue, entries: list[Entry]) -> None:
    pool = target.quota.pool
    if pool is None or pool is source.quota.pool:
        return
    count, size = len(entries), sum(int(entry.body_len) for entry in entries)
    if not pool.fits(count, size):
        raise LimitExceeded(
            f"{pool.what} has no room for {count} messages of {size} bytes: {pool.messages} messages of at "
            f"most {pool.max_messages}, {pool.bytes} bytes of at most {pool.max_bytes} (−1: no limit)"
        )


@final
class MoveMessages(_Move):
    """moveMessages: everything that is meant goes to another queue, all or nothing."""

    def __init__(
        self, queue: Queue, target: Asker, wanted: Wanted, to: ResolvedName, if_paused: bool, in_pieces: bool
    ) -> None:
        super().__init__(queue, target, wanted, if_paused, in_pieces)
        self.to = to

    def go(self, core: Core, pairs: list[Pair]) -> None:
        check_there(self.to.queue)
        self.move_all(core, pairs, self.to, ())


@final
class Replay(_Move):
    """Dead letters, and whatever else was made of a message of another queue, go back there, or to ``to``."""

    def __init__(
        self, queue: Queue, target: Asker, wanted: Wanted, to: str, if_paused: bool, in_pieces: bool
    ) -> None:
        """``to``: a queue that takes them all; "" each goes back to its origin."""
        super().__init__(queue, target, wanted, if_paused, in_pieces)
        self.to = to

    def go(self, core: Core, pairs: list[Pair]) -> None:
        if not pairs:
            return
        if self.to:
            self.move_all(core, pairs, names_of(core).taker(self.to), WHY_DEAD)
            return
        by_target: dict[str, list[Pair]] = {}
        for entry, ids in pairs:
            by_target.setdefault(origin_of(core, entry, ids), []).append((entry, ids))
        targets = {name: queues.find(core, name) for name in by_target}
        for name, target in targets.items():
            check_target(core, self.queue, target, [entry for entry, _ in by_target[name]])
        for name, target in targets.items():
            self.move(core, by_target[name], ResolvedName(target, None), WHY_DEAD)

    def may_go(self, ids: MessageIds) -> bool:
        if self.to or ids.parent_serial != 0:
            return True
        self.done.without_origin += 1
        return False


def origin_of(core: Core, entry: Entry, ids: MessageIds) -> str:
    """The name of the queue that the message's parent lay on. Raises OriginGone."""
    origin = core.destinations.get(int(ids.parent_queue))
    if (
        origin is None or origin.deleted or (isinstance(origin, Subscription) and not origin.routed)
    ):  # it is about to go
        raise OriginGone(
            f"message {entry.serial} of queue {entry.queue.name!r} came from a queue that has been deleted; "
            "nothing was moved: say where to (to), or select others"
        )
    return origin.name
