"""The client in uvloop's loop, which web servers take: its transports are no subclasses of asyncio's."""

from __future__ import annotations

import ssl

import pytest
import uvloop

from postroom.client.aio import connect
from tests.certificates import Certificate
from tests.client.fake_broker import tls_broker
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets


def test_a_message_goes_to_the_broker_and_back() -> None:
    async def send_and_receive(url: str) -> object:
        async with connect(url) as connection:
            async with connection.producer("orders") as producer:
                await producer.send("apples")
            async with connection.consumer("orders") as orders:
                async for message in orders:
                    async with message.process():
                        return message.body
        return None

    with BrokerThread() as broker:
        assert uvloop.run(send_and_receive(broker.url)) == "apples"


def test_tls(certificate: Certificate) -> None:
    async def send() -> int:
        async with tls_broker(certificate) as broker:
            trusting = ssl.create_default_context(cafile=certificate.certificate)
            async with await broker.connect(tls=trusting) as connection:
                await (await connection.producer("orders")).send("apples")
            return len(broker.received)

    assert uvloop.run(send()) == 1
