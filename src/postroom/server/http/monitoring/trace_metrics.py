"""What tracing counts, for Prometheus; only of a broker that traces."""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from postroom.server.tracing.tracer import Tracer


class TraceCollector(Collector):
    """The numbers of one tracer."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer: Final = tracer

    def collect(self) -> Iterator[Metric]:
        """Every family; called by the registry."""
        tracer = self._tracer
        for name, what, value in (
            ("messages", "Traced messages that are alive", tracer.messages),
            ("spans_waiting", "Spans that wait for the collector", tracer.queue.waiting),
            ("behind_records", "Durable records that no spans have been made of", tracer.follower.behind),
        ):
            yield GaugeMetricFamily(f"postroom_trace_{name}", what, value=value)
        what = "Sampled messages that were not traced, for too many were alive"
        yield CounterMetricFamily("postroom_trace_messages_dropped", what, value=tracer.messages_dropped)
        what = "Spans that the collector has"
        yield CounterMetricFamily("postroom_trace_spans_exported", what, value=tracer.queue.exported)
        dropped = CounterMetricFamily(
            "postroom_trace_spans_dropped", "Spans that the collector will not have", labels=["reason"]
        )
        for reason, count in tracer.queue.dropped.items():
            dropped.add_metric([reason], count)
        yield dropped
