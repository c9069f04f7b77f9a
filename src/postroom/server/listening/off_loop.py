"""What would keep the event loop waiting: reading bodies, ids and history, passwords, keys of tokens. Threads
do it, and what comes of it goes back to the broker as a command.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from postroom.ledger.storage.body_requests import Body, BodyPlace
from postroom.model.ids import MessageIds
from postroom.server.configuration.passwords import verify_password
from postroom.server.connection.broker import Broker
from postroom.server.connection.sign_in import Login
from postroom.server.logs import LOGGER_NAME
from postroom.server.management.ledger_queries import LedgerQuery, QueryResult, Tracer

if TYPE_CHECKING:
    from postroom.server.listening.service import Service

READ_THREADS: Final = 2
READ_AT_ONCE_BYTES: Final = 1 << 20
"""Bodies that the page cache has are read by the loop itself, up to so many bytes at a time: handing them to
a thread and back would take longer than it saves.
"""


class ReadLedger(Protocol):
    """What is read of the ledger."""

    def read_bodies(self, wanted: list[BodyPlace]) -> list[Body]: ...

    def read_cached_bodies(self, wanted: list[BodyPlace]) -> list[Body] | None: ...

    def read_ids(self, serials: list[int]) -> list[MessageIds | None]: ...

    def hash_ids(self, serials: Any) -> list[Any]: ...


class OffLoop:
    """Of one service."""

    def __init__(
        self,
        service: "Service",
        loop: asyncio.AbstractEventLoop,
        ledger: ReadLedger,
        broker: Broker,
        data_folder: Path,
    ) -> None:
        self.reads_out = 0
        """Readings that have not come back."""
        self._service: Final = service
        self._loop: Final = loop
        self._ledger: Final = ledger
        self._broker: Final = broker
        self._reading: Final = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="postroom-read")
        self._checking: Final = ThreadPoolExecutor(1, thread_name_prefix="postroom-sign-in")
        self._checks = False
        """Whether a password is being checked."""
        self._looking: Final = ThreadPoolExecutor(1, thread_name_prefix="postroom-trace")
        """One look into the ledger's history at a time: no message waits for one."""
        self._tracer: Final = Tracer(data_folder, lambda: broker.durable_through)

    def begin(self) -> None:
        """With whatever the broker wants now."""
        broker = self._broker
        if broker.fetches:
            self._read_bodies()
        if broker.id_reads:
            self._read_ids()
        if broker.management.ledger_queries:
            self._run_ledger_queries()
        if broker.sign_ins.logins:
            self._check_logins()
        if broker.tokens.waiting and not broker.tokens.fetching:
            self._fetch_token_keys()

    def shut_down(self) -> None:
        """Wait for readings; the rest isn't begun any more."""
        self._reading.shutdown()
        self._looking.shutdown(cancel_futures=True)
        self._checking.shutdown(cancel_futures=True)

    def _read_bodies(self) -> None:
        fetches = self._broker.fetches[:]
        self._broker.fetches.clear()
        left_bytes = READ_AT_ONCE_BYTES
        for fetch in fetches:
            left_bytes -= fetch.size_bytes
            bodies = self._ledger.read_cached_bodies(fetch.wanted) if left_bytes >= 0 else None
            take = functools.partial(self._broker.fetched, fetch)
            if bodies is None:
                self._read(functools.partial(self._ledger.read_bodies, fetch.wanted), take)
            else:
                self._service.command(functools.partial(take, bodies))

    def _read_ids(self) -> None:
        reads = self._broker.id_reads[:]
        self._broker.id_reads.clear()
        for read in reads:
            if read.all_serials is None:
                job: Callable[[], list[Any]] = functools.partial(self._ledger.read_ids, read.serials)
            else:
                job = functools.partial(self._ledger.hash_ids, read.all_serials)
            self._read(job, functools.partial(self._broker.ids_read, read))

    def _read(self, job: Callable[[], list[Any]], take: Callable[[list[Any], int], None]) -> None:
        """``take`` gets what was read, and the time."""
        self.reads_out += 1
        reading = self._loop.run_in_executor(self._reading, job)
        reading.add_done_callback(functools.partial(self._have_read, take))

    def _have_read(
        self, take: Callable[[list[Any], int], None], reading: "asyncio.Future[list[Any]]"
    ) -> None:
        self.reads_out -= 1
        if self._service.failure is not None or reading.cancelled():
            return
        error = reading.exception()
        if error is not None:
            self._service.fail(error)
        else:
            self._service.command(functools.partial(take, reading.result()))

    def _run_ledger_queries(self) -> None:
        queries = self._broker.management.ledger_queries[:]
        self._broker.management.ledger_queries.clear()
        for query in queries:
            reading = self._loop.run_in_executor(self._looking, query.run, self._tracer)
            reading.add_done_callback(functools.partial(self._have_queried, query))

    def _have_queried(self, query: LedgerQuery, reading: "asyncio.Future[QueryResult]") -> None:
        if self._service.failure is not None or reading.cancelled():
            return
        defect = reading.exception()
        if defect is not None:  # of a reader: what is written is not in question
            logging.getLogger(LOGGER_NAME).error("internal-error", exc_info=defect)
        result = reading.result() if defect is None else RuntimeError("the broker's log says more")
        self._service.command(functools.partial(query.answer, result))

    def _check_logins(self) -> None:
        """One at a time: it takes a core for tens of milliseconds, and who comes next is decided then."""
        sign_ins = self._broker.sign_ins
        while sign_ins.logins and not self._checks:
            login = sign_ins.take()
            if not login.is_wanted():
                continue  # who has sent it has gone
            if sign_ins.failures.crowded(login.remote, login.user):
                self._decide(login, None)
                continue
            self._checks = True
            kept = sign_ins.kept_of(login.user)
            checking = self._loop.run_in_executor(self._checking, verify_password, login.password, kept)
            checking.add_done_callback(functools.partial(self._have_checked, login))

    def _have_checked(self, login: Login, checking: "asyncio.Future[bool]") -> None:
        self._checks = False
        if login.is_wanted() and not checking.cancelled():
            known = login.user in self._broker.sign_ins.users
            self._decide(login, known and checking.result())
        self._service.turns.schedule()

    def _decide(self, login: Login, accepted: bool | None) -> None:
        login.decided(login.user, accepted, self._service.clock.now_us())
        self._service.turns.schedule()

    def _fetch_token_keys(self) -> None:
        """Beside whatever else is there: the other end may take its time."""
        load = self._broker.tokens.begin_fetch(self._service.clock.now_us())
        self._loop.run_in_executor(None, load).add_done_callback(self._have_fetched)

    def _have_fetched(self, fetching: "asyncio.Future[list[dict[str, Any]]]") -> None:
        if fetching.cancelled():
            return
        error = fetching.exception()
        keys = fetching.result() if error is None else error
        self._service.command(functools.partial(self._broker.tokens.fetched, keys))
