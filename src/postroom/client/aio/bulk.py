"""Many messages at once, encoded already and settled as they are sent, in transactions that the management
node begins and ends: what Spark's sink drives.

Nothing is sent again after a break: what was sent and not sealed is then in nobody's hands, and a new
transaction is to be begun.
"""

from __future__ import annotations

import asyncio
from typing import Final

from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.session import Session as EngineSession
from postroom.amqp.frames.outcomes import TransactionalState
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.frames.transfers import SND_SETTLED
from postroom.client.aio.connection import Connection
from postroom.client.aio.management_client import ManagementClient, requests_in
from postroom.client.aio.session import Session
from postroom.client.connection.link import Attachment, sending_properties
from postroom.client.connection.provider import Channel
from postroom.client.connection.transport import fail_all
from postroom.client.destinations import link_name
from postroom.client.exceptions import JMSException, usage_errors
from postroom.client.sessions.session_state import AcknowledgeMode

AT_ONCE_MESSAGES: Final = 500
"""Written before the loop has its turn: heartbeats, credit and a full socket are seen then."""
NEVER_WAITS_MS: Final = 0
"""For room in a quota."""


class BulkSending(Attachment[SenderLink]):
    """A link to one destination."""

    def __init__(self, channel: Channel, address: str) -> None:
        name, target = link_name(address), Target(address=address)
        properties = sending_properties(NEVER_WAITS_MS)

        def attach(engine: EngineSession) -> SenderLink:
            return engine.attach_sender(
                name, Source(), target, snd_settle_mode=SND_SETTLED, properties=properties
            )

        super().__init__(channel, attach, f"the bulk sender for {address}", target)
        self._for_credit: set[asyncio.Future[None]] = set()

    async def send_all(self, payloads: list[bytes], txn_id: bytes) -> None:
        """Send whole messages, in their order, within what the broker takes.

        Raises ConnectionLostException, or what ended the link: then nobody knows how many have arrived.
        """
        state, start = TransactionalState(txn_id), 0
        while start < len(payloads):
            if self.provider.is_busy:
                await self.provider.writable()
            self.check()
            assert self._link is not None
            end = min(start + AT_ONCE_MESSAGES, len(payloads))
            with usage_errors(f"send to {self.what}"):
                sent = self._link.send_settled(payloads, start, end, state)
            start += sent
            self.provider.flush_soon()
            await (asyncio.sleep(0) if sent else self._credit())

    async def _credit(self) -> None:
        waiting: asyncio.Future[None] = self.provider.future()
        self._for_credit.add(waiting)
        try:
            await waiting
        finally:
            self._for_credit.discard(waiting)

    def on_credit(self) -> None:
        for waiting in self._for_credit:
            if not waiting.done():
                waiting.set_result(None)

    def interrupted(self, failure: JMSException) -> None:
        """There is no going on: the next connection has other links."""
        self.fail(failure)
        self._gone()

    def wake(self, failure: JMSException) -> None:
        fail_all(self._for_credit, failure)

    def _granted(self, link: SenderLink) -> object:
        return link.target


class BulkSession:
    """A session of AMQP with links that send, and requests in order with what they send. Made by
    :func:`open_bulk_session`.
    """

    def __init__(self, channel: Channel, requests: ManagementClient, request_timeout_s: float | None) -> None:
        self.requests: Final = requests
        """Of the management node."""
        self._channel = channel
        self._request_timeout_s = request_timeout_s
        self._links: dict[str, BulkSending] = {}

    async def send_all(self, address: str, payloads: list[bytes], txn_id: bytes) -> None:
        """Send messages to a queue or topic, in their order. Raises as :meth:`BulkSending.send_all`, and
        what the broker refuses the link with.
        """
        link = self._links.get(address)
        if link is None:
            link = BulkSending(self._channel, address)
            await link.attach(self._request_timeout_s)
            self._links[address] = link
        await link.send_all(payloads, txn_id)


async def open_bulk_session(connection: Connection) -> BulkSession:
    """Begin a session on ``connection``; it ends with that."""
    timeout_s = connection._request_timeout_s
    channel = await connection._provider.begin(timeout_s)
    plain = Session(channel, AcknowledgeMode.AUTO, connection._shared)
    return BulkSession(channel, await requests_in(plain, timeout_s), timeout_s)
