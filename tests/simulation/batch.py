"""What a user of the message store holds under one confirm id, as far as it can know.

It asks for one thing at a time. An answer tells what happened; a connection or process that goes takes it
away, and then there are two possible worlds, between which a later answer decides. Confirm ids and locks, and
what they hold, survive both.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.oracle import NEVER_US, Answer, Broken, Fate, Oracle

ABSENT = "not put"
PUT, GOT, LOCKED, GOT_LOCKED = "put", "got", "locked", "got through its lock"
FREE = "anybody's"
GONE = "gone"
HELD = (PUT, GOT, LOCKED, GOT_LOCKED)

MOVES: dict[str, dict[str, str]] = {
    "put": {ABSENT: PUT},
    "put again": {ABSENT: PUT, PUT: PUT},
    "confirm put": {PUT: FREE, FREE: FREE},
    "confirm get": {GOT: GONE, GOT_LOCKED: GONE, GONE: GONE},
    "get locked": {LOCKED: GOT_LOCKED},
    "delete locked": {LOCKED: GONE},
    "unlock": {LOCKED: FREE},
    "confirm": {ABSENT: GONE, PUT: FREE, GOT: GONE, GOT_LOCKED: GONE},
    "undo": {ABSENT: GONE, PUT: GONE, GOT: FREE, LOCKED: FREE, GOT_LOCKED: LOCKED},
}
"""Verb → state → state. From any other state a verb about one message finds none; what is not put when all is
decided never will be."""

World = dict[int, str]
"""State by message id."""


@dataclass(eq=False)
class Batch:
    """Everything under one confirm id of one queue."""

    queue: str
    confirm_id: int
    oracle: Oracle
    fates: dict[int, Fate] = field(default_factory=dict)
    worlds: list[World] = field(default_factory=lambda: [{}])
    """Each may be the true one."""
    unknown: bool = False
    """It may hold what no answer has told of: only undo is safe."""
    unique_ids: dict[int, dict[str, object]] = field(default_factory=dict)
    lock_id: int = 0
    locked_until_us: int = NEVER_US
    messages: dict[int, bytes] = field(default_factory=dict)
    """What was put here, or is about to be."""

    def name(self) -> str:
        return f"confirm id {self.confirm_id}"

    def certain(self) -> bool:
        return len(self.worlds) == 1 and not self.unknown

    def those(self, state: str) -> list[int]:
        """The messages that are in that state for certain."""
        return [id for id in self.fates if all(world[id] == state for world in self.worlds)]

    def perhaps_put(self) -> list[int]:
        """Messages of which it is open whether they were put; nothing has been decided about them."""
        states = {id: {world[id] for world in self.worlds} for id in self.fates}
        return [id for id, possible in states.items() if ABSENT in possible and possible <= {ABSENT, PUT}]

    def add(self, fate: Fate, state: str, unique_id: dict[str, object]) -> None:
        """``fate`` has come under the confirm id, or is about to be put under it."""
        fate.order_perturbed = True
        fate.kept_by = self.confirm_id
        self.fates[fate.id] = fate
        self.unique_ids[fate.id] = unique_id
        for world in self.worlds:
            world[fate.id] = state
        self.publish(0)

    # What may be after a question, and what is after its answer.

    def requested(self, verb: str, id: int, now_us: int) -> None:
        """From now on the verb may have been carried out."""
        before = self.worlds
        self.worlds = _different([*before, *(self._after(world, verb, id) for world in before)])
        self.publish(now_us)
        self.worlds = before

    def refused(self, id: int, now_us: int) -> None:
        """A put was refused: what it was before, it is. What was never put never will be."""
        for world in self.worlds:
            if self.certain() and world[id] == ABSENT:
                world[id] = GONE
        self.publish(now_us)

    def unanswered(self, verb: str, id: int, now_us: int) -> None:
        """Nobody will know whether the verb was carried out."""
        self.worlds = _different([*self.worlds, *(self._after(world, verb, id) for world in self.worlds)])
        self.publish(now_us)

    def answered(self, verb: str, id: int, count: int | None, now_us: int) -> None:
        """The verb was done to ``count`` messages; None: there were none. Raises Broken if that can't be."""
        worlds = [world for world in self.worlds if self._fits(world, verb, id, count, now_us)]
        if not worlds:
            record = "there is none" if count is None else f"done to {count}"
            raise Broken(
                f"{verb} {id or ''} under confirm id {self.confirm_id}: {record}; it was {self.worlds}"
            )
        if count is None:
            kept = [world for world in worlds if self._is_paused(verb)]
            gone = [world for world in worlds if self._may_be_none(world, verb, id, now_us)]
            worlds = [*kept, *(self._without(world, verb, id) for world in gone)]
        else:
            worlds = [self._after(world, verb, id) for world in worlds]
        if verb == "undo":
            self.unknown = False
        self.worlds = _different(worlds)
        self.publish(now_us)

    def _after(self, world: World, verb: str, id: int) -> World:
        moves = MOVES[verb]
        meant = [id] if id else list(world)
        return {**world, **{one: moves.get(world[one], world[one]) for one in meant}}

    def _without(self, world: World, verb: str, id: int) -> World:
        """There was none: what had been held has expired, was lost in a crash, or its lease is over."""
        moves = MOVES[verb]
        meant = [one for one in ([id] if id else world) if world[one] in moves]
        return {**world, **{one: FREE if world[one] in HELD else moves[world[one]] for one in meant}}

    def _fits(self, world: World, verb: str, id: int, count: int | None, now_us: int) -> bool:
        """Whether the answer can be that of this world."""
        moves = MOVES[verb]
        if id and count is not None:
            return world[id] in moves
        held = [one for one in ([id] if id else world) if world[one] in moves and world[one] in HELD]
        certain = [one for one in held if not self.may_vanish(one, world[one], now_us)]
        if count is None:
            return not certain or self._is_paused(verb)
        return len(certain) <= count and (count <= len(held) or self.unknown)

    def _may_be_none(self, world: World, verb: str, id: int, now_us: int) -> bool:
        """Whether nothing is held that must be there."""
        held = [one for one in ([id] if id else world) if world[one] in MOVES[verb] and world[one] in HELD]
        return all(self.may_vanish(one, world[one], now_us) for one in held)

    def _is_paused(self, verb: str) -> bool:
        """Whether the answer that there is none can come from a pause of consumption, which changes
        nothing."""
        return verb == "get locked" and self.oracle.pauses

    def may_vanish(self, id: int, state: str, now_us: int) -> bool:
        fate = self.fates[id]
        if fate.lost_possible or (fate.expiry_us and now_us >= fate.expiry_us):
            return True
        return state == LOCKED and now_us >= self.locked_until_us

    # What the oracle is to know.

    def publish(self, now_us: int) -> None:
        """Tell the oracle what is withheld from others, and let go what nothing more can happen to."""
        for id, fate in list(self.fates.items()):
            states = {world[id] for world in self.worlds}
            if fate.kept_by == self.confirm_id:
                fate.withheld_until_us = self._withheld(states)
                fate.unconfirmed = states <= {ABSENT, PUT}
            if GONE in states:
                fate.given.add(self.name())
            if not states & {ABSENT, *HELD}:
                self._over(fate, states)

    def _withheld(self, states: set[str]) -> int:
        if FREE in states:
            return 0
        return self.locked_until_us if LOCKED in states else NEVER_US

    def _over(self, fate: Fate, states: set[str]) -> None:
        """No verb under this confirm id means it any more."""
        if states == {FREE}:
            fate.given.discard(self.name())
        if fate.id in self.messages and len(states) == 1:
            self.oracle.answered(fate, Answer.ACCEPTED if FREE in states else Answer.REFUSED)
        elif states == {GONE}:
            self.oracle.settled(fate, "accepted")
        del self.fates[fate.id]
        for world in self.worlds:
            del world[fate.id]
        self.worlds = _different(self.worlds)


def _different(worlds: Iterable[World]) -> list[World]:
    found: list[World] = []
    for world in worlds:
        if world not in found:
            found.append(world)
    return found
