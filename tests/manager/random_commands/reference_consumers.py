"""Who may take from a destination of the reference: of an exclusive queue one, of a group only its owner."""

from dataclasses import dataclass, field

from postroom.manager.kernel.consumer import Consumer

BUCKETS = {"a": 1, "b": 1, "d": 0}
"""Message groups of the test, and the bucket of two that each falls into (crc32 of its name)."""


@dataclass
class Takers:
    """The consumers of one destination."""

    grouped: bool = False
    exclusive: bool = False
    standby: bool = True
    most: int = 1000
    present: list[Consumer] = field(default_factory=list)
    """In the order in which they came."""
    away: list[Consumer] = field(default_factory=list)
    """Those of them whose link is suspended."""
    active: Consumer | None = None
    """Of an exclusive queue: who takes."""
    alone: Consumer | None = None
    """Who has asked for the queue for himself."""
    owners: dict[tuple[str, int], Consumer] = field(default_factory=dict)
    """Who has a bucket of groups, by selector and bucket."""

    def refuses(self, wants_it_alone: bool) -> bool:
        """Whether nobody more may come, or not one who wants nobody beside himself."""
        if self.alone is not None or len(self.present) >= self.most:
            return True
        return bool(self.present) and (wants_it_alone or (self.exclusive and not self.standby))

    def come(self, consumer: Consumer) -> None:
        self.present.append(consumer)
        if consumer.options.exclusive:
            self.alone = consumer
        self._find_active()

    def go(self, consumer: Consumer) -> None:
        self.present.remove(consumer)
        if consumer in self.away:
            self.away.remove(consumer)
        if self.alone is consumer:
            self.alone = None
        self.owners = {key: owner for key, owner in self.owners.items() if owner is not consumer}
        self._find_active()

    def leave_for_a_while(self, consumer: Consumer) -> None:
        self.away.append(consumer)
        self._find_active()

    def come_back(self, consumer: Consumer) -> None:
        self.away.remove(consumer)
        self._find_active()

    def _find_active(self) -> None:
        """Who is active stays it; else it is the first of those who are here."""
        here = [consumer for consumer in self.present if consumer not in self.away]
        if self.active not in here:
            self.active = here[0] if here else None

    def nobody(self) -> None:
        """Everybody is gone at once."""
        self.present, self.away, self.owners = [], [], {}
        self.active = self.alone = None

    def is_active(self, consumer: Consumer) -> bool:
        """Whether he doesn't stand by, and isn't away."""
        return consumer not in self.away and (not self.exclusive or consumer is self.active)

    def may_have(self, consumer: Consumer, group: str) -> bool:
        """Whether the messages of that group may come to him."""
        if not self.grouped or not group:
            return True
        return self.owners.get(_bucket(consumer, group), consumer) is consumer

    def given(self, consumer: Consumer, group: str, closes: bool) -> bool:
        """He gets a message of that group; whether the group comes to him with it."""
        if not self.grouped or not group:
            return False
        bucket = _bucket(consumer, group)
        first = bucket not in self.owners
        self.owners[bucket] = consumer
        if closes:
            del self.owners[bucket]
        return first


def _bucket(consumer: Consumer, group: str) -> tuple[str, int]:
    """Those with different selectors don't take each other's messages, so each has an owner."""
    return (consumer.options.selector, BUCKETS[group])
