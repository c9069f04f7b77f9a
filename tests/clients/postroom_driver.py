"""Driver of Postroom's own client, its sync face: commands and answers as in README.md."""

from __future__ import annotations

import json
import struct
import sys
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from pattern import data_from_json, data_to_json

from postroom.amqp.encoding import types
from postroom.client import (
    AcknowledgeMode,
    BodyKind,
    ClientOptions,
    Connection,
    ConnectionFactory,
    ConnectionLostException,
    JMSException,
    Message,
    MessageConsumer,
    MessageModifiedException,
    MessageProducer,
    MessageReleasedException,
    QueueBrowser,
    Session,
)

MS_A_SECOND = 1000

INTEGERS: dict[str, type[int]] = {
    "ubyte": types.UByte, "ushort": types.UShort, "uint": types.UInt, "ulong": types.ULong,
    "byte": types.Byte, "short": types.Short, "int": types.Int, "long": int, "timestamp": types.Timestamp,
}  # fmt: skip


# --- Typed values


def to_postroom(typed: dict[str, Any]) -> object:
    """The value of ``postroom.amqp.encoding.types`` that a typed JSON value stands for."""
    ((name, value),) = typed.items()
    if name in INTEGERS:
        return INTEGERS[name](int(value))
    return TO_POSTROOM[name](value)


TO_POSTROOM: dict[str, Callable[[Any], object]] = {
    "null": lambda value: None,
    "boolean": bool,
    "float": lambda value: types.Float32(struct.unpack(">f", bytes.fromhex(value))[0]),
    "double": lambda value: struct.unpack(">d", bytes.fromhex(value))[0],
    "decimal32": lambda value: types.Decimal32(bytes.fromhex(value)),
    "decimal64": lambda value: types.Decimal64(bytes.fromhex(value)),
    "decimal128": lambda value: types.Decimal128(bytes.fromhex(value)),
    "char": lambda value: types.Char(chr(int(value))),
    "uuid": uuid.UUID,
    "binary": bytes.fromhex,
    "string": str,
    "symbol": types.Symbol,
    "list": lambda value: [to_postroom(item) for item in value],
    "map": lambda value: {to_postroom(key): to_postroom(item) for key, item in value},
    "array": lambda value: types.Array(
        types.AmqpType[value["type"].upper()], [to_postroom(item) for item in value["items"]]
    ),
    "described": lambda value: types.Described(to_postroom(value[0]), to_postroom(value[1])),
}

# Subclasses before their bases: bool before int, Symbol before str, Decimal128 before bytes.
FROM_POSTROOM: list[tuple[type, str, Callable[[Any], object]]] = [
    (type(None), "null", lambda value: True),
    (bool, "boolean", bool),
    *[(kind, name, lambda value: str(int(value))) for name, kind in INTEGERS.items() if kind is not int],
    (int, "long", str),
    (types.Float32, "float", lambda value: struct.pack(">f", value).hex()),
    (float, "double", lambda value: struct.pack(">d", value).hex()),
    (types.Decimal32, "decimal32", lambda value: value.hex()),
    (types.Decimal64, "decimal64", lambda value: value.hex()),
    (types.Decimal128, "decimal128", lambda value: value.hex()),
    (bytes, "binary", lambda value: value.hex()),
    (types.Symbol, "symbol", str),
    (types.Char, "char", lambda value: str(ord(value))),
    (str, "string", str),
    (uuid.UUID, "uuid", str),
    (list, "list", lambda value: [from_postroom(item) for item in value]),
    (dict, "map", lambda value: [[from_postroom(key), from_postroom(item)] for key, item in value.items()]),
    (
        types.PairMap,
        "map",
        lambda value: [[from_postroom(key), from_postroom(item)] for key, item in value.pairs],
    ),
    (types.Array, "array", lambda value: array_to_json(value)),
    (
        types.Described,
        "described",
        lambda value: [from_postroom(value.descriptor), from_postroom(value.value)],
    ),
]


def array_to_json(array: types.Array) -> dict[str, Any]:
    return {"type": array.type.name.lower(), "items": [from_postroom(item) for item in array.items]}


def from_postroom(value: object) -> dict[str, Any]:
    """The typed JSON value of a received value."""
    for kind, name, convert in FROM_POSTROOM:
        if isinstance(value, kind):
            return {name: convert(value)}
    raise TypeError(f"no typed form of {type(value).__name__}")


# --- Messages

SAME_NAME = (
    "durable", "priority", "ttl_ms", "subject", "reply_to", "content_type", "content_encoding", "group_id",
    "group_sequence", "reply_to_group_id",
)  # fmt: skip
OTHER_NAME = {
    "to": "destination",
    "absolute_expiry_time_ms": "expiration_ms",
    "creation_time_ms": "timestamp_ms",
}
RECEIVED_ONLY = ("delivery_count", "first_acquirer")


def to_message(spec: dict[str, Any]) -> Message:
    """The message that a JSON message stands for."""
    fields: dict[str, Any] = {"durable": False, **{name: spec[name] for name in SAME_NAME if name in spec}}
    fields.update({attribute: spec[name] for name, attribute in OTHER_NAME.items() if name in spec})
    for name in ("message_id", "correlation_id"):
        if name in spec:
            fields[name] = to_postroom(spec[name])
    if "user_id" in spec:
        fields["user_id"] = bytes.fromhex(spec["user_id"])
    for name in ("properties", "annotations"):
        fields[name] = {key: to_postroom(value) for key, value in spec.get(name, [])}
    ((kind, value),) = spec.get("body", {"value": {"null": True}}).items()
    return Message(body_from_json(kind, value), body_kind=BodyKind(kind), **fields)


def body_from_json(kind: str, value: Any) -> object:
    if kind == "data":
        return data_from_json(value)
    return [to_postroom(item) for item in value] if kind == "sequence" else to_postroom(value)


def from_message(message: Message) -> dict[str, Any]:
    """The JSON form of a received message; absent fields are left out."""
    names = {**{name: name for name in (*SAME_NAME, *RECEIVED_ONLY)}, **OTHER_NAME}
    fields = {name: getattr(message, attribute) for name, attribute in names.items()}
    fields["user_id"] = message.user_id.hex() if message.user_id is not None else None
    fields["message_id"] = id_to_json(message.message_id)
    fields["correlation_id"] = id_to_json(message.correlation_id)
    for name in ("properties", "annotations"):
        fields[name] = [[key, from_postroom(value)] for key, value in getattr(message, name).items()] or None
    fields = {name: value for name, value in fields.items() if value is not None}
    return {**fields, "body": body_to_json(message)}


def id_to_json(value: object) -> dict[str, Any] | None:
    """The client gives an unsigned long id as a plain int."""
    if value is None:
        return None
    return {"ulong": str(value)} if isinstance(value, int) else from_postroom(value)


def body_to_json(message: Message) -> dict[str, Any]:
    if message.body_kind is BodyKind.DATA:
        assert isinstance(message.body, bytes)
        return {"data": data_to_json(message.body)}
    if message.body_kind is BodyKind.SEQUENCE:
        assert isinstance(message.body, list)
        return {"sequence": [from_postroom(item) for item in message.body]}
    return {"value": from_postroom(message.body)}


# --- The client


class Driver:
    """A connection and what it has open."""

    def __init__(self) -> None:
        self.connection: Connection
        self.session: Session
        self.producers: dict[tuple[str, bool], MessageProducer] = {}

    def connect(self, command: dict[str, Any]) -> dict[str, Any]:
        user = f"{quote(command['user'])}:{quote(command['password'])}@" if "user" in command else ""
        url = f"amqp://{user}{command['host']}:{command['port']}"
        self.connection = ConnectionFactory(
            url, client_id=command.get("container"), options=ClientOptions(force_sync_send=True)
        ).create_connection()
        self.session = self.connection.create_session(AcknowledgeMode.INDIVIDUAL)
        self.producers.clear()
        return {}

    def send(self, command: dict[str, Any]) -> dict[str, Any]:
        settled = command.get("settled", False)
        producer = self.producer(command["address"], settled)
        messages = [to_message(spec) for spec in command["messages"]]
        if settled:
            producer.send_all(messages)
            producer.close()
            del self.producers[command["address"], settled]
            return {"outcomes": [{"state": "settled"}] * len(messages)}
        return {"outcomes": [outcome_of(producer, message) for message in messages]}

    def producer(self, address: str, settled: bool) -> MessageProducer:
        if (address, settled) not in self.producers:
            self.producers[address, settled] = self.session.create_producer(address, settled=settled)
        return self.producers[address, settled]

    def receive(self, command: dict[str, Any]) -> dict[str, Any]:
        mode = AcknowledgeMode.NO_ACKNOWLEDGE if command.get("presettled") else AcknowledgeMode.INDIVIDUAL
        session = self.connection.create_session(mode)
        consumer = session.create_consumer(
            command["address"], prefetch=0, settle_second=command.get("second", False)
        )
        messages = []
        while len(messages) < command["count"] and (message := next_message(consumer, command)) is not None:
            messages.append(from_message(message))
            if not command.get("presettled"):
                settle(consumer, message, command.get("outcome", "accept"))
        if not command.get("keep"):
            session.close()
        return {"messages": messages}

    def browse(self, command: dict[str, Any]) -> dict[str, Any]:
        browser: QueueBrowser = self.session.create_browser(command["address"])
        messages = [from_message(message) for message in browser]
        browser.close()
        return {"messages": messages}

    def close(self, command: dict[str, Any]) -> dict[str, Any]:
        self.connection.close()
        return {}


def outcome_of(producer: MessageProducer, message: Message) -> dict[str, Any]:
    """Send one message and name its outcome; a lost connection or link is no outcome."""
    try:
        producer.send(message)
    except ConnectionLostException:
        raise
    except (MessageReleasedException, MessageModifiedException) as error:
        state = "released" if isinstance(error, MessageReleasedException) else "modified"
        return {"state": state, "condition": None, "description": str(error)}
    except JMSException as error:
        return {"state": "rejected", "condition": error.condition, "description": error.description}
    return {"state": "accepted"}


def next_message(consumer: MessageConsumer, command: dict[str, Any]) -> Message | None:
    if command.get("wait"):
        return consumer.receive(command.get("timeout_ms", 10_000) / MS_A_SECOND)
    return consumer.receive_no_wait()


def settle(consumer: MessageConsumer, message: Message, outcome: str | dict[str, Any]) -> None:
    ((name, detail),) = outcome.items() if isinstance(outcome, dict) else ((outcome, {}),)
    if name == "accept":
        consumer.accept(message)
    elif name == "release":
        consumer.release(message)
    elif name == "reject":
        consumer.reject(message, detail.get("condition"), detail.get("description"))
    elif name == "modify":
        failed, elsewhere = detail.get("failed", False), detail.get("undeliverable_here", False)
        consumer.modify(message, failed=failed, undeliverable_here=elsewhere)


def answer(driver: Driver, line: str) -> dict[str, Any]:
    command = json.loads(line)
    try:
        fields: dict[str, Any] = getattr(driver, command["op"])(command)
    except JMSException as error:
        return {
            "error": {
                "type": type(error).__name__,
                "condition": error.condition,
                "description": error.description,
            }
        }
    return fields


def main() -> None:
    driver = Driver()
    for line in sys.stdin:
        print(json.dumps(answer(driver, line)), flush=True)


if __name__ == "__main__":
    main()
