"""The log on Apache Kafka, which takes whatever comes: what is late or twice counts once or not at all."""

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ListOffsetsResultInfo,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from cryptography import x509
from tools.peers.kafka import KafkaCluster, Security

from postroom.ledger.errors import LedgerFailed
from postroom.replication import kafka_log
from postroom.replication.active import Active
from postroom.replication.entries import Entry, Kind, Place, decode_entry, parts_of_block
from postroom.replication.errors import EngineRefused, EngineUnavailable, MemberRefused, Overtaken
from postroom.replication.kafka_client import EntryProducer, PartitionReader
from postroom.replication.kafka_log import KafkaLog
from postroom.replication.kafka_topics import log_config
from postroom.replication.log import MemberNote
from postroom.replication.options import ReplicationOptions
from postroom.replication.order import LogOrder
from tests.authority import Authority
from tests.replication.opening import PATIENCE_S, open_log

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.peer,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("patient_clients"),
]
ADMIN_S = 60.0
ENTRIES = [b"two", b"three", b"four"]
Answer = asyncio.Future[int | KafkaError]
Send = Callable[..., Answer]


def options_of(kafka: KafkaCluster, stream: str, **others: object) -> ReplicationOptions:
    return ReplicationOptions(tuple(kafka.urls), "a", stream, **others)  # type: ignore[arg-type]


@asynccontextmanager
async def opened(
    *all_options: ReplicationOptions, patience_s: float = PATIENCE_S
) -> AsyncIterator[list[KafkaLog]]:
    logs = [KafkaLog(options) for options in all_options]
    try:
        for log in logs:
            await open_log(log, patience_s)
        yield logs
    finally:
        for log in logs:
            await log.close()


async def read(log: KafkaLog, after: int, count: int) -> list[tuple[int, bytes]]:
    async with aclosing(log.read(after)) as entries:
        return [await anext(entries) for _ in range(count)]


def failed() -> Answer:
    answer: Answer = asyncio.get_running_loop().create_future()
    answer.set_result(KafkaError(KafkaError._MSG_TIMED_OUT))
    return answer


def losing(lost: dict[bytes, str]) -> Send:
    """As `EntryProducer.send`; the answer to each of these, or it itself, is lost once."""
    whole = EntryProducer.send

    def send(
        self: EntryProducer, topic: str, value: bytes, **others: dict[str, str | bytes | None]
    ) -> Answer:
        what = lost.pop(value, "")
        if what == "before":
            return failed()
        sent = whole(self, topic, value, headers=others["headers"])
        if what != "after":
            return sent
        answer: Answer = asyncio.get_running_loop().create_future()
        sent.add_done_callback(lambda _: answer.set_result(KafkaError(KafkaError._MSG_TIMED_OUT)))
        return answer

    return send


@pytest.mark.parametrize(
    "lost",
    [
        dict.fromkeys(ENTRIES, "before"),
        dict.fromkeys(ENTRIES, "after"),
        {ENTRIES[0]: "after"},
        {ENTRIES[1]: "before", ENTRIES[2]: "before"},
        {ENTRIES[0]: "after", ENTRIES[1]: "after", ENTRIES[2]: "before"},
    ],
)
def test_a_lost_answer_is_cleared_up(
    kafka: KafkaCluster, stream: str, lost: dict[bytes, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the entry got there or not, it is there once, and its writer knows."""

    async def act() -> None:
        async with opened(options_of(kafka, stream)) as (log,):
            await log.append(0, [b"one"])
            left = dict(lost)
            monkeypatch.setattr(EntryProducer, "send", losing(left))
            assert await log.append(1, ENTRIES) == 4
            assert not left
            assert await log.last() == 4
            assert await read(log, 0, 4) == list(enumerate([b"one", *ENTRIES], 1))
            assert await log.append(4, [b"five"]) == 5

    asyncio.run(act())


def test_a_copy_behind_a_lost_answer_counts_once(
    kafka: KafkaCluster, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a block's parts the second is lost and the third isn't: who is active sees that, and appends the
    block again; each of its parts counts in order."""

    async def act() -> None:
        options = options_of(kafka, stream)
        async with opened(options, options) as (log, reader):
            order = LogOrder()
            claim = Entry(Kind.CLAIM, b"c" * 16, 0, b'{"member":"a"}')
            assert order.take(await log.append(0, [claim.encode()]), claim)
            log.most_bytes = 1060
            parts = parts_of_block(order.claim, 1, Place(1, 0), [bytes(3000)], log.most_bytes)
            monkeypatch.setattr(EntryProducer, "send", losing({parts[1]: "before"}))
            lost: list[LedgerFailed] = []
            active = Active(log, options, order, MemberNote("a", "active", 0, 0, 0), lost.append)
            await active.append_block(Place(1, 0), [bytes(3000)])
            await active.stop()
            assert not lost
            offsets = [entry.offset for entry in await counting(reader) if entry.kind is Kind.PART]
            assert offsets == [0, 1000, 2000] or offsets == [0, 0, 1000, 2000]

    asyncio.run(act())


async def counting(log: KafkaLog) -> list[Entry]:
    """The entries that count for who reads all of them."""
    order = LogOrder()
    entries = [(at, decode_entry(at, data)) for at, data in await read(log, 0, await log.last())]
    return [entry for at, entry in entries if order.take(at, entry)]


@pytest.mark.parametrize("when", ["before a claim", "behind a claim"])
def test_an_append_that_comes_late(kafka: KafkaCluster, stream: str, when: str) -> None:
    """Its writer has given up. In its place it counts, and who claims reads it first; behind another's claim
    it counts for nobody, and who is active passes it over."""

    async def act() -> None:
        options = options_of(kafka, stream)
        async with opened(options, options) as (log, other):
            claims = [Entry(Kind.CLAIM, bytes([at]) * 16, at, b'{"member":"a"}') for at in (0, 1)]
            await log.append(0, [claims[0].encode()])
            late = Entry(Kind.PART, claims[0].claim, 1, b"late", 1, 0, 0, 1)
            producer = EntryProducer(log._settings, ADMIN_S, lambda _: None)
            order = LogOrder(1, claims[0].claim)
            if when == "before a claim":
                assert await producer.send(stream, late.encode()) == 1
                with pytest.raises(Overtaken):
                    await other.append(1, [claims[1].encode()])
                for at, data in await read(other, 1, 2):
                    order.take(at, decode_entry(at, data))
                claims[1] = claims[1]._replace(after=order.sequence)
            assert order.take(await other.append(order.sequence, [claims[1].encode()]), claims[1])
            if when == "behind a claim":
                assert await producer.send(stream, late.encode()) == 2
            lost: list[LedgerFailed] = []
            active = Active(other, options, order, MemberNote("b", "active", 0, 0, 0), lost.append)
            await active.append_block(Place(1, 0), [b"block"])
            await active.stop()
            assert not lost
            found = [bytes(entry.payload) for entry in await counting(other) if entry.kind is Kind.PART]
            assert found == ([b"late", b"block"] if when == "before a claim" else [b"block"])
            await producer.close()

    asyncio.run(act())


@pytest.mark.long
def test_an_engine_without_a_majority_acknowledges_nothing(
    kafka: KafkaCluster, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_log, "SILENCE_S", 5.0)

    async def act() -> None:
        hasty = options_of(kafka, stream, stop_after_ms=2000)
        patient = options_of(kafka, stream, stop_after_ms=240_000)
        async with opened(hasty, patient) as (log, other):
            await log.append(0, [b"one"])
            await other.append(1, [b"with three"])
            for node in kafka.nodes[:2]:
                node.kill()
            with pytest.raises(EngineUnavailable, match=f"Kafka.* of topic {stream}|Kafka's topic {stream}"):
                await log.append(2, [b"with one"])
            for node in kafka.nodes[:2]:
                node.start()
            await asyncio.to_thread(kafka.wait)
            assert await other.append(2, [b"with one"]) == 3  # whether the first try got there or not
            assert [data for _, data in await read(other, 0, 3)] == [b"one", b"with three", b"with one"]

    asyncio.run(act())


def make_topic(
    kafka: KafkaCluster, topic: str, replicas: int = 3, partitions: int = 1, **config: str
) -> None:
    """One that has what a log needs, but for this."""
    admin = AdminClient({"bootstrap.servers": kafka.addresses, "log_level": 0})
    settings = {**log_config(options_of(kafka, topic)), **{k.replace("_", "."): v for k, v in config.items()}}
    new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=settings)
    admin.create_topics([new], operation_timeout=ADMIN_S)[topic].result(ADMIN_S)


def open_once(*options: ReplicationOptions, patience_s: float = PATIENCE_S) -> None:
    async def act() -> None:
        async with opened(*options, patience_s=patience_s):
            pass

    asyncio.run(act())


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"partitions": 2}, "has 2 partitions"),
        ({"cleanup_policy": "compact"}, "has the cleanup.policy compact"),
        ({"retention_ms": "604800000"}, "set its retention.ms to -1"),
        ({"retention_bytes": "1000000000"}, "set its retention.bytes to -1"),
        ({"max_message_bytes": "100000"}, "takes 100000 bytes at once"),
        ({"unclean_leader_election_enable": "true"}, "set its unclean.leader.election.enable to false"),
    ],
)
def test_a_topic_that_loses_entries_is_refused(
    kafka: KafkaCluster, stream: str, config: dict[str, str], what: str
) -> None:
    make_topic(kafka, stream, **config)  # type: ignore[arg-type]
    allow = frozenset({"few-replicas", "unsynced"})
    with pytest.raises(EngineRefused, match=f"Kafka's topic {stream} .*{what}"):
        open_once(options_of(kafka, stream, allow=allow))


@pytest.mark.parametrize(
    ("config", "what", "allow"),
    [
        ({"replicas": 1, "min_insync_replicas": "1"}, "has 1 replicas", "few-replicas"),
        ({"min_insync_replicas": "1"}, "set its min.insync.replicas to 2", "few-replicas"),
        ({"flush_messages": "10000"}, "set its flush.messages to 1", "unsynced"),
    ],
)
def test_a_dangerous_topic_is_taken_where_it_is_allowed(
    kafka: KafkaCluster, stream: str, config: dict[str, str], what: str, allow: str
) -> None:
    make_topic(kafka, stream, **config)  # type: ignore[arg-type]
    with pytest.raises(EngineRefused, match=f'{what}.*allow = \\["{allow}"\\]'):
        open_once(options_of(kafka, stream))
    open_once(options_of(kafka, stream, allow=frozenset({allow})))


def test_a_topic_that_is_made_anew_is_another_log(kafka: KafkaCluster, stream: str) -> None:
    """And who has acknowledged entries in the former notices."""

    async def act() -> None:
        async with opened(options_of(kafka, stream, stop_after_ms=3000)) as (log,):
            await log.append(0, [b"one", b"two"])
            before = log.identity
            admin = AdminClient({"bootstrap.servers": kafka.addresses, "log_level": 0})
            await asyncio.to_thread(admin.delete_topics([stream], operation_timeout=ADMIN_S)[stream].result)
            async with opened(options_of(kafka, stream)) as (again,):
                assert again.identity != before
                await again.append(0, [b"another"])
                with pytest.raises(EngineUnavailable, match="ends before entry 2, which was acknowledged"):
                    await log.append(2, [b"three"])

    asyncio.run(act())


def test_a_reader_from_whom_entries_are_taken_says_so(
    kafka: KafkaCluster, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act() -> None:
        async with opened(options_of(kafka, stream)) as (log,):
            await log.append(0, [b"%d" % number for number in range(1, 6)])
            async with aclosing(log.read(0)) as entries:
                whole = PartitionReader.next

                async def one(self: PartitionReader) -> list[Message]:
                    found = (await whole(self))[:1]
                    monkeypatch.setattr(PartitionReader, "next", gone)
                    return found

                async def gone(self: PartitionReader) -> list[Message]:
                    monkeypatch.setattr(PartitionReader, "next", whole)
                    raise KafkaException(KafkaError(KafkaError._AUTO_OFFSET_RESET))

                monkeypatch.setattr(PartitionReader, "next", one)
                assert await anext(entries) == (1, b"1")
                await log.trim(4)
                with pytest.raises(MemberRefused, match="read to entry 1, and has entries 5 to 5 now"):
                    await anext(entries)

    asyncio.run(act())


def test_an_old_broker_is_refused(kafka: KafkaCluster, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what it answers to a question that brokers know since 3.0."""

    def list_offsets(self: AdminClient, wanted: dict[object, object], **others: object) -> object:
        answer: concurrent.futures.Future[object] = concurrent.futures.Future()
        answer.set_exception(KafkaException(KafkaError(KafkaError._UNSUPPORTED_FEATURE)))
        return dict.fromkeys(wanted, answer)

    monkeypatch.setattr(AdminClient, "list_offsets", list_offsets)
    with pytest.raises(EngineRefused, match=r"older than 3\.0: upgrade it"):
        open_once(options_of(kafka, stream))


def test_a_leader_that_does_not_answer_is_waited_for(
    kafka: KafkaCluster, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library tells that as an offset that can't be."""
    whole, unanswered = AdminClient.list_offsets, 2

    def list_offsets(self: AdminClient, wanted: dict[object, object], **others: object) -> object:
        nonlocal unanswered
        if not unanswered:
            return whole(self, wanted, **others)
        unanswered -= 1
        answer: concurrent.futures.Future[object] = concurrent.futures.Future()
        answer.set_result(ListOffsetsResultInfo(OFFSET_INVALID, -1, -1))
        return dict.fromkeys(wanted, answer)

    async def act() -> None:
        async with opened(options_of(kafka, stream)) as (log,):
            await log.append(0, [b"one"])
            monkeypatch.setattr(AdminClient, "list_offsets", list_offsets)
            assert await log.last() == 1
            assert not unanswered

    asyncio.run(act())


def test_nobody_there(tmp_path: Path, stream: str) -> None:
    with pytest.raises(
        EngineUnavailable, match=r"Kafka at kafka://127\.0\.0\.1:1: .*; start it, or name others"
    ):
        open_once(ReplicationOptions(("kafka://127.0.0.1:1",), "a", stream), patience_s=0)


def test_tls_and_sign_in(tmp_path: Path, stream: str) -> None:
    authority = Authority(tmp_path / "authority")
    names = [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
    store = authority.issue("localhost", names).key_store("store-password")
    password = tmp_path / "password"
    password.write_text("sesame\n")
    security = Security(store, "store-password", "alice", "sesame")
    with KafkaCluster(tmp_path / "kafka", 1, security) as cluster:
        known: dict[str, object] = {
            "replicas": 1,
            "allow": frozenset({"few-replicas"}),
            "user": "alice",
            "password_file": str(password),
            "tls_ca": str(authority.certificate),
        }

        async def act() -> None:
            async with opened(options_of(cluster, stream, **known)) as (log,):
                assert await log.append(0, [b"one"]) == 1
                assert await read(log, 0, 1) == [(1, b"one")]
                await log.note(MemberNote("a", "active", 1, 1, 1))
                assert [note.member for note in await log.notes()] == ["a"]

        asyncio.run(act())
        with pytest.raises(EngineUnavailable, match=r"(?i)certificate verify failed|ssl"):
            open_once(options_of(cluster, stream, **{**known, "tls_ca": ""}), patience_s=0)
        password.write_text("wrong")
        with pytest.raises(EngineRefused, match=r"doesn't let us in: .*Authentication failed"):
            open_once(options_of(cluster, stream, **known))
        with pytest.raises(EngineRefused, match="can't be read"):
            open_once(options_of(cluster, stream, **{**known, "password_file": str(tmp_path / "none")}))
        with pytest.raises(EngineRefused, match="Kafka's client doesn't take the settings"):
            open_once(options_of(cluster, stream, **{**known, "tls_ca": str(tmp_path / "none")}))


OPERATIONS = ("CREATE", "DESCRIBE_CONFIGS", "READ", "WRITE", "DELETE")
"""As docs/howto/replicate-a-broker.md names them."""


def allow(kafka: KafkaCluster, user: str, topic: str) -> None:
    """What a member's user does with the topics whose names begin so."""
    admin = AdminClient({"bootstrap.servers": kafka.addresses})
    lists = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.PREFIXED,
            f"User:{user}",
            "*",
            AclOperation[each],
            AclPermissionType.ALLOW,
        )
        for each in OPERATIONS
    ]
    for made in admin.create_acls(lists, request_timeout=ADMIN_S).values():
        made.result(ADMIN_S)


@pytest.mark.long  # a cluster of its own
def test_client_certificates_and_access_control_lists(tmp_path: Path, stream: str) -> None:
    """What the documents say that a member's user must be allowed is enough."""
    authority = Authority(tmp_path / "authority")
    names = [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
    store = authority.issue("localhost", names).key_store("store-password")
    own = authority.issue("member a")
    password = tmp_path / "password"
    password.write_text("sesame\n")
    security = Security(store, "store-password", "alice", "sesame", authority.certificate, deny=True)
    with KafkaCluster(tmp_path / "kafka", 1, security) as cluster:
        known: dict[str, object] = {
            "replicas": 1,
            "allow": frozenset({"few-replicas"}),
            "user": "alice",
            "password_file": str(password),
            "tls_ca": str(authority.certificate),
            "tls_certificate": str(own.certificate),
            "tls_key": str(own.key),
        }
        unshown = {**known, "tls_certificate": "", "tls_key": ""}
        with pytest.raises(EngineUnavailable, match=r"(?i)certificate"):
            open_once(options_of(cluster, stream, **unshown), patience_s=0)
        with pytest.raises(EngineRefused, match=r"doesn't let us in: .*[Aa]uthoriz"):
            open_once(options_of(cluster, stream, **known))
        allow(cluster, "alice", stream)
        asyncio.run(use(options_of(cluster, stream, **known)))


async def use(options: ReplicationOptions) -> None:
    """Everything that a member does with its log."""
    async with opened(options) as (log,):
        last = await log.append(await log.last(), [b"one", b"two"])
        assert [data for _, data in await read(log, last - 2, 2)] == [b"one", b"two"]
        await log.note(MemberNote("a", "active", 1, 1, 1))
        assert [note.member for note in await log.notes()] == ["a"]
        await log.trim(last - 1)
        assert await log.first() == last
