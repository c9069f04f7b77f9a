"""The broker itself, as the management node shows it: the one thing of its kind."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from postroom import __version__
from postroom.manager.kernel import totals
from postroom.manager.kernel.options import QUEUE_DEFAULTS
from postroom.model.entity_types import BROKER_NAME, BROKER_TYPE
from postroom.server.management.entity_type import Operation
from postroom.server.management.request import OK, Attributes, Request, Response

if TYPE_CHECKING:
    from postroom.server.connection.broker import Broker


class Brokers:
    """Counts of the whole broker."""

    type: Final = BROKER_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.operations: Final[Mapping[str, Operation]] = {
            "READ": self._read,
            "RESET-STATISTICS": self._reset,
        }

    def attribute_names(self) -> list[str]:
        return list(self._attributes())

    def count(self) -> int:
        return 1

    def rows(self, offset: int, count: int) -> list[Attributes]:
        return [self._attributes()][offset : offset + count]

    def _read(self, request: Request, now_us: int) -> Response:
        return Response(OK, "OK", self._attributes())

    def _reset(self, request: Request, now_us: int) -> Response:
        """Also of every queue, subscription and topic. The answer has the counters from before."""
        before = self._attributes()
        totals.reset(self._broker.manager.core)
        self._broker.connections_high = len(self._broker.connections)
        self._broker.connections_total = self._broker.connections_high
        return Response(OK, "reset", before)

    def _attributes(self) -> Attributes:
        broker = self._broker
        leases, core = broker.ledger.leases.all(), broker.manager.core
        return {
            "name": BROKER_NAME,
            "identity": BROKER_NAME,
            "type": BROKER_TYPE,
            "version": __version__,
            "container_id": broker.config.container_id,
            "dead_letter_queue": core.options.dead_letter_queue,
            "queue_defaults": {name: getattr(core.options.queue_defaults, name) for name in QUEUE_DEFAULTS},
            "queues": len(broker.manager.queues),
            "connections": len(broker.connections),
            "connections_high": broker.connections_high,
            "connections_total": broker.connections_total,
            "kept_links": broker.registry.kept_count(),
            "durable_through": broker.durable_through,
            "next_position": broker.ledger.builder.next_position,
            "unsynced_bytes": broker.unsynced_bytes(),
            "space_low": broker.ledger.space_low,
            "alarms": [alarm.as_map() for alarm in broker.alarms.all()],
            "blocked_sends": core.blocked_sends,
            "blocked_bytes": core.blocked_bytes,
            "reports_made": core.reports.made,
            "reports_unmade": core.reports.unmade,
            "quota_messages_used": core.broker_pool.messages,
            "quota_bytes_used": core.broker_pool.bytes,
            "messages_threshold_us": core.thresholds.messages_time_us() if core.thresholds else 0,
            "bytes_threshold_us": core.thresholds.bytes_time_us() if core.thresholds else 0,
            "leases": len(leases),
            "leases_broken": sum(not lease.in_force for lease in leases),
            **totals.totals(core),
        }
