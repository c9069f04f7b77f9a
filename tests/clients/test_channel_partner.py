"""A channel whose other end is no Postroom but a program of rhea, written from the page on the protocol."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from postroom.client.aio import ConnectionFactory
from tests.clients.broker import BrokerProcess
from tests.clients.driver import make_ready

pytestmark = pytest.mark.sockets

HERE = Path(__file__).parent / "rhea"
RUN_S = 60
WAIT_S = 1
CONFIG = """
container_id = "POSTROOM"

[[listen]]
address = "{address}"

[[queue]]
name = "IN"

[[queue]]
name = "JAVASCRIPT"
usage = "transmission"

[[channel]]
name = "JS.TO.POSTROOM"
type = "receiver"

[[channel]]
name = "POSTROOM.TO.JS"
type = "server"
transmission_queue = "JAVASCRIPT"
"""


@pytest.fixture
def postroom(tmp_path: Path) -> Iterator[BrokerProcess]:
    make_ready("rhea")
    with BrokerProcess(tmp_path / "data", CONFIG) as process:
        yield process


def partner(broker: BrokerProcess, *arguments: str) -> dict[str, Any]:
    """Run the program; what it says."""
    command = ["node", "channel.js", str(broker.port), *arguments]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False, timeout=RUN_S)
    assert done.stdout, done.stderr
    output = json.loads(done.stdout)
    assert isinstance(output, dict)
    return output


def url(broker: BrokerProcess) -> str:
    return f"amqp://127.0.0.1:{broker.port}"


def waiting(broker: BrokerProcess, queue: str) -> list[str]:
    """Take everything from a queue."""

    async def take() -> list[str]:
        texts: list[str] = []
        async with await ConnectionFactory(url(broker)).create_context() as context:
            consumer = await context.create_consumer(queue)
            while (text := await consumer.receive_body(str, WAIT_S)) is not None:
                texts.append(text)
        return texts

    return asyncio.run(take())


def put(broker: BrokerProcess, address: str, *texts: str) -> None:
    async def send() -> None:
        async with await ConnectionFactory(url(broker)).create_context() as context:
            for text in texts:
                await context.create_producer().send(address, text)

    asyncio.run(send())


def test_a_sender_in_another_language(postroom: BrokerProcess) -> None:
    result = partner(
        postroom, "send", "JS.TO.POSTROOM", "IN", "2", "one", "two", "three", "fast", "four", "five"
    )
    assert result == {"begun": 0, "sequence": 5, "batches": 3, "partner": "POSTROOM"}
    assert sorted(waiting(postroom, "IN")) == sorted(["one", "two", "three", "fast", "four", "five"])
    result = partner(postroom, "send", "JS.TO.POSTROOM", "IN", "2", "six")
    assert result == {"begun": 5, "sequence": 6, "batches": 1, "partner": "POSTROOM"}
    assert waiting(postroom, "IN") == ["six"]


def test_a_requester_in_another_language(postroom: BrokerProcess) -> None:
    put(postroom, "Q@JAVASCRIPT", "one", "two")
    first = partner(postroom, "receive", "POSTROOM.TO.JS", "0", "")
    assert (first["texts"], first["sequences"], first["sequence"]) == (["one", "two"], [1, 2], 2)
    put(postroom, "Q@JAVASCRIPT", "three")
    then = partner(postroom, "receive", "POSTROOM.TO.JS", "2", first["luwid"])
    assert (then["texts"], then["sequence"], then["count"]) == (["three"], 3, 1)


def test_a_partner_is_told_what_is_wrong(postroom: BrokerProcess) -> None:
    result = partner(postroom, "send", "NOWHERE", "IN", "2", "one")
    assert result["condition"] == "amqp:not-found"
    result = partner(postroom, "receive", "POSTROOM.TO.JS", "17", "")
    assert result["condition"] == "postroom:sequence-error"
