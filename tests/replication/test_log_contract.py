"""What every log must do, shown of those in memory, and of NATS JetStream and Apache Kafka on three nodes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import nats as nats_client
import pytest
from confluent_kafka import Producer
from nats.errors import TimeoutError as NatsTimeout
from tools.peers.kafka import KafkaCluster
from tools.peers.nats import NatsCluster
from tools.peers.ports import free_port

from postroom.ledger.errors import LedgerFailed
from postroom.replication.active import Active
from postroom.replication.entries import Entry, Kind, Place, decode_entry, parts_of_block
from postroom.replication.errors import EngineUnavailable, Overtaken
from postroom.replication.kafka_log import KafkaLog
from postroom.replication.log import MemberNote, ReplicatedLog
from postroom.replication.nats_log import NatsLog
from postroom.replication.options import ReplicationOptions
from postroom.replication.order import LogOrder
from tests.replication.memory_log import MemoryLog, Stream
from tests.replication.opening import open_log

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.timeout(400),  # NATS takes up to 10 s to elect a leader
    pytest.mark.usefixtures("patient_clients"),
]
FLUSH_S = 30
Connect = Callable[[], Awaitable[ReplicatedLog]]


def options_of(nats: NatsCluster, stream: str, **others: object) -> ReplicationOptions:
    given = {"monitoring": tuple(nats.monitoring), **others}
    return ReplicationOptions(tuple(nats.urls), "a", stream, **given)  # type: ignore[arg-type]


@asynccontextmanager
async def connections(open_one: Callable[[], ReplicatedLog]) -> AsyncIterator[Connect]:
    opened: list[ReplicatedLog] = []

    async def connect() -> ReplicatedLog:
        opened.append(open_one())
        await open_log(opened[-1])
        return opened[-1]

    try:
        yield connect
    finally:
        for each in opened:
            await each.close()


@dataclass
class Logs:
    """Has something done with connections to one log."""

    open_one: Callable[[], ReplicatedLog]
    is_conditional: bool = True
    """Whether the engine refuses what doesn't follow on the last entry; or takes it, and no reader
    counts it."""

    def __call__(self, act: Callable[[Connect], Awaitable[None]]) -> None:
        async def acted() -> None:
            async with connections(self.open_one) as connect:
                await act(connect)

        asyncio.run(acted())


@pytest.fixture(
    params=["memory", "memory that takes everything", "nats", pytest.param("kafka", marks=pytest.mark.peer)]
)
def logs(request: pytest.FixtureRequest, stream: str) -> Logs:
    if request.param.startswith("memory"):
        kept = Stream(is_conditional=request.param == "memory")
        return Logs(lambda: MemoryLog(kept), kept.is_conditional)
    return (logs_on_kafka if request.param == "kafka" else logs_on_nats)(request, stream)


def logs_on_kafka(request: pytest.FixtureRequest, stream: str) -> Logs:
    kafka: KafkaCluster = request.getfixturevalue("kafka")
    return Logs(lambda: KafkaLog(ReplicationOptions(tuple(kafka.urls), "a", stream)), is_conditional=False)


def logs_on_nats(request: pytest.FixtureRequest, stream: str) -> Logs:
    nats: NatsCluster = request.getfixturevalue("nats")
    return Logs(lambda: NatsLog(options_of(nats, stream)))


async def read(log: ReplicatedLog, after: int, count: int) -> list[tuple[int, bytes]]:
    async with aclosing(log.read(after)) as entries:
        return [await anext(entries) for _ in range(count)]


def test_entries_are_numbered_and_read_in_order(logs: Logs) -> None:
    async def act(connect: Connect) -> None:
        log, reader = await connect(), await connect()
        assert (await log.first(), await log.last()) == (1, 0)
        assert await log.append(0, [b"one"]) == 1
        assert await log.append(1, [b"two", b"three", b"four"]) == 4
        assert await reader.last() == 4
        assert await read(reader, 0, 4) == [(1, b"one"), (2, b"two"), (3, b"three"), (4, b"four")]
        assert await read(reader, 2, 2) == [(3, b"three"), (4, b"four")]

    logs(act)


def test_a_reader_gets_what_comes(logs: Logs) -> None:
    async def act(connect: Connect) -> None:
        log, reader = await connect(), await connect()
        waiting = asyncio.ensure_future(read(reader, 0, 2))
        await log.append(0, [b"one"])
        await log.append(1, [b"two"])
        assert await waiting == [(1, b"one"), (2, b"two")]

    logs(act)


def test_a_stale_writer_is_told(logs: Logs) -> None:
    async def act(connect: Connect) -> None:
        stale, other = await connect(), await connect()
        await stale.append(0, [b"one"])
        await other.append(1, [b"two"])
        with pytest.raises(Overtaken):
            await stale.append(1, [b"stale"])
        last = await other.last()
        assert last == (2 if logs.is_conditional else 3)
        assert await other.append(last, [b"next"]) == last + 1
        found = await read(other, 0, last + 1)
        assert [*found[:2], found[-1]] == [(1, b"one"), (2, b"two"), (last + 1, b"next")]

    logs(act)


def test_a_stale_writer_whose_place_was_trimmed_is_told(logs: Logs) -> None:
    async def act(connect: Connect) -> None:
        stale, other = await connect(), await connect()
        await stale.append(0, [b"one"])
        last = await other.append(1, [b"two", b"three", b"four"])
        await other.trim(last - 1)
        with pytest.raises(Overtaken):
            await stale.append(1, [b"stale"])

    logs(act)


def test_of_two_that_append_at_once_one_is_let(logs: Logs) -> None:
    async def act(connect: Connect) -> None:
        both = [await connect(), await connect()]
        made = [each.append(0, [name]) for each, name in zip(both, (b"a", b"b"), strict=True)]
        answers = await asyncio.gather(*made, return_exceptions=True)
        assert {type(each) for each in answers} == {int, Overtaken}
        winner = [b"a", b"b"][[type(each) for each in answers].index(int)]
        assert await both[0].last() == (1 if logs.is_conditional else 2)
        assert await read(both[1], 0, 1) == [(1, winner)]

    logs(act)


def test_trimmed_entries_are_gone(logs: Logs) -> None:
    async def act(connect: Connect) -> None:
        log = await connect()
        last = await log.append(0, [b"%d" % number for number in range(1, 11)])
        before = await log.size_bytes()
        await log.trim(7)
        assert (await log.first(), await log.last()) == (8, last)
        assert 0 < await log.size_bytes() < before
        assert await read(log, 0, 3) == [(8, b"8"), (9, b"9"), (10, b"10")]
        await log.trim(10)
        assert (await log.first(), await log.last()) == (11, 10)
        assert await log.append(10, [b"11"]) == 11

    logs(act)


def test_notes_of_members(logs: Logs) -> None:
    async def act(connect: Connect) -> None:
        log, other = await connect(), await connect()
        assert await log.notes() == []
        await log.note(MemberNote("b", "follower", 1, 2, 3))
        await other.note(MemberNote("a", "active", 4, 5, 6, ["amqp://a"], "1"))
        await log.note(MemberNote("b", "follower", 7, 8, 9))
        assert await other.notes() == [
            MemberNote("a", "active", 4, 5, 6, ["amqp://a"], "1"),
            MemberNote("b", "follower", 7, 8, 9),
        ]
        await other.forget("b")
        assert [each.member for each in await log.notes()] == ["a"]

    logs(act)


@pytest.mark.parametrize("engine", ["nats", pytest.param("kafka", marks=pytest.mark.peer)])
def test_what_others_put_among_the_notes_is_passed_over(
    engine: str, request: pytest.FixtureRequest, stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    logs: Logs = {"nats": logs_on_nats, "kafka": logs_on_kafka}[engine](request, stream)

    async def act(connect: Connect) -> None:
        log = await connect()
        await log.note(MemberNote("b", "follower", 1, 2, 3))
        for name, data in FOREIGN.items():
            await put_foreign(request, engine, f"{stream}-members", name, data)
        with caplog.at_level(logging.WARNING, "postroom"):
            for _ in range(2):
                assert await log.notes() == [MemberNote("b", "follower", 1, 2, 3)]

    logs(act)
    assert [record.getMessage().partition(" is none: ")[0] for record in caplog.records] == [
        f"replication: what is among members' notes as {name!r}" for name in FOREIGN
    ]


FOREIGN = {"text": b"no JSON", "u": b'{"member": "c"}', "v": b"[]"}


async def put_foreign(
    request: pytest.FixtureRequest, engine: str, place: str, name: str, data: bytes
) -> None:
    if engine == "nats":
        client = await nats_client.connect(servers=request.getfixturevalue("nats").urls)
        await (await client.jetstream().key_value(place)).put(name, data)
        await client.close()
        return
    producer = Producer({"bootstrap.servers": request.getfixturevalue("kafka").addresses})
    producer.produce(place, data, name)
    assert producer.flush(FLUSH_S) == 0


def test_notes_are_never_partly_read(logs: Logs) -> None:
    """What followers still need is kept by them: a member that isn't among them would lose it."""

    async def act(connect: Connect) -> None:
        opened = [await connect() for _ in range(6)]
        await opened[0].note(MemberNote("a", "active", 1, 2, 3))
        await opened[1].note(MemberNote("b", "follower", 1, 2, 3))

        async def seen(log: ReplicatedLog) -> list[list[str]]:
            return [[note.member for note in await log.notes()] for _ in range(100)]

        for each in await asyncio.gather(*map(seen, opened)):
            assert each == [["a", "b"]] * 100

    logs(act)


def test_entries_as_large_as_may_be(logs: Logs) -> None:
    async def act(connect: Connect) -> None:
        log = await connect()
        entries = [bytes([number]) * log.most_bytes for number in range(20)]
        assert await log.append(0, entries) == 20
        assert [data for _, data in await read(log, 0, 20)] == entries

    logs(act)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_is_cleared_up(
    nats: NatsCluster, stream: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of NATS: whether the entry got there or not, it is there once, and its writer knows."""

    async def act() -> None:
        log = NatsLog(options_of(nats, stream))
        await log.open()
        whole = log._publish
        losses = 1

        async def losing(after: int, entry: bytes) -> None:
            nonlocal losses
            if losses and after == 2:
                losses -= 1
                if when == "after":
                    await whole(after, entry)
                raise NatsTimeout
            await whole(after, entry)

        monkeypatch.setattr(log, "_publish", losing)
        await log.append(0, [b"one"])
        assert await log.append(1, [b"two", b"three", b"four"]) == 4
        assert not losses
        assert await read(log, 0, 4) == [(1, b"one"), (2, b"two"), (3, b"three"), (4, b"four")]
        await log.close()

    asyncio.run(act())


def test_a_stale_block_counts_for_nobody(nats: NatsCluster, stream: str) -> None:
    """Of NATS: parts of a block are sent without waiting for each other, so that a later one of a stale
    writer may be taken behind another's entry. Who is active passes it over, and so does who reads."""

    async def act() -> None:
        options = options_of(nats, stream)
        stale, other, reader = (NatsLog(options) for _ in range(3))
        for log in (stale, other, reader):
            await log.open()
        claims = [bytes([number]) * 16 for number in (1, 2)]
        await stale.append(0, [Entry(Kind.CLAIM, claims[0], 0, b'{"member":"a"}').encode()])
        order = LogOrder(1, claims[0])
        claim = Entry(Kind.CLAIM, claims[1], 1, b'{"member":"b"}')
        assert order.take(await other.append(1, [claim.encode()]), claim)
        with pytest.raises(Overtaken):
            await stale.append(1, parts_of_block(claims[0], 1, Place(1, 0), [bytes(3000)], 1060))
        assert await reader.last() == 4, "the second and third parts were refused: nothing is tested here"
        lost: list[LedgerFailed] = []
        active = Active(other, options, order, MemberNote("b", "active", 0, 0, 0), lost.append)
        await active.append_block(Place(1, 0), [b"block"])
        await active.stop()
        assert not lost
        readers_order = LogOrder()
        entries = [(at, decode_entry(at, data)) for at, data in await read(reader, 0, active.sequence)]
        counting = [entry for at, entry in entries if readers_order.take(at, entry)]
        assert [entry.claim for entry in counting] == [claims[0]] + [claims[1]] * (len(counting) - 1)
        assert [bytes(entry.payload) for entry in counting if entry.kind is Kind.PART] == [b"block"]
        for log in (stale, other, reader):
            await log.close()

    asyncio.run(act())


def test_the_settings_of_a_majority_are_enough(nats: NatsCluster, stream: str) -> None:
    """One node may be down when a member starts."""
    down = [f"http://127.0.0.1:{free_port()}" for _ in range(2)]

    async def open_with(monitoring: list[str]) -> None:
        log = NatsLog(options_of(nats, stream, monitoring=tuple(monitoring)))
        try:
            await log.open()
        finally:
            await log.close()

    asyncio.run(open_with([*nats.monitoring[:2], down[0]]))
    with pytest.raises(EngineUnavailable, match=f"{down[0]}: .*{down[1]}: "):
        asyncio.run(open_with([nats.monitoring[0], *down]))


def test_an_engine_without_a_majority_acknowledges_nothing(tmp_path: Path, stream: str) -> None:
    with NatsCluster(tmp_path / "nats") as cluster:

        async def act() -> None:
            log = NatsLog(options_of(cluster, stream, stop_after_ms=1000))
            patient = NatsLog(options_of(cluster, stream, stop_after_ms=60_000))
            for each in (log, patient):
                await each.open()
            await log.append(0, [b"one"])
            for node in cluster.nodes[:2]:
                node.kill()
            with pytest.raises(EngineUnavailable, match="has not acknowledged entry 2"):
                await log.append(1, [b"two"])
            for node in cluster.nodes[:2]:
                node.start()
            await asyncio.to_thread(cluster.wait)
            assert await patient.append(1, [b"two"]) == 2  # whether the first try got there or not
            assert await read(patient, 0, 2) == [(1, b"one"), (2, b"two")]
            await log.close()
            await patient.close()

        asyncio.run(act())
