"""Subscribers: a destination, the handler of its messages, and the loop that brings them together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from postroom.app.bodies import UndecodableError
from postroom.app.handlers import Handler
from postroom.app.policy import Reject, Retry, RetryPolicy
from postroom.client import Destination, InvalidDestinationException, JMSException, Message, Queue, Topic
from postroom.client.aio import Connection, MessageConsumer
from postroom.client.messages.outcomes import text_of

__all__ = ["Subscriber", "Subscription"]

LOG: Final = logging.getLogger("postroom.app")
UNDECODABLE: Final = "amqp:decode-error"
"""The reason of dead letters whose body their handler can't take."""
MAX_CONCURRENCY: Final = 1_000
CANCEL_S: Final = 5.0
"""How long a handler that is cancelled may take; then its message goes back all the same."""

Answer = Callable[[Message, object], Awaitable[None]]


@dataclass(frozen=True)
class Subscription:
    """Where a subscriber's messages come from, and how many at a time."""

    destination: Destination
    name: str | None = None
    selector: str | None = None
    concurrency: int = 1
    prefetch: int | None = None
    """None: as many as are handled at a time."""
    publish_to: Destination | None = None
    policy: RetryPolicy = field(default_factory=RetryPolicy)

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise ValueError(f"concurrency is {self.concurrency}; it is 1 to {MAX_CONCURRENCY}")
        if self.name is not None and not isinstance(self.destination, Topic):
            raise ValueError(
                f'subscription={self.name!r} is to a topic: @app.subscriber(Topic("…"), subscription=…)'
            )

    @property
    def text(self) -> str:
        """For logs."""
        name = self.destination if isinstance(self.destination, str) else self.destination.name
        return name if self.name is None else f"{name} ({self.name})"


class Subscriber:
    """Receives the messages of a subscription, has at most ``concurrency`` of them handled at a time, and
    says what becomes of each.
    """

    def __init__(self, wanted: Subscription, handler: Handler, answer: Answer) -> None:
        self.wanted = wanted
        self._handler = handler
        self._answer = answer
        self._free = asyncio.Semaphore(wanted.concurrency)
        self._under_way: dict[asyncio.Task[None], Message] = {}
        self._consumer: MessageConsumer | None = None
        self._is_stopping = False

    async def open(self, connection: Connection, creates: bool) -> None:
        """Attach to the destination; with ``creates``, a queue that isn't there is made, where the broker
        does so for senders. Raises InvalidDestinationException, which says what to do, where it isn't there.
        """
        wanted = self.wanted
        try:
            if creates and isinstance(wanted.destination, str | Queue):
                await (await connection.producer(wanted.destination)).close()
            self._consumer = await connection.consumer(
                wanted.destination,
                wanted.selector,
                prefetch=wanted.concurrency if wanted.prefetch is None else wanted.prefetch,
                subscription=wanted.name,
                durable=wanted.name is not None,
                shared=wanted.name is not None,
            )
        except InvalidDestinationException as error:
            raise InvalidDestinationException(
                f"{self._handler.name} has nothing to receive from: {error.description};"
                f" create it with: postroom queue create {wanted.text}",
                error.condition,
            ) from error

    async def run(self) -> None:
        """Receive until ``stop``; raises what ends the consumer otherwise."""
        assert self._consumer is not None
        messages = aiter(self._consumer)
        while True:
            await self._free.acquire()
            message = await anext(messages, None)
            if message is None:
                return
            if self._is_stopping:
                await message.release()
                return
            task = asyncio.create_task(self._handle(message), name=self._handler.name)
            self._under_way[task] = message
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._under_way[task]
        self._free.release()

    async def stop(self) -> None:
        """Take no more messages: what was only prefetched goes back as if it had never left."""
        self._is_stopping = True
        if self._consumer is not None:
            await self._consumer.close()

    async def settle(self, grace_s: float) -> None:
        """Let handlers end; those that take longer than ``grace_s`` are cancelled: their messages go back."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=grace_s)
        if self._under_way:
            LOG.warning("%s did not end within %s s: its messages go back", self._handler.name, grace_s)
            self.cancel()
            await asyncio.wait(self._under_way, timeout=CANCEL_S)

    def cancel(self) -> None:
        """Cancel the handlers that are under way."""
        for task in self._under_way:
            task.cancel()

    # --- one message

    async def _handle(self, message: Message) -> None:
        try:
            await self._outcome(message)
        except JMSException as failure:
            # The link or connection is gone; under fail-over the next message comes over another one.
            LOG.warning(
                "%s: the outcome of message %s got lost, it comes again: %s", *self._label(message), failure
            )

    async def _outcome(self, message: Message) -> None:
        try:
            answer = await self._handler.call(self._handler.arguments(message))
            if answer is not None:
                await self._answer(message, answer)
        except UndecodableError as error:
            LOG.error("%s can't take message %s: %s", *self._label(message), error)
            await message.dead_letter(str(error), condition=UNDECODABLE)
        except Reject as rejected:
            LOG.warning("%s rejects message %s: %s", *self._label(message), rejected.reason)
            await message.dead_letter(rejected.reason)
        except Retry as retry:
            LOG.info("%s wants message %s again: %s", *self._label(message), retry.reason)
            await message.retry(after_s=self._delay_s(message, retry), reason=retry.reason)
        except Exception as error:
            await self._failed(message, error)
        except BaseException:  # cancelled: no attempt
            with suppress(JMSException):
                message.release()
            raise
        else:
            await message.acknowledge()

    def _delay_s(self, message: Message, retry: Retry) -> float:
        policy = self.wanted.policy
        return policy.delay_s(message.delivery_count) if retry.after_s is None else retry.after_s

    async def _failed(self, message: Message, error: Exception) -> None:
        """By policy: again, or to the dead letters with the error's text."""
        policy, failures = self.wanted.policy, message.delivery_count
        text = text_of(error)
        if policy.gives_up(failures):
            LOG.error(
                "%s gives up message %s after %d attempts",
                *self._label(message),
                failures + 1,
                exc_info=error,
            )
            await message.dead_letter(text)
            return
        delay_s = policy.delay_s(failures)
        LOG.warning(
            "%s failed, message %s comes again in %s s", *self._label(message), delay_s, exc_info=error
        )
        await message.retry(after_s=delay_s, reason=text)

    def _label(self, message: Message) -> tuple[str, object]:
        return self._handler.name, message.message_id
