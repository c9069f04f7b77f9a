"""One life of the broker as Qpid Proton's Python client sees it: sending and receiving until a kill."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from proton import Delivery, Handler, Link, Message, Sender
from proton.handlers import MessagingHandler
from proton.reactor import Container, LinkOption

from tests.crash.history import History
from tests.crash.proof import marker

QUEUE = "crash"
WINDOW = 100
LARGE_EVERY = 97
LARGE_BYTES = 300_000
"""Over the broker's limit for bodies that it keeps in one piece."""
LATEST_KILL_S = 0.02
"""The kill follows the answer that calls for it by any time up to this, so as to hit any step of a commit."""
HELD_SHARE = 0.05
"""Of the deliveries, those never confirmed: they must come back in the next life."""


PATIENCE_S = 20.0
"""A life without a delivery or an answer for this long has failed."""


class Watch(Handler):
    """Fails a life that has not moved since it last looked."""

    def __init__(self, life: Life, container: Any) -> None:
        self.life = life
        self.seen = -1
        self.task = container.schedule(PATIENCE_S, self)

    def on_timer_task(self, event: Any) -> None:
        """Looks, and looks again later."""
        if self.life.moved == self.seen:
            self.life._fail(f"nothing moved for {PATIENCE_S:.0f} s")
            return
        self.seen = self.life.moved
        self.task = event.container.schedule(PATIENCE_S, self)


class ConfirmWithAnswer(LinkOption):
    """Receiver-settle-mode second: the broker answers each confirm."""

    def apply(self, link: Any) -> None:
        link.rcv_settle_mode = Link.RCV_SECOND


class LifeFailed(Exception):
    """A life went otherwise than planned: the broker refused, went away by itself, or stood still."""


class Life(MessagingHandler):
    """Sends and receives until `kill_after` confirms are answered, then has `kill` called a moment later.

    Without `kill_after` it sends so many `messages`, and ends when the last of them has come through and
    every confirm is answered.
    """

    def __init__(
        self,
        url: str,
        history: History,
        chance: random.Random,
        kill_after: int = 0,
        kill: Callable[[], None] = lambda: None,
        messages: int = 1,
    ) -> None:
        super().__init__(prefetch=WINDOW, auto_accept=False, auto_settle=True)
        self.url = url
        self.history = history
        self.chance = chance
        self.kill_after = kill_after
        self.kill = kill
        self.ending = False
        self.answers = 0
        self.error: str | None = None
        self.moved = 0
        """Deliveries and answers seen in this life."""
        self.next_number = len(history.sent)
        self.last_number = None if kill_after else self.next_number + messages - 1
        self.numbers_sent: dict[str, int] = {}
        self.numbers_confirmed: dict[Delivery, int] = {}

    def run(self) -> None:
        """Lives this life. Raises LifeFailed when it ended for another reason than the one planned."""
        Container(self).run()
        if self.error:
            raise LifeFailed(self.error)

    def on_reactor_init(self, event: Any) -> None:
        """Sets the watch that ends a life in which nothing moves any more."""
        super().on_reactor_init(event)
        self.watch = Watch(self, event.container)

    def on_start(self, event: Any) -> None:
        self.sending = event.container.connect(self.url, reconnect=False)
        self.receiving = event.container.connect(self.url, reconnect=False)
        self.sender: Sender = event.container.create_sender(self.sending, QUEUE)
        event.container.create_receiver(self.receiving, QUEUE, options=ConfirmWithAnswer())

    def on_sendable(self, event: Any) -> None:
        self._send()

    def next_message(self) -> Message:
        """Takes the next number; a few messages are large."""
        number = self.next_number
        large = number % LARGE_EVERY == LARGE_EVERY - 1
        size = LARGE_BYTES if large else self.chance.randrange(2000)
        self.next_number += 1
        self.history.saw_sent(number)
        return Message(id=number, durable=True, body=marker(number) + bytes(size))

    def _send(self) -> None:
        while self.sender.credit and len(self.numbers_sent) < WINDOW and not self.ending:
            if self.last_number is not None and self.next_number > self.last_number:
                return
            number = self.next_number
            delivery: Any = self.sender.send(self.next_message())
            self.numbers_sent[delivery.tag] = number

    def on_accepted(self, event: Any) -> None:
        self.moved += 1
        self.history.saw_accepted(self.numbers_sent.pop(event.delivery.tag))
        self._send()

    def on_rejected(self, event: Any) -> None:
        self._fail(f"the broker refused a message: {event.delivery.remote.condition}")

    def on_released(self, event: Any) -> None:
        self._fail("the broker released a message")

    def on_message(self, event: Any) -> None:
        if self.ending:
            return
        self.moved += 1
        message: Any = event.message
        number: int = message.id
        self.history.saw_delivery(number, message.delivery_count > 0)
        if self.last_number is None and self.chance.random() < HELD_SHARE:
            return
        self.numbers_confirmed[event.delivery] = number
        self.history.saw_confirm_sent(number)
        event.delivery.update(Delivery.ACCEPTED)

    def on_settled(self, event: Any) -> None:
        if not event.delivery.link.is_receiver:
            return
        self.history.saw_confirm_answered(self.numbers_confirmed.pop(event.delivery))
        event.delivery.settle()
        self._count_answers(event)
        if self.last_number in self.history.answered and not self.numbers_confirmed:
            self._end()

    def _count_answers(self, event: Any, more: int = 1) -> None:
        self.moved += 1
        before, self.answers = self.answers, self.answers + more
        if before < self.kill_after <= self.answers:
            event.container.schedule(self.chance.random() * LATEST_KILL_S, self)

    def on_timer_task(self, event: Any) -> None:
        self.kill()
        self._end()

    def on_transport_error(self, event: Any) -> None:
        self._fail(f"connection lost: {event.transport.condition}")

    def on_link_error(self, event: Any) -> None:
        self._fail(f"link closed: {event.link.remote_condition}")

    def on_connection_error(self, event: Any) -> None:
        self._fail(f"connection closed: {event.connection.remote_condition}")

    def _fail(self, text: str) -> None:
        if not self.ending:
            self.error = text
            self._end()

    def _end(self) -> None:
        self.ending = True
        self.watch.task.cancel()
        self.sending.close()
        self.receiving.close()
