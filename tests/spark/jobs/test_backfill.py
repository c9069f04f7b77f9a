"""Backfill: rows of a table become messages, each exactly once, whatever happens on the way."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from postroom.spark.jobs import backfill, jobs
from postroom.spark.jobs.backfill import Table
from postroom.spark.jobs.errors import OptionInvalid
from postroom.spark.jobs.plan import Manifest, Results
from tests.spark.jobs.job_broker import Scene

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.timeout(900)]


ORDERS = pa.table({"id": list(range(10)), "customer": [f"c{n % 3}" for n in range(10)]})
COLUMNS = ("concat('order ', id) AS text", "concat('ID:', id) AS message_id")


def a_table(at: Scene, **changes: Any) -> Table:
    uri = at.folder.parent / "table"
    if not uri.exists():
        uri.mkdir()
        pq.write_table(ORDERS, uri / "part.parquet")
    fields = {"format": "", "columns": COLUMNS, "where": "", "order_by": ("id",), "chunk_rows": 4}
    return Table(str(uri), **{**fields, **changes})


def plan(spark: SparkSession, at: Scene, table: Table, job: str = "job-1") -> Manifest:
    return jobs.plan_a_backfill(spark, at.where("orders", job), table)


def send(spark: SparkSession, at: Scene, manifest: Manifest) -> Results:
    return backfill.carry_out(spark, at.plan(manifest.job), manifest, at.broker.url, None)


def test_a_table_becomes_messages_in_order_and_once(spark: SparkSession, at: Scene) -> None:
    manifest = plan(spark, at, a_table(at, where="customer <> 'c1'"))
    assert manifest.counts[0].messages == manifest.rows() == 7
    assert at.texts("orders") == []
    expected = [f"order {n}" for n in range(10) if n % 3 != 1]
    results = send(spark, at, manifest)
    assert dict(results.counts) == {"sent": len(manifest.files)}
    assert at.texts("orders") == expected
    assert at.rows("orders")[0]["message_id"] == "ID:0"
    assert dict(send(spark, at, manifest).counts) == dict(results.counts)
    assert at.texts("orders") == expected, "nothing is sent twice"


def test_chunks_are_bounded(spark: SparkSession, at: Scene) -> None:
    manifest = plan(spark, at, a_table(at, chunk_rows=3))
    assert max(file.rows for file in manifest.files) <= 3 and manifest.rows() == 10


def test_an_interrupted_backfill_sends_the_rest(
    spark: SparkSession, at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the broker has decided, and nobody has noted it: the table may have changed meanwhile."""
    manifest = plan(spark, at, a_table(at))
    noted = []

    def fails(self: Any, name: str, *rest: Any) -> int:
        noted.append(name)
        raise OSError("no space")

    with monkeypatch.context() as broken:
        broken.setattr("postroom.spark.jobs.plan.Plan.write", fails)
        with pytest.raises(OSError, match="no space"):
            send(spark, at, manifest)
    first = at.texts("orders")
    assert noted == ["results-00001.parquet"] and len(first) == manifest.files[0].rows
    assert jobs.made_before(at.where("orders"), jobs.BACKFILL, manifest.digest) == manifest
    send(spark, at, manifest)
    assert at.texts("orders") == [f"order {n}" for n in range(10)]


def test_a_delta_table_is_read_without_jars(spark: SparkSession, at: Scene) -> None:
    uri = str(at.folder.parent / "delta")
    write_deltalake(uri, ORDERS, partition_by=["customer"])
    write_deltalake(uri, ORDERS.slice(0, 1), mode="overwrite", partition_by=["customer"])
    manifest = plan(spark, at, Table(uri, "", ("customer AS subject", "string(id) AS text"), "", (), 4))
    assert manifest.rows() == 1, "what the log says has gone is gone"
    send(spark, at, manifest)
    assert at.texts("orders") == ["0"]


def test_a_delta_tables_columns_are_those_of_its_log(spark: SparkSession, at: Scene) -> None:
    """What a path says is text where the table says so; older files may lack a column."""
    uri = str(at.folder.parent / "delta")
    write_deltalake(uri, pa.table({"id": ["a"], "customer": ["007"]}), partition_by=["customer"])
    more = pa.table({"id": ["b"], "customer": ["008"], "note": ["x"]})
    write_deltalake(uri, more, mode="append", schema_mode="merge", partition_by=["customer"])
    columns = ("customer AS message_id", "concat(id, coalesce(note, '-')) AS text")
    send(spark, at, plan(spark, at, Table(uri, "", columns, "", ("id",), 4)))
    assert at.texts("orders") == ["a-", "bx"]
    assert [row["message_id"] for row in at.rows("orders")] == ["007", "008"]


def test_an_empty_delta_table_is_nothing_to_do(spark: SparkSession, at: Scene) -> None:
    uri = str(at.folder.parent / "delta")
    write_deltalake(uri, ORDERS)
    write_deltalake(uri, ORDERS.slice(0, 0), mode="overwrite")
    manifest = plan(spark, at, Table(uri, "", COLUMNS, "", (), 4))
    assert (manifest.rows(), manifest.files) == (0, ())
    assert not send(spark, at, manifest).counts


def test_a_delta_table_whose_files_do_not_say_all_is_refused(spark: SparkSession, at: Scene) -> None:
    """Deletion vectors: rows that are in the files, and not in the table."""
    uri = at.folder.parent / "delta"
    write_deltalake(str(uri), ORDERS)
    log = uri / "_delta_log" / f"{0:020d}.json"
    kept = [line for line in log.read_text().splitlines() if '"protocol"' not in line]
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    log.write_text("\n".join([json.dumps(protocol), *kept]))
    with pytest.raises(OptionInvalid, match=r"not those of its files \(deletionVectors\)"):
        plan(spark, at, Table(str(uri), "", COLUMNS, "", (), 4))


def test_a_table_that_is_not_there(spark: SparkSession, at: Scene) -> None:
    nowhere = str(at.folder.parent / "nowhere")
    for kind, problem in (("", "nowhere"), ("delta", "there is no Delta table")):
        with pytest.raises(OptionInvalid, match=problem):
            plan(spark, at, Table(nowhere, kind, COLUMNS, "", (), 4))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"columns": ("id AS text",)}, "column text is"),
        ({"columns": ()}, "none of the columns id, customer is one of a message"),
        ({"columns": ("nosuch AS text",)}, "nosuch"),
        ({"where": "id >"}, "Syntax error"),
        ({"order_by": ("nosuch",)}, "nosuch"),
    ],
)
def test_a_table_that_has_no_messages(
    spark: SparkSession, at: Scene, changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(OptionInvalid, match="(?i)" + text):
        plan(spark, at, a_table(at, **changes))
    assert at.plan().manifest() is None


def test_a_row_that_is_no_message_keeps_the_others_from_being_sent(spark: SparkSession, at: Scene) -> None:
    columns = ("string(id) AS text", "CASE WHEN id = 7 THEN 'nosuch' ELSE 'string' END AS body_type")
    for where in (at.where("orders"), at.where("orders", is_kept=False)):
        with pytest.raises(PySparkException, match="body_type"):
            jobs.plan_a_backfill(spark, where, a_table(at, columns=columns))
    assert at.plan().manifest() is None and at.texts("orders") == []
