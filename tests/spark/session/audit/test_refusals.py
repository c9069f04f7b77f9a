"""Messages that were refused and whose senders wanted no answer: the audits of a ledger and of a pipeline's
tables tell of them, and nothing takes them for messages that are somewhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from proton import Message
from proton.reactor import AtMostOnce
from proton.utils import BlockingConnection, LinkDetached
from pyspark.sql import SparkSession

from postroom.server.configuration.config import QueueConfig
from postroom.spark.audit.command import AuditOptions, run_audit
from postroom.spark.audit.result import AuditResult, Verdict, result_of
from postroom.spark.audit.show import show
from postroom.spark.report.collect import collect
from tests.server.harness import BrokerThread, make_config
from tests.spark.local_pipeline import assert_whole, read_all, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.timeout(900)]

SMALL = QueueConfig(name="small", max_messages=1)
FULL = "amqp:resource-limit-exceeded"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One message is kept, one consumed, three are refused unheard, and a fourth is answered."""
    folder = tmp_path_factory.mktemp("ledger")
    with BrokerThread(make_config(queue=[QueueConfig(name="orders"), SMALL]), folder=folder) as broker:
        connection = BlockingConnection(broker.url)
        for queue, count in (("orders", 1), ("small", 3)):
            sender = connection.create_sender(queue, options=[AtMostOnce()], name=f"to-{queue}")
            for number in range(count):
                sender.send(Message(body=f"{number}", durable=True))
        receiver = connection.create_receiver("orders", credit=1)
        receiver.receive()
        receiver.accept()
        anonymous = connection.create_sender(None, options=[AtMostOnce()], name="anonymous")
        with pytest.raises(LinkDetached, match="amqp:not-found"):
            anonymous.send(Message(body="x", address="nowhere", durable=True))
            connection.wait(lambda: False)
        connection.close()
    return folder


def link(sender: str) -> str:
    """Senders are named by container and link, and Proton's containers have names of their own."""
    return sender.rpartition("/")[2]


def checked(result: AuditResult) -> None:
    refused = [(link(one.sender), one.address, one.condition, one.messages) for one in result.refused]
    assert refused == [("to-small", "small", FULL, 2), ("anonymous", "nowhere", "amqp:not-found", 1)]
    assert (result.verdict, result.violation_count, result.refused_unheard) == (Verdict.CLEAN, 0, 3)
    assert result.accounted() == "every message is accounted for; 3 refused whose senders wanted no answer"
    assert result.accounted() in result.sentence()
    assert [(one.queue, one.arrivals, one.held) for one in result.queues] == [
        ("orders", 1, 0),
        ("small", 1, 1),
    ]
    assert result_of(result.to_json()).refused == result.refused


@contextmanager
def using(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark


def test_the_audit_of_a_ledger_tells_what_was_refused_unheard(
    spark: SparkSession, ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run_audit(AuditOptions(data=(str(ledger),), out=tmp_path), lambda records: using(spark))
    checked(result)
    show(result)
    output = "".join(capsys.readouterr().out.split())
    assert "senderwantednoanswer:2tosmallfrom" in output and f"to-small:{FULL}" in output
    rows = spark.read.parquet(str(tmp_path / "refused")).collect()
    assert sorted((link(row["sender"]), row["address"], row["condition"]) for row in rows) == [
        ("anonymous", "nowhere", "amqp:not-found"),
        *[("to-small", "small", FULL)] * 2,
    ]
    assert all(row["bytes"] > 0 and row["description"] for row in rows)


@pytest.mark.long
def test_tables_keep_what_was_refused_apart_from_messages(
    spark: SparkSession, ledger: Path, tmp_path: Path
) -> None:
    read_all(tmp_path, ledger)
    assert_whole(tmp_path, ledger)
    refusals = [row for row in rows_of(tmp_path, "events") if row["record"] == "refusal"]
    assert [(row["queue_id"], row["queue"]) for row in refusals] == [(0, None)] * 3
    assert sorted(link(row["holder"]) for row in refusals) == ["anonymous", "to-small", "to-small"]
    assert len(rows_of(tmp_path, "entries")) == 2
    checked(run_audit(AuditOptions(tables=str(tmp_path)), lambda records: using(spark)))
    drawn = collect(str(tmp_path), None)
    assert sorted(one.queue for one in drawn.queues) == ["orders", "small"]
