"""The sink's connection to its broker: the verbs of ``postroom.sink``, and bulk sends between them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from postroom.client.aio import Connection, ConnectionFactory
from postroom.client.aio.bulk import BulkSession, open_bulk_session
from postroom.client.connection.transport import within
from postroom.client.exceptions import (
    ConnectionLostException,
    JMSException,
    JMSTimeoutException,
    ManagementException,
    ResourceAllocationException,
)
from postroom.spark.broker.options import Broker
from postroom.spark.sink.errors import SinkError, refused

T = TypeVar("T")

SINK_TYPE: Final = "postroom.sink"
LOST: Final = (ConnectionLostException, JMSTimeoutException)
"""After these nobody here knows what has happened there."""
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Begun:
    """What the broker answers to BEGIN."""

    decided: bool
    """The batch is committed: there is nothing to do."""
    branch: str
    txn_id: bytes
    position: int | None
    """The highest that was written, where positions are recorded."""
    max_messages: int
    """That the broker takes in one branch."""


class SinkLink:
    """One connection. Whatever it raises of `LOST` is its end."""

    def __init__(self, app: str, connection: Connection, session: BulkSession) -> None:
        self._app: Final = app
        self._connection: Final = connection
        self._session: Final = session

    @classmethod
    async def open(cls, broker: Broker, app: str, timeout_s: float) -> "SinkLink":
        """Raises ``JMSException``; a URL with fail-over, too, has no more than that time."""
        factory = ConnectionFactory(broker.url, tls=broker.tls)
        connection = await within(factory.create_connection(), timeout_s, f"connect for app {app!r}")
        try:
            return cls(app, connection, await open_bulk_session(connection))
        except BaseException:
            await connection.close()
            raise

    async def begin(self, body: Mapping[str, object]) -> Begun:
        """Ask what is decided, and begin a branch where the batch isn't. Raises ``JMSException``,
        ``SinkError``.
        """
        reply = await self._perform("BEGIN", body)
        txn_id, position, most = (reply.get(name) for name in ("txn_id", "position", "max_messages"))
        return Begun(
            reply.get("decided") is True,
            str(reply.get("branch") or ""),
            bytes(txn_id) if isinstance(txn_id, bytes) else b"",
            int(position) if isinstance(position, int) else None,
            int(most) if isinstance(most, int) else 1,
        )

    async def send_all(self, queue: str, payloads: list[bytes], txn_id: bytes) -> None:
        """Send in a branch. What the broker refuses of it spoils the branch, and `seal` says why."""
        await self._session.send_all(queue, payloads, txn_id)

    async def seal(self, branch: str) -> int:
        """All of the branch is durable, and nothing more is taken: how many messages have come."""
        sent = (await self._perform("SEAL", {"branch": branch})).get("sent")
        return int(sent) if isinstance(sent, int) else -1

    async def roll_back(self, branch: str) -> None:
        """Nothing of the branch is left; one that is gone is no error."""
        try:
            await self._request("ROLLBACK", {"branch": branch})
        except LOST:
            raise
        except JMSException:
            return  # gone, or the next decision's to end

    async def commit(self, body: Mapping[str, object]) -> dict[str, object]:
        """Decide a batch. Raises as `begin`."""
        return await self._perform("COMMIT", body)

    async def forget(self) -> None:
        """The broker forgets the app, and rolls back what is open of it; an app that is unknown is no
        error.
        """
        try:
            await self._request("DELETE", None)
        except LOST:
            raise
        except JMSException:
            return

    async def close(self) -> None:
        """Close the connection, whatever is left of it."""
        try:
            await self._connection.close()
        except JMSException:
            return

    async def _perform(self, verb: str, body: Mapping[str, object]) -> dict[str, object]:
        try:
            return await self._request(verb, body)
        except ManagementException as error:
            raise refused(error.condition, error.description, error.info, self._app) from error
        except ResourceAllocationException as error:
            raise SinkError(
                f"the batch doesn't fit: {error.description}. Make room there or raise the bound, or make the"
                " batches smaller (maxRows of the source); maxMessagesPerBranch makes the branches smaller"
            ) from error

    async def _request(self, verb: str, body: Mapping[str, object] | None) -> dict[str, object]:
        attributes = None if body is None else dict(body)
        reply = await self._session.requests.request(verb, kind=SINK_TYPE, name=self._app, body=attributes)
        return reply.attributes()


class Patience:
    """How long a lost broker is waited for, anew after each thing that was done."""

    def __init__(self, broker_timeout_s: float) -> None:
        self._broker_timeout_s: Final = broker_timeout_s
        self._since_s: float | None = None
        self._pause_s = FIRST_PAUSE_S

    def done(self) -> None:
        """Something has worked."""
        self._since_s = None
        self._pause_s = FIRST_PAUSE_S

    async def lost(self, failure: JMSException) -> None:
        """Wait before the next attempt; raises ``failure`` when there has been enough of it."""
        now_s = time.monotonic()
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s >= self._broker_timeout_s:
            raise failure
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)


async def until_answered(
    broker: Broker, app: str, broker_timeout_s: float, attempt: Callable[[SinkLink], Awaitable[T]]
) -> T:
    """Ask on a connection of its own, again and again until there is an answer: for what may be asked twice.

    Raises ``JMSException`` after ``broker_timeout_s``, ``SinkError``.
    """
    patience = Patience(broker_timeout_s)
    while True:
        link = None
        try:
            link = await SinkLink.open(broker, app, broker_timeout_s)
            return await attempt(link)
        except LOST as failure:
            await patience.lost(failure)
        finally:
            if link is not None:
                await link.close()


def unreachable(failure: JMSException, broker_timeout_s: int, app: str) -> SinkError:
    """Why a task failed that has no answer of the sink's verbs."""
    if isinstance(failure, LOST):
        return SinkError(
            f"the broker of app {app!r} can't be reached for {broker_timeout_s} s (option brokerTimeoutS):"
            f" {failure}"
        )
    return SinkError(f"the broker refused what app {app!r} sends: {failure}")
