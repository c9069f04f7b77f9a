"""One connection for each container: who is refused, who is closed, and what becomes of what it held."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from postroom.amqp.encoding.composite import Error
from postroom.amqp.encoding.types import Symbol, UInt
from postroom.amqp.engine.events import Closed, DispositionReceived, LinkAttached, Opened, TransferReceived
from postroom.amqp.frames.outcomes import ACCEPTED, Accepted
from postroom.amqp.frames.performatives import Open
from postroom.amqp.frames.termini import EXPIRY_NEVER, Source, Target
from postroom.amqp.message.sections import Data, Header, Message
from postroom.server.configuration.listening import ListenConfig
from postroom.server.configuration.passwords import hash_password
from postroom.server.connection.sole_connection import PolicyInvalid, policy_in_force, wanted_policy
from postroom.server.kernel.connection_state import EnforcementPolicy
from tests.server.harness import BrokerThread, make_config
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import Controller

pytestmark = pytest.mark.sockets

SOLE = "sole-connection-for-container"
ENFORCEMENT = "sole-connection-enforcement-policy"
REFUSE, CLOSE = EnforcementPolicy.REFUSE_CONNECTION, EnforcementPolicy.CLOSE_EXISTING


@pytest.fixture
def peers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def begin(peers: ExitStack, broker: BrokerThread, container: str, policy: object = None) -> EnginePeer:
    """A connection of ``container`` that has sent its open; ``policy`` None: it doesn't ask for anything."""
    peer = peers.enter_context(EnginePeer(broker.port, container_id=container))
    if policy is None:
        peer.engine.open()
    else:
        properties = {Symbol(ENFORCEMENT): UInt(policy) if isinstance(policy, EnforcementPolicy) else policy}
        peer.engine.open(desired_capabilities=[SOLE], properties=properties)
    peer.pump(lambda: bool(peer.of(Opened)))
    return peer


def let_in(peers: ExitStack, broker: BrokerThread, container: str, policy: object = None) -> EnginePeer:
    peer = begin(peers, broker, container, policy)
    peer.round_trip()
    return peer


def answer(peer: EnginePeer) -> dict[object, object]:
    """The properties of the broker's open."""
    return peer.of(Opened)[0].open.properties or {}


def close_error(peer: EnginePeer) -> Error:
    error = peer.wait_for(Closed).error
    assert error is not None
    return error


def assert_refused(peer: EnginePeer, field: str = "container-id") -> None:
    error = close_error(peer)
    assert answer(peer)["amqp:connection-establishment-failed"] is True
    assert (error.condition, error.info) == ("amqp:invalid-field", {"invalid-field": field})


def assert_displaced(peer: EnginePeer) -> None:
    error = close_error(peer)
    assert (error.condition, error.info) == ("amqp:resource-locked", {"sole-connection-enforcement": True})
    assert "has taken its place" in (error.description or "")


# What is said.


@pytest.mark.parametrize("policy", [None, REFUSE, CLOSE])
def test_the_answer_says_what_is_done(
    policy: EnforcementPolicy | None, peers: ExitStack, broker: BrokerThread, queue: str
) -> None:
    peer = let_in(peers, broker, queue, policy)
    reply = {key: value for key, value in answer(peer).items() if str(key).startswith("sole")}
    strong = {} if policy is None else {"sole-connection-detection-policy": 0}
    assert reply == ({**strong, ENFORCEMENT: 1} if policy == CLOSE else strong)
    assert all(type(value) is UInt for value in reply.values())
    assert SOLE in peer.of(Opened)[0].open.offered_capabilities


def test_without_a_policy_the_later_one_is_refused(
    peers: ExitStack, broker: BrokerThread, queue: str
) -> None:
    for _ in range(2):
        peer = peers.enter_context(EnginePeer(broker.port, container_id=queue))
        peer.engine.open(desired_capabilities=[SOLE])
        peer.pump(lambda peer=peer: bool(peer.of(Opened)))  # type: ignore[misc]
    assert_refused(peer)


@pytest.mark.parametrize("policy", [UInt(2), -1, True, "close-existing", Symbol("1"), 1.0, None])
def test_a_policy_that_is_none_is_refused(
    policy: object, peers: ExitStack, broker: BrokerThread, queue: str
) -> None:
    peer = peers.enter_context(EnginePeer(broker.port, container_id=queue))
    peer.engine.open(desired_capabilities=[SOLE], properties={Symbol(ENFORCEMENT): policy})
    assert_refused(peer, ENFORCEMENT)
    let_in(peers, broker, queue, REFUSE)


def test_a_policy_counts_only_where_the_capability_is_desired() -> None:
    assert wanted_policy(Open(container_id="c", properties={ENFORCEMENT: "nonsense"})) is None
    with pytest.raises(
        PolicyInvalid, match=r"'nonsense'; it must be 0 \(refuse-connection\) or 1 \(close-ex"
    ):
        wanted_policy(
            Open(container_id="c", desired_capabilities=[SOLE], properties={ENFORCEMENT: "nonsense"})
        )


# Who is refused, and who is closed.

CASES = {
    (None, None): None,
    (None, REFUSE): REFUSE,
    (None, CLOSE): CLOSE,
    (REFUSE, None): REFUSE,
    (REFUSE, REFUSE): REFUSE,
    (REFUSE, CLOSE): REFUSE,
    (CLOSE, None): CLOSE,
    (CLOSE, REFUSE): CLOSE,
    (CLOSE, CLOSE): CLOSE,
}
"""EnforcementPolicy of the one that is there, and of the later one; what is done."""


@pytest.mark.parametrize(("there", "later"), CASES)
def test_two_connections_of_one_container(
    there: EnforcementPolicy | None,
    later: EnforcementPolicy | None,
    peers: ExitStack,
    broker: BrokerThread,
    queue: str,
) -> None:
    first = let_in(peers, broker, queue, there)
    second = begin(peers, broker, queue, later)
    done = CASES[there, later]
    assert policy_in_force([(there, "ann")], later, "ann") == done
    if done == REFUSE:
        assert_refused(second)
    else:
        second.round_trip()
    if done == CLOSE:
        assert_displaced(first)
    else:
        first.round_trip()


def test_who_takes_a_place_holds_it_by_its_own_policy(
    peers: ExitStack, broker: BrokerThread, queue: str
) -> None:
    first = let_in(peers, broker, queue, CLOSE)
    second = let_in(peers, broker, queue, REFUSE)
    assert_displaced(first)
    assert_refused(begin(peers, broker, queue, CLOSE))
    second.round_trip()


def test_all_that_are_there_are_closed(peers: ExitStack, broker: BrokerThread, queue: str) -> None:
    there = [let_in(peers, broker, queue) for _ in range(3)]
    let_in(peers, broker, queue, CLOSE)
    for each in there:
        assert_displaced(each)


@pytest.mark.parametrize("policies", [(None, CLOSE), (CLOSE, None), (CLOSE, CLOSE)])
def test_nobody_is_closed_for_another_user(
    policies: tuple[EnforcementPolicy | None, EnforcementPolicy | None], peers: ExitStack, queue: str
) -> None:
    assert policy_in_force([(None, "ann"), (None, "bob")], CLOSE, "ann") == REFUSE
    users = {name: hash_password(name) for name in ("ann", "bob")}
    listen = ListenConfig("127.0.0.1:0", anonymous=False)
    with BrokerThread(make_config(listen=[listen], users=users)) as strict:
        opened = []
        for user, policy in zip(users, policies, strict=True):
            login = {"sasl_mechanisms": ["PLAIN"], "username": user, "password": user}
            peer = peers.enter_context(EnginePeer(strict.port, container_id=queue, **login))
            properties = {} if policy is None else {Symbol(ENFORCEMENT): UInt(policy)}
            capabilities = [] if policy is None else [SOLE]
            peer.engine.open(desired_capabilities=capabilities, properties=properties)
            peer.pump(lambda peer=peer: bool(peer.of(Opened)))  # type: ignore[misc]
            opened.append(peer)
        assert_refused(opened[1])
        opened[0].round_trip()


def test_a_container_is_free_again_after_its_connection(
    peers: ExitStack, broker: BrokerThread, queue: str
) -> None:
    for policy in (REFUSE, CLOSE, REFUSE, None, REFUSE):
        peer = let_in(peers, broker, queue, policy)
        peer.engine.close()
        peer.wait_for(Closed)


def test_who_was_refused_does_not_hold_the_container(
    peers: ExitStack, broker: BrokerThread, queue: str
) -> None:
    """Not even while it leaves the broker's close without an answer."""
    first = let_in(peers, broker, queue, REFUSE)
    begin(peers, broker, queue, REFUSE)
    first.engine.close()
    first.wait_for(Closed)
    let_in(peers, broker, queue, REFUSE)


def test_the_end_of_who_was_displaced_changes_nothing(
    peers: ExitStack, broker: BrokerThread, queue: str
) -> None:
    first = let_in(peers, broker, queue)
    second = let_in(peers, broker, queue, CLOSE)
    assert_displaced(first)
    first.cut()
    broker.wait_until(lambda b: sum(each.container_id == queue for each in b.connections) == 1)
    assert_displaced_by_another(peers, broker, queue, second)


def assert_displaced_by_another(
    peers: ExitStack, broker: BrokerThread, queue: str, holder: EnginePeer
) -> None:
    """``holder`` still has the container."""
    let_in(peers, broker, queue, CLOSE)
    assert_displaced(holder)


# What it held. Its peer answers nothing: it may be long gone, and nobody has noticed.


def send(peer: EnginePeer, queue: str, text: str) -> None:
    link = peer.session().attach_sender(f"s-{text}", Source(), Target(address=queue))
    peer.pump(lambda: link.attached and link.credit > 0)
    link.send(Message(header=Header(durable=True), body=Data([text.encode()])).encode(), b"t", False)
    peer.pump(lambda: link.unsettled_count == 0)


def test_what_it_held_goes_back_at_once(peers: ExitStack, broker: BrokerThread, queue: str) -> None:
    first = let_in(peers, broker, queue)
    send(first, queue, "x")
    link = first.session().attach_receiver("r", Source(address=queue), Target())
    link.flow(1)
    first.wait_for(TransferReceived)
    second = let_in(peers, broker, queue, CLOSE)
    again = second.session().attach_receiver("other", Source(address=queue), Target())
    again.flow(1)
    event = second.wait_for(TransferReceived)
    assert event.payload.startswith(b"\x00Sp\xc0\x07\x05A@@@R\x01"), "delivery-count 1"
    again.settle(event.delivery_id, event.delivery_id, ACCEPTED)
    second.round_trip()
    link.settle(0, 0, ACCEPTED)
    assert_displaced(first)
    assert broker.call(lambda b: int(b.manager.queues[queue].statistics.depth)) == 0


def test_a_lasting_link_goes_on_at_the_later_connection(
    peers: ExitStack, broker: BrokerThread, queue: str
) -> None:
    source = Source(address=queue, expiry_policy=EXPIRY_NEVER, timeout=60)
    first = let_in(peers, broker, queue, CLOSE)
    send(first, queue, "x")
    link = first.session().attach_receiver("r", source, Target())
    link.flow(1)
    tag = first.wait_for(TransferReceived).tag
    second = let_in(peers, broker, queue, CLOSE)
    again = second.session().attach_receiver("r", source, Target(), unsettled={tag: ACCEPTED})
    assert tag in (second.wait_for(LinkAttached).attach.unsettled or {})
    again.flow(1)
    event = second.wait_for(TransferReceived)
    assert event.resume and isinstance(event.state, Accepted)
    again.settle(event.delivery_id, event.delivery_id, ACCEPTED)
    second.round_trip()
    assert broker.call(lambda b: int(b.manager.queues[queue].statistics.depth)) == 0


def test_its_transaction_is_rolled_back_and_stays_so_after_a_restart(
    peers: ExitStack, tmp_path: Path
) -> None:
    with BrokerThread(folder=tmp_path) as broker:
        first = let_in(peers, broker, "app")
        controller = Controller(broker, first, "q")
        controller.send("in the transaction", txn_id=controller.declare())
        second = let_in(peers, broker, "app", CLOSE)
        assert_displaced(first)
        assert broker.call(lambda b: len(b.manager.core.transactions.local)) == 0
        send(second, "q", "afterwards")
        assert second.of(DispositionReceived)
    with BrokerThread(folder=tmp_path) as again:
        peer = let_in(peers, again, "app", CLOSE)
        link = peer.session().attach_receiver("r", Source(address="q"), Target())
        link.flow(10, drain=True)
        assert peer.wait_for(TransferReceived).payload.endswith(b"afterwards")
        peer.round_trip()
        assert len(peer.of(TransferReceived)) == 1
