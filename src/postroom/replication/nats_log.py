"""The log in a stream of NATS JetStream, 2.12 or newer: conditional appends, acknowledged by a majority.

`Nats-Expected-Last-Sequence` makes an append conditional: the stream's leader refuses it (error 10071) unless
it follows on the entry that the writer knew. JetStream acknowledges when a majority of the replicas has an
entry in its file; whether that file is synced by then is the server's `sync_interval`, which is checked over
the server's monitoring port, since its default (two minutes) loses entries when all nodes lose their power.
"""

import asyncio
import contextlib
import json
import logging
import ssl
import urllib.request
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

import msgspec
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeout
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    KeyValueConfig,
    RetentionPolicy,
    StorageType,
    StreamConfig,
    StreamInfo,
    StreamState,
)
from nats.js.errors import APIError, KeyNotFoundError, NotFoundError
from nats.js.kv import KeyValue

from postroom.replication.cancelling import cancel
from postroom.replication.errors import EngineRefused, EngineUnavailable, Overtaken
from postroom.replication.log import MemberNote, NoteReader
from postroom.replication.options import (
    ALLOW_REPLICAS,
    ALLOW_SYNC,
    LEAST_REPLICAS,
    ReplicationOptions,
    read_password,
)

EXPECTED: Final = "Nats-Expected-Last-Sequence"
WRONG_LAST_SEQUENCE: Final = 10071
OVERHEAD_BYTES: Final = 1024
"""Left of the server's `max_payload` for headers."""
MOST_BYTES: Final = 1 << 20
"""Larger entries aren't made, whatever the server takes."""
REQUEST_S: Final = 1.0
"""One question to the server; then it is put again."""
CONNECT_S: Final = 5.0
"""To find a server that is there."""
PAUSE_S: Final = 0.05
"""Before what failed is tried again."""
READ_AT_ONCE: Final = 16
"""Entries that are fetched in one go: 16 MiB at most."""
READ_WAIT_S: Final = 1.0
"""A fetch that finds nothing ends after so long, and it is checked that nothing was missed."""
OLDEST_SERVER: Final = (2, 12)
_LOG: Final = logging.getLogger("postroom")
_FAILURES: Final = (NatsError, APIError, TimeoutError, OSError)


class NatsLog:
    """One stream, and a bucket of notes beside it."""

    most_bytes: int
    identity: str

    def __init__(self, options: ReplicationOptions) -> None:
        self._options: Final = options
        self._subject: Final = f"{options.stream}.log"
        self._bucket: Final = f"{options.stream}-members"
        self._deadline_s: Final = options.stop_after_ms / 1e3
        self._client: Client | None = None
        self._context: JetStreamContext | None = None
        self._notes: KeyValue | None = None
        self._note_reader: Final = NoteReader()
        self._reported: Final[set[str]] = set()
        """URLs of servers of which it was logged that they can't be asked."""

    async def open(self) -> None:
        options = self._options
        servers = ", ".join(options.servers)
        client = self._client = await self._connect(servers)
        try:
            await self._begin(client, servers)
        except BaseException:
            await self.close()  # who tries again connects anew
            raise

    async def _begin(self, client: Client, servers: str) -> None:
        """Look at the server's settings, and find the stream or make it; raises as `open`."""
        if (client.connected_server_version.major, client.connected_server_version.minor) < OLDEST_SERVER:
            raise EngineRefused(
                f"NATS at {servers} is {client.connected_server_version}: 2.12 or newer is needed; upgrade it"
            )
        self.most_bytes = min(client.max_payload - OVERHEAD_BYTES, MOST_BYTES)
        self._context = client.jetstream(timeout=REQUEST_S)
        await self._check_sync()
        with self._of_stream():
            await self._ensure_stream()
            self._notes = await self._ensure_notes()

    async def _connect(self, servers: str) -> Client:
        failure: BaseException | None = None

        async def failed(error: Exception) -> None:
            """Once connected, the calls that fail say so."""
            nonlocal failure
            if not _is_refusal(failure):  # what comes of a connection that was refused says less
                failure = error

        client = Client()
        connecting = asyncio.create_task(client.connect(**self._connect_options(), error_cb=failed))
        await asyncio.wait([connecting], timeout=CONNECT_S)
        await cancel(connecting)
        if not connecting.cancelled():
            ended_by = connecting.exception()
            if ended_by is None:
                return client
            failure = failure or ended_by
        await _closed(client)
        if _is_refusal(failure):
            raise EngineRefused(
                f"NATS at {servers} and this member don't let each other in: {_text(failure)}; see to user,"
                " password_file, credentials_file and tls_… in [replication]"
            ) from failure
        what = f"NATS at {servers}: {_text(failure)}; start it, or name others"
        raise EngineUnavailable(what) from failure

    def _connect_options(self) -> dict[str, Any]:
        options = self._options
        wanted: dict[str, Any] = {
            "servers": list(options.servers),
            "name": f"postroom {options.member}",
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": PAUSE_S,
            "connect_timeout": REQUEST_S,
            "allow_reconnect": True,
        }
        if options.credentials_file:
            wanted["user_credentials"] = options.credentials_file
        if options.user:
            wanted["user"] = options.user
            wanted["password"] = read_password(options)
        if options.tls_ca or options.tls_certificate:
            context = ssl.create_default_context(cafile=options.tls_ca or None)
            if options.tls_certificate:
                context.load_cert_chain(options.tls_certificate, options.tls_key or None)
            wanted["tls"] = context
        return wanted

    async def _check_sync(self) -> None:
        """Whether what is acknowledged is synced, as the monitoring of a majority of the servers tells."""
        options = self._options
        if ALLOW_SYNC in options.allow:
            return
        if not options.monitoring:
            raise EngineRefused(
                "nothing tells whether NATS syncs what it acknowledges: name the servers' monitoring"
                f' addresses in `monitoring`, or accept it with allow = ["{ALLOW_SYNC}"]'
            )
        silent: dict[str, str] = {}
        for url in options.monitoring:
            try:
                found = await asyncio.to_thread(_jetstream_config, url)
            except (OSError, ValueError) as error:
                silent[url] = _text(error)
                continue
            if not found.get("sync_always"):
                interval_s = found.get("sync_interval", 0) / 1e9
                raise EngineRefused(
                    f"NATS at {url} syncs every {interval_s:g} s: what it has acknowledged since is lost when"
                    " all its nodes lose their power; set `sync_interval: always` in its configuration, or"
                    f' accept it with allow = ["{ALLOW_SYNC}"]'
                )
        if 2 * len(silent) >= len(options.monitoring):
            raise EngineUnavailable(f"NATS' monitoring at {_list(silent)}")
        # A minority may be gone: what the others acknowledge is on a majority.
        new = {url: why for url, why in silent.items() if url not in self._reported}
        if new:
            _LOG.warning(
                "replication: NATS' monitoring at %s; it isn't known whether that server syncs what it"
                " acknowledges: start it, and look at its sync_interval",
                _list(new),
            )
        self._reported.update(new)

    async def _ensure_stream(self) -> None:
        options, context = self._options, self._js()
        wanted = StreamConfig(
            name=options.stream,
            subjects=[self._subject],
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.NEW,
            storage=StorageType.FILE,
            num_replicas=options.replicas,
            deny_delete=True,
        )
        try:
            info = await context.stream_info(options.stream)
        except NotFoundError:
            info = await context.add_stream(wanted)
        found = info.config
        self.identity = f"{options.stream} of {info.created}"
        defects = [
            (found.subjects != [self._subject], f"takes {found.subjects}, not {self._subject} alone"),
            (found.storage != StorageType.FILE, "is not stored in files"),
            (found.retention != RetentionPolicy.LIMITS, f"has the retention {found.retention}"),
            (found.discard != DiscardPolicy.NEW, "discards old entries when it is full: set discard to new"),
            (bool(found.max_age), "lets entries go by age: set max_age to 0"),
            ((found.max_msgs or -1) > 0, "lets entries go by number: set max_msgs to -1"),
            ((found.max_msgs_per_subject or -1) > 0, "bounds entries by subject: set it to -1"),
        ]
        for is_so, what in defects:
            if is_so:
                raise EngineRefused(f"NATS' stream {options.stream} {what}; the log must keep every entry")
        replicas = found.num_replicas or 1
        if replicas < LEAST_REPLICAS and ALLOW_REPLICAS not in options.allow:
            raise EngineRefused(
                f"NATS' stream {options.stream} has {replicas} replicas: what is lost with one node is lost;"
                f' make it {LEAST_REPLICAS}, or accept it with allow = ["{ALLOW_REPLICAS}"]'
            )

    async def _ensure_notes(self) -> KeyValue:
        try:
            return await self._js().key_value(self._bucket)
        except NotFoundError:
            config = KeyValueConfig(bucket=self._bucket, history=1, replicas=self._options.replicas)
            return await self._js().create_key_value(config)

    def _js(self) -> JetStreamContext:
        assert self._context is not None, "the log isn't open"
        return self._context

    async def append(self, after: int, entries: list[bytes]) -> int:
        until_s = asyncio.get_running_loop().time() + self._deadline_s
        sent = (self._publish(after + at, entry) for at, entry in enumerate(entries))
        answers = await asyncio.gather(*sent, return_exceptions=True)
        for at, answer in enumerate(answers):
            if isinstance(answer, _FAILURES):
                await self._settle(after + at, entries[at], until_s)
            elif isinstance(answer, BaseException):
                raise answer
        return after + len(entries)

    async def _publish(self, after: int, entry: bytes) -> None:
        options = self._options
        await self._js().publish(
            self._subject, entry, timeout=REQUEST_S, stream=options.stream, headers={EXPECTED: str(after)}
        )

    async def _settle(self, after: int, entry: bytes, until_s: float) -> None:
        """Find out what became of an append that wasn't acknowledged; append again what isn't there."""
        while True:
            try:
                found = await self._entry(after + 1)
                if found is None and (await self._stream_info()).state.first_seq > after + 1:
                    raise Overtaken(f"entry {after + 1} of stream {self._options.stream} is trimmed already")
                if found is not None:
                    if found != entry:
                        raise Overtaken(
                            f"entry {after + 1} of stream {self._options.stream} is another member's"
                        )
                    return
                await self._publish(after, entry)
                return
            except _FAILURES as error:
                if asyncio.get_running_loop().time() > until_s:
                    raise EngineUnavailable(
                        f"NATS has not acknowledged entry {after + 1} of stream {self._options.stream} for"
                        f" {self._deadline_s:g} s: {_text(error)}"
                    ) from error
            await asyncio.sleep(PAUSE_S)

    async def _entry(self, sequence: int) -> bytes | None:
        """As the stream's leader has it."""
        try:
            found = await self._js().get_msg(self._options.stream, sequence)
        except NotFoundError:
            return None
        return found.data

    async def last(self) -> int:
        return (await self._state()).last_seq

    async def first(self) -> int:
        return (await self._state()).first_seq or 1

    async def size_bytes(self) -> int:
        return (await self._state()).bytes

    async def _state(self) -> StreamState:
        with self._of_stream():
            return (await self._stream_info()).state

    async def _stream_info(self) -> StreamInfo:
        return await self._js().stream_info(self._options.stream)

    async def read(self, after: int) -> AsyncGenerator[tuple[int, bytes], None]:
        while True:
            try:
                config = ConsumerConfig(
                    deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                    opt_start_seq=after + 1,
                    ack_policy=AckPolicy.NONE,
                    mem_storage=True,
                    num_replicas=1,
                    inactive_threshold=10 * READ_WAIT_S,
                )
                found = await self._js().pull_subscribe(
                    self._subject, stream=self._options.stream, config=config
                )
            except _FAILURES:
                await asyncio.sleep(PAUSE_S)
                continue
            try:
                while True:
                    try:
                        messages = await found.fetch(READ_AT_ONCE, timeout=READ_WAIT_S)
                    except NatsTimeout:
                        if await self.last() > after:
                            break  # the consumer went with its node
                        continue
                    for message in messages:
                        after = message.metadata.sequence.stream
                        yield after, message.data
            except (*_FAILURES, EngineUnavailable):
                await asyncio.sleep(PAUSE_S)
            finally:
                await _unsubscribed(found)

    async def trim(self, through: int) -> None:
        with self._of_stream():
            await self._js().purge_stream(self._options.stream, seq=through + 1)

    async def note(self, note: MemberNote) -> None:
        with self._of_notes() as notes:
            await notes.put(note.member, msgspec.json.encode(note))

    async def notes(self) -> list[MemberNote]:
        """Names come from the stream's state, which its leader tells. A consumer, as `KeyValue.keys` makes
        one, can be said to have nothing left before what it sends has come: then there seem to be none."""
        found = []
        prefix = f"$KV.{self._bucket}."
        with self._of_notes() as notes:
            info = await self._js().stream_info(f"KV_{self._bucket}", subjects_filter=f"{prefix}>")
            for subject in sorted(info.state.subjects or ()):
                with contextlib.suppress(KeyNotFoundError):  # it is forgotten
                    name = subject.removeprefix(prefix)
                    value = (await notes.get(name)).value
                    note = self._note_reader.read(name, value or b"")
                    if note is not None:
                        found.append(note)
        return found

    async def forget(self, member: str) -> None:
        with self._of_notes() as notes:
            await notes.delete(member)

    def _of_stream(self) -> contextlib.AbstractContextManager[None]:
        return _answered(f"stream {self._options.stream}")

    @contextlib.contextmanager
    def _of_notes(self) -> Iterator[KeyValue]:
        assert self._notes is not None, "the log isn't open"
        with _answered("notes of members"):
            yield self._notes

    async def close(self) -> None:
        if self._client is not None:
            await _closed(self._client)


@contextlib.contextmanager
def _answered(what: str) -> Iterator[None]:
    """Raises `EngineUnavailable` where the server doesn't answer, or not as it should."""
    try:
        yield
    except _FAILURES as error:
        raise EngineUnavailable(f"NATS' {what}: {_text(error)}") from error


async def _closed(client: Client) -> None:
    """At once, or when a second is over: a server that is gone doesn't answer the end of TLS."""
    closing = asyncio.create_task(client.close())
    await asyncio.wait([closing], timeout=REQUEST_S)
    await cancel(closing)
    with contextlib.suppress(asyncio.CancelledError, *_FAILURES):  # the connection is gone
        closing.result()


def _is_refusal(error: BaseException | None) -> bool:
    """Whether trying again doesn't help: the sign-in or the certificate is no good."""
    return isinstance(error, ssl.SSLError) or "authorization violation" in str(error).lower()


async def _unsubscribed(subscription: JetStreamContext.PullSubscription) -> None:
    with contextlib.suppress(*_FAILURES):  # it went with its connection
        await subscription.unsubscribe()


def _jetstream_config(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url.rstrip('/')}/jsz?config=1", timeout=REQUEST_S) as answer:
        found = json.load(answer)
    config = found.get("config") if isinstance(found, dict) else None
    if not isinstance(config, dict):
        raise ValueError("JetStream isn't enabled there")
    return config


def _list(silent: dict[str, str]) -> str:
    return ", ".join(f"{url}: {why}" for url, why in silent.items())


def _text(error: BaseException | None) -> str:
    return str(error) or type(error).__name__ if error is not None else "no answer"
