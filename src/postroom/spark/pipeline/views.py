"""Views over a pipeline's tables, made by one call in a session of Spark, or as a script for ``spark-sql``.

A temporary view for each table that the pipeline makes, and the ready ones over them: ``stuck``,
``in_doubt``, ``lineage``. They read what there is when they are asked.
"""

from typing import TYPE_CHECKING

from postroom.spark.pipeline.options import known_settings
from postroom.spark.pipeline.root import Root
from postroom.spark.tables.views import STUCK_AFTER_S, ready_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create_views(
    spark: "SparkSession", tables: str, prefix: str = "", stuck_after_s: int = STUCK_AFTER_S
) -> list[str]:
    """Make the temporary views in a session, Spark Connect's too; their names. `prefix` is put before each.

    Raises ``PipelineError``: no pipeline has made tables there; OSError, ``PySparkException``.
    """
    made = statements(tables, prefix, stuck_after_s)
    for statement in made.values():
        spark.sql(statement)
    return list(made)


def statements(tables: str, prefix: str = "", stuck_after_s: int = STUCK_AFTER_S) -> dict[str, str]:
    """The statements that make the views, by their names. Raises ``PipelineError``, OSError."""
    settings = known_settings(Root(tables))
    made = {}
    for name in settings.tables:
        options = f"path {_text(tables)}, table {_text(name)}"
        made[prefix + name] = f"USING postroom.table OPTIONS ({options})"
    for name, (table, query) in ready_views(stuck_after_s, prefix).items():
        if table in settings.tables:
            made[prefix + name] = f"AS {query}"
    return {view: f"CREATE OR REPLACE TEMPORARY VIEW {_name(view)} {what}" for view, what in made.items()}


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
