"""The way to the brokers for as long as the application's connection lives, whatever becomes of the socket.

Without fail-over it ends with the first transport. With it a broken transport is followed by another one:
sessions are begun and links attached again (``Channel``, ``links.Attachment``) while those who wait go on
waiting. What is lost with the old one, and how the application is told, is written at each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from postroom.amqp.engine.session import Session as EngineSession
from postroom.amqp.frames.performatives import Open
from postroom.client.connection.connector import Connector
from postroom.client.connection.failover import Backoff, BrokerPool
from postroom.client.connection.transport import LinkHandler, Transport, Waited, fail_all, within
from postroom.client.connection.url import BrokerUrl, ParsedUrl
from postroom.client.exceptions import (
    LOG,
    ConnectionLostException,
    ConnectionRedirectedException,
    IllegalStateException,
    JMSException,
    JMSSecurityException,
)

SOON_S: Final = 1.0
"""A connection that lasts no longer is no reason to go on at full speed."""


class ConnectionListener:
    """What an application may want to know about its connection: override what is of interest.

    Called in the event loop's thread (the blocking face: the connection's own thread), so it returns soon
    and calls nothing of the connection that waits.
    """

    def on_interrupted(self, broker: str) -> None:
        """The connection to ``broker`` broke; another one is on its way."""

    def on_restored(self, broker: str) -> None:
        """Connected again, to ``broker``: sessions, producers and consumers work as before."""

    def on_failure(self, failure: JMSException) -> None:
        """The connection has ended for good, and not by ``close``."""


class Channel:
    """A session of AMQP, begun again on each transport, with the links on it."""

    def __init__(self, provider: Provider, engine: EngineSession) -> None:
        self.provider: Final = provider
        self.engine: EngineSession | None = engine
        """That of the present transport; None while there is none."""
        self.attachments: dict[LinkHandler, None] = {}
        """Those to be attached again, in order of their making."""

    def interrupt(self, failure: JMSException) -> None:
        """The transport is gone, another one will come."""
        self.engine = None
        for attachment in list(self.attachments):
            attachment.interrupt(failure)

    def lose(self, failure: JMSException) -> None:
        """There will be no other transport."""
        for attachment in list(self.attachments):
            attachment.lose(failure)

    def end(self) -> None:
        """End the session, its links having been detached."""
        self.provider.forget(self)
        if self.engine is not None:
            self.engine.end()
            self.provider.flush_soon()


class Provider(Waited):
    """A connection of the application's: :meth:`start`, then sessions as channels, then :meth:`close`."""

    def __init__(
        self,
        url: ParsedUrl,
        connector: Connector,
        request_timeout_s: float | None,
        listener: ConnectionListener | None = None,
    ) -> None:
        super().__init__()
        self.connector: Final = connector
        self.recovers: Final = url.failover is not None
        """Whether a break is followed by another connection."""
        self.transport: Transport | None = None
        """The present one; None between two."""
        self.broker: Open | None = None
        """What the present broker, or the last one, said in its open."""
        self._options = url.failover
        self._pool = BrokerPool(url.brokers, url.failover)
        self._request_timeout_s = request_timeout_s
        self._listener = listener or ConnectionListener()
        self._address = ""
        self._channels: dict[Channel, None] = {}
        self._is_online = False
        """A transport is there, and all is restored on it."""
        self._online_since_s = 0.0
        self._recoveries = 0
        self._for_online: list[asyncio.Future[None]] = []
        self._recovering: asyncio.Task[None] | None = None
        self._names: dict[str, str] = {}
        """Temporary destinations that have another name since a reconnect: first name to present name."""

    @property
    def has_client_id(self) -> bool:
        """Whether the application has chosen the container id."""
        return self.connector.options.client_id is not None

    def attachments(self) -> Iterator[LinkHandler]:
        """All links of the connection."""
        for channel in self._channels:
            yield from channel.attachments

    # --- waiting

    def flush_soon(self, handler: LinkHandler | None = None) -> None:
        """As that of the transport; nothing while there is none."""
        if self.transport is not None:
            self.transport.flush_soon(handler)

    @property
    def is_busy(self) -> bool:
        """The socket can't take more at the moment."""
        return self.transport is not None and not self.transport.is_writable

    async def writable(self) -> None:
        """Wait while the socket can't take more, so that a fast sender doesn't fill memory."""
        if self.transport is not None:
            await self.transport.writable()
        self.check()

    async def online(self) -> Transport:
        """Wait until the connection is whole."""
        while self.transport is None or not self._is_online:
            self.check()
            waiting = self.future()
            self._for_online.append(waiting)
            await waiting
        return self.transport

    def _set_online(self) -> None:
        self._is_online = True
        self._online_since_s = self.loop.time()
        waiting, self._for_online = self._for_online, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    # --- sessions

    async def begin(self, timeout_s: float | None) -> Channel:
        """Begin a session and wait for the broker's answer, over a break where there is one."""
        return await within(self._begin(), timeout_s, "begin of a session")

    async def _begin(self) -> Channel:
        while True:
            transport = await self.online()
            engine, answer = transport.begin()
            try:
                await answer
            except ConnectionLostException:
                if not self.recovers:
                    raise
                continue
            if transport is self.transport:
                channel = Channel(self, engine)
                self._channels[channel] = None
                return channel

    def forget(self, channel: Channel) -> None:
        """``channel`` ends with this transport at the latest."""
        self._channels.pop(channel, None)

    # --- temporary destinations, which the next broker names anew

    def stable_name(self, address: str | None) -> str | None:
        """What :meth:`current_name` wants for a destination now called ``address``."""
        for first, present in self._names.items():
            if present == address:
                return first
        return address

    def current_name(self, stable: str | None) -> str | None:
        """What a destination is called on the present broker."""
        return self._names.get(stable or "", stable)

    def rename(self, old: str, new: str) -> None:
        """The temporary destination ``old`` has been made again as ``new``."""
        self._names[self.stable_name(old) or old] = new

    def forget_name(self, name: str) -> None:
        """A temporary destination has been deleted."""
        self._names.pop(self.stable_name(name) or name, None)

    # --- connecting

    async def start(self) -> None:
        """Connect for the first time; raises why the last attempt failed."""
        await self._connect(Backoff(self._options, starting=True))
        self._set_online()

    async def _connect(self, backoff: Backoff) -> None:
        """Try the brokers until one is found on which everything is restored."""
        failure: JMSException = ConnectionLostException("no broker was tried")
        while not backoff.exhausted:
            await asyncio.sleep(backoff.next_delay_s())
            for broker in self._pool.attempt():
                try:
                    await self._try(broker)
                    return
                except JMSSecurityException:
                    raise
                except ConnectionRedirectedException as redirected:
                    failure = redirected
                    self._pool.redirected(broker, redirected.info)
                except JMSException as failed:
                    failure = failed
            if backoff.warns and self.recovers:
                LOG.warning("no broker after %d attempts; the last failure: %s", backoff.attempts, failure)
        raise failure

    async def _try(self, broker: BrokerUrl) -> None:
        transport = await self.connector.connect(broker)
        transport.check()
        self.transport, self.broker, self._address = transport, transport.broker, str(broker)
        transport.on_failed = lambda failure: self._on_broken(transport, broker, failure)
        self._pool.connected(broker, None if self.broker is None else self.broker.properties)
        try:
            await within(self._restore(transport), self._request_timeout_s, "restoring of the connection")
            transport.check()
        except BaseException:
            transport.abort()
            self._on_broken(
                transport, broker, ConnectionLostException("the attempt to reconnect was given up")
            )
            raise

    async def _restore(self, transport: Transport) -> None:
        """Begin all sessions and attach all links again; temporary destinations first, under their new
        names.
        """
        begun = []
        for channel in list(self._channels):
            channel.engine, answer = transport.begin()
            begun.append(answer)
        makers = [each for each in self.attachments() if each.makes_node]
        await _all([*begun, *(maker.attach_again() for maker in makers)])
        await _all([each.attach_again() for each in self.attachments() if not each.makes_node])

    # --- breaking

    def _on_broken(self, transport: Transport, broker: BrokerUrl, failure: JMSException) -> None:
        if transport is not self.transport:
            return
        self.transport = None
        was_online, self._is_online = self._is_online, False
        if self.failure is not None:
            return
        if not self.recovers:
            self._fail(failure)
            return
        if isinstance(failure, ConnectionRedirectedException):
            self._pool.redirected(broker, failure.info)
        is_lost = isinstance(failure, ConnectionLostException)
        lost = failure if is_lost else ConnectionLostException(str(failure))
        for channel in list(self._channels):
            channel.interrupt(lost)
        if was_online:
            self._notify(lambda: self._listener.on_interrupted(str(broker)))
            self._recovering = self.loop.create_task(self._recover(failure))

    async def _recover(self, broken: JMSException) -> None:
        soon = self.loop.time() - self._online_since_s < SOON_S
        backoff = Backoff(self._options, starting=False, soon=soon and self._recoveries > 0)
        try:
            if backoff.exhausted:
                raise broken
            await self._connect(backoff)
        except JMSException as failure:
            self._fail(failure)
            return
        except Exception as error:  # a bug, or a machine without memory: nobody shall wait for ever
            LOG.exception("the recovery of a connection failed")
            self._fail(ConnectionLostException(f"the recovery of the connection failed: {error}"))
            return
        self._recoveries += 1
        self._set_online()
        self._notify(lambda: self._listener.on_restored(self._address))

    def _fail(self, failure: JMSException, notify: bool = True) -> None:
        """The end; the first reason counts, and everyone who waits is told."""
        if self.failure is not None:
            return
        self.failure = failure
        for channel in list(self._channels):
            channel.lose(failure)
        fail_all(self._waiting, failure)
        if notify:
            self._notify(lambda: self._listener.on_failure(failure))

    def _notify(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            LOG.exception("a connection listener failed")

    async def close(self, timeout_s: float | None) -> None:
        """Close the connection and wait until the broker has answered; while there is none, at once."""
        self._fail(IllegalStateException("the connection is closed"), notify=False)
        recovering, self._recovering = self._recovering, None
        if recovering is not None:
            recovering.cancel()
            await asyncio.wait([recovering])
        if self.transport is not None:
            await self.transport.close(timeout_s)


async def _all(answers: list[asyncio.Future[None]]) -> None:
    """Wait for all; the first failure is raised, those of the others are passed over."""
    for future in answers:
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
    for future in answers:
        await future
