"""The broker itself, as the management node shows it: the one thing of its kind."""

from collections.abc import Iterable, Mapping
from typing import Final

from postroom import __version__
from postroom.manager.destinations import totals
from postroom.manager.kernel.options import QUEUE_DEFAULTS
from postroom.manager.producing.blocked_sends import blocked_sends_of
from postroom.manager.producing.quotas import quotas_of
from postroom.model.entity_types import BROKER_NAME, BROKER_TYPE
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.links.registry import registry_of
from postroom.server.management.entity_type import ListedEntityType, Operation
from postroom.server.management.request import OK, Attributes, Request, Response


class Brokers(ListedEntityType[BrokerState]):
    """Counts of the whole broker."""

    type: Final = BROKER_TYPE

    def make_operations(self) -> Mapping[str, Operation]:
        return {"READ": self.read, "RESET-STATISTICS": self._reset}

    def all(self) -> "Iterable[BrokerState]":
        return [self.broker]

    def find(self, request: Request) -> BrokerState:
        return self.broker

    def name_of(self, thing: BrokerState) -> str:
        return BROKER_NAME

    def attribute_names(self) -> list[str]:
        return list(self.shown(self.broker))

    def _reset(self, request: Request, now_us: int) -> Response:
        """Also of every queue, subscription and topic. The answer has the counters from before."""
        before = self.shown(self.broker)
        totals.reset(self.manager.core)
        self.broker.connections_high = len(self.broker.connections)
        self.broker.connections_total = self.broker.connections_high
        return Response(OK, "reset", before)

    def shown(self, thing: BrokerState) -> Attributes:
        broker = thing
        leases, core = broker.ledger.leases.all(), broker.manager.core
        quotas, blocked = quotas_of(core), blocked_sends_of(core)
        thresholds = quotas.thresholds
        return {
            **super().shown(broker),
            "version": __version__,
            "container_id": broker.config.container_id,
            "dead_letter_queue": core.options.dead_letter_queue,
            "queue_defaults": {name: getattr(core.options.queue_defaults, name) for name in QUEUE_DEFAULTS},
            "queues": len(broker.manager.queues),
            "connections": len(broker.connections),
            "connections_high": broker.connections_high,
            "connections_total": broker.connections_total,
            "kept_links": registry_of(broker).kept_count(),
            "durable_through": broker.durable_through,
            "next_position": broker.ledger.builder.next_position,
            "unsynced_bytes": broker.unsynced_bytes(),
            "space_low": broker.ledger.space_low,
            "alarms": [alarm.as_map() for alarm in broker.alarms.all()],
            "blocked_sends": blocked.count,
            "blocked_bytes": blocked.bytes,
            "reports_made": core.reports.made,
            "reports_unmade": core.reports.unmade,
            "quota_messages_used": quotas.broker_pool.messages,
            "quota_bytes_used": quotas.broker_pool.bytes,
            "messages_threshold_us": 0 if thresholds is None else thresholds.messages_time_us(),
            "bytes_threshold_us": 0 if thresholds is None else thresholds.bytes_time_us(),
            "leases": len(leases),
            "leases_broken": sum(not lease.in_force for lease in leases),
            **totals.totals(core),
        }
