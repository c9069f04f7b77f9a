"""Who reads bodies that are not in memory: the loop what the page cache has, up to a bound; else a thread."""

from collections.abc import Iterator

import pytest
from proton import Message
from proton.utils import BlockingConnection

from postroom.ledger.storage.body_requests import Body, BodyPlace
from tests.server.harness import BrokerThread, make_config
from tests.server.memory_ledger import MemoryLedger

pytestmark = pytest.mark.sockets


class Counting(MemoryLedger):
    """Remembers how bodies were read; ``cached``: whether the page cache has them."""

    def __init__(self) -> None:
        super().__init__()
        self.cached = True
        self.reads: list[str] = []

    def read_cached_bodies(self, wanted: list[BodyPlace]) -> list[Body] | None:
        self.reads.append("at once")
        return super().read_bodies(wanted) if self.cached else None

    def read_bodies(self, wanted: list[BodyPlace]) -> list[Body]:
        self.reads.append("in a thread")
        return super().read_bodies(wanted)


@pytest.fixture
def ledger() -> Iterator[Counting]:
    made = Counting()
    yield made
    made.close()


def read_again(ledger: Counting, body_bytes: int, count: int) -> None:
    """Messages that a receiver had and gave back by leaving: their bodies have to be read for the next."""
    with BrokerThread(make_config(("q",)), ledger) as broker:
        sending = BlockingConnection(broker.url, timeout=15)
        sender = sending.create_sender("q")
        for number in range(count):
            sender.send(Message(id=number, body=bytes(body_bytes), durable=True))
        sending.close()
        for last in (False, True):
            connection = BlockingConnection(broker.url, timeout=15)
            receiver = connection.create_receiver("q", credit=count)
            assert [receiver.receive(timeout=15).id for _ in range(count)] == list(range(count))
            for _ in range(count if last else 0):
                receiver.accept()
            connection.close()


def test_the_loop_reads_what_the_page_cache_has(ledger: Counting) -> None:
    read_again(ledger, 1000, 20)
    assert set(ledger.reads) == {"at once"}


def test_a_thread_reads_what_has_to_be_waited_for(ledger: Counting) -> None:
    ledger.cached = False
    read_again(ledger, 1000, 20)
    assert set(ledger.reads) == {"at once", "in a thread"}


def test_a_thread_reads_what_would_keep_the_loop_too_long(ledger: Counting) -> None:
    read_again(ledger, 200_000, 8)
    assert "in a thread" in ledger.reads
