"""A session with a broker of the test, and what is received in it."""

from __future__ import annotations

from postroom.client import AcknowledgeMode, Message
from postroom.client.aio import MessageConsumer, Session
from postroom.client.messages.message import encode_message
from tests.client.fake_broker import FakeBroker


def texts(*words: str) -> list[bytes]:
    return [encode_message(Message(word), None) for word in words]


async def session_of(broker: FakeBroker, mode: AcknowledgeMode = AcknowledgeMode.INDIVIDUAL) -> Session:
    return await (await broker.connect(request_timeout_s=10.0)).create_session(mode)


async def bodies(consumer: MessageConsumer, count: int) -> list[object]:
    received = [await consumer.receive(10) for _ in range(count)]
    return [message.body for message in received if message is not None]
