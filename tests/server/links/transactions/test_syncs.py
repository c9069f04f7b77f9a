"""What of a local transaction waits for the disk, what does not, and transactions larger than any block."""

from collections.abc import Iterator

import pytest

from postroom.amqp.engine.events import TransferReceived
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    Accepted,
    Discharge,
    TransactionalState,
)
from postroom.model.numbers import LOCAL_TRANSACTION
from postroom.server.configuration.config import LimitsConfig
from tests.server.harness import BrokerThread, make_config
from tests.server.memory_ledger import MemoryLedger
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import MESSAGE, Controller, attributes, commit, durable, value

pytestmark = pytest.mark.sockets


# What waits for the disk, and what doesn't.


@pytest.fixture
def ledger() -> Iterator[MemoryLedger]:
    kept = MemoryLedger()
    yield kept
    kept.close()


@pytest.fixture
def held(ledger: MemoryLedger) -> Iterator[Controller]:
    with BrokerThread(make_config(("q",)), ledger) as broker, EnginePeer(broker.port) as peer:
        yield Controller(broker, peer, "q")
        broker.call(lambda _: setattr(ledger, "held", False))
        if ledger.in_flight:
            broker.call(lambda _: ledger.let_go())


def test_provisional_sends_are_answered_without_a_block(held: Controller, ledger: MemoryLedger) -> None:
    held.send("before")
    blocks = len(ledger.blocks)
    held.broker.call(lambda _: setattr(ledger, "held", True))
    txn_id = held.declare()
    for number in range(100):
        assert isinstance(held.send(f"{number}", txn_id), TransactionalState)
    assert (len(ledger.blocks), ledger.in_flight) == (blocks, False)
    held.broker.call(lambda _: setattr(ledger, "held", False))
    assert isinstance(commit(held, txn_id), Accepted)
    assert len(ledger.blocks) == blocks + 1
    assert decision_kinds(ledger) == [LOCAL_TRANSACTION]


def test_provisional_sends_are_answered_beside_a_block_that_is_under_way(
    held: Controller, ledger: MemoryLedger
) -> None:
    held.broker.wait_until(lambda b: b.idle())
    held.broker.call(lambda _: setattr(ledger, "held", True))
    delivery = held.sender.send(durable("x"), held.tag(), False)
    held.peer.flush()
    held.broker.wait_until(lambda _: ledger.in_flight)
    assert isinstance(held.send("y", held.declare()), TransactionalState)
    assert not delivery.settled


def test_acknowledgements_in_a_transaction_cost_no_block(held: Controller, ledger: MemoryLedger) -> None:
    for number in range(10):
        held.send(f"{number}")
    ids = [held.receive().delivery_id for _ in range(10)]
    held.broker.wait_until(lambda b: b.idle())
    blocks = len(ledger.blocks)
    txn_id = held.declare()
    for delivery_id in ids:
        held.dispose(delivery_id, TransactionalState(txn_id, ACCEPTED))
    held.peer.round_trip()
    assert len(ledger.blocks) == blocks
    assert isinstance(commit(held, txn_id), Accepted)
    assert (len(ledger.blocks), held.depth()) == (blocks + 1, (0, 0))


def test_a_commit_is_answered_when_its_decision_is_durable(held: Controller, ledger: MemoryLedger) -> None:
    txn_id = held.declare()
    held.send("x", txn_id)
    held.broker.call(lambda _: setattr(ledger, "held", True))
    delivery = held.control.send(value(Discharge(txn_id, False)), held.tag(), False)
    held.peer.round_trip()
    assert not delivery.settled
    held.broker.call(lambda _: ledger.let_go())
    held.peer.pump(lambda: delivery.settled)
    assert isinstance(delivery.state, Accepted)


def test_much_provisional_work_is_written_though_nobody_waits(held: Controller, ledger: MemoryLedger) -> None:
    blocks = len(ledger.blocks)
    txn_id = held.declare()
    for _ in range(30):
        held.send("x" * 100_000, txn_id)
    assert blocks < len(ledger.blocks) <= blocks + 4
    assert isinstance(commit(held, txn_id), Accepted)


def test_an_administrator_reads_what_only_provisional_records_hold(broker: BrokerThread, queue: str) -> None:
    """Then somebody waits for them, and they are written."""
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue)
        controller.send("not committed", controller.declare())
        cursor = attributes(controller.request("OPEN-CURSOR", MESSAGE, {"states": ["send"]}, name=queue))
        said = {"cursor": cursor["cursor"], "count": 1, "bodies": True}
        page = attributes(controller.request("READ-CURSOR", MESSAGE, said, name=queue))
        rows = page["messages"]
        assert isinstance(rows, list) and len(rows) == 1
        assert rows[0]["message"].endswith(b"not committed")


def test_provisional_work_never_fills_what_may_wait_for_the_disk() -> None:
    """Else reading would stop for ever: nobody waits for it."""
    limits = LimitsConfig(unsynced_bytes=64 << 10)
    with BrokerThread(make_config(("q",), limits=limits)) as broker, EnginePeer(broker.port) as peer:
        controller = Controller(broker, peer, "q")
        txn_id = controller.declare()
        for _ in range(20):
            controller.send("x" * 20_000, txn_id)
        assert controller.depth() == (0, 20)
        assert isinstance(commit(controller, txn_id), Accepted)


def decision_kinds(ledger: MemoryLedger) -> list[int]:
    """The kinds of holders that decision records in the ledger are of."""
    import numpy as np

    from postroom.ledger.format.records import TRANSITION, RecordType

    dtype = np.dtype(TRANSITION.numpy_fields())
    rows = [row for parts in ledger.blocks for row in np.frombuffer(parts.transitions, dtype)]
    return [int(row["holder_kind"]) for row in rows if row["type"] == RecordType.DECISION]


# Larger than any block.


def test_a_transaction_larger_than_any_block(broker: BrokerThread, queue: str) -> None:
    """12 MiB in, all at once, and out again in one transaction, all at once."""
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue)
        txn_id = controller.declare()
        state = TransactionalState(txn_id)
        for _ in range(48):
            delivery = controller.sender.send(
                durable("x" * (256 << 10)), controller.tag(), False, state=state
            )
            peer.pump(lambda sent=delivery: sent.settled)  # type: ignore[misc]
        assert controller.depth() == (0, 48)
        assert isinstance(commit(controller, txn_id), Accepted)
        assert controller.depth() == (48, 48)
        taking = controller.declare()
        first, last = take_all(controller, controller.receiver, 48)
        controller.receiver.settle(first, last, TransactionalState(taking, ACCEPTED))
        assert isinstance(commit(controller, taking), Accepted)
        assert controller.depth() == (0, 0)


def test_a_transaction_of_more_messages_than_a_chunk_of_the_backlog(broker: BrokerThread, queue: str) -> None:
    count = 66_000
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue)
        txn_id = controller.declare()
        state, payload = TransactionalState(txn_id), durable("x")
        left = count
        while left > 0:
            peer.pump(lambda: controller.sender.usable_credit() > 0)
            for _ in range(min(left, controller.sender.usable_credit())):
                controller.sender.send(payload, controller.tag(), False, state=state)
                left -= 1
            peer.forget()
        peer.pump(lambda: controller.sender.unsettled_count == 0)
        peer.forget()
        assert controller.depth() == (0, count)
        assert isinstance(commit(controller, txn_id), Accepted)
        assert controller.depth() == (count, count)


def take_all(controller: Controller, receiver: ReceiverLink, count: int) -> tuple[int, int]:
    """Receive so many whole messages; the first and last delivery id."""
    controller.peer.forget()
    receiver.flow(count)
    peer = controller.peer
    peer.pump(lambda: sum(not event.more for event in peer.of(TransferReceived)) == count)
    ids = [event.delivery_id for event in peer.of(TransferReceived)]
    return ids[0], ids[-1]
