"""Rules of the random test: what jobs do with messages that they have looked at before."""

from hypothesis import strategies as st
from hypothesis.stateful import rule

from postroom.manager.administration.message_jobs import ACTIONS, ANSWERS, Act, Acted, Action, detail_of
from postroom.model.codes import Outcome
from tests.manager.messages import available_entries
from tests.manager.random_commands.machine import Machine, again
from tests.manager.random_commands.reference_destination import Message, Place
from tests.manager.random_commands.reference_moves import move, origin_of, refusals
from tests.manager.store_face import Recorder

UNKNOWN_SERIAL = 1 << 40
DETAIL = detail_of("a job", "me")


class Acting(Machine):
    @rule(
        name=st.sampled_from(["dead", "dead", "spent", "plain", "strict", "late", "groups"]),
        to=st.sampled_from(["plain", "strict", "groups", "small", "dead", "spent", ""]),
        chosen=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(ACTIONS)), min_size=1, max_size=4),
        wrong=st.sampled_from(["", "", "", "serial", "place", "delivery_count"]),
        with_held=st.booleans(),
        by_rank=st.booleans(),
    )
    def act(
        self, name: str, to: str, chosen: list[tuple[int, str]], wrong: str, with_held: bool, by_rank: bool
    ) -> None:
        """Several messages, each with an action; the first of them may have been seen wrongly."""
        place = self.reference.places[name]
        there, entries = place.in_sight(), available_entries(self.queue(name))
        assert len(there) == len(entries)
        if len({message.rank() for message in there}) < len(there):
            return  # it isn't said which of them comes first
        actions: list[Action] = []
        expected: list[str] = []
        for index, (which, action) in {each[0] % len(there): each for each in chosen if there}.items():
            entry = entries[index]
            target = to if action == "forward" or (action == "replay" and which % 2) else ""
            action = "leave" if action == "forward" and not target else action
            ordinal = entry.ordinal if by_rank else 0
            made = Action(action, target, DETAIL, entry.serial, entry.place, ordinal, entry.delivery_count)
            if wrong and not actions:
                self._spoil(made, wrong)
                expected.append("gone" if wrong == "serial" else "changed")
            else:
                expected.append(self._done(place, there[index], action, target))
            actions.append(made)
        held = [entry for each in self.consumers for entry in each.held if entry.queue.name == name]
        for entry in held if with_held else []:
            actions.append(Action("discard", "", DETAIL, entry.serial, entry.place, entry.ordinal, 0))
            expected.append("refused")
        answer = self.perform(Act(self.queue(name), Recorder(), actions))
        assert isinstance(answer, Acted)
        assert [ANSWERS[each] for each in answer.answers] == expected
        assert sum(map(len, answer.refusals.values())) == expected.count("refused")
        self.rest()

    locals().update(again(act, 3))

    @staticmethod
    def _spoil(action: Action, wrong: str) -> None:
        setattr(action, wrong, UNKNOWN_SERIAL if wrong == "serial" else getattr(action, wrong) + 1)

    def _done(self, place: Place, message: Message, action: str, to: str) -> str:
        """Carry it out on the reference; what is answered."""
        if action == "leave":
            return "done"
        if action == "discard":
            self.reference.end(place, message, Outcome.DISCARDED)
            return "done"
        target = self.reference.places[to] if to else None
        if target is None:
            target = origin_of(self.reference, message) if message.origin is not None else None
        if target is None or refusals(self.reference, place, target, 1):
            return "refused"
        move(self.reference, place, target, [message])
        return "done"
