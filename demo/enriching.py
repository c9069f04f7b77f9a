"""The third chapter: Spark enriches one queue into another, and is killed on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from rich.console import Console

from demo.broker import Broker
from demo.enrich import ALARM_FROM, APP, SUBSCRIPTION, TARGET
from demo.narrator import Narrator
from demo.pipeline import ENVIRONMENT, PATIENCE_S
from demo.tally import Tally
from postroom.client import ConnectionFactory, ManagementClient, Message
from postroom.client.exceptions import JMSException

READINGS = 600
WINDOW = 100
QUEUE = "readings"
POLL_S = 0.25


class Enriching(Narrator):
    """A queue of readings, a Spark job that judges them, and who receives what it sends."""

    def __init__(self, broker: Broker, folder: Path, tally: Tally, console: Console) -> None:
        super().__init__(console)
        self._broker = broker
        self._folder = folder
        self._tally = tally

    def play(self) -> None:
        """Send, enrich with a driver that is killed once, receive."""
        self.title("Spark enriches one queue into another; its driver is killed once")
        self._send()
        batch = self._run_until_killed()
        self.narrate(f"SIGKILL to Spark's driver, just when the broker had decided its batch {batch}")
        started = time.monotonic()
        self._finish(self._start())
        self.narrate(f"started again on the same checkpoint; done in {time.monotonic() - started:.0f} s")
        self._receive()

    def _send(self) -> None:
        with ConnectionFactory(self._broker.url).create_connection() as connection:
            management = connection.create_management()
            for name in (QUEUE, TARGET):
                management.create("postroom.queue", name)
            settings = {"queue": QUEUE, "window": WINDOW}
            management.create("postroom.spark-subscription", SUBSCRIPTION, settings)
            producer = connection.create_session().create_producer(QUEUE)
            producer.send_all(Message(str(number), message_id=_id(number)) for number in range(READINGS))
        self.narrate(f"{READINGS} readings on {QUEUE}, assigned to a Spark subscription {WINDOW} at a time")

    def _run_until_killed(self) -> int:
        """End the driver as soon as the broker has decided a batch; which one."""
        job = self._start()
        with ConnectionFactory(self._broker.url).create_connection() as connection:
            batch = self._await_decision(connection.create_management(), job)
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        return batch

    def _await_decision(self, management: ManagementClient, job: subprocess.Popen[bytes]) -> int:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and job.poll() is None:
            if (batch := _decided(management)) > 0:
                return batch
            time.sleep(POLL_S)
        raise RuntimeError(f"the job doesn't get on; see {self._log}")

    def _start(self) -> subprocess.Popen[bytes]:
        checkpoint = str(self._folder / "enrich-checkpoint")
        command = [sys.executable, "-m", "demo.enrich", self._broker.url, str(self._broker.data), checkpoint]
        with self._log.open("ab") as log:
            environment = {**os.environ, **ENVIRONMENT}
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def _finish(self, job: subprocess.Popen[bytes]) -> None:
        if job.wait(PATIENCE_S):
            raise RuntimeError(f"the job failed; see {self._log}")

    @property
    def _log(self) -> Path:
        return self._folder / "enrich.log"

    def _receive(self) -> None:
        """Each reading is there once, with its judgement."""
        received: list[Message] = []
        with ConnectionFactory(self._broker.url).create_connection() as connection:
            consumer = connection.create_session().create_consumer(TARGET, prefetch=READINGS)
            while (message := consumer.receive_no_wait()) is not None:
                received.append(message)
        self._tally.add(QUEUE, "consumed", READINGS)
        self._tally.add(TARGET, "consumed", len(received))
        ids = Counter(str(message.message_id) for message in received)
        missing = READINGS - len(ids)
        alarms = sum(message.subject == "alarm" for message in received)
        self.narrate(
            f"{len(received)} judged readings received, {alarms} of them alarms:"
            f" {missing} missing, {len(received) - len(ids)} twice"
        )
        if missing or len(received) != len(ids) or alarms != _alarms():
            raise AssertionError(f"not exactly once: {len(received)} received, {missing} missing")


def _decided(management: ManagementClient) -> int:
    """The last batch that the broker has decided; −1 if none."""
    try:
        batch = management.request("READ", kind="postroom.sink", name=APP).attributes().get("batch_id")
    except JMSException:  # no task has asked for it yet
        return -1
    return batch if isinstance(batch, int) else -1


def _id(number: int) -> str:
    return f"reading-{number}"


def _alarms() -> int:
    return sum(number % 100 >= ALARM_FROM for number in range(READINGS))
