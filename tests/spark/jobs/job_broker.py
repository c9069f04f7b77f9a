"""A broker with queues for jobs to act on, and what is on them afterwards."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from postroom.client import (
    AcknowledgeMode,
    ClientOptions,
    Connection,
    ConnectionFactory,
    ManagementClient,
    Message,
    MessageConsumer,
    PrefetchPolicy,
)
from postroom.model.entity_types import MESSAGE_TYPE, QUEUE_TYPE
from postroom.server.configuration.config import QueueConfig
from postroom.spark.jobs import acting, jobs
from postroom.spark.jobs.jobs import Where
from postroom.spark.jobs.plan import Manifest, Plan, Results
from postroom.spark.jobs.rules import Rules, parse_rules
from tests.server.harness import BrokerThread, make_config

ONE_BY_ONE = ClientOptions(prefetch=PrefetchPolicy.of_all(0))
"""A consumer holds what was received, and nothing more."""

QUEUES = (
    QueueConfig(name="orders", dead_letter_queue="dead"),
    QueueConfig(name="payments", dead_letter_queue="dead"),
    QueueConfig(name="dead"),
    QueueConfig(name="audit"),
)


@dataclass
class Scene:
    """A running broker with its ledger's folder, and one connection."""

    broker: BrokerThread
    connection: Connection
    management: ManagementClient
    folder: Path
    out: Path

    def put(self, queue: str, messages: Sequence[Message | str]) -> None:
        session = self.connection.create_session()
        producer = session.create_producer(queue)
        for message in messages:
            producer.send(message)
        session.close()

    def reject(self, queue: str, conditions: Sequence[str]) -> None:
        """Take messages and reject each with a condition."""
        session = self.connection.create_session(AcknowledgeMode.INDIVIDUAL)
        consumer = session.create_consumer(queue)
        for condition in conditions:
            message = consumer.receive(10)
            assert message is not None
            consumer.reject(message, condition, f"because of {condition}")
        session.close()
        self.heard()

    def heard(self) -> None:
        """The broker has heard all that was said on the connection: outcomes have no answer of their own."""
        self.depth("dead")

    def consumer(self, queue: str) -> MessageConsumer:
        """One whose messages are held until they are disposed of."""
        return self.connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(queue)

    def texts(self, queue: str) -> list[Any]:
        """What is on a queue, in order, as a browser sees it."""
        session = self.connection.create_session()
        browser = session.create_browser(queue)
        found = [message.body for message in browser]
        session.close()
        return found

    def depth(self, queue: str) -> int:
        return int(str(self.management.read(QUEUE_TYPE, queue)["messages_current"]))

    def rows(self, queue: str) -> list[dict[str, Any]]:
        """What message management tells of a queue."""
        client = self.management
        opened = client.request("OPEN-CURSOR", kind=MESSAGE_TYPE, name=queue, body={}).attributes()
        page = {"cursor": opened["cursor"], "offset": 0, "count": 1000}
        told = client.request("READ-CURSOR", kind=MESSAGE_TYPE, name=queue, body=page).attributes()
        found: list[dict[str, Any]] = told["messages"]  # type: ignore[assignment]
        return found

    def where(self, queue: str = "dead", job: str = "job-1", is_kept: bool = True) -> Where:
        return Where(str(self.folder), "", queue, str(self.out) if is_kept else "", job)

    def plan(self, job: str = "job-1") -> Plan:
        return Plan(f"{self.out}/{job}")

    def planned(self, manifest: Manifest) -> pa.Table:
        """All actions of a plan, in order."""
        return pa.concat_tables([self.plan(manifest.job).read(file.name) for file in manifest.files])

    def kept(self, manifest: Manifest) -> pa.Table:
        """Everything that a plan keeps of what it discards."""
        return pa.concat_tables([self.plan(manifest.job).read(file.name) for file in manifest.discarded])

    def act(self, job: str = "job-1", in_flight: int = 1) -> Results:
        """Carry out a plan that is there."""
        plan = self.plan(job)
        manifest = plan.manifest()
        assert manifest is not None
        return acting.carry_out(plan, manifest, self.broker.url, in_flight, None)

    def triage(self, spark: SparkSession, text: str, queue: str = "dead", job: str = "job-1") -> Manifest:
        return jobs.plan_triage(spark, self.where(queue, job), rules(text))


def rules(text: str) -> Rules:
    return parse_rules(text, "rules.toml")


def rule(when: str, action: str, to: str = "", name: str = "") -> str:
    """A rule as TOML."""
    said = {"name": name, "when": when, "action": action, "to": to}
    return "[[rule]]\n" + "".join(f"{key} = '''{value}'''\n" for key, value in said.items() if value)


def counted(manifest: Manifest) -> dict[str, int]:
    """Messages by rule."""
    return {each.rule + (" (left)" if each.note else ""): each.messages for each in manifest.counts}


@contextmanager
def scene(tmp_path: Path, **changes: Any) -> Iterator[Scene]:
    folder = tmp_path / "data"
    config = make_config(**{"queue": list(QUEUES), **changes})
    with (
        BrokerThread(config, folder=folder) as broker,
        ConnectionFactory(broker.url, options=ONE_BY_ONE).create_connection() as connection,
    ):
        yield Scene(broker, connection, connection.create_management(), folder, tmp_path / "out")
