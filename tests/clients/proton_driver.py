"""Driver of Qpid Proton's Python binding: commands and answers as in README.md."""

import json
import select
import struct
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import proton
from pattern import data_from_json, data_to_json
from proton.handlers import MessagingHandler
from proton.reactor import AtLeastOnce, AtMostOnce, Backoff, Container, Copy, LinkOption

POLL_S = 0.05
BEAT_S = 1.0
COMMAND_S = 15.0

INTEGERS: dict[str, type] = {
    "ubyte": proton.ubyte,
    "ushort": proton.ushort,
    "uint": proton.uint,
    "ulong": proton.ulong,
    "byte": proton.byte,
    "short": proton.short,
    "int": proton.int32,
    "long": int,
    "timestamp": proton.timestamp,
}
ARRAY_TYPE_NAMES = (
    "null boolean ubyte ushort uint ulong byte short int long float double char timestamp uuid binary"
    " string symbol list map"
)
PROTON_NAMES = {"boolean": "BOOL"}
ARRAY_TYPES = {
    name: getattr(proton.Data, PROTON_NAMES.get(name, name.upper())) for name in ARRAY_TYPE_NAMES.split()
}
ARRAY_NAMES = {code: name for name, code in ARRAY_TYPES.items()}
OUTCOMES = {
    proton.Delivery.ACCEPTED: "accepted", proton.Delivery.REJECTED: "rejected",
    proton.Delivery.RELEASED: "released", proton.Delivery.MODIFIED: "modified",
}  # fmt: skip


class DriverError(Exception):
    """What the client or the broker answered instead of what was asked."""

    def __init__(self, condition: str | None, description: str | None) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition
        self.description = description


# --- Typed values


def to_proton(typed: dict[str, Any]) -> Any:
    """The Proton value that a typed JSON value stands for."""
    ((name, value),) = typed.items()
    if name in INTEGERS:
        return INTEGERS[name](int(value))
    return TO_PROTON[name](value)


TO_PROTON: dict[str, Callable[[Any], Any]] = {
    "null": lambda value: None,
    "boolean": bool,
    "float": lambda value: proton.float32(struct.unpack(">f", bytes.fromhex(value))[0]),
    "double": lambda value: struct.unpack(">d", bytes.fromhex(value))[0],
    "decimal32": lambda value: proton.decimal32(int(value, 16)),
    "decimal64": lambda value: proton.decimal64(int(value, 16)),
    "decimal128": lambda value: proton.decimal128(bytes.fromhex(value)),
    "char": lambda value: proton.char(chr(int(value))),
    "uuid": uuid.UUID,
    "binary": bytes.fromhex,
    "string": str,
    "symbol": proton.symbol,
    "list": lambda value: [to_proton(item) for item in value],
    "map": lambda value: {to_proton(key): to_proton(item) for key, item in value},
    "array": lambda value: proton.Array(
        proton.UNDESCRIBED, ARRAY_TYPES[value["type"]], *[to_proton(item) for item in value["items"]]
    ),
    "described": lambda value: proton.Described(to_proton(value[0]), to_proton(value[1])),
}

# Subclasses before their bases: bool before int, symbol before str, decimal128 before bytes.
FROM_PROTON: list[tuple[type, str, Callable[[Any], Any]]] = [
    (type(None), "null", lambda value: True),
    (bool, "boolean", bool),
    *[(kind, name, lambda value: str(int(value))) for name, kind in INTEGERS.items() if kind is not int],
    (proton.decimal32, "decimal32", lambda value: f"{int(value) & 0xFFFFFFFF:08x}"),
    (proton.decimal64, "decimal64", lambda value: f"{int(value) & 0xFFFFFFFFFFFFFFFF:016x}"),
    (proton.decimal128, "decimal128", lambda value: bytes(value).hex()),
    (int, "long", str),
    (proton.float32, "float", lambda value: struct.pack(">f", value).hex()),
    (float, "double", lambda value: struct.pack(">d", value).hex()),
    (proton.symbol, "symbol", str),
    (proton.char, "char", lambda value: str(ord(value))),
    (str, "string", str),
    (uuid.UUID, "uuid", str),
    (bytes, "binary", lambda value: value.hex()),
    (memoryview, "binary", lambda value: bytes(value).hex()),
    (list, "list", lambda value: [from_proton(item) for item in value]),
    (dict, "map", lambda value: [[from_proton(key), from_proton(item)] for key, item in value.items()]),
    (proton.Array, "array", lambda value: array_to_json(value)),
    (proton.Described, "described", lambda value: [from_proton(value.descriptor), from_proton(value.value)]),
]


def array_to_json(array: proton.Array) -> dict[str, Any]:
    """An array with the name of its element type."""
    return {"type": ARRAY_NAMES[array.type], "items": [from_proton(item) for item in array.elements]}


def from_proton(value: Any) -> dict[str, Any]:
    """The typed JSON value of a Proton value."""
    for kind, name, convert in FROM_PROTON:
        if isinstance(value, kind):
            return {name: convert(value)}
    raise DriverError("NotExpressible", f"no typed form of {type(value).__name__}")


# --- Messages

PLAIN_FIELDS = {
    "durable": "durable", "priority": "priority", "delivery_count": "delivery_count",
    "first_acquirer": "first_acquirer", "to": "address", "subject": "subject", "reply_to": "reply_to",
    "content_type": "content_type", "content_encoding": "content_encoding", "group_id": "group_id",
    "group_sequence": "group_sequence", "reply_to_group_id": "reply_to_group_id",
}  # fmt: skip
# Proton's Python gives the symbol "None" for an absent content type, and 0 for an absent group sequence.
ABSENT = (None, "", proton.symbol("None"))
SECONDS_FIELDS = {
    "ttl_ms": "ttl",
    "absolute_expiry_time_ms": "expiry_time",
    "creation_time_ms": "creation_time",
}
MS_A_SECOND = 1000


def to_message(spec: dict[str, Any]) -> proton.Message:
    """The Proton message that a JSON message stands for."""
    message = proton.Message()
    for name, attribute in PLAIN_FIELDS.items():
        if name in spec:
            setattr(message, attribute, spec[name])
    for name, attribute in SECONDS_FIELDS.items():
        if name in spec:
            setattr(message, attribute, spec[name] / MS_A_SECOND)
    if "user_id" in spec:
        message.user_id = bytes.fromhex(spec["user_id"])
    if "message_id" in spec:
        message.id = to_proton(spec["message_id"])
    if "correlation_id" in spec:
        message.correlation_id = to_proton(spec["correlation_id"])
    if "properties" in spec:
        message.properties = {name: to_proton(value) for name, value in spec["properties"]}
    if "annotations" in spec:
        message.annotations = {proton.symbol(name): to_proton(value) for name, value in spec["annotations"]}
    set_body(message, spec.get("body", {"value": {"null": True}}))
    return message


def set_body(message: proton.Message, body: dict[str, Any]) -> None:
    """Data and sequence sections are what Proton makes of bytes and lists when the kind is inferred."""
    ((kind, value),) = body.items()
    message.inferred = kind != "value"
    if kind == "data":
        message.body = data_from_json(value)
    elif kind == "sequence":
        message.body = [to_proton(item) for item in value]
    else:
        message.body = to_proton(value)


def from_message(message: proton.Message) -> dict[str, Any]:
    """The JSON form of a received message; fields that are absent or empty are left out."""
    fields: dict[str, Any] = {}
    for name, attribute in PLAIN_FIELDS.items():
        value = getattr(message, attribute)
        if value not in ABSENT and (name, value) != ("group_sequence", 0):
            fields[name] = value
    for name, attribute in SECONDS_FIELDS.items():
        value = getattr(message, attribute)
        if value:
            fields[name] = round(value * MS_A_SECOND)
    if message.user_id:
        fields["user_id"] = message.user_id.hex()
    if message.id is not None:
        fields["message_id"] = id_to_json(message.id)
    if message.correlation_id is not None:
        fields["correlation_id"] = id_to_json(message.correlation_id)
    if message.properties:
        fields["properties"] = [[name, from_proton(value)] for name, value in message.properties.items()]
    if message.annotations:
        fields["annotations"] = [
            [str(name), from_proton(value)] for name, value in message.annotations.items()
        ]
    fields["body"] = body_to_json(message)
    return fields


def id_to_json(value: Any) -> dict[str, Any]:
    """Proton gives an unsigned long id as a plain int."""
    return {"ulong": str(value)} if isinstance(value, int) else from_proton(value)


def body_to_json(message: proton.Message) -> dict[str, Any]:
    if message.inferred and isinstance(message.body, bytes | memoryview):
        return {"data": data_to_json(bytes(message.body))}
    if message.inferred and isinstance(message.body, list):
        return {"sequence": [from_proton(item) for item in message.body]}
    return {"value": from_proton(message.body)}


# --- The client


def new_name() -> str:
    """A link name of its own: Proton would give two links to one address the same name."""
    return str(uuid.uuid4())


class SettleSecond(LinkOption):
    """Receiver settle mode `second`: the receiver settles after the sender."""

    def apply(self, link: proton.Link) -> None:
        link.rcv_settle_mode = proton.Link.RCV_SECOND


class Sending:
    """One send command: each message waits for the outcome of its delivery, through reconnects too."""

    def __init__(self, messages: list[proton.Message], settled: bool) -> None:
        self.messages = messages
        self.settled = settled
        self.outcomes: list[dict[str, Any] | None] = [None] * len(messages)
        self.unsent = list(range(len(messages)))
        self.in_flight: dict[proton.Delivery, int] = {}

    def put(self, sender: proton.Sender) -> None:
        """Send what credit allows."""
        while self.unsent and sender.credit:
            index = self.unsent.pop(0)
            delivery = sender.send(self.messages[index])
            if self.settled:
                self.outcomes[index] = {"state": "settled"}
            else:
                self.in_flight[delivery] = index

    def outcome(self, delivery: proton.Delivery) -> None:
        index = self.in_flight.pop(delivery)
        fields: dict[str, Any] = {"state": OUTCOMES.get(delivery.remote_state, str(delivery.remote_state))}
        condition = delivery.remote.condition
        if condition is not None:
            fields.update(condition=condition.name, description=condition.description)
        self.outcomes[index] = fields
        delivery.settle()

    def lost(self) -> None:
        """The connection broke: whatever has no outcome is sent again."""
        self.unsent = sorted([*self.unsent, *self.in_flight.values()])
        self.in_flight.clear()

    @property
    def done(self) -> bool:
        return not self.unsent and not self.in_flight


class Receiving:
    """One receive or browse command."""

    def __init__(self, count: int, settle: Callable[[proton.Delivery], None], second: bool) -> None:
        self.count = count
        self.settle = settle
        self.second = second
        self.messages: list[dict[str, Any]] = []
        self.drained = False
        self.unsettled = 0

    def take(self, message: proton.Message, delivery: proton.Delivery) -> None:
        self.messages.append(from_message(message))
        if not delivery.settled:
            self.settle(delivery)
            self.unsettled += self.second

    def settled(self, delivery: proton.Delivery) -> None:
        """The broker answered what we disposed of in mode `second`."""
        delivery.settle()
        self.unsettled -= 1

    @property
    def done(self) -> bool:
        return (len(self.messages) >= self.count or self.drained) and not self.unsettled


class Driver(MessagingHandler):
    """A connection and the command under way."""

    def __init__(self) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self.container: Container | None = None
        self.connection: proton.Connection | None = None
        self.reconnect = False
        self.senders: dict[str, proton.Sender] = {}
        self.sending: Sending | None = None
        self.receiving: Receiving | None = None
        self.drain = False
        self.error: DriverError | None = None

    def next_line(self) -> str:
        """The next command; until it comes the connection says now and then that it is alive."""
        while not select.select([sys.stdin], [], [], BEAT_S)[0]:
            if self.container is not None:
                self.container.process()
        return sys.stdin.readline()

    # Commands

    def connect(self, command: dict[str, Any]) -> dict[str, Any]:
        self.reconnect = command.get("reconnect", False)
        self.container = Container(self)
        if "container" in command:
            self.container.container_id = command["container"]
        self.container.timeout = POLL_S
        self.container.start()
        self.connection = self.container.connect(
            f"amqp://{command['host']}:{command['port']}",
            reconnect=Backoff(initial=POLL_S, max_delay=POLL_S) if self.reconnect else False,
            user=command.get("user"), password=command.get("password"),
        )  # fmt: skip
        self.wait(lambda: bool(self.connection.state & proton.Endpoint.REMOTE_ACTIVE), COMMAND_S)
        return {}

    def send(self, command: dict[str, Any]) -> dict[str, Any]:
        settled = command.get("settled", False)
        self.sending = sending = Sending([to_message(spec) for spec in command["messages"]], settled)
        sender = self.sender(command["address"], settled)
        sending.put(sender)
        self.wait(lambda: sending.done, COMMAND_S)
        if settled:
            self.close_link(sender, command["address"])
        self.sending = None
        return {"outcomes": sending.outcomes}

    def sender(self, address: str, settled: bool) -> proton.Sender:
        if settled or address not in self.senders:
            self.senders[address] = self.container.create_sender(
                self.connection,
                address,
                name=new_name(),
                options=[AtMostOnce() if settled else AtLeastOnce()],
            )
        return self.senders[address]

    def close_link(self, sender: proton.Sender, address: str) -> None:
        """Wait for the peer's answer: then it has read every settled message sent before."""
        sender.close()
        self.wait(lambda: bool(sender.state & proton.Endpoint.REMOTE_CLOSED), COMMAND_S)
        del self.senders[address]

    def receive(self, command: dict[str, Any]) -> dict[str, Any]:
        options: list[LinkOption] = [AtMostOnce() if command.get("presettled") else AtLeastOnce()]
        if command.get("second"):
            options.append(SettleSecond())
        settle = settler(command.get("outcome", "accept"), command.get("second", False))
        self.receiving = Receiving(command["count"], settle, command.get("second", False))
        return self.collect(command, options)

    def browse(self, command: dict[str, Any]) -> dict[str, Any]:
        self.receiving = Receiving(sys.maxsize, settler("accept", False), False)
        return self.collect(command, [AtLeastOnce(), Copy()])

    def collect(self, command: dict[str, Any], options: list[LinkOption]) -> dict[str, Any]:
        receiving = self.receiving
        self.drain = not command.get("wait", False)
        receiver = self.container.create_receiver(
            self.connection, command["address"], name=new_name(), options=options
        )
        try:
            self.wait(lambda: receiving.done, command.get("timeout_ms", 10_000) / MS_A_SECOND, may_end=True)
        finally:
            self.receiving = None
        if command.get("keep"):
            return {"messages": receiving.messages}
        receiver.close()
        self.wait(lambda: bool(receiver.state & proton.Endpoint.REMOTE_CLOSED), COMMAND_S)
        return {"messages": receiving.messages}

    def close(self, command: dict[str, Any]) -> dict[str, Any]:
        self.reconnect = False
        self.connection.close()
        while self.container.process():  # ends when the last connection is gone
            pass
        self.senders.clear()
        return {}

    def wait(self, ready: Callable[[], bool], timeout_s: float, may_end: bool = False) -> None:
        end = time.monotonic() + timeout_s
        while not ready():
            if not self.container.process():
                raise DriverError("closed", "the connection is closed")
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            if time.monotonic() > end:
                if may_end:
                    return
                raise DriverError("timeout", f"nothing came for {timeout_s} s")

    # Events

    def on_sendable(self, event: proton.Event) -> None:
        if self.sending is not None:
            self.sending.put(event.sender)

    def on_link_opened(self, event: proton.Event) -> None:
        if event.receiver and self.receiving is not None:
            wanted = self.receiving.count - len(self.receiving.messages)
            grant_credit(event.receiver, min(wanted, BROWSE_CREDIT), self.drain)

    def on_message(self, event: proton.Event) -> None:
        if self.receiving is not None:
            self.receiving.take(event.message, event.delivery)

    def on_link_flow(self, event: proton.Event) -> None:
        if event.link.is_receiver and self.drain and self.receiving is not None:
            self.receiving.drained = not event.link.draining()

    def on_settled(self, event: proton.Event) -> None:
        if self.sending is not None and event.delivery in self.sending.in_flight:
            self.sending.outcome(event.delivery)
        if event.link.is_receiver and self.receiving is not None and self.receiving.second:
            self.receiving.settled(event.delivery)

    def on_disconnected(self, event: proton.Event) -> None:
        if not self.reconnect:
            self.error = DriverError("disconnected", "the connection broke")
        elif self.sending is not None:
            self.sending.lost()

    def on_transport_error(self, event: proton.Event) -> None:
        condition = event.transport.condition
        if not self.reconnect:
            self.error = DriverError(condition.name, condition.description)

    def remote_error(self, event: proton.Event, endpoint: proton.Endpoint) -> None:
        condition = endpoint.remote_condition
        if condition is not None:
            self.error = DriverError(condition.name, condition.description)

    def on_link_error(self, event: proton.Event) -> None:
        self.senders = {address: link for address, link in self.senders.items() if link != event.link}
        self.remote_error(event, event.link)
        event.link.close()

    def on_session_error(self, event: proton.Event) -> None:
        self.remote_error(event, event.session)

    def on_connection_error(self, event: proton.Event) -> None:
        if not self.reconnect:
            self.remote_error(event, event.connection)


BROWSE_CREDIT = 10_000


def grant_credit(receiver: proton.Receiver, credit: int, drain: bool) -> None:
    if drain:
        receiver.drain(credit)
    else:
        receiver.flow(credit)


def settler(outcome: str | dict[str, Any], second: bool) -> Callable[[proton.Delivery], None]:
    """What to do with a delivery; in mode `second` it is settled only when the broker has answered."""
    ((name, detail),) = outcome.items() if isinstance(outcome, dict) else ((outcome, {}),)
    states = {
        "accept": proton.Delivery.ACCEPTED, "release": proton.Delivery.RELEASED,
        "reject": proton.Delivery.REJECTED, "modify": proton.Delivery.MODIFIED,
    }  # fmt: skip

    def settle(delivery: proton.Delivery) -> None:
        if name == "none":
            return
        if name == "modify":
            delivery.local.failed = detail.get("failed", False)
            delivery.local.undeliverable = detail.get("undeliverable_here", False)
        if name == "reject" and detail:
            delivery.local.condition = proton.Condition(detail["condition"], detail.get("description"))
        delivery.update(states[name])
        if not second:
            delivery.settle()

    return settle


def answer(driver: Driver, line: str) -> dict[str, Any]:
    command = json.loads(line)
    try:
        return getattr(driver, command["op"])(command)
    except DriverError as error:
        fields = {"type": "DriverError", "condition": error.condition, "description": error.description}
    except proton.ProtonException as error:
        fields = {"type": type(error).__name__, "condition": None, "description": str(error)}
    return {"error": fields}


def main() -> None:
    driver = Driver()
    while line := driver.next_line():
        print(json.dumps(answer(driver, line)), flush=True)


if __name__ == "__main__":
    main()
