"""Receiving and browsing messages: the sync face.

Generated from aio/consumer.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from postroom.client.aio import consumer as aio
from postroom.client.aio.consumer import T
from postroom.client.messages.message import Message
from postroom.client.sessions.connection_state import MessageCallback
from postroom.client.sync.portal import Closable

__all__ = ["MessageConsumer", "QueueBrowser"]


class MessageConsumer(Closable[aio.MessageConsumer]):
    """Receives messages from a queue or a subscription: ``for message in consumer``. Made by
    :meth:`Connection.consumer`, :meth:`Session.create_consumer` and its likes.

    The loop ends when the application closes the consumer, its session or its connection, be it from another
    task or thread; when the link is lost, it raises what ended it.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closed; one that has a session to itself gives back what has no outcome, as that does."""
        if self._portal.is_running:
            self._portal.call(self._inner.__aexit__(kind, error, trace))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        return self._portal.next_message(self._inner)

    @property
    def address(self) -> str | None:
        """The queue or topic as the broker names it."""
        return self._inner.address

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the broker or a broken connection ended it."""
        return self._inner.is_closed

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message, or None when none came in ``timeout_s`` seconds (None: wait as long as it takes).

        Raises IllegalStateException after ``close``, and where a listener gets the messages;
        MessageFormatException for a delivery that is no message; ValueError for a negative time.
        """
        return self._portal.receive(self._inner, timeout_s)

    def receive_no_wait(self) -> Message | None:
        """A message that waits at the broker now, or None when it says that there is none.

        Raises as :meth:`receive`; JMSTimeoutException when the broker says nothing in ``drain_timeout_s``.
        """
        return self._portal.received(self._portal.call(self._inner.receive_no_wait()))

    def receive_body(self, kind: type[T], timeout_s: float | None = None) -> T | None:
        """The body of the next message, which is a ``kind``: str, bytes, dict, or the class of an object;
        None when none came in ``timeout_s`` seconds, or it has none.

        Raises MessageFormatException where it is something else: the message is the next one still.
        """
        return self._portal.call(self._inner.receive_body(kind, timeout_s))

    def set_message_listener(self, listener: MessageCallback | None) -> None:
        """From now on ``listener`` is called with each message; None: with no more of them.

        It may be a coroutine function. A session calls one listener at a time. In modes AUTO and DUPS_OK the
        message is accepted when the listener has returned, and released when it raises: it comes again, and
        the attempt isn't counted. In other modes an exception is only logged.
        """
        self._portal.call(self._inner.set_message_listener(self._portal.callback(listener)))

    def accept(self, message: Message) -> None:
        """The message is done: it leaves the queue. Raises IllegalStateException, as the other outcomes do,
        for a message that has its outcome, or isn't of this consumer.
        """
        self._portal.call(self._inner.accept(message))

    def release(self, message: Message) -> None:
        """Give the message back as if it had never left; its counts stay."""
        self._portal.call(self._inner.release(message))

    def reject(self, message: Message, condition: str | None = None, description: str | None = None) -> None:
        """The message is no good: the broker moves it to the dead letters, with the reason."""
        self._portal.call(self._inner.reject(message, condition, description))

    def modify(
        self,
        message: Message,
        *,
        failed: bool = True,
        undeliverable_here: bool = False,
        annotations: Mapping[str, object] | None = None,
    ) -> None:
        """Give the message back: ``failed`` counts as an attempt, ``undeliverable_here`` keeps it from this
        consumer, ``annotations`` are merged into its message annotations.
        """
        self._portal.call(
            self._inner.modify(
                message, failed=failed, undeliverable_here=undeliverable_here, annotations=annotations
            )
        )

    def stop(self) -> None:
        """Nothing more is handed out, so that a loop over the consumer ends with the message in hand: as
        :meth:`close`, which follows, and without waiting, for a signal's handler.
        """
        self._portal.do(lambda: self._inner.stop())

    def close(self) -> None:
        """Close the consumer: what was only prefetched goes back as if it had never left, and a loop over it
        ends.

        A call of its listener is waited for, unless it is that call which closes. While the application has
        messages of it without an outcome, the broker is not told: they can still be acknowledged. Leaving
        ``with`` ends a consumer of :meth:`Connection.consumer` at the latest, and the session's
        ``close`` another one: such messages go back as failed attempts.
        """
        super().close()


class QueueBrowser(Closable[aio.QueueBrowser]):
    """Looks at the messages of a queue, in order: ``for message in browser``.

    Made by :meth:`Connection.browser` and :meth:`Session.create_browser`.
    """

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the broker or a broken connection ended it."""
        return self._inner.is_closed

    def __iter__(self) -> QueueBrowser:
        return self

    def __next__(self) -> Message:
        return self._portal.next(self._inner)

    def close(self) -> None:
        """Close the browser; a loop over it ends."""
        super().close()
