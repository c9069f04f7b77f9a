"""The log in a topic of Apache Kafka, 3.0 or newer, with one partition: a sequence is an offset + 1.

Kafka takes whatever comes. A writer sees by the offset that it gets whether its entry lies where it should;
if it doesn't, or no answer comes, it reads what lies there, up to what all replicas in sync have: that
doesn't change any more. Entries of a writer that was overtaken, and copies of those whose first answer was
lost, lie behind others, and `order` has every reader pass them over. The same rule holds for entries that
come after their writer has given up: in their place they count, under a claim in force, and behind another
they don't.

A producer that has failed isn't used again: what it still has on the way may come, or not, at any time.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    OffsetSpec,
)

from postroom.replication.errors import (
    COPY_ADVICE,
    CopyNeeded,
    EngineRefused,
    EngineUnavailable,
    EntryDamaged,
    MemberRefused,
    Overtaken,
)
from postroom.replication.kafka_client import (
    MOST_BYTES,
    PARTITION,
    EntryProducer,
    PartitionReader,
    Settings,
    arrived,
    settings_of,
)
from postroom.replication.kafka_topics import ensure_topics, notes_topic
from postroom.replication.log import MemberNote, NoteReader
from postroom.replication.options import ReplicationOptions

REQUEST_S: Final = 3.0
"""One question to Kafka; then it is put again."""
CONNECT_S: Final = 5.0
"""To find a node that is there."""
SILENCE_S: Final = 5.0
"""A producer that has reported nothing for so long is made anew, and a reader that has read nothing, and
should have; and a client whose question has no answer: the library's clients don't always find their way back
to nodes that were away."""
PAUSE_S: Final = 0.05
"""Before what failed is tried again."""
THROUGH_BYTES: Final = "through-bytes"
"""Header of an entry: bytes of the log up to and with it, by its writer's count."""
EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
NEWEST: Final = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
"""Of the entry with the newest time, which brokers know since 3.0."""
_REFUSALS: Final = (
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
_TOO_OLD: Final = (KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION)
"""To a question that brokers answer since 3.0: they don't tell their version."""
_NO_ANSWER: Final = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


class KafkaLog:
    """One topic, and a compacted one with notes beside it."""

    identity: str

    def __init__(self, options: ReplicationOptions) -> None:
        self.most_bytes = MOST_BYTES
        self._options: Final = options
        self._deadline_s: Final = options.stop_after_ms / 1e3
        self._settings: Settings = {}
        self._admin: AdminClient | None = None
        self._producer: EntryProducer | None = None
        self._error: KafkaError | None = None
        """The last one of a connection."""
        self._through = (0, 0)
        """An entry, and the bytes of the log up to and with it."""
        self._before_first = (1, 0)
        """The oldest entry, and the bytes before it."""
        self._notes: dict[str, MemberNote] = {}
        self._note_reader: Final = NoteReader()
        self._notes_reader: PartitionReader | None = None
        self._notes_read = 0
        """Offset behind the last note that was read."""

    async def open(self) -> None:
        options = self._options
        if self._admin is None:
            self._settings = settings_of(options)
            try:
                self._admin = self._new_admin()
            except KafkaException as error:
                what = f"Kafka's client doesn't take the settings: {error.args[0].str()}"
                raise EngineRefused(f"{what}; look at `tls_ca`, `tls_certificate`, `tls_key`") from error
        self._error = None
        try:
            await arrived(self._admin.describe_cluster(request_timeout=CONNECT_S))
            self.identity = f"{options.stream} of {await ensure_topics(self._admin, options)}"
            await self._offset(NEWEST, self._deadline())
            if self._producer is None:
                self._producer = self._new_producer()
            await asyncio.to_thread(self._producer.prepare, options.stream, REQUEST_S)
        except KafkaException as error:
            raise self._failure(error) from error

    def _failure(self, error: KafkaException) -> EngineRefused | EngineUnavailable:
        """Why it can't be opened: connections know more of that than what waits for them."""
        self._open_admin().poll(0)
        failure: KafkaError = error.args[0]
        if self._error is not None and failure.code() in _NO_ANSWER:
            failure = self._error
        where = f"Kafka at {', '.join(self._options.servers)}"
        if failure.code() in _REFUSALS:
            what = "look at `user`, `password_file` and the user's rights"
            return EngineRefused(f"{where} doesn't let us in: {failure.str()}; {what}")
        return EngineUnavailable(f"{where}: {failure.str()}; start it, or name others")

    def _keep_error(self, error: KafkaError) -> None:
        self._error = error

    def _new_producer(self) -> EntryProducer:
        return EntryProducer(self._settings, self._deadline_s, self._keep_error)

    def _new_admin(self) -> AdminClient:
        return AdminClient(dict(self._settings), error_cb=self._keep_error)

    def _open_admin(self) -> AdminClient:
        assert self._admin is not None, "the log isn't open"
        return self._admin

    def _open_producer(self) -> EntryProducer:
        assert self._producer is not None, "the log isn't open"
        return self._producer

    async def append(self, after: int, entries: list[bytes]) -> int:
        until_s = asyncio.get_running_loop().time() + self._deadline_s
        end = after + len(entries)
        before = await self._bytes_through(after, until_s)
        done = 0
        while True:
            left = entries[done:]
            offsets, failure = await self._send(left, before + sum(map(len, entries[:done])), until_s)
            if offsets == list(range(after + done, end)):
                done = len(entries)
            elif any(offset < after + done for offset in offsets if offset >= 0):
                raise EngineUnavailable(self._lost(after + done))
            else:
                done = await self._count_ours(after, entries, until_s)
            if done == len(entries):
                self._through = (end, before + sum(map(len, entries)))
                return end
            if asyncio.get_running_loop().time() > until_s:
                raise EngineUnavailable(
                    f"Kafka has not acknowledged entry {after + done + 1} of topic {self._options.stream} for"
                    f" {self._deadline_s:g} s: {failure}"
                )
            await asyncio.sleep(PAUSE_S)

    def _lost(self, after: int) -> str:
        return (
            f"Kafka's topic {self._options.stream} ends before entry {after}, which was acknowledged: it was"
            " made anew, or has lost entries, or the node that answers lags"
        )

    async def _send(self, entries: list[bytes], before: int, until_s: float) -> tuple[list[int], str]:
        """The offsets that they got, as far as they are known, and why others aren't; `before`: bytes of the
        log before them."""
        producer, sent = self._open_producer(), []
        for entry in entries:
            before += len(entry)
            headers: dict[str, str | bytes | None] = {THROUGH_BYTES: b"%d" % before}
            sent.append(producer.send(self._options.stream, entry, headers=headers))
        waiting = set(sent)
        while waiting:
            wait_s = min(until_s - asyncio.get_running_loop().time(), SILENCE_S)
            pending = len(waiting)
            _, waiting = await asyncio.wait(
                waiting, timeout=max(0.0, wait_s), return_when=asyncio.FIRST_COMPLETED
            )
            if len(waiting) == pending:
                break
        if waiting:
            await self._renew_producer()  # it gives them up
        answers = await asyncio.gather(*sent)
        failures = [answer.str() for answer in answers if isinstance(answer, KafkaError)]
        if failures and not waiting:
            await self._renew_producer()
        offsets = [answer for answer in answers if not isinstance(answer, KafkaError)]
        return offsets, failures[0] if failures else "it isn't there"

    async def _renew_producer(self) -> None:
        before, self._producer = self._open_producer(), self._new_producer()
        await before.close()

    async def _count_ours(self, after: int, entries: list[bytes], until_s: float) -> int:
        """How many of these lie behind `after`, durably. Raises `Overtaken` if another lies there."""
        topic, last = self._options.stream, await self._offset(LATEST, until_s)
        if last < after:
            raise EngineUnavailable(self._lost(after))
        count = min(len(entries), last - after)
        try:
            async with asyncio.timeout_at(until_s + REQUEST_S), aclosing(self.read(after)) as coming:
                for at in range(count):
                    if await anext(coming) != (after + at + 1, entries[at]):
                        raise Overtaken(f"entry {after + at + 1} of topic {topic} is another one")
        except TimeoutError as error:
            what = f"Kafka doesn't show what it has behind entry {after} of topic {topic}"
            raise EngineUnavailable(what) from error
        return count

    async def last(self) -> int:
        return await self._offset(LATEST, self._deadline())

    async def first(self) -> int:
        return await self._offset(EARLIEST, self._deadline()) + 1

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._deadline_s

    async def _offset(self, which: OffsetSpec, until_s: float, topic: str = "") -> int:
        """Of the first entry that is there, or behind the last that all replicas in sync have."""
        partition = TopicPartition(topic or self._options.stream, PARTITION)
        while True:
            try:
                listed = self._open_admin().list_offsets(
                    {partition: which},
                    isolation_level=IsolationLevel.READ_UNCOMMITTED,
                    request_timeout=REQUEST_S,
                )
                offset: int = (await arrived(listed[partition], 2 * REQUEST_S)).offset
                if offset != OFFSET_INVALID:
                    return offset
                failure = "no answer"  # so the library tells that the leader hasn't given one in time
            except KafkaException as error:
                failure = error.args[0].str()
                if error.args[0].code() in _TOO_OLD:
                    servers = ", ".join(self._options.servers)
                    raise EngineRefused(f"Kafka at {servers} is older than 3.0: upgrade it") from error
            if asyncio.get_running_loop().time() > until_s:
                raise EngineUnavailable(f"Kafka's topic {partition.topic} can't be reached: {failure}")
            await self._renew_admin()
            await asyncio.sleep(PAUSE_S)

    async def _renew_admin(self) -> None:
        """As with producers and readers: see `SILENCE_S`."""
        before = [self._open_admin()]
        self._admin = self._new_admin()
        await asyncio.to_thread(before.clear)  # the last reference: its threads end

    async def read(self, after: int) -> AsyncGenerator[tuple[int, bytes], None]:
        has_begun = False
        while True:
            try:
                first, last = await self.first(), await self.last()
            except EngineUnavailable:
                continue  # that has taken its time
            if not has_begun:
                after, has_begun = max(after, first - 1), True
            elif not first - 1 <= after <= last:
                is_behind = after < first
                what = f"the log was read to entry {after}, and has entries {first} to {last} now"
                raise CopyNeeded(f"{what}: {COPY_ADVICE}") if is_behind else MemberRefused(what)
            reader = PartitionReader(self._settings, self._options.stream, after)
            try:
                read_s = asyncio.get_running_loop().time()
                while True:
                    for message in await reader.next():
                        after = self._read(after, message)
                        yield after, message.value() or b""
                        read_s = asyncio.get_running_loop().time()
                    if asyncio.get_running_loop().time() > read_s + SILENCE_S:
                        if await self.last() > after:
                            break
                        read_s = asyncio.get_running_loop().time()
            except (KafkaException, EngineUnavailable):
                await asyncio.sleep(PAUSE_S)
            finally:
                await reader.close()

    def _read(self, after: int, message: Message) -> int:
        """Count an entry that was read; its sequence."""
        sequence = (message.offset() or 0) + 1
        if sequence != after + 1:
            raise EntryDamaged(after + 1, f"it isn't there, entry {sequence} comes behind {after}")
        known, before = self._through
        counted = before + len(message.value() or b"") if known == after else 0
        self._through = (sequence, max(counted, _through_bytes(message)))
        return sequence

    async def _bytes_through(self, sequence: int, until_s: float) -> int:
        if self._through[0] == sequence or sequence == 0:
            return self._through[1] if sequence else 0
        message = await self._entry(sequence, until_s)
        return _through_bytes(message) if message is not None else 0

    async def _entry(self, sequence: int, until_s: float) -> Message | None:
        """None if it is trimmed."""
        reader = PartitionReader(self._settings, self._options.stream, sequence - 1)
        try:
            while not (found := await reader.next()):
                if asyncio.get_running_loop().time() > until_s:
                    what = f"Kafka doesn't show entry {sequence} of topic {self._options.stream}"
                    raise EngineUnavailable(what)
            return found[0]
        except KafkaException:
            return None
        finally:
            await reader.close()

    async def size_bytes(self) -> int:
        first, last = await self.first(), await self.last()
        if first > last:
            return 0
        if self._before_first[0] != first:
            oldest = await self._entry(first, self._deadline())
            before = _through_bytes(oldest) - len(oldest.value() or b"") if oldest is not None else 0
            self._before_first = (first, before)
        return max(0, await self._bytes_through(last, self._deadline()) - self._before_first[1])

    async def trim(self, through: int) -> None:
        partition = TopicPartition(self._options.stream, PARTITION, through)
        try:
            await arrived(
                self._open_admin().delete_records([partition], request_timeout=REQUEST_S)[partition]
            )
        except KafkaException as error:
            raise EngineUnavailable(f"Kafka's topic {partition.topic}: {error.args[0].str()}") from error

    async def note(self, note: MemberNote) -> None:
        await self._put_note(note.member, msgspec.json.encode(note))

    async def forget(self, member: str) -> None:
        await self._put_note(member, None)

    async def _put_note(self, member: str, data: bytes | None) -> None:
        sent = self._open_producer().send(notes_topic(self._options), data, member)
        try:
            answer = await asyncio.wait_for(sent, REQUEST_S)
        except TimeoutError as error:
            raise EngineUnavailable(f"Kafka's notes of members: no answer for {REQUEST_S:g} s") from error
        if isinstance(answer, KafkaError):
            raise EngineUnavailable(f"Kafka's notes of members: {answer.str()}")

    async def notes(self) -> list[MemberNote]:
        topic, until_s = notes_topic(self._options), asyncio.get_running_loop().time() + REQUEST_S
        end = await self._offset(LATEST, until_s, topic)
        if self._notes_reader is None:
            self._notes_reader = PartitionReader(self._settings, topic, OFFSET_BEGINNING, "earliest")
        reader = self._notes_reader
        try:
            while self._notes_read < end and reader.end < end:
                for message in await reader.next():
                    self._notes_read = (message.offset() or 0) + 1
                    self._keep_note((message.key() or b"").decode(errors="replace"), message.value())
                if self._notes_read < end and asyncio.get_running_loop().time() > until_s:
                    raise EngineUnavailable(f"Kafka's notes of members: not read for {REQUEST_S:g} s")
        except KafkaException as error:
            self._notes_reader = None
            await reader.close()
            raise EngineUnavailable(f"Kafka's notes of members: {error.args[0].str()}") from error
        return [note for _, note in sorted(self._notes.items())]

    def _keep_note(self, member: str, data: bytes | None) -> None:
        if data is None:
            self._notes.pop(member, None)
        elif (note := self._note_reader.read(member, data)) is not None:
            self._notes[member] = note

    async def close(self) -> None:
        if self._notes_reader is not None:
            await self._notes_reader.close()
        if self._producer is not None:
            await self._producer.close()
        self._notes_reader = self._producer = self._admin = None


def _through_bytes(message: Message) -> int:
    """0 where its writer hasn't said."""
    value = dict(message.headers() or ()).get(THROUGH_BYTES)
    return int(value) if isinstance(value, bytes) and value.isdigit() else 0
