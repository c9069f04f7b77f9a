"""Spark subscriptions over the wire: what a query says, what it is told, what it is refused."""

from collections.abc import Iterator

import pytest

from postroom.amqp.encoding.types import ULong
from postroom.amqp.message.sections import Message
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import Controller, attributes

pytestmark = pytest.mark.sockets

TYPE = "postroom.spark-subscription"
NAME = "lake"


@pytest.fixture
def controller(broker: BrokerThread, queue: str) -> Iterator[Controller]:
    with EnginePeer(broker.port, container_id=queue) as peer:
        made = Controller(broker, peer, queue)
        yield made
        made.request("DELETE", TYPE, {}, name=NAME)


def send_request(controller: Controller, operation: str, **body: object) -> Message:
    return controller.request(operation, TYPE, body, name=NAME)


def done(reply: Message, status: int = 200) -> dict[str, object]:
    assert reply.application_properties["statusCode"] == status, reply.application_properties
    return attributes(reply)


def refused(reply: Message) -> tuple[object, object, dict[str, object]]:
    properties = reply.application_properties
    return properties["statusCode"], properties["errorCondition"], attributes(reply)


def number(value: object) -> int:
    assert isinstance(value, int)
    return value


def test_from_creation_to_the_last_confirmation(controller: Controller, queue: str) -> None:
    for text in ("a", "b", "c"):
        controller.send(text)
    made = done(send_request(controller, "CREATE", queue=queue, window=2), 201)
    begun = number(made["confirmed"])
    assert (made["state"], made["reason"], made["window"], made["registered"]) == ("active", "", 2, "")
    planned = done(send_request(controller, "PLAN", checkpoint="c1"))
    assert (planned["held"], planned["available"], planned["is_full"]) == (2, 1, True)
    assert begun < number(planned["assigned_through"]) <= number(planned["last_position"])
    done(send_request(controller, "REGISTER", checkpoint="c1", replace=False))
    where = {key: planned[key] for key in ("ledger_id", "epoch", "epoch_id")}
    body = {"checkpoint": "c1", "position": planned["assigned_through"], **where}
    confirmed = done(send_request(controller, "CONFIRM", **body))
    assert (confirmed["ended"], confirmed["held"], confirmed["available"]) == (2, 1, 0)
    assert number(confirmed["assigned_through"]) > number(planned["assigned_through"])
    assert done(send_request(controller, "CONFIRM", **body))["ended"] == 0
    assert done(send_request(controller, "DELETE"), 204) == {}
    assert controller.receive_text() == "c"


def test_what_is_refused_says_what_is_known(controller: Controller, queue: str) -> None:
    created = done(send_request(controller, "CREATE", queue=queue), 201)
    assert refused(send_request(controller, "CREATE", queue=queue, window=1))[:2] == (
        409,
        "amqp:precondition-failed",
    )
    done(send_request(controller, "REGISTER", checkpoint="c1", replace=False))
    info = {"registered": "c1", "confirmed": created["confirmed"]}
    for reply in (
        send_request(controller, "PLAN", checkpoint="c2"),
        send_request(controller, "REGISTER", checkpoint="c2", replace=False),
        send_request(controller, "CONFIRM", checkpoint="c2", position=1),
    ):
        assert refused(reply) == (409, "postroom:checkpoint-replaced", info)
    for wrong in ({"position": 1 << 40}, {"ledger_id": "0" * 32}, {"epoch": 99}):
        reply = send_request(controller, "CONFIRM", **{"checkpoint": "c1", "position": 1, **wrong})
        assert refused(reply)[:2] == (409, "postroom:position-refused")
    for verb, body in (
        ("PLAN", {"on_new_checkpoint": "?"}),
        ("CONFIRM", {"position": "1"}),
        ("CONFIRM", {"position": -1}),
        ("CONFIRM", {"position": ULong((1 << 64) - 1)}),
        ("PLAN", {"x": 1}),
    ):
        assert refused(send_request(controller, verb, checkpoint="c1", **body))[0] == 400
    assert refused(controller.request("PLAN", TYPE, {}, name="nobody"))[0] == 404


def test_a_queue_goes_with_it_only_if_forced(controller: Controller, queue: str) -> None:
    controller.send("a")
    done(send_request(controller, "CREATE", queue=queue), 201)
    reply = controller.request("DELETE", "postroom.queue", {}, name=queue)
    assert refused(reply)[:2] == (409, "amqp:precondition-failed")
    reply = controller.request("DELETE", "postroom.queue", {}, name=queue, force=True)
    assert reply.application_properties["statusCode"] == 204
    assert refused(send_request(controller, "READ"))[0] == 404
