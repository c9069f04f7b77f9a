"""A Proton client of the management node."""

from proton import Message
from proton.utils import BlockingConnection, BlockingReceiver, BlockingSender

QUEUE = "postroom.queue"


class Manager:
    """Sends requests over one link and gets the responses over another."""

    def __init__(self, connection: BlockingConnection) -> None:
        self.connection = connection
        self.replies: BlockingReceiver = connection.create_receiver("$management", name="replies", credit=10)
        self.requests: BlockingSender = connection.create_sender("$management")

    def request(self, operation: str, body: object = None, **properties: object) -> Message:
        sent = {"operation": operation, **{key.replace("_", "-"): value for key, value in properties.items()}}
        self.requests.send(Message(id="m-1", reply_to="$management", properties=sent, body=body))
        reply = self.replies.receive(timeout=15)
        self.replies.accept()
        assert reply.correlation_id == "m-1"
        return reply

    def status(self, operation: str, body: object = None, **properties: object) -> int:
        return int(self.request(operation, body, **properties).properties["statusCode"])
