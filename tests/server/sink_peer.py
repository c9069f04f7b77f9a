"""What a Spark job that writes requests of the management node."""

from postroom.amqp.message.sections import Message
from tests.server.transaction_peer import Controller, attributes

SINK = "postroom.sink"


TASK: dict[str, object] = {"query_id": "q", "run_id": "r1", "batch_id": 0, "partition": 0, "attempt": 0}


BATCH: dict[str, object] = {"query_id": "q", "run_id": "r1", "batch_id": 0, "digest": "d", "offsets": "{}"}


def send_request(controller: Controller, operation: str, app: str, **body: object) -> Message:
    return controller.request(operation, SINK, body, name=app)


def begin(controller: Controller, app: str, **more: object) -> dict[str, object]:
    return attributes(send_request(controller, "BEGIN", app, **{**TASK, **more}))


def done(reply: Message) -> dict[str, object]:
    assert reply.application_properties["statusCode"] == 200, reply.application_properties
    return attributes(reply)


def sealed(controller: Controller, app: str, *texts: str, **more: object) -> str:
    """The name of a branch with these messages."""
    begun = begin(controller, app, **more)
    txn_id, name = begun["txn_id"], str(begun["branch"])
    assert isinstance(txn_id, bytes)
    for text in texts:
        controller.send(text, txn_id)
    assert done(send_request(controller, "SEAL", app, branch=name))["messages"] == len(texts)
    return name
