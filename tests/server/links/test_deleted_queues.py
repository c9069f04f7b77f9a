"""What links hear when their queue, topic, subscription or temporary queue is deleted, by whatever door."""

from pathlib import Path

import pytest
from proton import Message as ProtonMessage
from proton.utils import BlockingConnection
from proton.utils import LinkDetached as ProtonDetached

from postroom.amqp.encoding.types import UInt
from postroom.amqp.engine.events import LinkDetached
from postroom.amqp.engine.link import Link
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.frames.outcomes import Accepted, Declare, Declared, Discharge, Rejected, TransactionalState
from postroom.amqp.frames.termini import EXPIRY_NEVER, Coordinator, Source, Target
from postroom.client.exceptions import InvalidDestinationException
from postroom.client.sync import ConnectionFactory
from postroom.ledger.format.records import CHUNK_BODY_BYTES
from postroom.manager.producing.blocked_sends import blocked_sends_of
from postroom.model.xa import XaCode, XaFlag
from tests.cli.shell import Shell
from tests.server.harness import BrokerThread, make_config
from tests.server.link_peer import detached, payload, receiving, send, sending
from tests.server.management_peer import QUEUE, Manager
from tests.server.memory_ledger import MemoryLedger
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import (
    REJECTABLE,
    ROLLBACK,
    Controller,
    attributes,
    branch_row,
    commit,
    durable,
    new_xid,
    prepared,
    refused_with,
    value,
)

pytestmark = pytest.mark.sockets

DELETED = "amqp:resource-deleted"
TOPIC = "postroom.topic"
SCAN = XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN
LARGE = payload("x" * (3 * CHUNK_BODY_BYTES))


def ended(peer: EnginePeer, link: Link, what: str) -> None:
    """The link is detached for that reason, closed; it is answered."""
    event = detached(peer, link)
    link.detach()
    assert event.closed and event.error is not None
    assert (event.error.condition, event.error.description) == (DELETED, f"{what} has been deleted")


def links_of(broker: BrokerThread, name: str) -> int:
    return broker.call(lambda b: b.links_of(name))


def declare(peer: EnginePeer) -> tuple[SenderLink, bytes]:
    control = peer.session().attach_sender("control", REJECTABLE, Coordinator())
    peer.pump(lambda: control.credit > 0)
    declared = control.send(value(Declare()), b"declare", False)
    peer.pump(lambda: declared.settled)
    assert isinstance(declared.state, Declared)
    return control, bytes(declared.state.txn_id)


def discharged(peer: EnginePeer, control: SenderLink, txn_id: bytes) -> object:
    discharge = control.send(value(Discharge(txn_id, False)), b"discharge", False)
    peer.pump(lambda: discharge.settled)
    return discharge.state


def test_senders_and_receivers_of_a_queue(manager: Manager, peer: EnginePeer, queue: str) -> None:
    sender, receiver = sending(peer, "s", Target(address=queue)), receiving(peer, "r", Source(address=queue))
    browser = receiving(peer, "b", Source(address=queue, distribution_mode="copy"))
    manager.request("DELETE", type=QUEUE, name=queue)
    for link in (sender, receiver, browser):
        ended(peer, link, f"queue {queue!r}")


def test_a_sender_that_attaches_again_makes_another(
    broker: BrokerThread, manager: Manager, peer: EnginePeer, queue: str
) -> None:
    link = sending(peer, "s", Target(address=queue))
    manager.request("DELETE", type=QUEUE, name=queue)
    ended(peer, link, f"queue {queue!r}")
    assert queue not in broker.call(lambda b: list(b.manager.queues))
    send(peer, sending(peer, "s", Target(address=queue)), "x")
    assert broker.call(lambda b: int(b.manager.queues[queue].statistics.depth)) == 1


def test_publishers_and_subscribers_of_a_topic(manager: Manager, peer: EnginePeer, queue: str) -> None:
    publisher = sending(peer, "s", Target(address=queue, capabilities=["topic"]))
    subscriber = receiving(peer, "r", Source(address=queue, capabilities=["topic"]))
    manager.request("DELETE", type=TOPIC, name=queue)
    ended(peer, publisher, f"topic {queue!r}")
    event = detached(peer, subscriber)
    assert event.closed and event.error is not None and event.error.condition == DELETED
    assert (event.error.description or "").startswith(f"subscription '{queue}::")


def test_a_temporary_queue_that_goes_with_its_link(
    broker: BrokerThread, peer: EnginePeer, queue: str
) -> None:
    owner = receiving(peer, "owner", Source(dynamic=True))
    assert owner.source is not None and owner.source.address is not None
    address = owner.source.address
    with EnginePeer(broker.port, container_id=queue + "-2") as other:
        link = sending(other.open(), "s", Target(address=address))
        owner.detach()
        detached(peer, owner)
        ended(other, link, f"queue {address!r}")
        again = other.session().attach_sender("s", Source(), Target(address=address))
        refusal = detached(other, again).error
        assert refusal is not None and refusal.condition == "amqp:not-found"


def test_a_temporary_queue_that_is_deleted_over_the_management_node(
    broker: BrokerThread, manager: Manager, peer: EnginePeer
) -> None:
    """Nothing is left of it: neither its policy nor whose it was."""
    owner = sending(peer, "owner", Target(dynamic=True, capabilities=["temporary-queue"]))
    assert isinstance(owner.target, Target) and owner.target.address is not None
    address = owner.target.address
    link = sending(peer, "s", Target(address=address))
    manager.request("DELETE", type=QUEUE, name=address)
    ended(peer, link, f"queue {address!r}")
    ended(peer, owner, f"queue {address!r}")
    assert broker.call(lambda b: address in b.dynamic._policies or address in b.dynamic._owners) is False


def test_an_idle_queue_stays_as_long_as_a_sender_is_attached(
    broker: BrokerThread, peer: EnginePeer, queue: str
) -> None:
    """Hours pass by the queue manager's clock; only when the link is closed does it go."""
    link = sending(peer, "s", Target(address=queue))
    later_us = broker.call(lambda b: int(b.manager.core.now_us)) + 3_600_000_000
    broker.turn(lambda b, _: b.manager.on_time(later_us))
    send(peer, link, "x")
    broker.turn(lambda b, _: b.manager.purge_queue(queue, later_us))
    link.detach()
    detached(peer, link)
    broker.turn(lambda b, _: b.manager.on_time(2 * later_us))
    assert queue not in broker.call(lambda b: list(b.manager.queues))


def test_what_waits_for_room_is_refused_before_its_link_ends(
    broker: BrokerThread, manager: Manager, peer: EnginePeer, queue: str
) -> None:
    manager.request("CREATE", {"max_messages": 1}, type=QUEUE, name=queue)
    link = sending(peer, "s", Target(address=queue))
    taken, waits = (link.send(payload(text), text.encode(), False) for text in ("a", "b"))
    peer.pump(lambda: taken.settled)
    broker.wait_until(lambda b: int(b.manager.queues[queue].statistics.blocked) == 1)
    manager.request("DELETE", type=QUEUE, name=queue)
    ended(peer, link, f"queue {queue!r}")
    assert isinstance(taken.state, Accepted)
    assert waits.settled and isinstance(waits.state, Rejected) and waits.state.error is not None
    assert waits.state.error.condition == DELETED
    core = broker.call(
        lambda b: (int(blocked_sends_of(b.manager.core).count), int(blocked_sends_of(b.manager.core).bytes))
    )
    assert core == (0, 0)


def test_a_message_that_is_half_here_leaves_nothing(
    broker: BrokerThread, manager: Manager, peer: EnginePeer, queue: str
) -> None:
    link = sending(peer, "s", Target(address=queue))
    half = link.send(LARGE, b"1", False, more=True)
    peer.round_trip()
    manager.request("DELETE", type=QUEUE, name=queue)
    broker.wait_until(lambda b: b.links_of(queue) == 0)
    link.append(half, b"", more=False)
    ended(peer, link, f"queue {queue!r}")
    assert broker.call(lambda b: list(b.connections)[-1].partial) == {}
    assert queue not in broker.call(lambda b: list(b.manager.queues))


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("when", ["half here", "after the end"])
def test_a_transaction_that_lost_a_message_by_it_is_rolled_back(
    broker: BrokerThread, manager: Manager, peer: EnginePeer, queue: str, when: str, settled: bool
) -> None:
    """Nobody is told of that message, so the commit must tell of it."""
    other = sending(peer, "other", Target(address=queue + "-other"))
    link = sending(peer, "s", Target(address=queue))
    control, txn_id = declare(peer)
    kept = other.send(payload("kept"), b"1", False, state=TransactionalState(txn_id))
    peer.pump(lambda: kept.settled)
    if when == "half here":
        half = link.send(LARGE, b"2", settled, state=TransactionalState(txn_id), more=True)
        peer.round_trip()
    manager.request("DELETE", type=QUEUE, name=queue)
    broker.wait_until(lambda b: b.links_of(queue) == 0)
    if when == "half here":
        link.append(half, b"", more=False)
    else:
        link.send(payload("late"), b"2", settled, state=TransactionalState(txn_id))
    assert refused_with(discharged(peer, control, txn_id)) == ROLLBACK
    ended(peer, link, f"queue {queue!r}")
    assert broker.call(lambda b: int(b.manager.queues[queue + "-other"].statistics.depth)) == 0


def test_a_message_between_the_deletion_and_the_word_of_it() -> None:
    """It comes while the deletion is on its way to the disk: it is in no other queue of the name, nor in the
    transaction that it names."""
    ledger = MemoryLedger()
    with BrokerThread(make_config(("q",)), ledger) as broker, EnginePeer(broker.port) as peer:
        link = sending(peer.open(), "s", Target(address="q"))
        control, txn_id = declare(peer)
        broker.wait_until(lambda b: b.idle())
        broker.call(lambda _: setattr(ledger, "held", True))
        broker.turn(lambda b, now_us: b.manager.delete_queue("q", False, False, now_us))
        plain = link.send(payload("plain"), b"1", False)
        link.send(payload("of a transaction"), b"2", False, state=TransactionalState(txn_id))
        peer.round_trip()
        assert not peer.of(LinkDetached)
        broker.call(lambda _: setattr(ledger, "held", False))
        broker.wait_until(lambda _: ledger.in_flight)
        broker.call(lambda _: ledger.let_go())
        ended(peer, link, "queue 'q'")
        assert not isinstance(plain.state, Accepted)
        assert refused_with(discharged(peer, control, txn_id)) == ROLLBACK
        assert broker.call(lambda b: list(b.manager.queues)) == []
    ledger.close()


def test_links_that_are_suspended_begin_anew(broker: BrokerThread, queue: str) -> None:
    """Neither is kept any longer, and each attaches again as a new link to another queue of the name."""
    lasting = {"expiry_policy": EXPIRY_NEVER, "timeout": 60}
    with EnginePeer(broker.port, container_id=queue) as first:
        sender = sending(first.open(), "s", Target(address=queue, **lasting))  # type: ignore[arg-type]
        receiver = receiving(first, "r", Source(address=queue, **lasting))  # type: ignore[arg-type]
        send(first, sender, "a")
        receiver.flow(1)
        first.round_trip()
    broker.wait_until(lambda b: b.registry.kept_count() == 2)
    broker.turn(lambda b, now_us: b.manager.delete_queue(queue, False, False, now_us))
    broker.wait_until(lambda b: b.registry.kept_count() == 0)
    with EnginePeer(broker.port, container_id=queue) as again:
        sender = sending(again.open(), "s", Target(address=queue, **lasting), unsettled={})  # type: ignore[arg-type]
        send(again, sender, "b")
        receiver = receiving(again, "r", Source(address=queue, **lasting), unsettled={b"\0\0\0\0": None})  # type: ignore[arg-type]
        assert sender.peer_attach is not None and sender.peer_attach.unsettled is None
        assert receiver.peer_attach is not None and receiver.peer_attach.unsettled is None


def test_the_anonymous_terminus_goes_on(manager: Manager, peer: EnginePeer, queue: str) -> None:
    manager.request("CREATE", type=QUEUE, name=queue)
    link = sending(peer, "s", Target(address=None))
    manager.request("DELETE", type=QUEUE, name=queue)
    delivery = link.send(payload("x"), b"1", False)
    peer.pump(lambda: delivery.settled)
    assert link.attached and isinstance(delivery.state, Rejected)


def test_protons_sender_is_told(broker: BrokerThread, manager: Manager, queue: str) -> None:
    with_links = BlockingConnection(broker.url, timeout=15)
    sender = with_links.create_sender(queue)
    sender.send(ProtonMessage(body="x", durable=True))
    manager.request("DELETE", type=QUEUE, name=queue)
    with pytest.raises(ProtonDetached, match=f"{DELETED}.*queue '{queue}' has been deleted"):
        with_links.wait(lambda: False, timeout=15)
    with_links.close()


def test_our_producer_is_told(broker: BrokerThread, manager: Manager, queue: str) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(queue)
        producer.send("x")
        manager.request("DELETE", type=QUEUE, name=queue)
        broker.wait_until(lambda b: b.links_of(queue) == 0)
        with pytest.raises(InvalidDestinationException, match=f"queue '{queue}' has been deleted"):
            producer.send("y")
        session.create_producer(queue).send("z")
    assert broker.call(lambda b: int(b.manager.queues[queue].statistics.depth)) == 1


def test_the_ledger_has_no_message_after_the_end_of_its_queue(tmp_path: Path) -> None:
    """Also after a restart: what was sent is over, what came on the link that followed is there."""
    with BrokerThread(make_config(("q",)), folder=tmp_path) as broker, EnginePeer(broker.port) as peer:
        link = sending(peer.open(), "s", Target(address="q"))
        put(peer, link, "a")
        broker.turn(lambda b, now_us: b.manager.delete_queue("q", False, False, now_us))
        link.send(durable("between"), b"between", False)
        ended(peer, link, "queue 'q'")
        put(peer, sending(peer, "s2", Target(address="q")), "b", "c")
    with BrokerThread(make_config(), folder=tmp_path) as broker:
        assert broker.call(lambda b: int(b.manager.queues["q"].statistics.depth)) == 2


def put(peer: EnginePeer, link: SenderLink, *texts: str) -> None:
    """Durable messages, until they are accepted."""
    sent = [link.send(durable(text), text.encode(), False) for text in texts]
    peer.pump(lambda: all(isinstance(each.state, Accepted) for each in sent))


# --- by force


def test_a_forced_deletion_past_transactions_and_a_prepared_branch(tmp_path: Path) -> None:
    """What each client is told, what the ledger says of it, and what is left of it after a restart."""
    xid = new_xid()
    with BrokerThread(folder=tmp_path) as broker, EnginePeer(broker.port, "before") as peer:
        shell, controller = Shell(broker.url), Controller(broker, peer, "q")
        prepared(controller, xid)
        txn_id = controller.declare()
        other = sending(peer, "other", Target(address="other"))
        kept = other.send(durable("lost with it"), b"1", False, state=TransactionalState(txn_id))
        peer.pump(lambda: kept.settled)
        controller.send("held", txn_id)
        refused = shell.run("queue", "delete", "q")
        assert refused.exit_code == 3 and refused.stderr.count("\n") == 1
        assert "has 2 messages held by transactions or channels: decide those first, or force it" in (
            refused.stderr
        )
        assert shell.ok("queue", "delete", "q", "--force") == "deleted q\n"
        assert refused_with(commit(controller, txn_id)) == ROLLBACK
        assert controller.verb("COMMIT", xid) == XaCode.XA_HEURRB
        assert broker.call(lambda b: int(b.manager.queues["other"].statistics.depth)) == 0
    (row,) = [each["detail"] for each in dumped(tmp_path) if "forced_by" in str(each.get("detail"))]
    assert row == {"forced_by": "anonymous", "rolled_back": {"prepared_branches": 1, "transactions": 1}}
    with BrokerThread(folder=tmp_path) as broker, EnginePeer(broker.port, "after") as peer:
        controller = Controller(broker, peer, "q2")
        assert "q" not in broker.call(lambda b: list(b.manager.queues))
        shown = branch_row(controller, xid)
        assert (shown["state"], shown["decided_by"]) == ("heuristically-rolled-back", "anonymous")
        recovered = attributes(controller.request("RECOVER", flags=UInt(SCAN)))
        assert recovered["xids"] == [str(xid)]
        assert controller.verb("ROLLBACK", xid) == XaCode.XA_HEURRB
        assert controller.verb("FORGET", xid) == XaCode.XA_OK


@pytest.mark.parametrize("noun", ["topic", "subscription"])
def test_a_topic_and_a_subscription_by_force(broker: BrokerThread, queue: str, noun: str) -> None:
    with EnginePeer(broker.port, container_id=noun) as peer:
        shell, session = (
            Shell(broker.url),
            sending(peer.open(), "s", Target(address=queue, capabilities=["topic"])),
        )
        reader = receiving(peer, "r", Source(address=queue, capabilities=["topic"]))
        control, txn_id = declare(peer)
        put_in = session.send(durable("x"), b"1", False, state=TransactionalState(txn_id))
        peer.pump(lambda: put_in.settled)
        name = queue if noun == "topic" else str(shell.json("subscription", "list", queue)[0]["name"])
        assert shell.run(noun, "delete", name).exit_code == 3
        shell.ok(noun, "delete", name, "--force")
        assert refused_with(discharged(peer, control, txn_id)) == ROLLBACK
        event = detached(peer, reader)
        assert event.error is not None and event.error.condition == DELETED


def dumped(folder: Path) -> list[dict[str, object]]:
    """The ledger's records, as `postroom ledger dump` shows them."""
    return Shell("").json("ledger", "dump", "--data", str(folder))
