"""The proxy itself: it sees every frame, and cuts where it is told to."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from postroom.amqp.frames.frames import AMQP_HEADER, write_empty_frame, write_frame
from postroom.amqp.frames.performatives import Begin, Close, End, Open
from postroom.client import ConnectionLostException
from postroom.client.aio import ConnectionFactory
from tests.client.fake_broker import FakeBroker, asynchronous
from tests.faults.proxy import BROKER, CLIENT, CutPoint, FaultyProxy, Splitter


def stream() -> bytes:
    writer = BytesWriter()
    write_frame(writer, 0, Open(container_id="x"))
    write_frame(writer, 3, Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    write_empty_frame(writer, 0)
    write_frame(writer, 3, End())
    write_frame(writer, 0, Close())
    return AMQP_HEADER + writer.getvalue()


@given(st.lists(st.integers(0, len(stream())), max_size=8))
def test_frames_are_told_apart_however_the_bytes_come(places: list[int]) -> None:
    whole, splitter, found = stream(), Splitter(), []
    edges = [0, *sorted(places), len(whole)]
    for start, end in itertools.pairwise(edges):
        found += list(splitter.feed(whole[start:end]))
    assert [name for name, _ in found] == ["header", "open", "begin", "heartbeat", "end", "close"]
    assert b"".join(frame for _, frame in found) == whole


@asynchronous
async def test_without_a_cut_everything_passes() -> None:
    async with FakeBroker() as broker, FaultyProxy("127.0.0.1", int(broker.url.rpartition(":")[2])) as proxy:
        async with await ConnectionFactory(proxy.url).create_connection() as connection:
            await (await (await connection.create_session()).create_producer("q")).send("a")
        assert len(broker.received) == 1
        seen = {(place.sender, place.frame) for place in proxy.seen}
        assert {(CLIENT, "transfer"), (BROKER, "disposition"), (CLIENT, "close"), (BROKER, "close")} <= seen


@pytest.mark.parametrize(("after", "arrives"), [(False, 0), (True, 1)])
@asynchronous
async def test_a_cut_frame_arrives_or_not(after: bool, arrives: int) -> None:
    async with FakeBroker() as broker:
        cut = CutPoint(CLIENT, "transfer", 0, after)
        async with FaultyProxy("127.0.0.1", int(broker.url.rpartition(":")[2]), cut) as proxy:
            connection = await ConnectionFactory(proxy.url).create_connection()
            producer = await (await connection.create_session()).create_producer("q")
            with pytest.raises(ConnectionLostException):
                await producer.send("a")
            await connection.close()
            assert proxy.cuts == []
            assert len(broker.received) == arrives
