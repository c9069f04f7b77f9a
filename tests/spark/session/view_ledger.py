"""A ledger with something for each ready view, its tables, and what the views say of them."""

from pathlib import Path

from pyspark.sql import Row, SparkSession

from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import settled_options
from postroom.spark.pipeline.views import create_views
from postroom.spark.tables import DEFINITIONS
from tests.ledger.ledger_maker import E, H, LedgerMaker, O, S
from tests.spark.local_pipeline import options, read_all


def make_ledger(folder: Path) -> Path:
    """A message that is held, one that was dead-lettered and moved back, one in a prepared branch."""
    maker = LedgerMaker(folder)
    orders, dead = maker.queue("orders"), maker.queue("dead")
    held = maker.put(orders, message_id=b"held")
    maker.acquire(held, orders)
    first = maker.put(orders, message_id=b"late")
    maker.change(first, orders, E.EXPIRE, S.AVAILABLE, S.DELETED, outcome=O.EXPIRED, holder_kind=0)
    second = maker.put(dead, event=E.DEAD_LETTER, parent=(first, orders), body=None, body_serial=first)
    maker.change(second, dead, E.MOVE, S.AVAILABLE, S.DELETED, outcome=O.MOVED, holder_kind=0)
    maker.put(orders, event=E.MOVE, parent=(second, dead), body=None, body_serial=first)
    maker.holder(7, H.XA_BRANCH, name="the-xid")
    sent = maker.put(
        orders,
        event=E.PUT_HELD,
        to_state=S.PUT_UNCONFIRMED,
        holder_kind=H.XA_BRANCH,
        holder=7,
        message_id=b"x",
    )
    maker.change(
        sent, orders, E.PREPARE, S.PUT_UNCONFIRMED, S.PUT_UNCONFIRMED, holder_kind=H.XA_PREPARED, holder=7
    )
    return maker.finish()


def make_tables(ledger: Path, root: Path) -> Path:
    """What a pipeline makes of it."""
    settled_options(Root(str(root)), options(root, ledger))
    read_all(root, ledger)
    return root


def rows(spark: SparkSession, sql: str) -> list[Row]:
    """What a query answers."""
    return spark.sql(sql).collect()


def check_views(spark: SparkSession, tables: Path) -> None:
    """What the views say of the ledger of the tests."""
    assert create_views(spark, str(tables)) == [*DEFINITIONS, "stuck", "in_doubt", "lineage"]
    stuck = rows(spark, "SELECT message_id, state, holder_kind FROM stuck ORDER BY serial")
    assert [(row.message_id, row.state) for row in stuck] == [
        ("held", "get_unconfirmed"),
        ("late", "available"),
        ("x", "put_unconfirmed"),
    ]
    (doubt,) = rows(spark, "SELECT * FROM in_doubt")
    assert (doubt.holder_kind, doubt.holder, doubt.puts, doubt.gets) == ("xa_branch", "the-xid", 1, 0)
    family = rows(spark, "SELECT * FROM lineage WHERE message_id = 'late' ORDER BY serial")
    assert [(row.queue, row.parent_queue, row.parent_outcome, row.root_queue) for row in family] == [
        ("orders", None, None, "orders"),
        ("dead", "orders", "expired", "orders"),
        ("orders", "dead", "moved", "orders"),
    ]
    assert len({row.root_serial for row in family}) == 1
