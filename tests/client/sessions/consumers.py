"""Consumers of a session, and the outcomes of messages that reach their broker."""

from __future__ import annotations

from typing import Any

from postroom.amqp.frames.outcomes import DeliveryState
from postroom.client import AcknowledgeMode
from postroom.client.aio import MessageConsumer
from tests.client.fake_broker import FakeBroker
from tests.client.fake_sessions import session_of, texts


def last_outcomes(broker: FakeBroker) -> dict[int, DeliveryState | None]:
    """The last outcome of each message, by its place."""
    return {place: state for places, state, _ in broker.dispositions for place in places}


async def consumer_in(
    broker: FakeBroker, mode: AcknowledgeMode, *words: str, **options: Any
) -> MessageConsumer:
    broker.put("q", *texts(*words))
    return await (await session_of(broker, mode)).create_consumer("q", **options)
