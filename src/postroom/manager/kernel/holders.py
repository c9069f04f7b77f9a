"""Holders and producers in the ledger: their ids, of 32 bits, and the records of their coming and going.

Ids ascend, so that for as long as can be none is used twice. A broker with very many transactions or batches
comes to the end of them within days: from there on those serve again that were given back, the oldest first,
and the next start begins at 1 again, leaving out who is still there.
"""

import json
from collections import deque
from typing import Final, final

from mypy_extensions import i64

from postroom.ledger.format.block import BlockBuilder
from postroom.ledger.format.records import RecordType
from postroom.manager.kernel.consumer import Consumer, Producer
from postroom.manager.kernel.errors import LimitExceeded

_HOLDER_OPENED: Final = int(RecordType.HOLDER_OPENED)
_HOLDER_CLOSED: Final = int(RecordType.HOLDER_CLOSED)
_PRODUCER_OPENED: Final = int(RecordType.PRODUCER_OPENED)
_PRODUCER_CLOSED: Final = int(RecordType.PRODUCER_CLOSED)
_CONSUMER: Final = 1

LAST_ID: Final = 0xFFFF_FFFF
MAX_GIVEN_BACK: Final = 1 << 16
"""Ids that are remembered for the time when no new ones are left: so many holders can be there beside those
that never end."""


@final
class HolderIds:
    """Which id is next."""

    def __init__(self, last: i64 = LAST_ID) -> None:
        self._last: i64 = last
        self._next: i64 = 1
        self._taken: set[int] = set()
        """Ids from `_next` on that are not free."""
        self._given_back: deque[int] = deque(maxlen=MAX_GIVEN_BACK)

    def take(self) -> i64:
        """An id that nobody has; raises LimitExceeded where all are taken."""
        while self._next <= self._last:
            id = self._next
            self._next = id + 1
            if not self._taken or int(id) not in self._taken:
                return id
            self._taken.discard(int(id))
        if not self._given_back:
            raise LimitExceeded(
                f"all {self._last} ids of holders and producers are in use: close consumers or producers, or "
                "restart the broker"
            )
        return self._given_back.popleft()

    def give_back(self, id: i64) -> None:
        """Its holder or producer is no more, and the ledger has been told so."""
        self._given_back.append(int(id))

    def go_on(self, next_id: i64, taken: set[int]) -> None:
        """After a restart: the first id that has never been used, and those of who is still there."""
        if next_id > self._last // 2:
            self._next = 1
            self._taken = set(taken)
        else:
            self._next = max(self._next, next_id)


@final
class Holders:
    """Who holds and who puts, as the ledger names them."""

    def __init__(self, ledger: BlockBuilder) -> None:
        self._ledger = ledger
        self.ids = HolderIds()

    def open_producer(self, producer: Producer) -> None:
        """Write the producer to the ledger; before its first message."""
        producer.recorded = True
        self._ledger.record(_PRODUCER_OPENED, 0, 0, producer.id, 0, 0, _producer_detail(producer))

    def close_producer(self, producer: Producer) -> None:
        """It is no more; it need not be in the ledger."""
        if producer.recorded:
            self._ledger.record(_PRODUCER_CLOSED, 0, 0, producer.id, 0, 0, b"")
        self.ids.give_back(producer.id)

    def open_consumer(self, consumer: Consumer) -> None:
        """Write the consumer to the ledger as a holder; before its first delivery."""
        consumer.recorded = True
        self.open(consumer.id, _CONSUMER, _consumer_detail(consumer))

    def open(self, id: i64, kind: i64, detail: bytes) -> None:
        """Write a holder of another kind to the ledger; ``detail`` is JSON."""
        self._ledger.record(_HOLDER_OPENED, 0, 0, id, kind, 0, detail)

    def close(self, id: i64, kind: i64, recorded: bool) -> None:
        """It is no more; it need not be in the ledger."""
        if recorded:
            self._ledger.record(_HOLDER_CLOSED, 0, 0, id, kind, 0, b"")
        self.ids.give_back(id)


def _consumer_detail(consumer: Consumer) -> bytes:
    who = consumer.options
    detail = {"name": who.name, "container": who.container, "user": who.user, "queue": consumer.queue.name}
    if who.selector:
        detail["selector"] = who.selector
    if who.channel:
        detail["channel"] = who.channel
    return json.dumps(detail, ensure_ascii=False).encode()


def _producer_detail(producer: Producer) -> bytes:
    detail = {"name": producer.name, "container": producer.container, "user": producer.user}
    if producer.channel:
        detail["channel"] = producer.channel
        detail["queue_manager"] = producer.queue_manager
        detail["ledger"] = producer.ledger
    return json.dumps(detail, ensure_ascii=False).encode()
