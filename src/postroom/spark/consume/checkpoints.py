"""Where the checkpoint of the query lies in whose foreachBatch a DataFrame was given."""

from typing import Any, Final

from pyspark.sql import DataFrame

from postroom.spark.consume.errors import OffsetsUnreadable

_QUERY_ID: Final = "sql.streaming.queryId"


def checkpoint_of(batch: DataFrame, given: str) -> str:
    """What the caller said, else what Spark says. Raises ``OffsetsUnreadable``."""
    if given:
        return given
    session: Any = batch.sparkSession
    try:
        query_id = session.sparkContext.getLocalProperty(_QUERY_ID)
        running = (
            session._jsparkSession.sharedState().activeStreamingQueries()
        )  # the batch's session is a copy
        query = running.get(session._jvm.java.util.UUID.fromString(query_id))
        return str(query.resolvedCheckpointRoot())
    except Exception as error:  # of Spark Connect, of Py4J, and of a DataFrame that is no batch's
        raise OffsetsUnreadable(
            "Spark doesn't tell which query this is: call it in foreachBatch, and give the query's"
            f" checkpointLocation as checkpoint= ({type(error).__name__}: {error})"
        ) from error
