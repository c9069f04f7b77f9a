"""Messages of each kind that JMS has."""

from __future__ import annotations

import uuid

from postroom.amqp.encoding.types import Byte, Char, Float32, Int, Short
from postroom.client import (
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TemporaryQueue,
    TemporaryTopic,
    TextMessage,
    Topic,
)

VALUES = [
    True, Byte(-1), Short(-2), Char("é"), Int(-3), -4, Float32(1.5), 2.5, "Grüße", b"\0\xff", None
]  # fmt: skip


NAMES = ("boolean", "byte", "short", "char", "int", "long", "float", "double", "string", "bytes", "null")


ITEMS = dict(zip(NAMES, VALUES, strict=True))


PROPERTIES = {name: value for name, value in ITEMS.items() if name not in ("char", "bytes", "null")}


OF_JAVA = [
    "Boolean:true", "Byte:-1", "Short:-2", "Character:é", "Integer:-3", "Long:-4", "Float:1.5", "Double:2.5",
    "String:Grüße", "byte[]:00ff", "null",
]  # fmt: skip


ITEMS_OF_JAVA = dict(zip(NAMES, OF_JAVA, strict=True))


def written_bytes() -> BytesMessage:
    message = BytesMessage()
    message.write_boolean(True)
    message.write_byte(-1)
    message.write_short(-2)
    message.write_char("é")
    message.write_int(-3)
    message.write_long(-4)
    message.write_float(1.5)
    message.write_double(2.5)
    message.write_utf("aé🚀")
    return message


def named(items: dict[str, str]) -> str:
    return " ".join(f"{name}={items[name]}" for name in sorted(items))


def properties() -> Message:
    message = TextMessage("a")
    for name, value in PROPERTIES.items():
        message.set_object_property(name, value)
    return message


OUR_ID = uuid.UUID(int=7)


SENT: list[tuple[str, Message, str]] = [
    ("plain", Message(), "Message"),
    ("text", TextMessage("Grüße 🚀"), "TextMessage Grüße 🚀"),
    ("no text", TextMessage(), "TextMessage null"),
    ("str", Message("of AMQP"), "TextMessage of AMQP"),
    ("bytes", BytesMessage(b"\0\xff"), "BytesMessage 00ff"),
    ("no bytes", BytesMessage(), "BytesMessage "),
    ("bytes written", written_bytes(), "BytesMessage true -1 -2 é -3 -4 1.5 2.5 aé🚀"),
    ("map", MapMessage(dict(ITEMS)), "MapMessage " + named(ITEMS_OF_JAVA)),
    ("empty map", MapMessage(), "MapMessage "),
    ("stream", StreamMessage(VALUES), "StreamMessage " + " ".join(OF_JAVA)),
    ("object", ObjectMessage(Int(7)), "ObjectMessage Integer:7"),
    ("object of text", ObjectMessage("a"), "ObjectMessage String:a"),
    ("no object", ObjectMessage(), "ObjectMessage null"),
    (
        "properties",
        properties(),
        named({"JMSXDeliveryCount": "Integer:1"} | {name: ITEMS_OF_JAVA[name] for name in PROPERTIES}),
    ),
    (
        "headers 1",
        TextMessage(
            "a",
            message_id=OUR_ID,
            correlation_id="order-7",
            reply_to=Topic("replies"),
            priority=7,
            durable=False,
            ttl_ms=60_000,
            group_id="g",
            group_sequence=3,
        ),
        f"ID:AMQP_UUID:{OUR_ID} order-7 Queue:kinds.to.java Topic:replies 1 7 g 3 1 60000",
    ),
    (
        "headers 2",
        TextMessage("a", message_id="order-8", correlation_id=7, reply_to="replies", expiration_ms=1 << 50,
                    timestamp_ms=(1 << 50) - 5),
        "ID:AMQP_NO_PREFIX:order-8 ID:AMQP_ULONG:7 Queue:kinds.to.java Queue:replies 2 4 null 0 1 5",
    ),
    (
        "headers 3",
        TextMessage("a", message_id=b"\xab", reply_to=TemporaryQueue("t"), expiration_ms=1 << 50,
                    timestamp_ms=(1 << 50) - 5),
        "ID:AMQP_BINARY:AB null Queue:kinds.to.java TemporaryQueue:t 2 4 null 0 1 5",
    ),
    (
        "headers 4",
        TextMessage("a", message_id="ID:1", reply_to=TemporaryTopic("t"), expiration_ms=1 << 50,
                    timestamp_ms=(1 << 50) - 5),
        "ID:1 null Queue:kinds.to.java TemporaryTopic:t 2 4 null 0 1 5",
    ),
]  # fmt: skip
