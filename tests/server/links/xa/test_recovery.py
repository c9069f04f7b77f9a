"""Branches over restarts, their time-outs, and what an administrator sees and decides."""

from collections.abc import Callable
from pathlib import Path

import pytest

from postroom.amqp.encoding.types import UInt
from postroom.amqp.engine.events import TransferReceived
from postroom.amqp.frames.outcomes import TransactionalState
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.sections import Data, Header, Message, Properties, Value
from postroom.manager.transactions.xa_branch import branches_of
from postroom.model.xa import XaCode, XaFlag, Xid
from postroom.server.configuration.config import QueueConfig, TransactionsConfig
from tests.server.harness import BrokerThread, make_config
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import (
    Controller,
    attributes,
    branch_row,
    code_of,
    durable,
    new_xid,
    prepared,
)

pytestmark = pytest.mark.sockets

C = XaCode
SCAN = XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN


def recovered(controller: Controller) -> list[str]:
    """What recover offers this session."""
    reply = controller.request("RECOVER", flags=UInt(SCAN))
    assert code_of(reply) == C.XA_OK
    assert isinstance(reply.body, Value) and isinstance(reply.body.value, dict)
    return list(reply.body.value["xids"])


# Restarts.


def test_prepared_branches_survive_a_restart_and_are_offered_to_any_session(tmp_path: Path) -> None:
    """With a non-persistent message of theirs, and what they have received."""
    commits, rolls_back, unprepared = new_xid(), new_xid(), new_xid()
    with BrokerThread(folder=tmp_path) as broker, EnginePeer(broker.port, "before") as peer:
        controller = Controller(broker, peer, "q", for_branches=True)
        controller.send("in")
        txn_id = controller.start(commits)
        controller.receive()
        volatile = Message(header=Header(durable=False), body=Data([b"non-persistent"])).encode()
        state = TransactionalState(txn_id)
        delivery = controller.sender.send(volatile, controller.tag(), False, state=state)
        peer.pump(lambda: delivery.settled)
        assert (controller.end(commits), controller.verb("PREPARE", commits)) == (C.XA_OK, C.XA_OK)
        prepared(controller, rolls_back, "never")
        controller.send("lost", controller.start(unprepared))
        controller.end(unprepared)
    with BrokerThread(folder=tmp_path) as broker, EnginePeer(broker.port, "after") as peer:
        controller = Controller(broker, peer, "q", for_branches=True)
        assert recovered(controller) == [str(commits), str(rolls_back)]
        assert branch_row(controller, commits)["state"] == "prepared"
        assert controller.verb("COMMIT", unprepared, XaFlag.TMONEPHASE) == C.XAER_NOTA
        assert controller.verb("COMMIT", commits) == C.XA_OK
        assert controller.verb("ROLLBACK", rolls_back) == C.XA_OK
        assert controller.depth() == (1, 1)
        assert controller.receive_text() == "non-persistent"
        assert recovered(controller) == []


def test_heuristic_outcomes_survive_a_restart_until_they_are_forgotten(tmp_path: Path) -> None:
    xid = new_xid()
    with BrokerThread(folder=tmp_path) as broker, EnginePeer(broker.port, "before") as peer:
        controller = Controller(broker, peer, "q")
        prepared(controller, xid)
        controller.request("HEURISTIC-COMMIT", name=str(xid))
    with BrokerThread(folder=tmp_path) as broker, EnginePeer(broker.port, "after") as peer:
        controller = Controller(broker, peer, "q")
        assert recovered(controller) == [str(xid)]
        assert controller.depth() == (1, 1)
        assert controller.verb("COMMIT", xid) == C.XA_HEURCOM
        assert controller.verb("FORGET", xid) == C.XA_OK
        assert recovered(controller) == []


# Administration.


def test_an_administrator_decides_and_the_transaction_manager_learns_it(controller: Controller) -> None:
    commits, rolls_back = new_xid(), new_xid()
    prepared(controller, commits)
    prepared(controller, rolls_back)
    answer = attributes(controller.request("HEURISTIC-COMMIT", name=str(commits)))
    assert answer == {"xids": [str(commits)], "refused": []}
    controller.request("HEURISTIC-ROLLBACK", name=str(rolls_back))
    assert branch_row(controller, commits)["state"] == "heuristically-committed"
    assert branch_row(controller, rolls_back)["state"] == "heuristically-rolled-back"
    assert controller.depth() == (1, 1)
    assert controller.verb("COMMIT", commits) == C.XA_HEURCOM
    assert controller.verb("ROLLBACK", rolls_back) == C.XA_HEURRB
    assert controller.verb("FORGET", commits) == C.XA_OK
    controller.request("DELETE", name=str(rolls_back))
    assert controller.request("READ", name=str(rolls_back)).application_properties["statusCode"] == 404


def test_an_administrator_may_decide_for_idle_branches_too(controller: Controller) -> None:
    xid = new_xid()
    controller.send("x", controller.start(xid))
    assert code_of(controller.request("HEURISTIC-COMMIT", name=str(xid))) == C.XAER_PROTO
    controller.end(xid)
    assert attributes(controller.request("HEURISTIC-ROLLBACK", name=str(xid)))["xids"] == [str(xid)]
    assert controller.verb("COMMIT", xid, XaFlag.TMONEPHASE) == C.XA_HEURRB
    controller.verb("FORGET", xid)


def test_wildcards_mean_all_that_allow_it(controller: Controller) -> None:
    """The others are told with the reason."""
    ready, active = Xid(0x77, b"wild", b"1"), Xid(0x77, b"wild", b"2")
    prepared(controller, ready)
    controller.start(active)
    pattern = f"00000077-{b'wild'.hex()}-3?"
    answer = attributes(controller.request("HEURISTIC-ROLLBACK", name=pattern))
    assert answer["xids"] == [str(ready)]
    refused = answer["refused"]
    assert isinstance(refused, list) and len(refused) == 1 and "XAER_PROTO" in refused[0]
    assert attributes(controller.request("DELETE", name="00000077-*"))["xids"] == [str(ready)]
    assert attributes(controller.request("DELETE", name="000000ff-*")) == {"xids": [], "refused": []}
    controller.end(active)


@pytest.mark.parametrize("operation", ["HEURISTIC-COMMIT", "HEURISTIC-ROLLBACK", "DELETE"])
def test_what_an_administrator_names_wrongly(controller: Controller, operation: str) -> None:
    assert controller.request(operation).application_properties["statusCode"] == 400
    assert code_of(controller.request(operation, name="(.)+")) == C.XAER_INVAL
    assert code_of(controller.request(operation, name="x" * 300)) == C.XAER_INVAL
    assert code_of(controller.request(operation, name=str(new_xid()))) == C.XAER_NOTA
    assert attributes(controller.request(operation, name="[0-9]*(")) == {"xids": [], "refused": []}


def test_branches_and_open_transactions_are_listed(controller: Controller) -> None:
    xid = new_xid()
    prepared(controller, xid)
    controller.send("y", controller.declare())
    rows = {}
    for kind in ("postroom.xa-branch", "postroom.transaction"):
        answer = attributes(controller.request("QUERY", "", None, entityType=kind))
        names = answer["attributeNames"]
        assert isinstance(names, list) and isinstance(answer["results"], list)
        rows[kind] = [dict(zip(names, row, strict=True)) for row in answer["results"]]
    (branch,) = [row for row in rows["postroom.xa-branch"] if row["name"] == str(xid)]
    assert (branch["state"], branch["puts"], branch["receipts"]) == ("prepared", 1, 0)
    assert branch["container_id"] == controller.queue
    (local,) = [row for row in rows["postroom.transaction"] if row["container_id"] == controller.queue]
    assert (local["state"], local["puts"], local["blocked_sends"]) == ("active", 1, 0)
    read = controller.request("READ", "postroom.transaction", name=local["name"])
    assert attributes(read)["puts"] == 1
    missing = controller.request("READ", "postroom.transaction", name="0")
    assert missing.application_properties["statusCode"] == 404
    controller.verb("ROLLBACK", xid)


# Time-outs, and sends that wait for room.


def test_a_silent_branch_is_rolled_back_and_a_prepared_one_never() -> None:
    config = make_config(("q",), transactions=TransactionsConfig(branch_idle_timeout_ms=50))
    kept, silent = new_xid(), new_xid()
    with BrokerThread(config) as broker, EnginePeer(broker.port) as peer:
        controller = Controller(broker, peer, "q")
        prepared(controller, kept)
        controller.send("gone", controller.start(silent))
        broker.wait_until(lambda b: bool(branches_of(b.manager.core).rolled_back))
        assert controller.end(silent) == C.XA_RBTIMEOUT
        assert controller.verb("COMMIT", kept) == C.XA_OK
        assert controller.depth() == (1, 1)


def test_a_branch_that_is_not_prepared_in_its_time_is_rolled_back_and_a_prepared_one_never() -> None:
    kept, late = new_xid(), new_xid()
    with BrokerThread(make_config(("q",))) as broker, EnginePeer(broker.port) as peer:
        controller = Controller(broker, peer, "q")
        controller.send("kept", controller.start(kept, UInt(0), UInt(1)))
        controller.end(kept)
        assert controller.verb("PREPARE", kept) == C.XA_OK
        controller.send("gone", controller.start(late, UInt(0), UInt(1)))
        broker.wait_until(lambda b: bool(branches_of(b.manager.core).rolled_back))
        assert controller.end(late) == C.XA_RBTIMEOUT
        assert controller.verb("COMMIT", kept) == C.XA_OK
        assert controller.depth() == (1, 1)


def test_the_end_of_a_branch_waits_for_its_sends() -> None:
    """They wait for room, as if their sender had waited for each."""
    config = make_config(queue=[QueueConfig(name="q", max_messages=1)])
    xid = new_xid()
    with BrokerThread(config) as broker, EnginePeer(broker.port) as peer:
        controller = Controller(broker, peer, "q")
        waiting = controller.session.attach_sender(
            "waiting", Source(), Target(address="q"), properties={"x-opt-send-timeout": UInt(30_000)}
        )
        peer.pump(lambda: waiting.credit > 0)
        controller.send("first")
        state = TransactionalState(controller.start(xid))
        payload = Message(header=Header(durable=True), body=Data([b"second"])).encode()
        delivery = waiting.send(payload, b"1", False, state=state)
        peer.flush()
        broker.wait_until(lambda b: b.manager.queues["q"].statistics.blocked == 1)
        ended = request_end(controller, xid)
        assert not ended()
        broker.turn(lambda b, now_us: b.manager.purge_queue("q", now_us))
        peer.pump(lambda: delivery.settled and ended())
        assert branch_row(controller, xid)["state"] == "idle"
        assert controller.verb("COMMIT", xid, XaFlag.TMONEPHASE) == C.XA_OK
        assert controller.depth() == (1, 1)


def test_what_goes_back_when_an_end_has_waited_in_vain_comes_again_as_another_delivery() -> None:
    """The link that had it is given it again before the end is answered: the first delivery is over."""
    config = make_config(queue=[QueueConfig(name="full", max_messages=1), QueueConfig(name="in")])
    xid, again = new_xid(), new_xid()
    with BrokerThread(config) as broker, EnginePeer(broker.port) as peer:
        controller = Controller(broker, peer, "in", for_branches=True)
        waiting = controller.session.attach_sender(
            "waiting", Source(), Target(address="full"), properties={"x-opt-send-timeout": UInt(100)}
        )
        peer.pump(lambda: waiting.credit > 0)
        waiting.send(durable("fills it"), b"0", True)
        controller.send("received")
        state = TransactionalState(controller.start(xid))
        controller.receiver.flow(10)
        peer.pump(lambda: controller.receiver.unsettled_count == 1)
        waiting.send(durable("no room"), b"1", False, state=state)
        ended = request_end(controller, xid)
        peer.pump(lambda: ended() and controller.receiver.credit == 8)
        assert controller.receiver.unsettled_count == 1
        controller.start(again)
        assert controller.end(again) == C.XA_OK
        assert controller.verb("COMMIT", again, XaFlag.TMONEPHASE) == C.XA_OK
        assert controller.depth() == (0, 0)


def test_all_sessions_that_end_a_branch_wait_for_its_sends() -> None:
    config = make_config(queue=[QueueConfig(name="q", max_messages=1)])
    xid = new_xid()
    with BrokerThread(config) as broker, EnginePeer(broker.port) as peer:
        one, two = Controller(broker, peer, "q"), Controller(broker, peer, "q")
        waiting = two.session.attach_sender(
            "waiting", Source(), Target(address="q"), properties={"x-opt-send-timeout": UInt(30_000)}
        )
        peer.pump(lambda: waiting.credit > 0)
        one.send("first")
        one.start(xid)
        state = TransactionalState(two.start(xid, UInt(XaFlag.TMJOIN)))
        waiting.send(durable("second"), b"1", False, state=state)
        peer.flush()
        broker.wait_until(lambda b: b.manager.queues["q"].statistics.blocked == 1)
        ended = [request_end(one, xid), request_end(two, xid)]
        broker.turn(lambda b, now_us: b.manager.purge_queue("q", now_us))
        peer.pump(lambda: waiting.unsettled_count == 0 and sum(each() for each in ended) == len(ended))
        assert one.verb("COMMIT", xid, XaFlag.TMONEPHASE) == C.XA_OK
        assert one.depth() == (1, 1)


def request_end(controller: Controller, xid: Xid) -> Callable[[], bool]:
    """END without waiting for its answer; the result is whether that has come."""
    controller.verb("RECOVER", None, SCAN)  # attaches the links
    controller.peer.forget()
    fields = {"operation": "END", "type": "postroom.xa-branch", "xid": str(xid)}
    requests = controller._requests
    assert requests is not None
    request = Message(properties=Properties(reply_to=controller._prefix), application_properties=dict(fields))
    requests.send(request.encode(), controller.tag(), True)
    controller.peer.round_trip()
    return lambda: any(event.link is controller._replies for event in controller.peer.of(TransferReceived))
