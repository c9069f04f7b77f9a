"""What a stream gives, batch by batch."""

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery


class Sink:
    """What each batch gave, by its number: a batch that comes again takes the place of the first."""

    def __init__(self, scratch: Path) -> None:
        self.checkpoint = scratch / "checkpoint"
        self.batches: dict[int, list[int]] = {}

    def run(self, source: DataFrame) -> StreamingQuery:
        """Everything that is there now."""
        writer = source.writeStream.foreachBatch(self._take).option(
            "checkpointLocation", str(self.checkpoint)
        )
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def _take(self, rows: DataFrame, batch: int) -> None:
        self.batches[batch] = sorted(row["position"] for row in rows.select("position").collect())

    @property
    def positions(self) -> list[int]:
        """Of all rows of all batches."""
        return sorted(position for batch in self.batches.values() for position in batch)

    def lose_last_commit(self) -> None:
        """As a crash before Spark noted that the batch was done."""
        commits = self.checkpoint / "commits"
        last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        (commits / f".{last.name}.crc").unlink()
