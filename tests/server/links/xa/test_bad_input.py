"""Bad input to XA, and who may bind to a queue beside whom."""

import pytest

from postroom.amqp.encoding.types import Int, UInt
from postroom.amqp.engine.events import LinkDetached
from postroom.amqp.frames.outcomes import Discharge
from postroom.amqp.frames.termini import Source, Target
from postroom.model.xa import XaCode, XaFlag, Xid
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import Controller, code_of, new_xid, refused_with

pytestmark = pytest.mark.sockets

F = XaFlag
C = XaCode


# Bad input.


@pytest.mark.parametrize(
    "given",
    [
        b"xid",
        "7-67-62",
        [],
        [Int(1), b"g"],
        [Int(1), b"g", b""],
        [Int(1), b"", b"b"],
        [Int(1), b"g" * 65, b"b"],
        [Int(1), b"g", b"b" * 300],
        [Int(-1), b"g", b"b"],
        [b"1", b"g", b"b"],
        [Int(1), "g", "b"],
        [True, b"g", b"b"],
        [Int(1), b"g", b"b", "TMJOIN"],
        [Int(1), b"g", b"b", True],
        [Int(1), b"g", b"b", UInt(1)],
        [Int(1), b"g", b"b", UInt(0), UInt(0), UInt(0)],
        [Int(1), b"g", b"b", UInt(0), UInt(1 << 31)],
        [Int(1), b"g", b"b", UInt(0), Int(-1)],
        [Int(1), b"g", b"b", UInt(0), True],
        [Int(1), b"g", b"b", UInt(0), "1"],
        {"format": 1},
    ],
    ids=map(str, range(21)),
)
def test_a_global_id_that_is_none(controller: Controller, given: object) -> None:
    assert controller.start_refused(given) == C.XAER_INVAL
    controller.start(new_xid())  # nobody is harmed


@pytest.mark.parametrize("verb", ["END", "PREPARE", "COMMIT", "ROLLBACK", "FORGET"])
@pytest.mark.parametrize(
    "text", ["", "x", "-", "00000007-67", "00000007-6-62", "7-67-62", "zz" * 150, "-" * 300]
)
def test_an_xid_that_is_none(controller: Controller, verb: str, text: str) -> None:
    assert controller.verb(verb, text) == C.XAER_INVAL


@pytest.mark.parametrize("verb", ["END", "PREPARE", "COMMIT", "ROLLBACK", "FORGET"])
def test_a_verb_without_xid_or_with_another_type(controller: Controller, verb: str) -> None:
    assert controller.verb(verb, None) == C.XAER_INVAL
    assert code_of(controller.request(verb, xid=UInt(7))) == C.XAER_INVAL


@pytest.mark.parametrize("verb", ["END", "PREPARE", "COMMIT", "ROLLBACK", "RECOVER", "FORGET"])
@pytest.mark.parametrize("flags", ["TMSUCCESS", True, b"\0", None, 1.5], ids=repr)
def test_flags_of_another_type(controller: Controller, xid: Xid, verb: str, flags: object) -> None:
    assert code_of(controller.request(verb, xid=str(xid), flags=flags)) == C.XAER_INVAL


@pytest.mark.parametrize("verb", ["PREPARE", "ROLLBACK", "FORGET"])
def test_flags_where_there_are_none(controller: Controller, xid: Xid, verb: str) -> None:
    assert controller.verb(verb, xid, F.TMSUCCESS) == C.XAER_INVAL


def test_flags_of_commit_and_assignment_that_are_none(controller: Controller, xid: Xid) -> None:
    assert controller.verb("COMMIT", xid, F.TMSUCCESS) == C.XAER_INVAL
    assert controller.end(xid, None, assign="no") == C.XAER_INVAL


def test_verbs_on_a_session_without_a_branch(controller: Controller, other: Controller, xid: Xid) -> None:
    controller.start(xid)
    assert other.end(xid) == C.XAER_PROTO
    assert other.verb("PREPARE", new_xid()) == C.XAER_NOTA
    controller.end(xid)


def test_a_discharge_of_a_branch_is_refused(controller: Controller, xid: Xid) -> None:
    txn_id = controller.start(xid)
    assert refused_with(controller.send_control(Discharge(txn_id, False))) == "amqp:transaction:unknown-id"
    assert controller.end(xid) == C.XA_OK


@pytest.mark.parametrize(
    ("properties", "mode", "condition"),
    [
        ({"x-opt-xa": "yes"}, 2, "amqp:invalid-field"),
        ({"x-opt-xa": True}, 1, "amqp:not-allowed"),
    ],
    ids=["no boolean", "settled"],
)
def test_links_that_cannot_receive_for_branches(
    broker: BrokerThread, queue: str, properties: dict[object, object], mode: int, condition: str
) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        peer.session().attach_receiver(
            "r", Source(address=queue), Target(), properties=properties, snd_settle_mode=mode
        )
        error = peer.wait_for(LinkDetached).error
        assert error is not None and error.condition == condition


def test_a_rejection_by_detach_names_the_code(broker: BrokerThread, queue: str) -> None:
    """Of a control link whose source doesn't know the outcome rejected."""
    from postroom.amqp.frames.outcomes import Declare
    from tests.server.transaction_peer import value

    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue, Source(outcomes=["amqp:accepted:list"]))
        controller.control.send(value(Declare(b"none")), b"t", False)
        error = peer.wait_for(LinkDetached).error
        assert error is not None and error.info is not None
        assert (error.condition, error.info["xa-code"]) == ("postroom:xa-error", C.XAER_INVAL)


# Who may bind to a queue beside whom.


def bind(peer: EnginePeer, queue: str, name: str, for_branches: bool) -> str:
    """The condition with which a consumer is refused; "" where it isn't."""
    properties: dict[object, object] | None = {"x-opt-xa": True} if for_branches else None
    peer.forget()
    link = peer.session().attach_receiver(name, Source(address=queue), Target(), properties=properties)
    peer.round_trip()
    refused = [event for event in peer.of(LinkDetached) if event.link is link]
    if not refused:
        return ""
    error = refused[0].error
    assert error is not None
    return error.condition


@pytest.mark.parametrize(
    ("access", "first", "then", "allowed"),
    [
        ("exclusive", True, False, False),
        ("shared", True, False, False),
        ("shared", False, True, False),
        ("exclusive", False, True, True),
        ("shared", True, True, True),
        ("exclusive", True, True, True),
        ("shared", False, False, True),
    ],
)
def test_bind_restrictions(
    broker: BrokerThread, queue: str, access: str, first: bool, then: bool, allowed: bool
) -> None:
    """``first`` and ``then``: whether the consumers are for branches."""
    from postroom.manager.kernel.options import QueueDefinition

    broker.turn(lambda b, now_us: b.manager.create_queue(QueueDefinition(name=queue, access=access), now_us))
    with EnginePeer(broker.port, container_id=queue) as peer:
        assert bind(peer, queue, "first", first) == ""
        condition = bind(peer, queue, "then", then)
        assert (condition == "") == allowed
        assert allowed or condition == "amqp:resource-locked"
