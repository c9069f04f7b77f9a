"""XA over the wire: every verb, its refusals and their codes, their order with the transfers of a session."""

import pytest

from postroom.amqp.encoding.types import UInt
from postroom.amqp.engine.events import (
    LinkDetached,
    SenderDispositionReceived,
    SessionEnded,
    TransferReceived,
)
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    RELEASED,
    Accepted,
    Discharge,
    Rejected,
    TransactionalState,
)
from postroom.amqp.message.sections import Message, Value
from postroom.model.xa import XaCode, XaFlag, Xid
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import (
    Controller,
    branch_row,
    code_of,
    durable,
    global_id,
    new_xid,
    prepared,
    refused_with,
)

pytestmark = pytest.mark.sockets

F = XaFlag
C = XaCode


# The verbs, and what becomes of messages.


def test_a_link_for_branches_says_that_it_is_one(controller: Controller) -> None:
    """What a broker that doesn't know the property leaves out."""
    answer = controller.receiver.peer_attach
    assert answer is not None and answer.properties == {"x-opt-xa": True}
    sender = controller.sender.peer_attach
    assert sender is not None and not sender.properties


def test_a_branch_from_start_to_commit(controller: Controller, xid: Xid) -> None:
    controller.send("in")
    txn_id = controller.start(xid)
    assert controller.receive_text() == "in"
    state = controller.send("out", txn_id)
    assert isinstance(state, TransactionalState) and isinstance(state.outcome, Accepted)
    assert controller.end(xid, F.TMSUCCESS) == C.XA_OK
    assert controller.verb("PREPARE", xid) == C.XA_OK
    assert controller.depth() == (0, 2)
    assert controller.verb("COMMIT", xid) == C.XA_OK
    assert controller.depth() == (1, 1)
    assert controller.receive_text() == "out"


def test_commit_in_one_phase(controller: Controller, xid: Xid) -> None:
    controller.send("x", controller.start(xid))
    controller.end(xid)
    assert controller.verb("COMMIT", xid, F.TMONEPHASE) == C.XA_OK
    assert controller.depth() == (1, 1)


def test_a_branch_that_did_nothing_is_read_only(controller: Controller, xid: Xid) -> None:
    controller.start(xid)
    controller.end(xid)
    assert controller.verb("PREPARE", xid) == C.XA_RDONLY
    assert controller.verb("COMMIT", xid) == C.XAER_NOTA


@pytest.mark.parametrize("phase", ["ended", "prepared"])
def test_a_rollback_returns_what_was_received(controller: Controller, xid: Xid, phase: str) -> None:
    controller.send("in")
    txn_id = controller.start(xid)
    controller.receive()
    controller.send("out", txn_id)
    controller.end(xid)
    if phase == "prepared":
        controller.verb("PREPARE", xid)
    assert controller.verb("ROLLBACK", xid) == C.XA_OK
    assert controller.depth() == (1, 1)
    assert controller.receive_text() == "in"


def test_what_was_received_joins_the_branch_at_its_end(controller: Controller, xid: Xid) -> None:
    """It is settled by the broker then, with the transaction's state."""
    controller.send("in")
    txn_id = controller.start(xid)
    delivery_id = controller.receive().delivery_id
    assert controller.receiver.unsettled_count == 1
    controller.end(xid)
    disposition = controller.peer.wait_for(SenderDispositionReceived)
    assert (disposition.delivery_ids, disposition.settled) == ([delivery_id], True)
    assert disposition.state == TransactionalState(txn_id, ACCEPTED)
    assert controller.receiver.unsettled_count == 0
    assert branch_row(controller, xid)["receipts"] == 1


def test_what_was_disposed_of_before_the_end_does_not_join(controller: Controller, xid: Xid) -> None:
    for text in "ab":
        controller.send(text)
    controller.start(xid)
    controller.dispose(controller.receive().delivery_id, RELEASED)
    assert controller.receive_text() == "a"  # again; "b" is not asked for
    controller.end(xid)
    controller.verb("COMMIT", xid, F.TMONEPHASE)
    assert controller.receive_text() == "b"


@pytest.mark.parametrize("settled", [True, False])
def test_accepting_without_the_transaction_has_no_effect(
    controller: Controller, xid: Xid, settled: bool
) -> None:
    """JMS: acknowledge() in an XA session."""
    controller.send("in")
    controller.start(xid)
    controller.dispose(controller.receive().delivery_id, ACCEPTED, settled)
    controller.peer.pump(lambda: controller.receiver.unsettled_count == 0)
    assert controller.depth() == (0, 1)
    controller.end(xid)
    assert branch_row(controller, xid)["receipts"] == 1
    assert controller.verb("ROLLBACK", xid) == C.XA_OK
    assert controller.receive_text() == "in"


def test_an_end_that_is_refused_assigns_nothing_and_loses_nothing(controller: Controller, xid: Xid) -> None:
    for text in "ab":
        controller.send(text)
    controller.start(xid)
    controller.dispose(controller.receive().delivery_id, ACCEPTED)
    controller.receive()
    assert controller.end(xid, F.TMNOFLAGS) == C.XAER_INVAL
    assert controller.receiver.unsettled_count == 1
    assert controller.end(xid) == C.XA_OK
    assert branch_row(controller, xid)["receipts"] == 2
    controller.verb("COMMIT", xid, F.TMONEPHASE)
    assert controller.depth() == (0, 0)


def test_what_was_acknowledged_without_a_branch_goes_back_with_its_link(controller: Controller) -> None:
    controller.send("in")
    controller.dispose(controller.receive().delivery_id, ACCEPTED)
    controller.receiver.detach()
    controller.peer.wait_for(LinkDetached)
    assert controller.depth() == (1, 1)


def test_end_without_assignment_takes_only_what_was_accepted_in_the_branch(
    controller: Controller, xid: Xid
) -> None:
    for text in "ab":
        controller.send(text)
    txn_id = controller.start(xid)
    first, second = controller.receive().delivery_id, controller.receive().delivery_id
    controller.dispose(first, TransactionalState(txn_id, ACCEPTED), False)
    assert controller.end(xid, F.TMSUCCESS, assign=False) == C.XA_OK
    controller.peer.pump(lambda: controller.receiver.unsettled_count == 1)
    assert controller.verb("COMMIT", xid, F.TMONEPHASE) == C.XA_OK
    assert controller.depth() == (0, 1)
    again = new_xid()
    controller.start(again)  # "b" is still the link's
    controller.end(again)
    assert controller.verb("COMMIT", again, F.TMONEPHASE) == C.XA_OK
    assert controller.depth() == (0, 0)
    assert second != first


def test_a_rollback_returns_what_was_accepted_in_the_branch_and_not_settled(
    controller: Controller, xid: Xid
) -> None:
    controller.send("a")
    txn_id = controller.start(xid)
    controller.dispose(controller.receive().delivery_id, TransactionalState(txn_id, ACCEPTED), False)
    controller.end(xid, None, assign=False)
    assert controller.verb("ROLLBACK", xid) == C.XA_OK
    assert controller.receive_text() == "a"


def test_a_send_before_the_start_is_an_ordinary_one(controller: Controller, xid: Xid) -> None:
    assert isinstance(controller.send("before"), Accepted)
    controller.start(xid)
    assert isinstance(controller.send("beside"), Accepted)
    controller.end(xid)
    controller.verb("ROLLBACK", xid)
    assert controller.depth() == (2, 2)


def test_a_send_after_the_end_is_in_no_branch(controller: Controller, xid: Xid) -> None:
    txn_id = controller.start(xid)
    controller.end(xid)
    assert refused_with(controller.send("x", txn_id)) == "amqp:transaction:unknown-id"


def test_only_what_is_of_the_session_joins(broker: BrokerThread, queue: str, xid: Xid) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        one = Controller(broker, peer, queue, for_branches=True)
        two = Controller(broker, peer, queue, for_branches=True)
        one.send("of two")
        two.receive()
        one.start(xid)
        one.end(xid)
        assert one.verb("PREPARE", xid) == C.XA_RDONLY
        assert two.receiver.unsettled_count == 1


def test_verbs_are_in_order_with_the_transfers_of_the_session(controller: Controller, xid: Xid) -> None:
    """All in one write: sends in the branch, its end, its preparation and its commit."""
    txn_id = controller.start(xid)
    controller.verb("RECOVER", None, F.TMSTARTRSCAN | F.TMENDRSCAN)  # attaches the management links
    for number in range(50):
        state = TransactionalState(txn_id)
        controller.sender.send(durable(f"{number}"), controller.tag(), False, state=state)
    controller.peer.forget()
    for operation in ("END", "PREPARE", "COMMIT"):
        fields = {"operation": operation, "type": "postroom.xa-branch", "xid": str(xid)}
        assert controller._requests is not None
        controller._requests.send(
            Message(application_properties=dict(fields)).encode(), controller.tag(), True
        )
    controller.peer.pump(lambda: len(controller.peer.of(TransferReceived)) == 3)
    assert controller.depth() == (50, 50)


def test_suspend_and_resume(controller: Controller, xid: Xid) -> None:
    between = new_xid()
    controller.send("1", controller.start(xid))
    assert controller.end(xid, F.TMSUSPEND) == C.XA_OK
    controller.send("2", controller.start(between))
    assert controller.end(between) == C.XA_OK
    controller.send("3", controller.start(xid, UInt(F.TMRESUME)))
    assert controller.end(xid) == C.XA_OK
    assert controller.verb("ROLLBACK", between) == C.XA_OK
    assert controller.verb("COMMIT", xid, F.TMONEPHASE) == C.XA_OK
    assert [controller.receive_text() for _ in range(2)] == ["1", "3"]


def test_join_from_another_session(controller: Controller, other: Controller, xid: Xid) -> None:
    controller.send("1", controller.start(xid))
    other.send("2", other.start(xid, UInt(F.TMJOIN)))
    assert controller.end(xid) == C.XA_OK
    assert controller.verb("PREPARE", xid) == C.XAER_PROTO
    assert other.end(xid) == C.XA_OK
    assert other.verb("PREPARE", xid) == C.XA_OK
    assert other.verb("COMMIT", xid) == C.XA_OK
    assert (controller.depth(), other.depth()) == ((1, 1), (1, 1))


def test_another_session_decides(controller: Controller, other: Controller, xid: Xid) -> None:
    prepared(controller, xid)
    assert other.verb("COMMIT", xid) == C.XA_OK
    assert controller.depth() == (1, 1)


def test_end_with_failure_rolls_back(controller: Controller, xid: Xid) -> None:
    controller.send("in")
    txn_id = controller.start(xid)
    controller.receive()
    controller.send("out", txn_id)
    assert controller.end(xid, F.TMFAIL) == C.XA_OK
    assert controller.receive_text() == "in"
    assert controller.verb("PREPARE", xid) == C.XA_RBROLLBACK
    assert controller.verb("ROLLBACK", xid) == C.XAER_NOTA


# Refusals, each with its code.


def test_refusals_of_start(controller: Controller, other: Controller, xid: Xid) -> None:
    controller.start(xid)
    assert other.start_refused(global_id(xid)) == C.XAER_DUPID
    assert controller.start_refused(global_id(new_xid())) == C.XAER_PROTO
    assert other.start_refused(global_id(new_xid(), UInt(F.TMJOIN))) == C.XAER_NOTA
    assert other.start_refused(global_id(new_xid(), UInt(F.TMRESUME))) == C.XAER_NOTA
    controller.end(xid, F.TMSUSPEND)
    assert other.start_refused(global_id(xid, UInt(F.TMJOIN))) == C.XAER_PROTO
    assert other.start_refused(global_id(xid, UInt(F.TMONEPHASE))) == C.XAER_INVAL


def test_a_session_with_local_work_cannot_start(controller: Controller, xid: Xid) -> None:
    txn_id = controller.declare()
    assert controller.start_refused(global_id(xid)) == C.XAER_OUTSIDE
    controller.send_control(Discharge(txn_id, True))
    controller.start(xid)


def test_refusals_of_end(controller: Controller, other: Controller, xid: Xid) -> None:
    assert controller.end(xid) == C.XAER_NOTA
    controller.start(xid)
    assert other.end(xid) == C.XAER_PROTO
    assert controller.end(xid, F.TMSUCCESS | F.TMFAIL) == C.XAER_INVAL
    assert controller.end(xid, F.TMNOFLAGS) == C.XAER_INVAL
    assert controller.end(xid) == C.XA_OK
    assert controller.end(xid) == C.XAER_PROTO


def test_refusals_of_prepare_commit_rollback_forget(controller: Controller, xid: Xid) -> None:
    for verb in ("PREPARE", "COMMIT", "ROLLBACK", "FORGET"):
        assert controller.verb(verb, xid) == C.XAER_NOTA
    controller.send("x", controller.start(xid))
    for verb in ("PREPARE", "COMMIT", "ROLLBACK"):
        assert controller.verb(verb, xid) == C.XAER_PROTO
    controller.end(xid)
    assert controller.verb("COMMIT", xid) == C.XAER_PROTO
    controller.verb("PREPARE", xid)
    assert controller.verb("PREPARE", xid) == C.XAER_PROTO
    assert controller.verb("COMMIT", xid, F.TMONEPHASE) == C.XAER_PROTO
    assert controller.verb("FORGET", xid) == C.XAER_NOTA
    assert controller.verb("COMMIT", xid) == C.XA_OK
    assert controller.verb("COMMIT", xid) == C.XAER_NOTA


def test_recover_and_its_scans(controller: Controller, other: Controller, xid: Xid) -> None:
    assert other.verb("RECOVER", None) == C.XAER_INVAL
    prepared(controller, xid)
    reply = other.request("RECOVER", flags=UInt(F.TMSTARTRSCAN))
    assert code_of(reply) == C.XA_OK
    assert isinstance(reply.body, Value) and isinstance(reply.body.value, dict)
    assert str(xid) in reply.body.value["xids"]
    assert other.verb("RECOVER", None) == C.XA_OK
    assert other.verb("RECOVER", None, F.TMENDRSCAN) == C.XA_OK
    assert other.verb("RECOVER", None) == C.XAER_INVAL
    assert other.verb("RECOVER", None, F.TMONEPHASE) == C.XAER_INVAL
    other.verb("ROLLBACK", xid)


def test_a_branch_over_its_limit_is_rolled_back(controller: Controller, xid: Xid) -> None:
    """256 messages by default, received and sent together."""
    txn_id = controller.start(xid)
    for number in range(256):
        assert isinstance(controller.send(f"{number}", txn_id), TransactionalState)
    assert refused_with(controller.send("one too many", txn_id)) == "amqp:resource-limit-exceeded"
    assert controller.end(xid) == C.XA_RBOTHER
    assert controller.verb("ROLLBACK", xid) == C.XA_OK
    assert controller.depth() == (0, 0)


def test_more_received_than_the_limit_goes_back(controller: Controller, xid: Xid) -> None:
    for number in range(257):
        controller.send(f"{number}")
    controller.start(xid)
    controller.peer.forget()
    controller.receiver.flow(257)
    controller.peer.pump(lambda: len(controller.peer.of(TransferReceived)) == 257)
    assert controller.end(xid) == C.XA_RBOTHER
    controller.peer.pump(lambda: controller.receiver.unsettled_count == 0)
    assert controller.depth() == (257, 257)


def test_an_end_over_a_message_that_is_still_coming_is_refused(controller: Controller, xid: Xid) -> None:
    state = TransactionalState(controller.start(xid))
    whole = durable("x")
    delivery = controller.sender.send(whole[:5], controller.tag(), False, state=state, more=True)
    assert controller.end(xid) == C.XAER_PROTO
    controller.sender.append(delivery, whole[5:], False)
    assert controller.end(xid) == C.XA_OK
    assert controller.verb("COMMIT", xid, F.TMONEPHASE) == C.XA_OK
    assert controller.depth() == (1, 1)


def test_an_outcome_other_than_accepted_spoils_the_branch(controller: Controller, xid: Xid) -> None:
    controller.send("in")
    txn_id = controller.start(xid)
    controller.dispose(controller.receive().delivery_id, TransactionalState(txn_id, RELEASED))
    assert controller.end(xid) == C.XA_RBOTHER
    assert controller.depth() == (1, 1)


# The end of sessions and connections.


def test_an_orderly_end_of_the_session_leaves_its_branches_alone(
    controller: Controller, other: Controller, xid: Xid
) -> None:
    ended = new_xid()
    controller.send("1", controller.start(ended))
    controller.end(ended)
    controller.send("2", controller.start(xid))
    controller.session.end()
    controller.peer.wait_for(SessionEnded)
    assert branch_row(other, ended)["state"] == "idle"
    assert branch_row(other, xid)["state"] == "suspended"
    assert other.verb("COMMIT", ended, F.TMONEPHASE) == C.XA_OK
    other.start(xid, UInt(F.TMRESUME))
    assert other.end(xid) == C.XA_OK
    assert other.verb("COMMIT", xid, F.TMONEPHASE) == C.XA_OK
    assert controller.depth() == (2, 2)


def test_an_orderly_close_of_the_connection_does_so_too(
    broker: BrokerThread, other: Controller, queue: str, xid: Xid
) -> None:
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue, for_branches=True)
        controller.send("1", controller.start(xid))
        controller.end(xid)
        peer.engine.close()
        peer.flush()
        broker.wait_until(lambda b: len(b.connections) == 1)
    assert other.verb("COMMIT", xid, F.TMONEPHASE) == C.XA_OK


def test_a_lost_connection_rolls_back_what_is_not_prepared(
    broker: BrokerThread, other: Controller, queue: str
) -> None:
    active, ended, kept = new_xid(), new_xid(), new_xid()
    with EnginePeer(broker.port, container_id=queue) as peer:
        controller = Controller(broker, peer, queue, for_branches=True)
        prepared(controller, kept, "kept")
        controller.send("in")
        controller.start(ended)
        controller.receive()
        controller.end(ended)
        controller.send("out", controller.start(active))
    broker.wait_until(lambda b: len(b.connections) == 1)
    assert other.verb("PREPARE", ended) == C.XA_RBCOMMFAIL
    assert other.end(active) in (C.XA_RBCOMMFAIL, C.XAER_PROTO)
    assert other.verb("COMMIT", kept) == C.XA_OK
    assert controller.depth() == (2, 2)  # "in" is back, "kept" is there


def test_the_control_link_may_close_before_the_branch_ends(controller: Controller, xid: Xid) -> None:
    controller.send("x", controller.start(xid))
    controller.control.detach()
    controller.peer.wait_for(LinkDetached)
    assert controller.end(xid) == C.XA_OK
    assert controller.verb("COMMIT", xid, F.TMONEPHASE) == C.XA_OK


def test_a_link_that_closes_before_the_end_returns_what_it_has(controller: Controller, xid: Xid) -> None:
    controller.send("in")
    controller.start(xid)
    controller.receive()
    controller.receiver.detach()
    controller.peer.wait_for(LinkDetached)
    assert controller.end(xid) == C.XA_OK
    assert controller.verb("PREPARE", xid) == C.XA_RDONLY
    assert controller.depth() == (1, 1)


def test_rejected_is_an_answer_of_ours(controller: Controller) -> None:
    """A refusal is an ordinary outcome: link, session and connection go on."""
    from postroom.amqp.frames.outcomes import Declare

    state = controller.send_control(Declare(b"none"))
    assert isinstance(state, Rejected)
    assert isinstance(controller.send("x"), Accepted)
