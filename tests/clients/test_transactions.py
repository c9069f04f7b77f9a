"""Local transactions by Qpid Proton, and across clients: what one commits, another receives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from proton import Delivery, Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container

from tests.clients.broker import BrokerProcess
from tests.clients.driver import Client

pytestmark = [pytest.mark.sockets, pytest.mark.peer]

LARGE_BYTES = 600_000
"""More than a frame, and more than the ledger takes in one piece."""
WAIT_S = 30.0


class Work(MessagingHandler, TransactionHandler):
    """One transaction: takes so many messages from one queue, sends others to another, and ends as told."""

    def __init__(
        self, url: str, source: str, target: str, takes: int, bodies: list[str], commits: bool, settles: bool
    ) -> None:
        super().__init__(prefetch=takes, auto_accept=False)
        self.url, self.source, self.target = url, source, target
        self.takes, self.bodies, self.commits = takes, bodies, commits
        self.settles = settles
        """Whether it settles what it takes before the end of the transaction, or waits for the broker."""
        self.ended = ""
        self.got: list[object] = []
        self.transaction: Any = None
        self.deliveries: list[Delivery] = []
        self.sender: Any = None

    def on_start(self, event: Any) -> None:
        self.timer = event.container.schedule(WAIT_S, self)
        self.container = event.container
        self.connection = event.container.connect(self.url, reconnect=False)
        self.sender = event.container.create_sender(self.connection, self.target)
        if self.takes:
            event.container.create_receiver(self.connection, self.source)
        event.container.declare_transaction(
            self.connection, handler=self, settle_before_discharge=self.settles
        )

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self._work()

    def on_sendable(self, event: Any) -> None:
        self._work()

    def on_message(self, event: Any) -> None:
        self.got.append(event.message.body)
        self.deliveries.append(event.delivery)
        self._work()

    def _work(self) -> None:
        ready = self.transaction is not None and self.sender.credit > 0 and len(self.got) == self.takes
        if not ready or self.ended:
            return
        self.ended = "asked"
        for delivery in self.deliveries:
            self.transaction.accept(delivery)
        for body in self.bodies:
            self.transaction.send(self.sender, Message(body=body, durable=True))
        if self.commits:
            self.transaction.commit()
        else:
            self.transaction.abort()

    def on_transaction_committed(self, event: Any) -> None:
        self._end("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self._end("aborted")

    def on_transaction_commit_failed(self, event: Any) -> None:
        self._end("failed")

    def on_timer_task(self, event: Any) -> None:
        self.connection.close()

    def _end(self, how: str) -> None:
        self.ended = how
        self.timer.cancel()
        self.connection.close()


def do(
    broker: BrokerProcess,
    source: str,
    target: str,
    takes: int,
    bodies: list[str],
    commits: bool,
    settles: bool = True,
) -> Work:
    work = Work(broker.url, source, target, takes, bodies, commits, settles)
    Container(work).run()
    return work


def texts(client: Client, queue: str) -> list[str]:
    return [message["body"]["value"]["string"] for message in client.browse(queue)]


def text(body: str) -> dict[str, Any]:
    return {"durable": True, "body": {"value": {"string": body}}}


def test_what_proton_commits_every_client_receives(broker: BrokerProcess, client: Client, queue: str) -> None:
    large = "x" * LARGE_BYTES
    work = do(broker, "", queue, 0, ["a", large, "b"], True)
    assert work.ended == "committed"
    received = client.receive(queue, 3)
    assert [message["body"]["value"]["string"] for message in received] == ["a", large, "b"]


@pytest.mark.parametrize("settles", [True, False])
@pytest.mark.parametrize("commits", [True, False])
def test_proton_takes_and_gives_in_one_transaction(
    broker: BrokerProcess, connected: Callable[[str], Client], queue: str, commits: bool, settles: bool
) -> None:
    rhea = connected("rhea")
    rhea.send(queue, text("1"), text("2"))
    work = do(broker, queue, queue + ".out", 2, ["out"], commits, settles)
    assert (work.ended, work.got[:2]) == ("committed" if commits else "aborted", ["1", "2"])
    assert texts(rhea, queue) == ([] if commits else ["1", "2"])
    assert texts(rhea, queue + ".out") == (["out"] if commits else [])
