"""Rules of the random test: messages that an administrator deletes, moves, sends back and imports."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from postroom.manager.administration.dead_letter_handlers import Discard, NoticeNew, Passed, Relay
from postroom.manager.administration.message_import import Imported, ImportMessages
from postroom.manager.administration.message_moves import Changed, DeleteMessages, MoveMessages, Replay
from postroom.manager.administration.message_search import Wanted
from postroom.manager.administration.message_states import CHANGEABLE
from postroom.manager.kernel.errors import DestinationPaused, LimitExceeded, NoMatchingMessage
from postroom.manager.names.remote_queues import ResolvedName
from postroom.model.codes import Outcome
from tests.manager.random_commands.machine import PUBLISHERS, SMALL, TEXTS, Machine, again
from tests.manager.random_commands.reference_destination import Message, Place
from tests.manager.random_commands.reference_moves import (
    Refusals,
    first_of,
    has_room,
    meant,
    move,
    refusals,
    replay,
    take_in,
)
from tests.manager.random_commands.send_rules import heads, numbers, sizes
from tests.manager.store_face import Recorder
from tests.manager.world import a_head

selectors = st.sampled_from(list(TEXTS))
ids = st.sampled_from(["", "", "", "id 1"])


def wanted_by(selector: int | None, id: str) -> Wanted:
    made = Wanted(CHANGEABLE, TEXTS[selector])
    made.message_id, made.message_id_type = id.encode(), int(bool(id))
    return made


class Moving(Machine):
    @rule(name=st.sampled_from(["plain", "strict", "late", "dead", "spent"]), wanted=selectors, id=ids)
    def delete_messages(self, name: str, wanted: int | None, id: str) -> None:
        place = self.reference.places[name]
        answer = self.perform(DeleteMessages(self.queue(name), Recorder(), wanted_by(wanted, id), False))
        chosen = meant(place, wanted, id)
        assert isinstance(answer, Changed) and answer.count == len(chosen)
        for message in chosen:
            self.reference.end(place, message, Outcome.DELETED)
        self.rest()

    @rule(
        name=st.sampled_from(["plain", "strict", "late", "groups", "single", "small", "dead"]),
        to=st.sampled_from(["plain", "strict", "groups", "small", "dead", "spent"]),
        wanted=selectors,
        id=ids,
        in_pieces=st.booleans(),
    )
    def move(self, name: str, to: str, wanted: int | None, id: str, in_pieces: bool) -> None:
        """What nobody holds, all of it that is meant; or nothing, where the target can't take it."""
        place, target = self.reference.places[name], self.reference.places[to]
        chosen = meant(place, wanted, id)
        part = self._part(chosen, in_pieces)
        if part is None:
            return
        request = MoveMessages(
            self.queue(name),
            Recorder(),
            wanted_by(wanted, id),
            ResolvedName(self.queue(to), None),
            False,
            in_pieces,
        )
        expected = self._too_many(chosen, in_pieces) or refusals(self.reference, place, target, len(part))
        if not expected:
            move(self.reference, place, target, part)
        self._check_changed(self.perform(request), chosen, part, expected)

    @rule(
        name=st.sampled_from(["dead", "dead", "dead", "spent", "plain", "strict"]),
        to=st.sampled_from(["", "", "", "plain", "groups", "dead"]),
        wanted=selectors,
        id=ids,
        in_pieces=st.booleans(),
    )
    def replay(self, name: str, to: str, wanted: int | None, id: str, in_pieces: bool) -> None:
        """Back to where they came from, or to another queue: all that are meant, or none."""
        place = self.reference.places[name]
        found = meant(place, wanted, id)
        chosen = [message for message in found if to or message.origin is not None]
        part = self._part(chosen, in_pieces)
        if part is None:
            return
        request = Replay(self.queue(name), Recorder(), wanted_by(wanted, id), to, False, in_pieces)
        expected = self._too_many(chosen, in_pieces)
        if not expected:
            expected = replay(self.reference, place, part, self.reference.places.get(to))
        answer = self.perform(request)
        self._check_changed(answer, chosen, part, expected)
        if isinstance(answer, Changed) and not answer.more:
            assert answer.without_origin == len(found) - len(chosen)

    locals().update(again(replay, 4))

    @rule(
        name=st.sampled_from(["plain", "strict", "late", "dead", "spent"]),
        to=st.sampled_from(["", "plain", "strict", "small", "dead", "spent"]),
        which=st.integers(0, 5),
    )
    def relay(self, name: str, to: str, which: int) -> None:
        """What a dead-letter queue handler does with a message: to another queue, or ("") away."""
        place, queue = self.reference.places[name], self.queue(name)
        there = place.in_sight()
        noticed = self.perform(NoticeNew(queue, Recorder(), set(), Passed()))
        if not there:
            assert isinstance(noticed, NoMatchingMessage)
            return
        assert isinstance(noticed, list) and 0 < len(noticed) <= len(there)
        message = there[which % len(noticed)]
        if sum(other.rank() == message.rank() for other in there) > 1:
            return  # it isn't defined which of them comes first
        serial = int(noticed[which % len(noticed)].serial)
        if not to:
            assert self.perform(Discard(queue, Recorder(), serial, b"{}")) is True
            self.reference.end(place, message, Outcome.DISCARDED)
        else:
            self._relay(place, message, to, Relay(queue, Recorder(), serial, (to, ""), True, b"{}"))
        self.rest()

    def _relay(self, place: Place, message: Message, to: str, request: Relay) -> None:
        target = self.reference.places[to]
        expected = refusals(self.reference, place, target, 1)
        answer = self.perform(request)
        if expected:
            assert type(answer) in expected
            return
        assert answer == to
        move(self.reference, place, target, [message])

    def _part(self, chosen: list[Message], in_pieces: bool) -> list[Message] | None:
        """Those that go; None where it isn't defined which are the first."""
        return first_of(chosen, SMALL.max_moved_entries) if in_pieces else chosen

    def _too_many(self, chosen: list[Message], in_pieces: bool) -> Refusals:
        too_many = len(chosen) > SMALL.max_moved_entries and not in_pieces
        return {LimitExceeded} if too_many else set()

    def _check_changed(
        self, answer: object, chosen: list[Message], part: list[Message], expected: Refusals
    ) -> None:
        if expected:
            assert type(answer) in expected
        else:
            assert isinstance(answer, Changed) and answer.count == len(part)
            assert answer.more == (len(part) < len(chosen))
        self.rest()

    @rule(
        name=st.sampled_from(["plain", "strict", "late", "groups", "small"]),
        imported=st.lists(st.tuples(heads, numbers, sizes), min_size=1, max_size=3),
        with_overrides=st.booleans(),
    )
    def import_messages(
        self, name: str, imported: list[tuple[dict[str, Any], int, int]], with_overrides: bool
    ) -> None:
        """One after the other, until one is refused.

        Only the first has an id: while one is looked up, those before it may be delivered.
        """
        place = self.reference.places[name]
        messages: list[tuple[Any, bytes]] = []
        made: list[Message] = []
        for head, number, size in imported:
            head = head | {"message_id": "" if made else head["message_id"]}
            message = self.a_message(number, size, place=place if with_overrides else None, **head)
            made.append(message)
            messages.append((a_head(**head), message.body))
        producer = self.links[PUBLISHERS["me"]]
        answer = self.perform(
            ImportMessages(self.queue(name), Recorder(), producer, messages, with_overrides)
        )
        if place.insertion:
            assert isinstance(answer, DestinationPaused)
        else:
            self._check_imported(answer, place, made)
        self.rest()

    locals().update(again(import_messages, 3))

    def _check_imported(self, answer: object, place: Place, made: list[Message]) -> None:
        created = replaced = 0
        for message in made:
            if not has_room(self.reference, place):
                assert isinstance(answer, LimitExceeded)
                return
            if take_in(self.reference, place, message):
                replaced += 1
            else:
                created += 1
        assert isinstance(answer, Imported) and (answer.created, answer.replaced) == (created, replaced)
