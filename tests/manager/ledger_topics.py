"""A queue manager over the real ledger, with a topic that has many durable subscriptions."""

from typing import Any

from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.manager.queues.queue import Queue, Subscription
from tests.manager.over_ledger import LedgerWorld

SUBSCRIPTIONS = 300


class TopicWorld(LedgerWorld):
    """With a topic and many durable subscriptions."""

    def __init__(self, options: ManagerOptions | None = None) -> None:
        super().__init__(options)
        definition = QueueDefinition(name="news", kind="topic", dead_letter_queue="dead")
        self.manager.create_queue(definition, self.now_us)
        for number in range(SUBSCRIPTIONS):
            self.subscription(number)

    def subscription(self, number: int, **wanted: Any) -> Queue:
        wanted = {"topic": "news", "client": "c", "name": f"s{number}", "durable": True, **wanted}
        return self.manager.subscribe(Subscribing(**wanted), self.now_us)

    def publish(self, *bodies: bytes, **head: Any) -> None:
        for body in bodies:
            self.put(self.manager.topic("news"), body, **head)
        self.turn()

    def subscriber(self, number: int, credit: int = 100) -> Consumer:
        return self.consumer(self.subscription(number), credit)

    def depths(self) -> set[int]:
        return {
            int(queue.statistics.depth)
            for queue in self.manager.queues.values()
            if isinstance(queue, Subscription)
        }

    def purge_all(self) -> None:
        for queue in list(self.manager.queues.values()):
            if isinstance(queue, Subscription):
                self.manager.purge_queue(queue.name, self.now_us)
        self.turn()
