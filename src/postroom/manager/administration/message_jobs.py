"""What a job does with many messages that it has looked at before: replay, forward, discard or leave each.

A job decides from the ledger, perhaps hours ago. So each action names its message by serial, the place where
it stood and the deliveries that it had had; one that isn't so any more is left alone and told of. What nobody
holds can be acted on: available and delayed messages. All actions of one request are carried out in one turn,
and so in one block of the ledger: after a crash all of them have been carried out or none. One that is
refused, because its target is full for instance, doesn't keep the others from it.
"""

import json
from typing import Final, final

from mypy_extensions import i64

from postroom.manager.administration.dead_letter_handlers import OWN_PREFIX
from postroom.manager.administration.message_moves import (
    MAX_ONWARD_BYTES,
    WHY_DEAD,
    check_target,
    move_one,
    need_bodies,
    origin_of,
    taken,
)
from postroom.manager.administration.message_queries import check_there
from postroom.manager.administration.message_search import located
from postroom.manager.administration.message_states import CHANGEABLE, EXPIRED, named, states_of
from postroom.manager.destinations import registry as queues
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.effects import Asker
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import LimitExceeded, ManagerError, RequestInvalid
from postroom.manager.kernel.transitions import step
from postroom.manager.message_store.filter import body_of
from postroom.manager.message_store.pending_requests import ReadsNeeded, StoreRequest
from postroom.manager.names.name_resolution import names_of
from postroom.manager.names.remote_queues import ResolvedName
from postroom.manager.queues.entry_lookup import find_at
from postroom.manager.queues.placement import ended
from postroom.manager.queues.queue import Queue
from postroom.model import numbers as n
from postroom.model.ids import NO_IDS, MessageIds

REPLAY: Final = "replay"
"""Back to the queue that the message came from, or to a named one, without what says why it is dead."""
FORWARD: Final = "forward"
"""To a named queue, as it is."""
DISCARD: Final = "discard"
LEAVE: Final = "leave"
"""Only say whether it is still as it was."""
ACTIONS: Final = (REPLAY, FORWARD, DISCARD, LEAVE)

DONE: Final = "done"
CHANGED: Final = "changed"
"""The message stands at another place, or has been delivered since."""
GONE: Final = "gone"
"""The message is not on the queue any more, or its time is over."""
REFUSED: Final = "refused"
"""Somebody holds it, or it can't go where it is to."""
ANSWERS: Final = (DONE, CHANGED, GONE, REFUSED)
_DONE, _CHANGED, _GONE, _REFUSED = range(len(ANSWERS))

MAX_ACTIONS: Final = 1000
"""Messages of one request."""
MAX_REASON_CHARS: Final = 256
"""Of an action's reason in the ledger."""
CONDITION: Final = "postroom:job"
"""In the detail of the events that end what a job has acted on."""


def detail_of(reason: str, user: str) -> bytes:
    """What the ledger is told with each event: why, and who asked for it."""
    record = {"condition": CONDITION, "description": reason[:MAX_REASON_CHARS], "user": user}
    return json.dumps({key: value for key, value in record.items() if value}, ensure_ascii=False).encode(
        "utf-8", "replace"
    )


@final
class Action:
    """One message, and what is to be done with it."""

    __slots__ = ("action", "delivery_count", "detail", "ordinal", "place", "serial", "to")

    def __init__(
        self, action: str, to: str, detail: bytes, serial: i64, place: i64, ordinal: i64, delivery_count: i64
    ) -> None:
        """``to``: a queue, for `FORWARD` and perhaps `REPLAY`. ``detail`` (JSON, `detail_of`) goes to the
        ledger with the message's end. ``place`` and ``ordinal``: position and rank of the event by which it
        first became available; place 0: not known, so not compared. Raises RequestInvalid."""
        if action not in ACTIONS:
            raise RequestInvalid(f"there is no action {action!r}: {', '.join(ACTIONS)}")
        if action == FORWARD and not to:
            raise RequestInvalid(f"{FORWARD} needs `to`, the queue that takes the messages")
        if to and action not in (FORWARD, REPLAY):
            raise RequestInvalid(f"{action} sends nothing on: it has no `to` ({to!r})")
        self.action = action
        self.to = to
        self.detail = detail
        self.serial: i64 = serial
        self.place: i64 = place
        self.ordinal: i64 = ordinal
        self.delivery_count: i64 = delivery_count


@final
class Acted:
    """What became of a request's actions, in their order."""

    def __init__(self) -> None:
        self.answers: list[i64] = []
        """Indexes of `ANSWERS`."""
        self.refusals: dict[str, list[int]] = {}
        """The actions that were refused, by their numbers, for each reason."""


@final
class Act(StoreRequest):
    """Carry out actions on messages of one queue. Answers `Acted`.

    Raises LimitExceeded for more than `MAX_ACTIONS`, and for more than `moving.MAX_ONWARD_BYTES` of messages
    for other queue managers unless it is one alone; RequestInvalid for two actions on one message.
    """

    def __init__(self, queue: Queue, target: Asker, actions: list[Action]) -> None:
        super().__init__(queue, target)
        self.actions = actions
        self.acted = Acted()
        self._targets: dict[str, ResolvedName] = {}
        """By the names that actions have."""
        self._unknown: dict[str, str] = {}
        """Why there are none, for the others."""

    def run(self, core: Core) -> object:
        check_there(self.queue)
        if len(self.actions) > MAX_ACTIONS:
            raise LimitExceeded(f"{len(self.actions)} actions: one request carries out {MAX_ACTIONS}")
        if len({int(each.serial) for each in self.actions}) < len(self.actions):
            raise RequestInvalid("two actions are for the same message: nothing was done")
        self.acted = Acted()
        self._resolve(core)
        self._need_ids(core)
        entries = self._fit(core)
        self._need_bodies(entries)
        for number, entry in enumerate(entries):
            if entry is not None:
                self._carry_out(core, number, entry)
        return self.acted

    # What is meant.

    def _resolve(self, core: Core) -> None:
        """Find the queues that are named."""
        self._targets, self._unknown = {}, {}
        for name in {action.to for action in self.actions if action.to}:
            try:
                to = names_of(core).taker(name)
            except ManagerError as refused:
                self._unknown[name] = refused.description
                continue
            if to.queue.name.startswith(OWN_PREFIX):
                self._unknown[name] = f"{name!r} is a queue of the broker's own: nothing is put there"
            else:
                self._targets[name] = to

    def _need_ids(self, core: Core) -> None:
        """Of all that may be moved here, before any message is looked for: else each would be looked for
        twice. Raises ReadsNeeded."""
        unread = [
            int(each.serial)
            for each in self.actions
            if each.action in (REPLAY, FORWARD)
            and each.serial < core.ledger.next_position
            and int(each.serial) not in self.ids
            and (not each.to or (each.to in self._targets and self._targets[each.to].header is None))
        ]
        if unread:
            raise ReadsNeeded([], unread, False)

    def _fit(self, core: Core) -> list[Entry | None]:
        """The messages that can be acted on, by the actions' numbers; the others are answered."""
        locations = [
            find_at(self.queue, each.serial, each.place or each.serial, each.ordinal) for each in self.actions
        ]
        missed = {
            int(each.serial)
            for each, location in zip(self.actions, locations, strict=True)
            if location is None
        }
        elsewhere = located(self.queue, missed) if missed else {}
        fit: list[Entry | None] = []
        for number, location in enumerate(locations):
            entry = (
                location.entry if location is not None else elsewhere.get(int(self.actions[number].serial))
            )
            self.acted.answers.append(_DONE)
            fit.append(entry if self._is_fit(core, number, entry) else None)
        return fit

    def _is_fit(self, core: Core, number: int, entry: Entry | None) -> bool:
        """Whether the message is as the action says and may be acted on; otherwise the action is answered."""
        action = self.actions[number]
        if entry is None:
            return self._not_done(number, _GONE)
        states = states_of(core, entry)
        if states & CHANGEABLE == 0:
            if states & EXPIRED != 0 and entry.holder_kind == 0:
                return self._not_done(number, _GONE)
            return self._refuse(number, f"the message is not free: {', '.join(named(states))}")
        is_there = entry.place == action.place or action.place == 0
        if not is_there or entry.delivery_count != action.delivery_count:
            return self._not_done(number, _CHANGED)
        if action.to and action.to in self._unknown:
            return self._refuse(number, self._unknown[action.to])
        return True

    def _need_bodies(self, entries: list[Entry | None]) -> None:
        """Of what goes to other queue managers. Raises ReadsNeeded, LimitExceeded."""
        leaving: list[Entry] = []
        size: i64 = 0
        for action, entry in zip(self.actions, entries, strict=True):
            if entry is None or action.action not in (REPLAY, FORWARD):
                continue
            if action.to and self._targets[action.to].header is not None:
                leaving.append(entry)
                size += entry.body_len
        if size > MAX_ONWARD_BYTES and len(leaving) > 1:
            raise LimitExceeded(
                f"{len(leaving)} messages of {size} bytes for other queue managers: one request takes "
                f"{MAX_ONWARD_BYTES} bytes, or one message alone"
            )
        need_bodies(self, leaving)

    # What is done.

    def _carry_out(self, core: Core, number: int, entry: Entry) -> None:
        action = self.actions[number]
        if action.action == LEAVE:
            return
        if action.action == DISCARD:
            out = taken(core, self.queue, entry)
            if out is None:
                self._not_done(number, _CHANGED)
                return
            step(core, out, n.EVENT_DISCARD, 0, 0, None, 0, action.detail)
            ended(core, out)
            return
        try:
            self._move(core, number, entry)
        except ManagerError as refused:
            self._refuse(number, refused.description)

    def _move(self, core: Core, number: int, entry: Entry) -> None:
        """Raises ManagerError, having done nothing."""
        action = self.actions[number]
        ids = self.ids.get(int(entry.serial), NO_IDS)
        to = self._targets[action.to] if action.to else _origin(core, entry, ids)
        if to.header is not None and not body_of(self, entry):
            self._not_done(number, _GONE)
            return
        check_target(core, self.queue, to.queue, [entry])
        out = taken(core, self.queue, entry)
        if out is None:
            self._not_done(number, _CHANGED)
            return
        move_one(core, self, out, ids, to, WHY_DEAD if action.action == REPLAY else (), action.detail)

    # What is answered.

    def _refuse(self, number: int, why: str) -> bool:
        self.acted.refusals.setdefault(why, []).append(number)
        return self._not_done(number, _REFUSED)

    def _not_done(self, number: int, answer: i64) -> bool:
        self.acted.answers[number] = answer
        return False


def _origin(core: Core, entry: Entry, ids: MessageIds) -> ResolvedName:
    """Where a message goes back to. Raises OriginGone, RequestInvalid."""
    if ids.parent_serial == 0:
        raise RequestInvalid("the message was put on this queue itself: a replay has to say where to (to)")
    return ResolvedName(queues.find(core, origin_of(core, entry, ids)), None)
