"""A life of the message store's verbs, one after the other: what was answered holds, what wasn't holds or
never happened.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from postroom.client import (
    JMSException,
    Message,
    MessageFilter,
    MessageStore,
    NoMatchingMessageException,
    UniqueId,
)
from postroom.client.sync import ConnectionFactory
from postroom.model.entity_types import QUEUE_TYPE
from tests.crash.history import History
from tests.crash.proof import marker
from tests.crash.traffic import LARGE_BYTES, LARGE_EVERY, LATEST_KILL_S, LifeFailed

QUEUE: Final = "stored"
ORIGIN: Final = "CRASH"
MOST_AT_ONCE: Final = 30
"""Messages that are somewhere."""


class At(Enum):
    """Where a message is."""

    NOWHERE = auto()
    PUT = auto()
    """Put under a confirm id."""
    HERE = auto()
    LOCKED = auto()
    GOT = auto()
    GOT_THROUGH_LOCK = auto()


@dataclass(frozen=True)
class Verb:
    """What it does to a message."""

    before: At
    after: At
    call: Callable[[StoredTraffic, int], object]


class StoredTraffic:
    """What a client knows of each message, over all lives; ``store`` is that of the life at hand."""

    def __init__(self, history: History) -> None:
        self.store: MessageStore
        self.is_queue_made = False
        self.next_number = 0
        self.answers = 0
        self._history = history
        self._at: dict[int, At] = {}
        self._locks: dict[int, int] = {}
        self._in_doubt: tuple[int, Verb] | None = None
        """The verb whose answer was lost with its life."""

    def call_one(self, chance: random.Random) -> None:
        """Any verb to any message. Raises JMSException when the broker is gone."""
        is_new = not self._at or (len(self._at) < MOST_AT_ONCE and chance.random() < 1 / 3)
        number = self.next_number if is_new else chance.choice(list(self._at))
        self.next_number += is_new
        at = self._at.get(number, At.NOWHERE)
        verb = chance.choice([verb for verb in VERBS if verb.before is at])
        self._in_doubt = (number, verb)
        self._call(number, verb)
        self._in_doubt = None
        self.answers += 1
        self._set(number, verb.after)

    def check(self) -> None:
        """After a start: everything is where it was, but for what the last verb may have done."""
        visible = self._visible(MessageFilter())
        if self._in_doubt is not None:
            number, verb = self._in_doubt
            self._set(number, self._settled(number, verb, number in visible))
            self._in_doubt = None
            visible = self._visible(MessageFilter())
        self._compare(visible, self._all_at(At.HERE), "")
        for number in self._all_at(At.LOCKED):
            lock = self._locks[number]
            self._compare(self._visible(MessageFilter(lock_id=lock)), {number}, f" under lock {lock}")

    def finish(self) -> None:
        """Bring every message to its end: each comes once."""
        for number in list(self._at):
            while (at := self._at.get(number, At.NOWHERE)) is not At.NOWHERE:
                verb = next(verb for verb in VERBS if verb.before is at and verb.after in ONWARDS[at])
                self._in_doubt = (number, verb)
                self._call(number, verb)
                self._in_doubt = None
                self._set(number, verb.after)
        self._compare(self._visible(MessageFilter()), set(), " at the end")

    def _call(self, number: int, verb: Verb) -> None:
        try:
            verb.call(self, number)
        except NoMatchingMessageException as refused:
            self._problem(f"stored {number}, {verb.before.name}, isn't there for {verb}: {refused}")

    def _settled(self, number: int, verb: Verb, is_visible: bool) -> At:
        """Where a message is whose verb had no answer; where that can't be seen, it is called again."""
        if At.HERE in (verb.before, verb.after):
            other = verb.after if verb.before is At.HERE else verb.before
            if is_visible or other is not At.LOCKED or number in self._locks:
                return At.HERE if is_visible else other
            with suppress(NoMatchingMessageException):  # undone before, when that had no answer
                self.store.undo(lock_confirm_id(number))  # the answer had the lock's id
            return At.HERE
        if At.LOCKED in (verb.before, verb.after):
            other = verb.after if verb.before is At.LOCKED else verb.before
            locked = self._visible(MessageFilter(lock_id=self._locks[number]))
            return At.LOCKED if number in locked else other
        if At.NOWHERE not in (verb.before, verb.after):
            raise AssertionError(f"nothing tells what became of {verb}")
        try:
            if verb.before is At.NOWHERE:
                self.store.undo(confirm_id(number))
            else:
                verb.call(self, number)
        except NoMatchingMessageException:
            pass  # it had happened, or, of a put, it hadn't
        return At.NOWHERE

    def _visible(self, which: MessageFilter) -> set[int]:
        try:
            return {found.unique_id.time for found in self.store.browse(which, just_uid=True)}
        except NoMatchingMessageException:
            return set()

    def _all_at(self, at: At) -> set[int]:
        return {number for number, where in self._at.items() if where is at}

    def _compare(self, visible: set[int], expected: set[int], where: str) -> None:
        for number in sorted(expected - visible):
            self._problem(f"stored {number} is lost{where}")
        for number in sorted(visible - expected):
            self._problem(f"stored {number} came back{where}")

    def _set(self, number: int, at: At) -> None:
        if at in (At.NOWHERE, At.HERE):
            self._locks.pop(number, None)
        if at is At.NOWHERE:
            self._at.pop(number, None)
        else:
            self._at[number] = at

    def _problem(self, text: str) -> None:
        self._history.problems.append(f"life {self._history.lives}: {text}")

    # Calls of the store.

    def put(self, number: int) -> None:
        self.store.put(message_of(number), unique_id=unique_id(number))

    def put_unconfirmed(self, number: int) -> None:
        self.store.put(message_of(number), unique_id=unique_id(number), confirm_id=confirm_id(number))

    def confirm_put(self, number: int) -> None:
        self.store.confirm_put(unique_id(number), confirm_id(number))

    def undo(self, number: int) -> None:
        if self.store.undo(confirm_id(number)) != 1:
            self._problem(f"an undo of stored {number} found another number of messages than one")

    def get(self, number: int) -> None:
        self._check(number, self.store.get(MessageFilter(unique_id=unique_id(number))).message)

    def get_unconfirmed(self, number: int) -> None:
        which = MessageFilter(unique_id=unique_id(number), lock_id=self._locks.get(number))
        self._check(number, self.store.get(which, confirm_id=confirm_id(number)).message)

    def _check(self, number: int, message: Message | None) -> None:
        if message is None or message.body != message_of(number).body:
            self._problem(f"stored {number} has another body than it was put with")

    def confirm_get(self, number: int) -> None:
        self.store.confirm_get(unique_id(number), confirm_id(number))

    def lock(self, number: int) -> None:
        which = MessageFilter(unique_id=unique_id(number))
        found = self.store.browse_and_lock(which, just_uid=True, confirm_id=lock_confirm_id(number))
        self._locks[number] = found.lock_id

    def unlock(self, number: int) -> None:
        self.store.unlock(self._locks[number], unique_id(number))

    def delete(self, number: int) -> None:
        self.store.delete(unique_id(number), lock_id=self._locks.get(number))


VERBS: Final = (
    Verb(At.NOWHERE, At.HERE, StoredTraffic.put),
    Verb(At.NOWHERE, At.PUT, StoredTraffic.put_unconfirmed),
    Verb(At.PUT, At.HERE, StoredTraffic.confirm_put),
    Verb(At.PUT, At.NOWHERE, StoredTraffic.undo),
    Verb(At.HERE, At.NOWHERE, StoredTraffic.get),
    Verb(At.HERE, At.GOT, StoredTraffic.get_unconfirmed),
    Verb(At.HERE, At.LOCKED, StoredTraffic.lock),
    Verb(At.HERE, At.NOWHERE, StoredTraffic.delete),
    Verb(At.GOT, At.NOWHERE, StoredTraffic.confirm_get),
    Verb(At.GOT, At.HERE, StoredTraffic.undo),
    Verb(At.LOCKED, At.HERE, StoredTraffic.unlock),
    Verb(At.LOCKED, At.GOT_THROUGH_LOCK, StoredTraffic.get_unconfirmed),
    Verb(At.LOCKED, At.NOWHERE, StoredTraffic.delete),
    Verb(At.GOT_THROUGH_LOCK, At.LOCKED, StoredTraffic.undo),
    Verb(At.GOT_THROUGH_LOCK, At.NOWHERE, StoredTraffic.confirm_get),
)
ONWARDS: Final = {
    At.PUT: (At.HERE,),
    At.HERE: (At.NOWHERE,),
    At.LOCKED: (At.HERE,),
    At.GOT: (At.NOWHERE,),
    At.GOT_THROUGH_LOCK: (At.NOWHERE,),
}
"""The next place of a message on its way to its end."""


def unique_id(number: int) -> UniqueId:
    return UniqueId(ORIGIN, number)


def confirm_id(number: int) -> int:
    """Of its put, and of its get."""
    return 2 * number + 1


def lock_confirm_id(number: int) -> int:
    return 2 * number + 2


def message_of(number: int) -> Message:
    """A few are large."""
    is_large = number % LARGE_EVERY == LARGE_EVERY - 1
    return Message(marker(number) + bytes(LARGE_BYTES if is_large else number % 2000))


class StoredLife:
    """Verbs until ``kill_after`` of them are answered, then ``kill`` a moment later, amid the next.

    Without ``kill_after`` every message is brought to its end.
    """

    def __init__(
        self,
        url: str,
        traffic: StoredTraffic,
        chance: random.Random,
        kill_after: int = 0,
        kill: Callable[[], None] = lambda: None,
    ) -> None:
        self._url = url
        self._traffic = traffic
        self._chance = chance
        self._kill_after = kill_after
        self._killing = threading.Timer(chance.random() * LATEST_KILL_S, kill)
        self._is_killing = False

    def run(self) -> None:
        """Lives this life. Raises LifeFailed when it ended for another reason than the one planned."""
        try:
            with ConnectionFactory(self._url).create_connection() as connection:
                if not self._traffic.is_queue_made:
                    connection.create_management().create(QUEUE_TYPE, QUEUE)
                    self._traffic.is_queue_made = True
                self._traffic.store = connection.create_message_store(QUEUE)
                self._live()
        except JMSException as error:
            if not self._is_killing:
                raise LifeFailed(f"the store failed: {error}") from error
            self._killing.join()

    def _live(self) -> None:
        self._traffic.check()
        if not self._kill_after:
            self._traffic.finish()
            return
        end = self._traffic.answers + self._kill_after
        while True:
            self._traffic.call_one(self._chance)
            if self._traffic.answers == end:
                self._is_killing = True
                self._killing.start()
