"""What no client says, said by raw frames: every encoding of every type passes the broker byte by byte.

The bare message is immutable (part 3, section 3.2), so whatever a sender chose to write, down to the choice
among several encodings of one value, is what the receiver gets.
"""

from __future__ import annotations

import asyncio

import pytest

from postroom.amqp.frames.outcomes import ACCEPTED
from postroom.amqp.message.message_head import scan_head
from postroom.client import AcknowledgeMode
from postroom.client.aio import ConnectionFactory
from tests.clients.broker import BrokerProcess

pytestmark = pytest.mark.sockets

# Encodings by the hexadecimal bytes of part 1, section 1.6; each is the whole body of a message.
ENCODINGS = {
    "null": "40",
    "boolean 56": "5601",
    "true": "41",
    "false": "42",
    "ubyte": "50ff",
    "ushort": "60ffff",
    "uint": "7000000001",
    "smalluint": "5201",
    "uint0": "43",
    "ulong": "800000000000000001",
    "smallulong": "5301",
    "ulong0": "44",
    "byte": "5180",
    "short": "618000",
    "int": "7180000000",
    "smallint": "5480",
    "long": "818000000000000000",
    "smalllong": "5580",
    "float": "723fc00000",
    "float signalling NaN": "727fa00001",
    "double": "823ff8000000000000",
    "double NaN with a payload": "827ff8000000000abc",
    "decimal32": "74a25abcde",
    "decimal64": "84a230000000000001",
    "decimal128": "94" + "a208000000000000000000000000beef",
    "char": "730001f680",
    "timestamp": "837fffffffffffffff",
    "uuid": "98" + "00112233445566778899aabbccddeeff",
    "vbin8": "a00200ff",
    "vbin32": "b00000000200ff",
    "str8": "a102c3bc",
    "str32": "b100000002c3bc",
    "sym8": "a30161",
    "sym32": "b30000000161",
    "list0": "45",
    "list8": "c00401a10161",
    "list8 empty": "c00100",
    "list32": "d00000000700000001a10161",
    "map8": "c10702a10161a10162",
    "map8 empty": "c10100",
    "map32": "d10000000a00000002a10161a10162",
    "map with the keys 1 and true": "c10a045401a1016141a10162",
    "map with a list as key": "c1050245a10161",
    "array8": "e00402510102",
    "array32": "f00000000700000002510102",
    "array of null": "e0020340",
    "array of booleans as bytes": "e00402560100",
    "array of lists": "e00602c001000100",
    "array of maps": "e00401c10100",
    "array of arrays": "e00701e00402510102",
    "array of described values": "e0070100a301785101",
    "described": "00" + "a30178" + "a10179",
    "described twice": "00" + "a30178" + "00" + "5307" + "a10179",
}

HEADER = "005370c0020141"
VALUE_SECTION = "005377"
EMPTY_BODY = VALUE_SECTION + "40"
BARE_PARTS = {
    "properties with a binary id": "005373" + "c00501a00200ff" + EMPTY_BODY,
    "properties by symbol": "00a314616d71703a70726f706572746965733a6c697374" + "45" + EMPTY_BODY,
    "application properties with several encodings": "005374"
    + "c11004"
    + "a10161"
    + "7000000001"
    + "b10000000162"
    + "40"
    + EMPTY_BODY,
    "message annotations": "005372" + "c10702" + "a30161" + "a10162" + EMPTY_BODY,
    "two data sections": "005375" + "a00161" + "005375" + "b00000000162",
    "two sequences": "005376" + "45" + "005376" + "c0020141",
    "a footer": EMPTY_BODY + "005378" + "c10702" + "a30161" + "a10162",
}


async def through_the_broker(broker: BrokerProcess, queue: str, payloads: list[bytes]) -> list[bytes]:
    """Send payloads as they are; what a consumer gets for each, without the header that the broker writes."""
    async with await ConnectionFactory(broker.url).create_connection() as connection:
        session = await connection.create_session(AcknowledgeMode.INDIVIDUAL)
        producer, consumer = await session.create_producer(queue), await session.create_consumer(queue)
        outcomes = [await producer._sending.send(payload, False, 10) for payload in payloads]
        for outcome, payload in zip(outcomes, payloads, strict=True):
            assert outcome is not None
            assert await outcome == ACCEPTED, payload.hex()
        received = []
        for _ in payloads:
            incoming = await consumer._deliveries.receiving.receive(10)
            assert incoming is not None
            received.append(incoming.payload[scan_head(incoming.payload).bare_offset :])
        return received


def test_every_encoding_of_every_type_passes_unchanged(broker: BrokerProcess, queue: str) -> None:
    bare = {name: bytes.fromhex(VALUE_SECTION + encoding) for name, encoding in ENCODINGS.items()}
    received = asyncio.run(through_the_broker(broker, queue, list(bare.values())))
    changed = {
        name: (sent, got) for (name, sent), got in zip(bare.items(), received, strict=True) if sent != got
    }
    assert changed == {}


def test_every_section_passes_unchanged(broker: BrokerProcess, queue: str) -> None:
    """The header is the broker's to write; all that follows stays."""
    bare = {name: bytes.fromhex(part) for name, part in BARE_PARTS.items()}
    payloads = [bytes.fromhex(HEADER) + part for part in bare.values()]
    received = asyncio.run(through_the_broker(broker, queue, payloads))
    changed = {
        name: (sent, got) for (name, sent), got in zip(bare.items(), received, strict=True) if sent != got
    }
    assert changed == {}
