"""One NATS server with JetStream as a broker of queues: durable, each write synced before it is answered."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import nats
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig

from tools.peers.broker import Broker
from tools.peers.nats import PROGRAM
from tools.peers.ports import LOOPBACK

MOST_UNACKNOWLEDGED = 1000
"""Deliveries on their way to a consumer: the credit of other brokers' receivers."""


class NatsBroker(Broker):
    """A queue is a stream of its own that drops what was acknowledged (a work queue), with one durable push
    consumer."""

    name = "NATS JetStream"

    def __init__(self, folder: Path, queues: tuple[str, ...]) -> None:
        super().__init__(folder)
        self.queues = queues

    def add_queues(self, names: list[str]) -> None:
        self.queues = (*self.queues, *names)

    def command(self) -> list[str]:
        return [str(PROGRAM), "--config", str(self.folder / "nats.conf")]

    def version(self) -> str:
        done = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True)
        return done.stdout.strip().rpartition("v")[2]

    def settings(self) -> dict[str, str]:
        return {"sync_interval": "always", "retention": "workqueue", "consumer": "push"}

    def prepare(self) -> None:
        store = self.folder / "store"
        (self.folder / "nats.conf").write_text(
            f'listen: {LOOPBACK}:{self.port}\njetstream {{ store_dir: "{store}", sync_interval: always }}\n'
        )

    def start(self, wait: bool = True) -> None:
        """Returns with its streams and consumers made."""
        super().start()
        asyncio.run(self._make_queues())

    async def _make_queues(self) -> None:
        client = await nats.connect(f"nats://{LOOPBACK}:{self.port}")
        try:
            stream_of = client.jetstream()
            for name in self.queues:
                await stream_of.add_stream(
                    StreamConfig(
                        name=name,
                        subjects=[name],
                        retention=RetentionPolicy.WORK_QUEUE,
                        storage=StorageType.FILE,
                    )
                )
                await stream_of.add_consumer(
                    name,
                    ConsumerConfig(
                        durable_name=name,
                        deliver_subject=f"deliver.{name}",
                        ack_policy=AckPolicy.EXPLICIT,
                        max_ack_pending=MOST_UNACKNOWLEDGED,
                    ),
                )
        finally:
            await client.close()
