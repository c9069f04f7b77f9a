"""A `World` with topics: shorthands for tests."""

from typing import Any

from postroom.ledger.format.records import RecordType
from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.options import QueueDefinition
from postroom.manager.queues.queue import Queue
from tests.manager.world import World


class TopicWorld(World):
    def topic(self, name: str = "news", **definition: Any) -> Queue:
        return self.manager.create_queue(QueueDefinition(name=name, kind="topic", **definition), self.now_us)

    def subscribe(self, topic: str = "news", **wanted: Any) -> Queue:
        wanted.setdefault("client", "me")
        return self.manager.subscribe(Subscribing(topic=topic, **wanted), self.now_us)

    def subscriber(self, topic: str = "news", credit: int = 100, **wanted: Any) -> Consumer:
        return self.consumer(self.subscribe(topic, **wanted), credit)

    def got(self) -> dict[str, list[bytes]]:
        """Bodies delivered so far by the queue that they were delivered from."""
        found: dict[str, list[bytes]] = {}
        for delivery in self.delivered:
            found.setdefault(delivery.entry.queue.name, []).append(delivery.body)
        return found

    def sets(self) -> list[list[int]]:
        """The routing sets defined so far."""
        return [
            [int.from_bytes(detail[at : at + 4], "little") for at in range(0, len(detail), 4)]
            for row, detail in zip(self.transitions, self.details, strict=True)
            if row["type"] == RecordType.ROUTING_SET_DEFINED
        ]
