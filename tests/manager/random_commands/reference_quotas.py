"""Room in the reference: pools of a quota, the sends that wait for it, and who goes in next."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.manager.random_commands.reference_destination import Message, Place, TopicPlace


@dataclass(eq=False)
class Pool:
    """What one quota allows, to the places that are under it."""

    most: int
    preemptive: bool = False
    places: "list[Place]" = field(default_factory=list)

    def needed(self) -> bool:
        """Whether anything can come to it still."""
        return not self.places or not all(place.dismissed for place in self.places)

    def fits(self, count: int) -> bool:
        return sum(len(place.messages) for place in self.places) + count <= self.most


@dataclass(eq=False)
class Waiting:
    """A send to a queue, or a publish to a topic."""

    token: int
    link: int
    to: "Place | TopicPlace"
    message: "Message"
    due_us: int = 0
    since_us: int = 0
    client: str = ""
    """Who publishes."""
    at_once: bool = False
    """Of a Spark sink: refused where it would have to wait."""
    pool: Pool | None = None
    """In whose line it stands."""


def charges(places: "list[Place]") -> Counter[Pool]:
    """How many entries one message for these makes in each pool, in the order of the places."""
    return Counter(place.pool for place in places if place.pool is not None)


@dataclass
class Lines:
    """Everybody who waits, in the order of coming."""

    all: list[Waiting] = field(default_factory=list)

    def of(self, pool: Pool) -> list[Waiting]:
        return [waiting for waiting in self.all if waiting.pool is pool]

    def of_link(self, link: int) -> list[Waiting]:
        return [waiting for waiting in self.all if waiting.link == link]

    def lacks(self, places: "list[Place]", waiting: Waiting | None) -> Pool | None:
        """The first pool in which a message for these has no room, or others wait whom it would overtake; one
        that could never hold it is not waited for. None: it has just come."""
        before = self.all[: self.all.index(waiting)] if waiting is not None else self.all
        for pool, count in charges(places).items():
            overtakes = not pool.preemptive and any(each.pool is pool for each in before)
            if (overtakes or not pool.fits(count)) and count <= pool.most:
                return pool
        return None

    def turn_of(self, waiting: Waiting) -> bool:
        """Whether it is looked at: nobody of its link is before it, nor of its line where that is one, and
        there is some room."""
        if self.of_link(waiting.link)[0] is not waiting:
            return False
        pool = waiting.pool
        if pool is None or not pool.needed():
            return True
        return pool.fits(1) and (pool.preemptive or self.of(pool)[0] is waiting)
