"""Links by name: attach replies, stealing, suspension and resumption, dynamic nodes, exclusive access."""

import pytest

from postroom.amqp.encoding.types import Described, Symbol, ULong
from postroom.amqp.engine.events import CreditChanged, DispositionReceived, LinkAttached
from postroom.amqp.frames.outcomes import ACCEPTED, Accepted
from postroom.amqp.frames.termini import DELETE_ON_NO_LINKS, EXPIRY_NEVER, Source, Target
from postroom.amqp.frames.transfers import RCV_SECOND
from postroom.server.configuration.config import LimitsConfig
from tests.server.harness import BrokerThread, make_config
from tests.server.link_peer import detached, payload, receiving, send, sending, transfers
from tests.server.peers import EnginePeer

pytestmark = pytest.mark.sockets

LASTING = {"expiry_policy": EXPIRY_NEVER, "timeout": 60}


def test_the_attach_reply_states_what_is_granted(peer: EnginePeer, queue: str) -> None:
    link = receiving(peer, "r", Source(address=queue, durable=2, timeout=9_999_999, capabilities=["queue"]))
    granted = link.source
    assert granted is not None
    assert (granted.address, granted.durable, granted.capabilities) == (queue, 0, ["queue"])
    assert granted.timeout == 3600
    assert granted.distribution_mode == "move"
    assert "amqp:accepted:list" in granted.outcomes


def test_the_largest_message_is_stated(peer: EnginePeer, queue: str) -> None:
    link = sending(peer, "s", Target(address=queue))
    assert link.max_message_size_bytes == 100 << 20


def test_a_source_must_have_an_address(peer: EnginePeer) -> None:
    link = peer.session().attach_receiver("r", Source(), Target())
    assert detached(peer, link).error.condition == "amqp:invalid-field"  # type: ignore[union-attr]
    assert link.source is None


def test_an_unknown_distribution_mode(peer: EnginePeer, queue: str) -> None:
    link = peer.session().attach_receiver("r", Source(address=queue, distribution_mode="twice"), Target())
    assert detached(peer, link).error.condition == "amqp:invalid-field"  # type: ignore[union-attr]


def test_a_link_is_stolen_by_a_later_attach_on_another_connection(
    broker: BrokerThread, peer: EnginePeer, queue: str
) -> None:
    first = receiving(peer, "mine", Source(address=queue))
    with EnginePeer(broker.port, container_id=queue) as other:
        receiving(other.open(), "mine", Source(address=queue))
        event = detached(peer, first)
        assert event.error is not None and event.error.condition == "amqp:link:stolen"


def test_links_of_the_same_name_in_other_containers_live_side_by_side(
    broker: BrokerThread, peer: EnginePeer, queue: str
) -> None:
    first = receiving(peer, "mine", Source(address=queue))
    with EnginePeer(broker.port, container_id=queue + "-other") as other:
        receiving(other.open(), "mine", Source(address=queue))
        send(peer, sending(peer, "s", Target(address=queue)), "x")
        first.flow(1)
        assert transfers(peer, first, 1)[0].tag


def test_unsettled_deliveries_are_resumed_after_a_lost_connection(broker: BrokerThread, queue: str) -> None:
    with EnginePeer(broker.port, container_id=queue) as first:
        send(first, sending(first.open(), "s", Target(address=queue)), "done", "seen", "unseen")
        link = receiving(first, "r", Source(address=queue, **LASTING))  # type: ignore[arg-type]
        link.flow(3)
        tags = [event.tag for event in transfers(first, link, 3)]
    with EnginePeer(broker.port, container_id=queue) as second:
        unsettled = {tags[0]: ACCEPTED, tags[1]: None}
        again = (
            second.open()
            .session()
            .attach_receiver(
                "r",
                Source(address=queue, **LASTING),
                Target(),
                unsettled=unsettled,  # type: ignore[arg-type]
            )
        )
        attach = second.wait_for(LinkAttached).attach
        assert attach.unsettled == dict.fromkeys(tags)
        again.flow(10)
        events = transfers(second, again, 5)
        resumed = {event.tag: event for event in events if event.resume}
        assert isinstance(resumed[tags[0]].state, Accepted)
        assert [event.aborted for event in events if event.tag == tags[1]][-1]
        fresh = [event for event in events if event.payload]
        assert [event.payload[-4:] for event in fresh] == [b"seen", b"seen"]
        for event in [resumed[tags[0]], *fresh]:
            again.settle(event.delivery_id, event.delivery_id, ACCEPTED)
        second.flush()
        wait_until_empty(broker, queue)


def test_a_kept_link_runs_out_and_gives_back_what_it_held(queue: str) -> None:
    with BrokerThread(make_config(limits=LimitsConfig(suspended_timeout_s=1))) as broker:
        with EnginePeer(broker.port, container_id=queue) as first:
            send(first, sending(first.open(), "s", Target(address=queue)), "x")
            link = receiving(first, "r", Source(address=queue, **LASTING))  # type: ignore[arg-type]
            link.flow(1)
            transfers(first, link, 1)
        with EnginePeer(broker.port, container_id="other") as second:
            other = receiving(second.open(), "r", Source(address=queue))
            other.flow(1)
            assert transfers(second, other, 1)[0].payload.endswith(b"x")


def test_a_sender_learns_after_a_break_what_was_accepted(broker: BrokerThread, queue: str) -> None:
    with EnginePeer(broker.port, container_id=queue) as first:
        link = sending(first.open(), "s", Target(address=queue, **LASTING), rcv_settle_mode=RCV_SECOND)  # type: ignore[arg-type]
        link.send(payload("x"), b"tag-1", False)
        first.wait_for(DispositionReceived)
    with EnginePeer(broker.port, container_id=queue) as second:
        target = Target(address=queue, **LASTING)  # type: ignore[arg-type]
        unsettled = {b"tag-1": None, b"tag-2": None}
        again = (
            second.open()
            .session()
            .attach_sender("s", Source(), target, rcv_settle_mode=RCV_SECOND, unsettled=unsettled)
        )
        attach = second.wait_for(LinkAttached).attach
        assert attach.unsettled == {b"tag-1": ACCEPTED}
        second.wait_for(CreditChanged)
        again.send(b"", b"tag-1", True, resume=True)
        again.send(payload("y"), b"tag-2", False)
        second.wait_for(DispositionReceived)
        assert broker.call(lambda b: int(b.manager.queues[queue].statistics.depth)) == 2


def test_a_dynamic_node_with_a_longer_life(broker: BrokerThread, peer: EnginePeer) -> None:
    policy = {Symbol("lifetime-policy"): Described(ULong(DELETE_ON_NO_LINKS), [])}
    source = Source(dynamic=True, dynamic_node_properties=policy)
    owner = receiving(peer, "owner", source)
    assert owner.source is not None and owner.source.address is not None
    address = owner.source.address
    guest = receiving(peer, "guest", Source(address=address))
    owner.detach()
    detached(peer, owner)
    assert address in broker.call(lambda b: list(b.manager.queues))
    guest.detach()
    detached(peer, guest)
    assert address not in broker.call(lambda b: list(b.manager.queues))


def test_a_lifetime_policy_that_is_none(peer: EnginePeer) -> None:
    source = Source(dynamic=True, dynamic_node_properties={Symbol("lifetime-policy"): 7})
    link = peer.session().attach_receiver("r", source, Target())
    assert detached(peer, link).error.condition == "amqp:invalid-field"  # type: ignore[union-attr]


def test_exclusive_access(peer: EnginePeer, queue: str) -> None:
    receiving(peer, "first", Source(address=queue), properties={Symbol("exclusive"): True})
    second = peer.session().attach_receiver("second", Source(address=queue), Target())
    assert detached(peer, second).error.condition == "amqp:resource-locked"  # type: ignore[union-attr]


def test_a_drain_ends_with_no_credit_left(peer: EnginePeer, queue: str) -> None:
    send(peer, sending(peer, "s", Target(address=queue)), "a", "b")
    link = receiving(peer, "r", Source(address=queue))
    link.flow(10, drain=True)
    peer.pump(lambda: link.credit == 0)
    assert len(transfers(peer, link, 2)) == 2


def test_a_drain_of_more_than_is_given_at_a_time(queue: str) -> None:
    limits = LimitsConfig(deliveries_ahead=2)
    with BrokerThread(make_config(limits=limits)) as broker, EnginePeer(broker.port) as peer:
        texts = [f"{number:02}" for number in range(9)]
        send(peer, sending(peer.open(), "s", Target(address=queue)), *texts)
        link = receiving(peer, "r", Source(address=queue))
        link.flow(50, drain=True)
        peer.pump(lambda: link.credit == 0)
        assert [event.payload[-2:].decode() for event in transfers(peer, link, 9)] == texts


def wait_until_empty(broker: BrokerThread, queue: str) -> None:
    broker.wait_until(lambda b: b.manager.queues[queue].statistics.depth == 0)
