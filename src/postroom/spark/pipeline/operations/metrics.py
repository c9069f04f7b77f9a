"""Metrics for Prometheus, the same figures as `postroom pipeline status`."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from postroom.spark.pipeline.batches import BatchDone
from postroom.spark.pipeline.pipeline import Pipeline

PREFIX = "postroom_pipeline"
BY_LEDGER = ["table", "ledger"]
BATCH_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """A `run.Watcher` that keeps the metrics of a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, words: str, labels: list[str]) -> Gauge:
            return Gauge(f"{PREFIX}_{name}", words, labels, registry=registry)

        self._position = gauge("position", "The last position of the ledger that the table has", BY_LEDGER)
        self._lag_events = gauge("lag_events", "Records of the ledger that the table lacks", BY_LEDGER)
        self._lag_seconds = gauge(
            "lag_seconds", "How much newer the ledger's newest record is than the table's", BY_LEDGER
        )
        self._lag_bytes = gauge("lag_bytes", "What reading the missing records costs, about", BY_LEDGER)
        self._open_rows = gauge("open_rows", "Partial rows, which a reader folds", ["table"])
        self._files = gauge("open_files", "Files of partial rows", ["table"])
        self._rows_in = gauge("rows_in", "Rows that batches gave the table since its beginning", ["table"])
        self._rows_copied = gauge(
            "rows_copied", "Rows of the table written again since its beginning", ["table"]
        )
        self._last_batch = Gauge(
            f"{PREFIX}_last_batch_timestamp_seconds",
            "When the last batch was in the tables",
            registry=registry,
        )
        self._events = Counter(f"{PREFIX}_events", "Events taken into the tables", registry=registry)
        self._seconds = Histogram(
            f"{PREFIX}_batch_seconds",
            "How long a batch took, from its look at the ledgers to the last commit",
            buckets=BATCH_BUCKETS_S,
            registry=registry,
        )

    def begun(self, pipeline: Pipeline) -> None:
        self._show(pipeline)

    def batch(self, pipeline: Pipeline, done: BatchDone) -> None:
        self._events.inc(done.rows)
        self._seconds.observe(done.seconds)
        self._last_batch.set_to_current_time()
        self._show(pipeline)

    def _show(self, pipeline: Pipeline) -> None:
        for table in pipeline.tables.values():
            self._open_rows.labels(table.name).set(table.open_rows)
            self._files.labels(table.name).set(len(table.open_files))
            self._rows_in.labels(table.name).set(table.state.rows_in)
            self._rows_copied.labels(table.name).set(table.state.rows_copied)
            for ledger_id in pipeline.seen:
                lag = pipeline.lag(table, ledger_id)
                self._position.labels(table.name, ledger_id).set(table.position(ledger_id).position)
                self._lag_events.labels(table.name, ledger_id).set(lag.events)
                self._lag_seconds.labels(table.name, ledger_id).set(lag.seconds)
                self._lag_bytes.labels(table.name, ledger_id).set(lag.size_bytes)


def serve_metrics(address: str, port: int) -> Metrics:
    """Metrics under ``http://address:port/metrics``, for as long as the process lives. Raises ``OSError``."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    start_http_server(port, address, registry)
    return metrics
