"""What the producers and consumers of a session share: its mode, its transaction, how their links are made,
and whose turn it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import IntEnum
from typing import Any, ClassVar, Final, Protocol

from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.session import Session as EngineSession
from postroom.amqp.extensions import EXCLUSIVE_PROPERTY, MANAGEMENT_ADDRESS, REDELIVERY_DELAY
from postroom.amqp.frames.termini import DISTRIBUTION_COPY, Source, Target
from postroom.amqp.frames.transfers import RCV_FIRST, RCV_SECOND, SND_MIXED, SND_SETTLED, SND_UNSETTLED
from postroom.client.connection.options import MAX_PREFETCH, RecoverMode
from postroom.client.connection.provider import Channel
from postroom.client.connection.receiver_link import Incoming, Receiving
from postroom.client.connection.sender_link import Sending
from postroom.client.destinations import link_name
from postroom.client.exceptions import IllegalStateException, JMSException
from postroom.client.sessions.connection_state import CALLED_FOR, SharedState


class AcknowledgeMode(IntEnum):
    """Who says that a message is done, and when; the numbers are those of JMS and Qpid JMS."""

    SESSION_TRANSACTED = 0
    """With the transaction that it was received in: ``Session.commit``."""
    AUTO = 1
    """Accepted as ``receive`` returns it, or when the listener has returned; a listener that raises gives it
    back.
    """
    CLIENT = 2
    """``Message.acknowledge`` accepts everything that the session has received so far."""
    DUPS_OK = 3
    """As AUTO; the broker may be told late."""
    NO_ACKNOWLEDGE = 100
    """Settled by the broker before it is sent: lost when this process fails."""
    INDIVIDUAL = 101
    """``Message.acknowledge`` accepts this message; ``release``, ``reject`` and ``modify`` of the consumer
    say something else.
    """
    PRE_ACKNOWLEDGE = 257
    """The other number of NO_ACKNOWLEDGE."""

    @property
    def is_presettled(self) -> bool:
        """Whether the broker settles messages before it sends them."""
        return self in (AcknowledgeMode.NO_ACKNOWLEDGE, AcknowledgeMode.PRE_ACKNOWLEDGE)

    @property
    def is_automatic(self) -> bool:
        """Whether messages are accepted without a word of the application."""
        return self in (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK)


class UnitOfWork(Protocol):
    """A transaction, local or a branch of a global one."""

    consumer_properties: ClassVar[dict[object, object]]
    """What the links of consumers tell the broker."""

    async def send(self, sending: Sending, payload: bytes, settled: bool, timeout_s: float | None) -> None:
        """Send in the transaction; the outcome is looked at when it ends."""

    def check_listen(self) -> None:
        """Raises IllegalStateException where messages can't come at any time."""

    def check_receive(self) -> None:
        """Raises IllegalStateException where nothing can be received now."""

    async def acknowledge(self, receiving: Receiving, incoming: Incoming) -> bool:
        """Accept a message in the transaction, before the application gets it; False: don't hand it out, it
        comes again.
        """


class SessionState:
    """Mode, and whose turn it is: a session calls one listener at a time."""

    def __init__(
        self,
        channel: Channel,
        mode: AcknowledgeMode,
        shared: SharedState,
        acknowledge_all: Callable[[], Awaitable[None]],
        recover: RecoverMode,
    ) -> None:
        self._channel: Final = channel
        self.mode: Final = mode
        self.recover: Final = recover
        self.shared: Final = shared
        self.acknowledge_all: Final = acknowledge_all
        """Accepts what all consumers of the session have handed out."""
        self.is_closed = False
        self.transaction: UnitOfWork | None = None
        """What sends and acknowledgements belong to."""
        self.is_transacted: Final = mode is AcknowledgeMode.SESSION_TRANSACTED
        self._under_way: set[asyncio.Task[None]] = set()
        self._listening = asyncio.Lock()
        self._completing = asyncio.Lock()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do ``work`` to its end, whoever waits for it."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    def check(self) -> None:
        """Raises IllegalStateException after the session's close."""
        if self.is_closed:
            raise IllegalStateException("the session is closed")

    def check_all(self) -> None:
        """Raises what ended the connection, too."""
        self._channel.provider.check()
        self.check()

    async def sending(
        self,
        target: Target,
        what: str,
        channel: Channel | None = None,
        *,
        settled: bool = False,
        properties: dict[object, object] | None = None,
    ) -> Sending:
        """A link to ``target``; ``channel`` None: in the session. Raises as the broker refuses."""
        self.check_all()
        name = link_name(target.address)

        def attach(engine: EngineSession) -> SenderLink:
            mode = SND_SETTLED if settled else SND_UNSETTLED
            return engine.attach_sender(name, Source(), target, snd_settle_mode=mode, properties=properties)

        sending = Sending(
            channel or self._channel, attach, what, target, sends_again=target.address != MANAGEMENT_ADDRESS
        )
        await sending.attach(self.shared.request_timeout_s)
        return sending

    async def receiving(
        self,
        source: Source | None,
        what: str,
        *,
        name: str | None = None,
        desired: list[str] | None = None,
        prefetch: int = 0,
        settled: bool = False,
        settle_second: bool = False,
        exclusive: bool = False,
        redelivery_delay_ms: int = 0,
        reply_to: str | None = None,
    ) -> Receiving:
        """A link from ``source``; None: the one that the broker knows under ``name``. ``reply_to``: by which
        name requests have their answers sent here. Raises as :meth:`sending`.
        """
        self.check_all()
        if not 0 <= prefetch <= MAX_PREFETCH:
            raise JMSException(f"prefetch {prefetch} is outside 0 to {MAX_PREFETCH}")
        properties: dict[object, object] = {}
        if exclusive:
            properties[EXCLUSIVE_PROPERTY] = True
        if redelivery_delay_ms:
            properties[REDELIVERY_DELAY] = redelivery_delay_ms
        if self.transaction is not None and source is not None and not browses(source):
            properties |= self.transaction.consumer_properties
        sender_settle_mode = SND_MIXED if browses(source) else SND_UNSETTLED
        if settled or self.mode.is_presettled:
            sender_settle_mode = SND_SETTLED
        link = name or link_name(source.address if source is not None else None)

        def attach(engine: EngineSession) -> ReceiverLink:
            return engine.attach_receiver(
                link,
                source,
                Target(address=reply_to),
                snd_settle_mode=sender_settle_mode,
                rcv_settle_mode=RCV_SECOND if settle_second else RCV_FIRST,
                properties=properties,
                desired_capabilities=desired,
            )

        drain_timeout_s = self.shared.options.drain_timeout_s
        receiving = Receiving(self._channel, attach, what, source, prefetch, drain_timeout_s)
        await receiving.attach(self.shared.request_timeout_s)
        return receiving

    def turn(self) -> AbstractAsyncContextManager[None]:
        """The time of one message listener's call."""
        return self._in_turn(self._listening)

    def completion_turn(self) -> AbstractAsyncContextManager[None]:
        """The time of one call for a message sent."""
        return self._in_turn(self._completing)

    @asynccontextmanager
    async def _in_turn(self, lock: asyncio.Lock) -> AsyncIterator[None]:
        async with lock:
            token = CALLED_FOR.set(CALLED_FOR.get() | {self, self.shared, lock})
            try:
                yield
            finally:
                CALLED_FOR.reset(token)

    @property
    def is_completing_here(self) -> bool:
        """Whether this task, or thread, is in a call for a message sent."""
        return self._completing in CALLED_FOR.get()

    async def quiet(self) -> None:
        """Wait until no message listener of the session is being called."""
        async with self._listening:
            pass


def browses(source: Source | None) -> bool:
    """Whether it gives copies, which nobody else misses."""
    return source is not None and source.distribution_mode == DISTRIBUTION_COPY
