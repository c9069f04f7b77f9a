"""A peer that works in transactions: a control link, links both ways to a queue, and the management node."""

import itertools

from postroom.amqp.encoding.codec import encode
from postroom.amqp.encoding.types import Described, Int, UInt, ULong
from postroom.amqp.engine.events import LinkDetached, TransferReceived
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.frames.outcomes import (
    ACCEPTED,
    Accepted,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Rejected,
    TransactionalState,
)
from postroom.amqp.frames.termini import Coordinator, Source, Target
from postroom.amqp.message.sections import Data, Header, Message, Properties, Value, decode_message
from postroom.model.xa import XaCode, Xid
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer

REJECTABLE = Source(outcomes=["amqp:accepted:list", "amqp:rejected:list"])
BRANCH = "postroom.xa-branch"
MESSAGE = "postroom.message"
_numbers = itertools.count(1)
ROLLBACK = "amqp:transaction:rollback"
UNKNOWN = "amqp:transaction:unknown-id"
TIMEOUT = "amqp:transaction:timeout"


def value(body: Declare | Discharge) -> bytes:
    if isinstance(body, Declare):
        described = Described(ULong(0x31), [] if body.global_id is None else [body.global_id])
    else:
        described = Described(ULong(0x32), [body.txn_id, body.fail])
    return encode(Described(ULong(0x77), described))


def durable(text: str) -> bytes:
    return Message(header=Header(durable=True), body=Data([text.encode()])).encode()


def global_id(xid: Xid, *flags: object) -> list[object]:
    return [Int(xid.format_id), xid.gtrid, xid.bqual, *flags]


class Controller:
    """On one session. ``for_branches``: its receiver receives for XA branches."""

    def __init__(
        self,
        broker: BrokerThread,
        peer: EnginePeer,
        queue: str,
        source: Source = REJECTABLE,
        for_branches: bool = False,
    ) -> None:
        self.broker = broker
        self.peer = peer
        self.queue = queue
        self.session = peer.session()
        prefix = f"{next(_numbers)}-"
        self.control: SenderLink = self.session.attach_sender(prefix + "control", source, Coordinator())
        self.sender: SenderLink = self.session.attach_sender(prefix + "s", Source(), Target(address=queue))
        properties: dict[object, object] | None = {"x-opt-xa": True} if for_branches else None
        self.receiver: ReceiverLink = self.session.attach_receiver(
            prefix + "r", Source(address=queue), Target(), properties=properties
        )
        peer.pump(lambda: self.receiver.attached and min(self.sender.credit, self.control.credit) > 0)
        self._prefix = prefix
        self._tags = iter(range(1_000_000))
        self._requests: SenderLink | None = None

    # Transactions.

    def send_control(self, body: Declare | Discharge) -> DeliveryState | None:
        delivery = self.control.send(value(body), self.tag(), False)
        self.peer.pump(lambda: delivery.settled)
        return delivery.state

    def declare(self) -> bytes:
        state = self.send_control(Declare())
        assert isinstance(state, Declared), state
        return bytes(state.txn_id)

    def send(self, text: str, txn_id: bytes | None = None) -> DeliveryState | None:
        state = None if txn_id is None else TransactionalState(txn_id)
        delivery = self.sender.send(durable(text), self.tag(), False, state=state)
        self.peer.pump(lambda: delivery.settled)
        return delivery.state

    def receive(self) -> TransferReceived:
        self.peer.forget()
        self.receiver.flow(1)
        return self.peer.wait_for(TransferReceived)

    def receive_text(self) -> str:
        received = decode_message(self.receive().payload)
        assert isinstance(received.body, Data)
        return received.body.joined().decode()

    def dispose(self, delivery_id: int, state: DeliveryState | None, settled: bool = True) -> None:
        self.receiver.settle(delivery_id, delivery_id, state, settled)
        self.peer.flush()

    # XA.

    def start(self, xid: Xid, *flags: object) -> bytes:
        state = self.send_control(Declare(global_id(xid, *flags)))
        assert isinstance(state, Declared), state
        return bytes(state.txn_id)

    def start_refused(self, given: object) -> int:
        """The code with which a start is refused."""
        code = self.start_code(given)
        assert code is not None, "it was not refused"
        return code

    def start_code(self, given: object) -> int | None:
        """The code with which a start is refused; None where it isn't."""
        state = self.send_control(Declare(given))
        if isinstance(state, Declared):
            return None
        assert isinstance(state, Rejected) and state.error is not None, state
        assert state.error.condition == "postroom:xa-error"
        assert state.error.info is not None
        code = state.error.info["xa-code"]
        assert isinstance(code, int)
        return code

    def request(
        self, operation: str, kind: str = BRANCH, body: object = None, /, **properties: object
    ) -> Message:
        """The answer of the management node to a request on this session."""
        requests = self._requests or self._attach_management()
        self.peer.forget()
        fields: dict[str, object] = {"operation": operation, "type": kind, **properties}
        message = Message(
            properties=Properties(message_id="m", reply_to=self._prefix),
            application_properties=fields,
            body=Value(body),
        )
        requests.send(message.encode(), self.tag(), True)
        while True:
            self.peer.pump(
                lambda: any(event.link is self._replies for event in self.peer.of(TransferReceived))
            )
            (event,) = [each for each in self.peer.of(TransferReceived) if each.link is self._replies]
            self._replies.settle(event.delivery_id, event.delivery_id, ACCEPTED)
            self._replies.flow(10)
            return decode_message(event.payload)

    def _attach_management(self) -> SenderLink:
        self._replies = self.session.attach_receiver(
            self._prefix + "replies", Source(address="$management"), Target(address=self._prefix)
        )
        self._requests = self.session.attach_sender(
            self._prefix + "requests", Source(), Target(address="$management")
        )
        requests = self._requests
        self.peer.pump(lambda: self._replies.attached and requests.credit > 0)
        self._replies.flow(10)
        return requests

    def verb(self, operation: str, xid: Xid | str | None, flags: int | None = None, **more: object) -> int:
        """What a verb answers, refused or not: X/Open's code."""
        properties: dict[str, object] = dict(more)
        if xid is not None:
            properties["xid"] = str(xid)
        if flags is not None:
            properties["flags"] = UInt(flags)
        return code_of(self.request(operation, **properties))

    def end(self, xid: Xid, flags: int | None = None, **more: object) -> int:
        return self.verb("END", xid, flags, **more)

    # Looking.

    def depth(self) -> tuple[int, int]:
        """(messages that can be received, all that are held)"""
        return self.broker.call(
            lambda b: (
                int(b.manager.queues[self.queue].statistics.current),
                int(b.manager.queues[self.queue].statistics.depth),
            )
        )

    def detached_with(self) -> str:
        """The condition with which a link was detached."""
        error = self.peer.wait_for(LinkDetached).error
        assert error is not None
        return error.condition

    def tag(self) -> bytes:
        return next(self._tags).to_bytes(4, "big")


def refused_with(state: object) -> str:
    assert isinstance(state, Rejected) and state.error is not None, state
    return state.error.condition


def commit(controller: Controller, txn_id: bytes) -> object:
    return controller.send_control(Discharge(txn_id, False))


def roll_back(controller: Controller, txn_id: bytes) -> None:
    """It always succeeds."""
    assert isinstance(controller.send_control(Discharge(txn_id, True)), Accepted)


def code_of(reply: Message) -> int:
    """X/Open's code in an answer; it agrees with the status."""
    assert isinstance(reply.body, Value) and isinstance(reply.body.value, dict), reply
    code = reply.body.value["xa-code"]
    assert isinstance(code, int)
    succeeded = code in (XaCode.XA_OK, XaCode.XA_RDONLY)
    assert reply.application_properties["statusCode"] == (200 if succeeded else 409)
    assert succeeded or reply.application_properties["errorCondition"] == "postroom:xa-error"
    return int(code)


def new_xid() -> Xid:
    return Xid(7, b"g%d" % next(_numbers), b"b")


def prepared(controller: Controller, xid: Xid, text: str = "x") -> None:
    """A branch in which a message was put, prepared."""
    controller.send(text, controller.start(xid))
    assert controller.end(xid) == XaCode.XA_OK
    assert controller.verb("PREPARE", xid) == XaCode.XA_OK


def branch_row(controller: Controller, xid: Xid) -> dict[str, object]:
    body = controller.request("READ", name=str(xid)).body
    assert isinstance(body, Value) and isinstance(body.value, dict)
    return {str(key): value for key, value in body.value.items()}


def attributes(reply: Message) -> dict[str, object]:
    """The body of an answer, a map."""
    assert isinstance(reply.body, Value) and isinstance(reply.body.value, dict), reply
    return {str(key): value for key, value in reply.body.value.items()}
