"""Messages of each client go through rows and the Spark sink into another queue: the client finds there what
it finds in the first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from postroom.spark.messages.schema import MESSAGES_SCHEMA
from postroom.spark.sink.task import Writing, write
from tests.clients.broker import BrokerProcess
from tests.clients.cases import CASES, IDS, PROPERTY_CASES
from tests.clients.driver import Client
from tests.clients.message_rows import rows_in, sent_by
from tests.spark.sink.sink_tasks import Query

pytestmark = [pytest.mark.sockets, pytest.mark.peer]


def through_the_sink(broker: BrokerProcess, queue: str, count: int, folder: Path) -> str:
    """Read what is in a queue as rows and send them to another, whose name this gives."""
    other = f"{queue}-copy"
    query = Query(broker.url, other, folder, abovePosition="position")
    query.plan(0, "0")
    batch = pa.RecordBatch.from_pylist(rows_in(broker, queue, count), MESSAGES_SCHEMA)
    done = write(query.options, Writing(other, "query", "run-1", 0, 0, 0), iter([batch]))
    assert query.commit(0, done) == "committed"
    return other


def check(client: Client, broker: BrokerProcess, queue: str, count: int, folder: Path) -> None:
    """What the client receives from the copy is what it receives from the queue."""
    other = through_the_sink(broker, queue, count, folder)
    first, second = client.receive(queue, count), client.receive(other, count)
    assert len(first) == count
    assert [_comparable(message) for message in second] == [_comparable(message) for message in first]


def _comparable(message: dict[str, Any]) -> dict[str, Any]:
    """Without what says when it was received."""
    return {name: value for name, value in message.items() if name not in ("ttl_ms", "first_acquirer")}


def test_bodies_of_every_type(client: Client, broker: BrokerProcess, queue: str, tmp_path: Path) -> None:
    cases = [case for case in sent_by(client, CASES) if client.name not in case.not_seen_by]
    client.send_accepted(queue, *({"durable": True, "body": case.body} for case in cases))
    check(client, broker, queue, len(cases), tmp_path)


def test_properties_of_every_type(client: Client, broker: BrokerProcess, queue: str, tmp_path: Path) -> None:
    cases = [case for case in sent_by(client, PROPERTY_CASES) if client.name not in case.not_seen_by]
    properties = [[f"p{number}", case.typed] for number, case in enumerate(cases)]
    message = {"durable": True, "properties": properties, "body": {"value": {"string": "ä"}}}
    client.send_accepted(queue, message)
    check(client, broker, queue, 1, tmp_path)


@pytest.mark.parametrize("given", IDS, ids=lambda given: next(iter(given)))
def test_everything_that_a_message_says(
    client: Client,
    connected: Callable[[str], Client],
    broker: BrokerProcess,
    queue: str,
    tmp_path: Path,
    given: dict[str, Any],
) -> None:
    """Sent by Proton, which can say all of it."""
    said: dict[str, Any] = {"message_id": given, "correlation_id": given, "reply_to": "answers"}
    said |= {"subject": "s", "priority": 7, "group_id": "g", "group_sequence": 3, "ttl_ms": 3_600_000}
    said |= {"content_encoding": "gzip", "reply_to_group_id": "r", "user_id": "00ff"}
    said |= {"content_type": "image/png", "annotations": [["x-opt-some", {"int": "7"}]]}
    said |= {"to": "somewhere", "absolute_expiry_time_ms": 4_102_444_800_000}
    message = {"durable": True, "body": {"data": {"hex": "00ff"}}, **said}
    connected("proton").send_accepted(queue, message)
    check(client, broker, queue, 1, tmp_path)
