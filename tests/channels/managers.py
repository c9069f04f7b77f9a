"""Three queue managers as processes, and what clients do with them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from postroom.client import ConnectionFactory, Message, Session
from tests.clients.broker import BrokerProcess

WAIT_S: Final = 30.0
CHANNEL: Final = """
[[channel]]
name = "{name}"
type = "{type}"
batch_size = {batch_size}
short_retry_count = 999
short_retry_interval_s = {retry_s}
heartbeat_interval_s = {heartbeat_s}
{more}
"""
HEAD: Final = """
container_id = "{name}"
[[listen]]
address = "{{address}}"
anonymous = true
[queue_manager]
dead_letter_queue = "dead"
[[queue]]
name = "dead"
"""


class QueueManager(BrokerProcess):
    """One of them: queues and channels first, then the process."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder / name)
        self.name = name
        self._text = HEAD.format(name=name)

    def queue(self, name: str, more: str = "") -> QueueManager:
        """Define a queue."""
        self._text += f'\n[[queue]]\nname = "{name}"\n{more}\n'
        return self

    def tables(self, text: str) -> QueueManager:
        """What else its configuration file says."""
        self._text += text
        return self

    def alias(self, queue_manager: str, by: str) -> QueueManager:
        """Messages for that queue manager go by another's transmission queue."""
        self._text += (
            f'\n[[remote_queue]]\nname = "{queue_manager}"\nremote_queue_manager = "{queue_manager}"'
        )
        self._text += f'\ntransmission_queue = "{by}"\n'
        return self

    def sends_to(
        self,
        partner: QueueManager,
        port: int,
        batch_size: int = 5,
        heartbeat_s: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        """A sender channel to ``partner``, who is reached at ``host`` and ``port``; and its receiver."""
        name = f"{self.name}.{partner.name}"
        self.queue(partner.name, 'usage = "transmission"')
        more = f'transmission_queue = "{partner.name}"\nconnection = "amqp://{host}:{port}"'
        common = {"name": name, "batch_size": batch_size, "retry_s": 0, "heartbeat_s": heartbeat_s}
        self._text += CHANNEL.format(type="sender", more=more, **common)
        partner._text += CHANNEL.format(type="receiver", more="", **common)

    def launch(self) -> None:
        self._config = self._text
        super().launch()

    # Clients.

    @contextmanager
    def session(self) -> Iterator[Session]:
        with ConnectionFactory(self.url).create_connection() as connection:
            yield connection.create_session()

    def channel(self, name: str) -> dict[str, object]:
        """Its status."""
        with ConnectionFactory(self.url).create_connection() as connection:
            return connection.create_management().read("postroom.channel", name)

    def await_empty(self, queue: str) -> None:
        """Return when everything has left ``queue`` for good."""
        end = time.monotonic() + WAIT_S
        with ConnectionFactory(self.url).create_connection() as connection:
            management = connection.create_management()
            while (row := management.read("postroom.queue", queue))["messages_current"] or row[
                "messages_pending"
            ]:
                assert time.monotonic() < end, f"{queue} of {self.name} doesn't get empty: {row}"

    def put(self, address: str, ids: list[str], durable: bool = True) -> None:
        """Put messages; they are accepted when this returns."""
        with self.session() as session:
            producer = session.create_producer(address)
            producer.send_all(Message(name, message_id=name, durable=durable) for name in ids)

    def take(self, queue: str, last: set[str]) -> list[str]:
        """Everything on a queue until all of ``last`` have come."""
        found: list[str] = []
        missing = set(last)
        with self.session() as session:
            consumer = session.create_consumer(queue)
            while missing:
                message = consumer.receive(WAIT_S)
                assert message is not None, f"{queue} of {self.name}: {found}, and then nothing"
                found.append(str(message.body))
                missing.discard(found[-1])
        return found


def three(folder: Path, ports: dict[str, int], batch_size: int = 5) -> dict[str, QueueManager]:
    """LONDON → PARIS → ROME: messages for ROME that are put in LONDON go by PARIS. ``ports``: where
    the partner of a channel is reached, if not where it listens.
    """
    names = ("LONDON", "PARIS", "ROME")
    made = {name: QueueManager(folder, name) for name in names}
    for source, target in (("LONDON", "PARIS"), ("PARIS", "ROME")):
        partner = made[target]
        made[source].sends_to(partner, ports.get(f"{source}.{target}", partner.port), batch_size)
    made["LONDON"].alias("ROME", "PARIS")
    made["PARIS"].queue("orders")
    made["ROME"].queue("archive")
    return made
