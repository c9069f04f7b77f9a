"""One connection to one broker: the sans-IO engine on an asyncio transport.

The engine turns bytes into events; the transport gives each event to the handler of its link (``link``),
and whoever waits for an answer is told when the connection ends; whether another one follows is the
``provider``'s business. Everything here happens in the event loop's thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar, cast

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine import events
from postroom.amqp.engine.connection import Connection as Engine
from postroom.amqp.engine.link import Link
from postroom.amqp.engine.options import NEVER_US, ConnectionOptions
from postroom.amqp.engine.session import Session as EngineSession
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.errors import CONNECTION_REDIRECT, NOT_ALLOWED, NOT_IMPLEMENTED, UNAUTHORIZED_ACCESS
from postroom.amqp.extensions import ESTABLISHMENT_FAILED, SOLE_CONNECTION
from postroom.amqp.frames.performatives import Open
from postroom.amqp.frames.sasl import ANONYMOUS
from postroom.client.connection.sign_in import ScramSignIn
from postroom.client.exceptions import (
    ConnectionLostException,
    ConnectionRedirectedException,
    IllegalStateException,
    JMSException,
    JMSSecurityException,
    JMSTimeoutException,
    from_error,
    usage_errors,
)

T = TypeVar("T")

US_A_SECOND: Final = 1_000_000
NS_A_US: Final = 1_000


ENDS: Final = (events.Closed, events.ProtocolFailed)


def now_us() -> int:
    """The engine's clock: microseconds, monotonic."""
    return time.monotonic_ns() // NS_A_US


class LinkHandler:
    """What the transport tells about a link; ``Link.context`` holds it. And what the provider tells it, which
    outlives the transport.
    """

    makes_node: bool
    """Whether the broker makes a node for it, and names that."""

    def attach_again(self) -> asyncio.Future[None]:
        """Attach on a new transport; the future fails where another attempt may help."""
        raise NotImplementedError

    def interrupt(self, failure: JMSException) -> None:
        """The transport is gone, another one will come."""

    def lose(self, failure: JMSException) -> None:
        """The connection is over."""

    def on_attached(self, event: events.LinkAttached) -> None:
        """The broker has answered the attach; without a terminus, its refusal follows."""

    def on_detached(self, event: events.LinkDetached) -> None:
        """The broker has detached, or the engine has."""

    def on_transfer(self, event: events.TransferReceived) -> None:
        """A frame of a message."""

    def on_settled(self, event: events.SenderDispositionReceived) -> None:
        """The broker has settled what it sent."""

    def on_credit(self) -> None:
        """More, or less, may be sent."""

    def on_drained(self) -> None:
        """All credit of a drain is used or given back."""

    def before_flush(self) -> None:
        """Bytes are about to leave: the last moment to add to them."""


class Waited:
    """What others wait for, until it has failed for good."""

    def __init__(self) -> None:
        self.loop: Final = asyncio.get_running_loop()
        self.failure: JMSException | None = None
        """Why nothing works any more; None while there is hope."""
        self._waiting: set[asyncio.Future[Any]] = set()

    def future(self) -> asyncio.Future[Any]:
        """A future that fails when this does."""
        future: asyncio.Future[Any] = self.loop.create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def check(self) -> None:
        """Raise what has ended it, if it has ended."""
        if self.failure is not None:
            raise self.failure


class Transport(Waited, asyncio.Protocol):
    """One connection, from connect to close."""

    def __init__(self, options: ConnectionOptions, alone: bool) -> None:
        """``alone``: the broker shall refuse another connection with the same container id."""
        super().__init__()
        self.engine = Engine(options, now_us())
        self._alone = alone
        self._sign_in: Final = options.sasl_client
        self._is_unknown = False
        """There is a user, and the broker has signed nobody in."""
        self.on_failed: Callable[[JMSException], None] = lambda failure: None
        """Called once, when nothing works any more."""
        self.broker: Open | None = None
        """The broker's open: its container id, limits and capabilities."""
        self._socket: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._flush_is_due = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._before_flush: list[LinkHandler] = []
        self._opened: asyncio.Future[Open] = self.future()
        self._ended: asyncio.Future[None] = self.loop.create_future()
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            events.SaslDone: self._on_sasl_done,
            events.Opened: self._on_opened,
            events.Closed: self._on_closed,
            events.ProtocolFailed: self._on_protocol_failed,
            events.SessionBegun: self._on_session_begun,
            events.SessionEnded: self._on_session_ended,
            events.LinkAttached: self._on_attached,
            events.LinkDetached: self._on_detached,
            events.TransferReceived: lambda event: handler_of(event.link).on_transfer(event),
            events.DispositionReceived: self._on_disposition,
            events.SenderDispositionReceived: lambda event: handler_of(event.link).on_settled(event),
            events.CreditChanged: self._on_credit,
            events.Drained: lambda event: handler_of(event.link).on_drained(),
        }

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)  # uvloop's has all of it, but is no subclass
        if isinstance(self._sign_in, ScramSignIn):
            self._sign_in.connected(transport.get_extra_info("ssl_object"))
        self.engine.open(desired_capabilities=[SOLE_CONNECTION] if self._alone else None)
        self.flush()

    def data_received(self, data: bytes) -> None:
        self._dispatch(self.engine.receive_data(data, now_us()))

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(
            ConnectionLostException(f"the connection to the broker broke: {error or 'closed by the peer'}")
        )
        if self._timer is not None:
            self._timer.cancel()
        if not self._ended.done():
            self._ended.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # --- for the faces

    async def opened(self) -> Open:
        """Wait until the broker has answered the open."""
        return await self._opened

    def begin(self) -> tuple[EngineSession, asyncio.Future[None]]:
        """Begin a session; the future is the broker's answer. Links may be attached before it comes."""
        self.check()
        with usage_errors("begin of a session"):
            session = self.engine.begin()
        session.context = future = self.future()
        self.flush_soon()
        return session, future

    async def close(self, timeout_s: float | None) -> None:
        """Close the connection and wait until the broker has answered; a broken connection is closed
        already.
        """
        if self.failure is None:
            self._fail(IllegalStateException("the connection is closed"))
            self.engine.close()
            self.flush()
            try:
                await within(asyncio.shield(self._ended), timeout_s, "close of the connection")
            finally:
                self.abort()
        await self._ended

    def abort(self) -> None:
        """Drop the socket."""
        if self._socket is not None:
            self._socket.abort()

    def flush_soon(self, handler: LinkHandler | None = None) -> None:
        """Write once everything that is ready now has run; ``handler`` is asked to add its part first."""
        if handler is not None:
            self._before_flush.append(handler)
        if not self._flush_is_due:
            self._flush_is_due = True
            self.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what the engine has, and see when it wants to be woken."""
        self._flush_is_due = False
        waiting, self._before_flush = self._before_flush, []
        for handler in waiting:
            handler.before_flush()
        data = self.engine.data_to_send()
        if data and self._socket is not None and not self._socket.is_closing():
            self._socket.write(data)
        self._set_timer()

    @property
    def is_writable(self) -> bool:
        """Whether the socket takes more."""
        return self._writable.is_set()

    async def writable(self) -> None:
        """Wait while the socket can't take more; a broken one takes all."""
        await self._writable.wait()

    # --- events

    def _dispatch(self, found: list[Event]) -> None:
        # The end of the connection first: links are reported detached before it, and should know why.
        for event in sorted(found, key=lambda event: not isinstance(event, ENDS)):
            handler = self._handlers.get(type(event))
            if handler is not None:
                handler(event)
        self.flush()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_us = self.engine.next_deadline_us()
        if deadline_us < NEVER_US and self.failure is None:
            delay_s = max(deadline_us - now_us(), 0) / US_A_SECOND
            self._timer = self.loop.call_later(delay_s, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._dispatch(self.engine.on_time(now_us()))

    def _on_sasl_done(self, event: events.SaslDone) -> None:
        if not event.ok:
            self._fail(
                JMSSecurityException(
                    f"the broker refused to sign in (mechanism {event.mechanism}, code {event.code})"
                )
            )
            self.abort()
        self._is_unknown = event.mechanism == ANONYMOUS and self._sign_in is not None

    def _on_opened(self, event: events.Opened) -> None:
        """A broker that refuses the connection says so here, and closes with the reason: wait for that."""
        self.broker = event.open
        refused = (event.open.properties or {}).get(ESTABLISHMENT_FAILED) is True
        if self._is_unknown and not refused:
            what = "the broker signs no user in (SASL ANONYMOUS is all that suits it): leave the user out"
            self._fail(JMSSecurityException(what, UNAUTHORIZED_ACCESS))
            self.abort()
        if not refused and not self._opened.done():
            self._opened.set_result(event.open)

    def _on_closed(self, event: events.Closed) -> None:
        self._fail(closed_by(event.error))
        self._hang_up()

    def _on_protocol_failed(self, event: events.ProtocolFailed) -> None:
        """The broker broke a rule, or was silent too long; the engine has closed the connection."""
        error = event.error
        what = f"the connection failed: {error.description}"
        unknown = error.condition == UNAUTHORIZED_ACCESS
        self._fail((JMSSecurityException if unknown else ConnectionLostException)(what, error.condition))
        self._hang_up()

    def _hang_up(self) -> None:
        self.flush()
        if self._socket is not None:
            self._socket.close()

    def _on_session_begun(self, event: events.SessionBegun) -> None:
        begun = event.session.context
        if isinstance(begun, asyncio.Future) and not begun.done():
            begun.set_result(None)
        elif event.by_peer:
            event.session.end(Error(NOT_ALLOWED, "this client accepts no sessions of a broker"))

    def _on_session_ended(self, event: events.SessionEnded) -> None:
        begun = event.session.context
        if isinstance(begun, asyncio.Future) and not begun.done():
            begun.set_exception(from_error(event.error, "the session was ended"))

    def _on_attached(self, event: events.LinkAttached) -> None:
        if event.by_peer:
            event.link.refuse_attach(Error(NOT_ALLOWED, "this client accepts no links of a broker"))
        else:
            handler_of(event.link).on_attached(event)

    def _on_detached(self, event: events.LinkDetached) -> None:
        if isinstance(event.link.context, LinkHandler):
            event.link.context.on_detached(event)

    def _on_disposition(self, event: events.DispositionReceived) -> None:
        for delivery in event.deliveries:
            future = delivery.context
            if isinstance(future, asyncio.Future) and not future.done():
                future.set_result(event.state)
        if not event.settled and event.state is not None:
            # Receiver settle mode second: the broker waits for our word.
            for delivery in event.deliveries:
                delivery.link.settle(delivery.id, delivery.id, event.state)

    def _on_credit(self, event: events.CreditChanged) -> None:
        link = event.link
        if link.txn_id is not None:
            link.fail(Error(NOT_IMPLEMENTED, f"link {link.name!r} acquires nothing in transactions"))
            return
        handler_of(link).on_credit()

    def _fail(self, failure: JMSException) -> None:
        """The first reason counts; everyone who waits is told."""
        if self.failure is not None:
            return
        self.failure = failure
        self._writable.set()
        self.on_failed(failure)
        fail_all(self._waiting, failure)


def fail_all(waiting: Iterable[asyncio.Future[Any]], failure: JMSException) -> None:
    """Give ``failure`` to every future that still waits."""
    for future in list(waiting):
        if not future.done():
            future.set_exception(failure)
            future.exception()  # seen: those who gave up waiting are not to be warned about


def handler_of(link: Link) -> LinkHandler:
    """The handler that attached ``link``."""
    assert isinstance(link.context, LinkHandler)
    return link.context


def closed_by(error: Error | None) -> JMSException:
    """Why a broker has closed the connection."""
    what = "the connection was closed"
    if error is not None and error.condition == CONNECTION_REDIRECT:
        info = {str(name): value for name, value in (error.info or {}).items()}
        return ConnectionRedirectedException(f"{what}: {error.description or 'go elsewhere'}", info)
    return from_error(error, what, ConnectionLostException)


async def within(future: Awaitable[T], timeout_s: float | None, what: str) -> T:
    """Wait for ``future`` at most ``timeout_s`` seconds (None: for ever); JMSTimeoutException names
    ``what``.
    """
    if isinstance(future, asyncio.Future) and future.done():
        known: T = future.result()
        return known
    try:
        async with asyncio.timeout(timeout_s):
            return await future
    except TimeoutError:
        raise JMSTimeoutException(f"no answer to the {what} within {timeout_s} s") from None
