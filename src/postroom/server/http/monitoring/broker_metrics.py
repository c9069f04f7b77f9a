"""What the broker counts, for Prometheus.

Everything is read when somebody asks, in the thread that serves HTTP: the broker's own counters are plain
numbers that it keeps anyway. At most `MAX_QUEUES` queues are told of by name; ``postroom_queues_untold`` says
how many more there are.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from postroom import __version__
from postroom._build import compiled
from postroom.ledger.ledger import Ledger
from postroom.manager.queues.queue import Queue
from postroom.manager.spark.sink import sinks_of
from postroom.manager.spark.subscription import spark_subscriptions_of
from postroom.model.codes import Outcome
from postroom.server.connection.broker import Broker
from postroom.server.http.monitoring.channel_metrics import channel_families
from postroom.server.http.monitoring.queue_ages import QueueAges
from postroom.server.listening.listeners import Listener

MAX_QUEUES: Final = 1000


class BrokerCollector(Collector):
    """The broker's own numbers."""

    def __init__(
        self,
        broker: Broker,
        ledger: Ledger,
        listeners: Iterable[Listener] = (),
        ages: QueueAges | None = None,
    ) -> None:
        """``ages``: None leaves out how long messages have waited."""
        self._ages: Final = ages
        self._listeners = [listener for listener in listeners if listener.tls is not None]
        self._broker = broker
        self._ledger = ledger

    def collect(self) -> Iterator[Metric]:
        """Every family; called by the registry."""
        yield self._info()
        yield from self._connections()
        yield from self._ledger_families()
        yield self._alarms()
        yield from self._members()
        yield from self._certificates()
        yield from self._sink_families()
        yield from self._spark_subscription_families()
        yield from channel_families(self._broker)
        yield self._undeliverable()
        yield from _queue_families(self._broker.manager.queues.copy().values())
        if self._ages is not None:
            yield self._ages.family()

    def _info(self) -> Metric:
        info = InfoMetricFamily("postroom", "The broker")
        labels = {
            "version": __version__,
            "build": "compiled" if compiled() else "interpreted",
            "container_id": self._broker.config.container_id,
            "ledger_id": str(self._ledger.ledger_id),
        }
        info.add_metric([], labels)
        return info

    def _connections(self) -> Iterator[Metric]:
        broker = self._broker
        yield GaugeMetricFamily("postroom_connections", "Open connections", value=len(broker.connections))
        yield CounterMetricFamily(
            "postroom_connections", "Connections since the start or a reset", value=broker.connections_total
        )
        throttled = CounterMetricFamily(
            "postroom_throttled_seconds",
            "How long a limit has kept connections from being read, all together",
            labels=["kind", "name"],
        )
        for share in broker.traffic.shares():
            throttled.add_metric([share.kind, share.name], share.paused_us / 1e6)
        yield throttled
        what = "Refusals of failed sign-ins that wait for their time"
        yield GaugeMetricFamily(
            "postroom_sign_in_refusals_waiting", what, value=broker.sign_ins.failures.waiting
        )

    def _ledger_families(self) -> Iterator[Metric]:
        ledger = self._ledger
        leases = ledger.leases.all()
        for name, what, value in (
            ("epoch", "The epoch that is written", ledger.epoch),
            ("position", "The last record that was made", ledger.builder.next_position - 1),
            ("durable_through", "The last record that is durable", ledger.durable_through),
            ("space_low", "1: new messages are refused, the disk is nearly full", int(ledger.space_low)),
            (
                "maintenance_stopped",
                "1: sealing fails, and is tried again",
                int(ledger.maintenance_error is not None),
            ),
            ("free_bytes", "Bytes left on the data folder's volume", ledger.free_bytes),
            ("unsynced_bytes", "Received and not yet durable", self._broker.unsynced_bytes()),
            ("leases", "Leases of readers, broken ones included", len(leases)),
            ("leases_broken", "Leases that were broken", sum(not lease.in_force for lease in leases)),
        ):
            yield GaugeMetricFamily(f"postroom_ledger_{name}", what, value=int(value))

    def _undeliverable(self) -> Metric:
        what = "Sent to a dead-letter queue, or discarded where there was none, by why"
        found = CounterMetricFamily("postroom_undeliverable", what, labels=["reason"])
        for reason, count in self._broker.manager.core.counters.undeliverable.copy().items():
            found.add_metric([reason], count)
        return found

    def _members(self) -> Iterator[Metric]:
        """Of a replicated queue manager; of others there are none."""
        members = self._broker.members
        labels = ["member", "state"]
        behind = GaugeMetricFamily(
            "postroom_member_behind_entries", "Entries of the log that a member lacks", labels=labels
        )
        lacking = GaugeMetricFamily(
            "postroom_member_behind_bytes", "Bytes of the log that a member lacks, about", labels=labels
        )
        ages = GaugeMetricFamily(
            "postroom_member_behind_seconds", "Age of the oldest entry that a member lacks", labels=labels
        )
        positions = GaugeMetricFamily(
            "postroom_member_position", "The last position of the ledger in a member's folder", labels=labels
        )
        noted = GaugeMetricFamily(
            "postroom_member_note_timestamp_seconds",
            "When a member said last how it is, seconds since 1970",
            labels=labels,
        )
        for note in members.notes():
            names = [note.member, note.state]
            lag = members.lag(note)
            behind.add_metric(names, lag.entries)
            lacking.add_metric(names, lag.size_bytes)
            ages.add_metric(names, lag.seconds)
            positions.add_metric(names, note.position)
            noted.add_metric(names, note.time_us / 1e6)
        yield from (behind, lacking, ages, positions, noted)

    def _alarms(self) -> Metric:
        since = GaugeMetricFamily(
            "postroom_alarm_since_seconds",
            "An alarm that is on: since when, seconds since 1970",
            labels=["name"],
        )
        for alarm in self._broker.alarms.all():
            since.add_metric([alarm.name], alarm.since_us / 1e6)
        return since

    def _certificates(self) -> Iterator[Metric]:
        certificates = GaugeMetricFamily(
            "postroom_certificate_expiry_timestamp_seconds",
            "When the first certificate of a listener's chain ends, seconds since 1970",
            labels=["listen"],
        )
        lists = GaugeMetricFamily(
            "postroom_revocation_list_expiry_timestamp_seconds",
            "When the first revocation list of a listener ends, seconds since 1970",
            labels=["listen"],
        )
        for listener in self._listeners:
            assert listener.tls is not None
            loaded = listener.tls.loaded
            certificates.add_metric([listener.config.address], loaded.certificate_end_s)
            if loaded.revocation_end_s is not None:
                lists.add_metric([listener.config.address], loaded.revocation_end_s)
        yield from (certificates, lists)

    def _sink_families(self) -> Iterator[Metric]:
        sinks = sinks_of(self._broker.manager.core)
        for name, what, value in (
            ("branches", "Undecided branches of Spark sinks", len(sinks.branches)),
            ("messages", "Messages in them", sinks.messages),
            ("bytes", "Bytes in them", sinks.bytes),
        ):
            yield GaugeMetricFamily(f"postroom_sink_{name}", what, value=int(value))
        what = "Branches rolled back because nobody had decided them within their lease"
        yield CounterMetricFamily("postroom_sink_leases_ended", what, value=int(sinks.leases_ended))

    def _spark_subscription_families(self) -> Iterator[Metric]:
        subscriptions = spark_subscriptions_of(self._broker.manager.core)
        known = list(subscriptions.by_name.values())
        for name, what, value in (
            ("subscriptions", "Spark subscriptions in force", sum(not one.over for one in known)),
            ("messages", "Messages that they hold", sum(int(one.held.count) for one in known)),
            ("bytes", "Bytes of these", sum(int(one.held.size_bytes) for one in known)),
        ):
            yield GaugeMetricFamily(f"postroom_spark_{name}", what, value=value)
        what = "Spark subscriptions ended because nothing was heard of them, or for want of room"
        yield CounterMetricFamily("postroom_spark_leases_ended", what, value=int(subscriptions.leases_ended))


_COUNTED: Final = {
    "messages_received": "received",
    "bytes_received": "received_bytes",
    "messages_consumed": "consumed",
    "blocked_sends_total": "blocked_sends",
    "duplicates_dropped": "duplicates_dropped",
}
"""Counters of a queue's snapshot, and the name that Prometheus has."""
_OUTCOMES: Final = tuple(each.name.lower() for each in Outcome if each > Outcome.CONSUMED)


def _queue_families(queues: Iterable[Queue]) -> Iterator[Metric]:
    shown = sorted(queues, key=lambda queue: queue.name)
    hidden = len(shown) - MAX_QUEUES
    messages = GaugeMetricFamily(
        "postroom_queue_messages", "Held: current, or pending by why", labels=["queue", "state"]
    )
    size = GaugeMetricFamily("postroom_queue_bytes", "Held, in bytes", labels=["queue", "state"])
    consumers = GaugeMetricFamily("postroom_queue_consumers", "Attached consumers", labels=["queue"])
    ended = CounterMetricFamily(
        "postroom_queue_ended", "Ended other than consumed", labels=["queue", "outcome"]
    )
    counted = {
        key: CounterMetricFamily(f"postroom_queue_{name}", "Since the start or a reset", labels=["queue"])
        for key, name in _COUNTED.items()
    }
    for queue in shown[:MAX_QUEUES]:
        statistics = queue.statistics
        for state, (count, bytes_held) in statistics.slots().items():
            messages.add_metric([queue.name, state], count)
            size.add_metric([queue.name, state], bytes_held)
        snapshot = statistics.snapshot()
        consumers.add_metric([queue.name], snapshot["consumers"])
        for key, family in counted.items():
            family.add_metric([queue.name], snapshot[key])
        for outcome in _OUTCOMES:
            ended.add_metric([queue.name, outcome], snapshot[f"messages_{outcome}"])
    yield from (messages, size, consumers, ended, *counted.values())
    yield GaugeMetricFamily("postroom_queues_untold", "Queues beyond the bound", value=max(0, hidden))
