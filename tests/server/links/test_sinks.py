"""Spark sinks over the wire: a task's branch, a driver's commit, and their refusals."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postroom.amqp.frames.outcomes import Accepted, TransactionalState
from postroom.amqp.frames.sasl import ANONYMOUS
from postroom.amqp.message.sections import Message
from postroom.server.connection.broker import Broker
from postroom.server.links.sink_context import SinkContext
from postroom.server.management import Request, Response
from postroom.server.management.request import INTERNAL
from tests.sampling import examples
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer
from tests.server.sink_peer import BATCH, SINK, begin, done, sealed, send_request
from tests.server.transaction_peer import Controller, attributes, refused_with

pytestmark = pytest.mark.sockets


@pytest.fixture
def other(broker: BrokerThread, queue: str) -> Iterator[Controller]:
    """Another connection, to the same queue."""
    with EnginePeer(broker.port, container_id=queue + "-other") as peer:
        yield Controller(broker, peer, queue)


def condition(reply: Message) -> object:
    return reply.application_properties["errorCondition"]


def test_a_batch_from_begin_to_commit(controller: Controller, queue: str) -> None:
    begun = begin(controller, queue)
    assert begun["decided"] is False and begun["position"] is None
    txn_id = begun["txn_id"]
    assert isinstance(txn_id, bytes)
    state = controller.send("x", txn_id)
    assert isinstance(state, TransactionalState) and isinstance(state.outcome, Accepted)
    name = begun["branch"]
    assert done(send_request(controller, "SEAL", queue, branch=name)) == {
        "sent": 1,
        "messages": 1,
        "bytes": 6,
    }
    assert controller.depth() == (0, 1)
    assert done(send_request(controller, "COMMIT", queue, branches=[name], **BATCH)) == {
        "status": "committed",
        "messages": 1,
    }
    assert controller.receive_text() == "x"
    assert done(send_request(controller, "COMMIT", queue, branches=[name], **BATCH))["status"] == "already"
    assert begin(controller, queue)["decided"] is True


def test_a_driver_commits_what_the_tasks_of_others_have_sent(
    controller: Controller, other: Controller, queue: str
) -> None:
    names = [sealed(controller, queue, "a", partition=0), sealed(other, queue, "b", partition=1)]
    loser = sealed(other, queue, "c", partition=1, attempt=1)
    assert done(send_request(controller, "COMMIT", queue, branches=names, **BATCH))["messages"] == 2
    assert controller.depth() == (2, 2)
    assert condition(send_request(other, "SEAL", queue, branch=loser)) == "postroom:sink-branch-unknown"


def test_a_branch_outlives_its_connection(broker: BrokerThread, controller: Controller, queue: str) -> None:
    with EnginePeer(broker.port, container_id=queue + "-task") as peer:
        name = sealed(Controller(broker, peer, queue), queue, "x")
    assert done(send_request(controller, "COMMIT", queue, branches=[name], **BATCH))["messages"] == 1


def test_an_open_branch_of_a_lost_connection_can_be_rolled_back_from_elsewhere(
    broker: BrokerThread, controller: Controller, queue: str
) -> None:
    with EnginePeer(broker.port, container_id=queue + "-task") as peer:
        task = Controller(broker, peer, queue)
        begun = begin(task, queue)
        assert isinstance(begun["txn_id"], bytes)
        task.send("x", begun["txn_id"])
    assert controller.depth() == (0, 1)
    for count in (1, 0):
        assert done(send_request(controller, "ROLLBACK", queue, branch=begun["branch"])) == {
            "rolled_back": count
        }
    assert controller.depth() == (0, 0)


def test_nothing_is_sent_in_a_branch_that_is_sealed(controller: Controller, queue: str) -> None:
    begun = begin(controller, queue)
    txn_id = begun["txn_id"]
    assert isinstance(txn_id, bytes)
    done(send_request(controller, "SEAL", queue, branch=begun["branch"]))
    assert refused_with(controller.send("late", txn_id)) == "amqp:transaction:unknown-id"


def test_what_another_run_began_takes_nothing_more(
    controller: Controller, other: Controller, queue: str
) -> None:
    begun = begin(controller, queue)
    txn_id = begun["txn_id"]
    assert isinstance(txn_id, bytes)
    begin(other, queue, run_id="r2")
    assert refused_with(controller.send("late", txn_id)) == "amqp:transaction:rollback"
    refused = send_request(controller, "COMMIT", queue, branches=[], **BATCH)
    assert condition(refused) == "postroom:sink-fenced"
    assert attributes(refused) == {"app": queue, "run_id": "r2"}


def test_a_presettled_message_that_is_refused_spoils_the_branch(controller: Controller, queue: str) -> None:
    """Its condition is what the seal is refused with."""
    controller.broker.call(lambda b: b.manager.pause(b.manager.queues[queue], "production", 0))
    begun = begin(controller, queue)
    txn_id = begun["txn_id"]
    assert isinstance(txn_id, bytes)
    controller.sender.send(b"\x00\x53\x75\xa0\x01x", b"t", True, state=TransactionalState(txn_id))
    refused = send_request(controller, "SEAL", queue, branch=begun["branch"])
    assert condition(refused) == "amqp:illegal-state"
    assert "production is paused" in str(refused.application_properties["statusDescription"])


def test_nothing_is_received_in_a_branch(controller: Controller, queue: str) -> None:
    """It spoils the branch, and the message goes back."""
    controller.send("x")
    begun = begin(controller, queue)
    txn_id = begun["txn_id"]
    assert isinstance(txn_id, bytes)
    event = controller.receive()
    controller.dispose(event.delivery_id, TransactionalState(txn_id, Accepted()))
    refused = send_request(controller, "SEAL", queue, branch=begun["branch"])
    assert condition(refused) == "amqp:illegal-state"
    assert controller.depth() == (1, 1)


def test_a_sink_is_listed_shown_and_forgotten(controller: Controller, queue: str) -> None:
    sealed(controller, queue, "abc", partition=7)
    row = done(controller.request("READ", SINK, None, name=queue))
    assert (row["name"], row["query_id"], row["run_id"], row["batch_id"]) == (queue, "q", "r1", None)
    assert (row["branches"], row["messages"]) == (1, 1)
    (branch,) = row["open_branches"]  # type: ignore[misc, attr-defined]
    assert branch["partition"] == 7 and branch["sealed"] is True
    reply = controller.request("DELETE", SINK, None, name=queue)
    assert reply.application_properties["statusCode"] == 204
    assert controller.depth() == (0, 0)
    reply = controller.request("READ", SINK, None, name=queue)
    assert reply.application_properties["statusCode"] == 404


@pytest.mark.parametrize(
    ("operation", "body", "what"),
    [
        ("BEGIN", {"query_id": "q"}, "run_id"),
        ("BEGIN", {"run_id": "r", "batch_id": -1}, "batch_id"),
        ("BEGIN", {"run_id": "r", "above": 1}, "above"),
        ("BEGIN", {"run_id": "r" * 256}, "run_id"),
        ("SEAL", {}, "branch"),
        ("COMMIT", {"run_id": "r", "offsets": "x" * 16_385}, "offsets"),
        ("COMMIT", {"run_id": "r", "branches": [1]}, "branches"),
        ("COMMIT", {"run_id": "r", "position": "1"}, "position"),
        ("COMMIT", {"run_id": "r", "branches": ["a", "a"]}, "twice"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(
    controller: Controller, queue: str, operation: str, body: dict[str, object], what: str
) -> None:
    reply = controller.request(operation, SINK, body, name=queue)
    assert reply.application_properties["statusCode"] == 400
    assert what in str(reply.application_properties["statusDescription"])


VALUES = st.one_of(
    *(st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(), st.text(max_size=300)),
    *(st.binary(max_size=9), st.lists(st.text(max_size=9), max_size=3), st.just("r1"), st.just("q")),
)
KEYS = ("query_id", "run_id", "batch_id", "partition", "attempt", "digest", "above", "accept_duplicates")
BODIES = st.one_of(
    VALUES, st.dictionaries(st.sampled_from([*KEYS, "branch", "branches", "position"]), VALUES)
)


@pytest.mark.hypothesis
@given(
    st.lists(
        st.tuples(st.sampled_from(["BEGIN", "SEAL", "COMMIT", "ROLLBACK", "DELETE"]), BODIES), max_size=8
    )
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50), deadline=None
)
def test_no_request_is_a_defect(broker: BrokerThread, requests: list[tuple[str, object]]) -> None:
    """Whatever it has, in whatever order: it is done, or refused with a reason."""

    def perform(of: Broker) -> list[int]:
        binding = of.connect("test", [ANONYMOUS], 0, 0)
        assert binding is not None
        found = []
        for operation, body in requests:
            properties = {"operation": operation, "type": SINK, "name": "mangled"}
            reply = of.management.perform(Request(properties, body, sink=SinkContext(binding)), 0)
            assert isinstance(reply, Response)
            found.append(reply.status)
        binding.lost(0)
        return found

    assert all(status < INTERNAL for status in broker.call(perform))
