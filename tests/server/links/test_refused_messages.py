"""Messages that are refused: to the anonymous terminus by its rules (section 2.2.2 of the Anonymous Terminus
extension), and those whose senders wanted no answer, of which the ledger tells.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proton import Message as ProtonMessage
from proton.reactor import AtMostOnce
from proton.utils import BlockingConnection

from postroom.amqp.engine.events import DispositionReceived, LinkDetached
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.errors import NOT_FOUND
from postroom.amqp.frames.outcomes import Rejected
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.sections import Data, Header, Message, Properties
from postroom.ledger.reading.dump import Filter, dump
from postroom.server.configuration.config import QueueConfig
from tests.server.harness import BrokerThread, make_config
from tests.server.link_peer import detached, receiving, sending, transfers
from tests.server.peers import EnginePeer

pytestmark = pytest.mark.sockets

SMALL = QueueConfig(name="small", max_messages=1)
CONFIG = make_config(queue=[QueueConfig(name="orders"), SMALL])


@pytest.fixture
def running(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(CONFIG, folder=tmp_path) as opened:
        yield opened


@pytest.fixture
def peer(running: BrokerThread) -> Iterator[EnginePeer]:
    with EnginePeer(running.port, container_id="sender-1") as opened:
        yield opened.open()


def addressed(to: str | None, size_bytes: int = 1) -> bytes:
    properties = None if to is None else Properties(to=to)
    return Message(
        header=Header(durable=True), properties=properties, body=Data([b"x" * size_bytes])
    ).encode()


def anonymous(peer: EnginePeer, *outcomes: str, name: str = "s") -> SenderLink:
    source = Source(outcomes=list(outcomes)) if outcomes else Source()
    link = peer.session().attach_sender(name, source, Target())
    peer.pump(lambda: link.attached and link.credit > 0)
    return link


def refusals(folder: Path) -> list[dict[str, Any]]:
    """What the ledger says of refused messages, with the names of their senders."""
    lines = list(dump(folder, Filter(), beyond_durable=True))
    producers = {line["id"]: line["detail"] for line in lines if line.get("record") == "producer_opened"}
    refused = [line for line in lines if line.get("record") == "message_refused"]
    return [line["detail"] | {"sender": producers[line["id"]]["name"]} for line in refused]


def test_a_message_that_leads_nowhere_is_rejected_with_its_tag(peer: EnginePeer, tmp_path: Path) -> None:
    link = anonymous(peer)
    link.send(addressed("nowhere"), b"tag-1", False)
    peer.pump(lambda: link.unsettled_count == 0)
    (state,) = [event.state for event in peer.of(DispositionReceived)]
    assert isinstance(state, Rejected) and state.error is not None
    assert (state.error.condition, state.error.info) == (NOT_FOUND, {"delivery-tag": b"tag-1"})
    link.send(addressed("orders"), b"tag-2", False)
    peer.pump(lambda: link.unsettled_count == 0)
    assert not peer.of(LinkDetached)
    assert refusals(tmp_path) == [], "its sender was told"


@pytest.mark.parametrize("settled", [False, True], ids=["its source knows no rejected", "pre-settled"])
def test_a_message_that_leads_nowhere_ends_a_link_that_cant_be_told_otherwise(
    peer: EnginePeer, settled: bool
) -> None:
    link = anonymous(peer, *(() if settled else ("amqp:accepted:list", "amqp:released:list")))
    link.send(addressed("nowhere"), b"tag-1", settled)
    event = detached(peer, link)
    assert event.closed and event.error is not None
    assert (event.error.condition, event.error.info) == (NOT_FOUND, {"delivery-tag": b"tag-1"})
    assert not peer.of(DispositionReceived)
    again = anonymous(peer, name="again")
    again.send(addressed("orders"), b"tag-1", True)
    receiver = receiving(peer, "r", Source(address="orders"))
    receiver.flow(1)
    assert len(transfers(peer, receiver, 1)) == 1


@pytest.mark.parametrize("to", [None, "", "orders/nowhere", "$management"])
def test_a_pre_settled_message_that_leads_nowhere_is_in_the_ledger(
    running: BrokerThread, peer: EnginePeer, tmp_path: Path, to: str | None
) -> None:
    link = anonymous(peer)
    payload = addressed(to, 100)
    link.send(payload, b"tag-1", True)
    error = detached(peer, link).error
    assert error is not None
    (refusal,) = refusals(tmp_path)
    assert (refusal["sender"], refusal["address"], refusal["bytes"]) == ("s", to or "", len(payload))
    assert (refusal["condition"], refusal["description"]) == (error.condition, error.description)


def test_what_a_client_made_up_takes_little_of_the_ledger(peer: EnginePeer, tmp_path: Path) -> None:
    link = anonymous(peer)
    link.send(addressed("n" * 100_000), b"tag-1", True)
    detached(peer, link)
    (refusal,) = refusals(tmp_path)
    assert refusal["address"] == "n" * 512 and len(refusal["description"]) == 512


def test_a_large_pre_settled_message_that_leads_nowhere(peer: EnginePeer, tmp_path: Path) -> None:
    link = anonymous(peer)
    payload = addressed("nowhere", 1 << 20)
    link.send(payload, b"tag-1", True)
    error = detached(peer, link).error
    assert error is not None and error.info == {"delivery-tag": b"tag-1"}
    (refusal,) = refusals(tmp_path)
    assert (refusal["address"], refusal["bytes"], refusal["condition"]) == (
        "nowhere",
        len(payload),
        NOT_FOUND,
    )


def test_a_full_queue_refuses_pre_settled_messages_by_the_ledger(
    peer: EnginePeer, running: BrokerThread, tmp_path: Path
) -> None:
    """The link stays: only what leads nowhere ends it."""
    link = sending(peer, "s", Target(address="small"))
    for number in range(3):
        link.send(addressed(None, number), b"%d" % number, True)
    link.send(b"no message", b"3", True)
    link.send(addressed(None), b"4", False)
    peer.pump(lambda: link.unsettled_count == 0)
    found = refusals(tmp_path)
    assert [(one["address"], one["condition"]) for one in found] == [
        ("small", "amqp:decode-error"),
        *[("small", "amqp:resource-limit-exceeded")] * 2,
    ], "those that found no room have waited for it"


def test_a_broker_starts_again_with_refusals_in_its_ledger(tmp_path: Path) -> None:
    for start in (1, 2, 3):
        with BrokerThread(CONFIG, folder=tmp_path) as broker:
            connection = BlockingConnection(broker.url)
            sender = connection.create_sender("small", options=[AtMostOnce()])
            for body in ("kept", "refused"):
                sender.send(ProtonMessage(body=body, durable=True))
            connection.create_receiver("orders").close()  # an answer: what went before has been read
            connection.close()
            assert broker.call(lambda running: running.manager.queues["small"].statistics.current) == 1
        assert len(refusals(tmp_path)) == 2 * start - 1
