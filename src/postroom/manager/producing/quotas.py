"""The quotas of a queue manager, coming, changing and going; which one each destination is under; and its
meter: what it holds is charged to its quota and compared with thresholds, its own and the broker's.

Thresholds have hysteresis: above high they arm (senders are slowed down), below low they disarm, and in
between nothing changes.
"""

import json
from typing import TYPE_CHECKING, Final, cast, final

from mypy_extensions import i64

from postroom.ledger.format.records import RecordType
from postroom.manager.destinations.tables import DestinationListener, destinations_of
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.destination_checks import POLICY_PREEMPTIVE, check_thresholds
from postroom.manager.kernel.effects import Crossed
from postroom.manager.kernel.errors import LimitExceeded, QueueDeleted, QuotaExists, QuotaInUse, QuotaNotFound
from postroom.manager.kernel.options import QueueDefinition
from postroom.manager.kernel.overrides import overrides_of
from postroom.manager.kernel.quota_definition import Quota, QuotaDefinition
from postroom.manager.kernel.quota_pool import Pool
from postroom.manager.kernel.statistics import HeldMeter
from postroom.manager.producing import blocked_sends
from postroom.manager.queues.queue import Subscription

if TYPE_CHECKING:
    from postroom.manager.kernel.core import Core


@final
class Threshold:
    """High and low for one measure, and for how long it has been above."""

    def __init__(self, what: str, high: i64, low: i64) -> None:
        self.what = what
        self.high: i64 = high
        self.low: i64 = low
        self.armed = False
        self.armed_since_us: i64 = 0
        self.past_us: i64 = 0
        """Time armed, without the present one."""

    def time_us(self, now_us: i64) -> i64:
        """How long it has been armed altogether."""
        return self.past_us + now_us - self.armed_since_us if self.armed else self.past_us


@final
class Thresholds:
    """The thresholds of a destination, or of the broker, with what they are compared with."""

    def __init__(self, core: "Core", name: str, messages: i64, bytes: i64) -> None:
        self._core = core
        self._name = name
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        self.armed = False
        """Whether senders are to be slowed down."""
        self.by_messages = Threshold("messages", -1, -1)
        self.by_bytes = Threshold("bytes", -1, -1)

    def set(self, messages_high: i64, messages_low: i64, bytes_high: i64, bytes_low: i64) -> None:
        """Take over thresholds (−1 off); they hold at once for what is there."""
        self.by_messages.high = messages_high
        self.by_messages.low = messages_low
        self.by_bytes.high = bytes_high
        self.by_bytes.low = bytes_low
        self.add(0, 0)

    def add(self, count: i64, size: i64) -> None:
        """There are so many messages and bytes more (or fewer)."""
        self.messages += count
        self.bytes += size
        self._compare(self.by_messages, self.messages)
        self._compare(self.by_bytes, self.bytes)

    def _compare(self, threshold: Threshold, value: i64) -> None:
        core = self._core
        if threshold.armed:
            if threshold.high >= 0 and value >= threshold.low:
                return
            threshold.past_us = threshold.time_us(core.now_us)
            threshold.armed = False
            self.armed = self.by_messages.armed or self.by_bytes.armed
            bound = threshold.low
        elif value > threshold.high >= 0:
            threshold.armed = self.armed = True
            threshold.armed_since_us = core.now_us
            bound = threshold.high
        else:
            return
        core.effects.crossed.append(Crossed(self._name, threshold.what, threshold.armed, value, bound))

    def messages_time_us(self) -> i64:
        """How long the number of messages has been above its threshold (WebLogic's MessagesThresholdTime)."""
        return self.by_messages.time_us(self._core.now_us)

    def bytes_time_us(self) -> i64:
        return self.by_bytes.time_us(self._core.now_us)

    def reset_times(self) -> None:
        """Count the times from now on."""
        for threshold in (self.by_messages, self.by_bytes):
            threshold.past_us = 0
            threshold.armed_since_us = self._core.now_us


@final
class Meter(HeldMeter):
    """Follows what a destination holds; told by its statistics. A destination without limits has none."""

    def __init__(self, messages: i64, bytes: i64, broker: Thresholds | None) -> None:
        self.messages: i64 = messages
        self.bytes: i64 = bytes
        self.pool: Pool | None = None
        self.own: Thresholds | None = None
        self.broker = broker
        if broker is not None:
            broker.add(messages, bytes)

    @property
    def armed(self) -> bool:
        """Whether senders are to be slowed down, for this destination's sake or the broker's."""
        own, broker = self.own, self.broker
        return (own is not None and own.armed) or (broker is not None and broker.armed)

    def grow(self, count: i64, size: i64) -> None:
        """The destination holds so many messages and bytes more."""
        self.messages += count
        self.bytes += size
        if self.pool is not None:
            self.pool.charge(count, size)
        self._notify(count, size)

    def shrink(self, count: i64, size: i64) -> None:
        """The destination holds so many messages and bytes less."""
        self.messages -= count
        self.bytes -= size
        if self.pool is not None:
            self.pool.give_back(count, size)
        self._notify(-count, -size)

    def _notify(self, count: i64, size: i64) -> None:
        if self.own is not None:
            self.own.add(count, size)
        if self.broker is not None:
            self.broker.add(count, size)

    def change_pool(self, pool: Pool | None) -> None:
        """What is held is charged to ``pool`` from now on."""
        if self.pool is not None:
            self.pool.give_back(self.messages, self.bytes)
        if pool is not None:
            pool.charge(self.messages, self.bytes)
        self.pool = pool

    def close(self) -> None:
        """The destination is no more."""
        self.change_pool(None)
        if self.broker is not None:
            self.broker.add(-self.messages, -self.bytes)
            self.broker = None

    def messages_threshold_us(self) -> i64:
        """How long the number of messages has been above the destination's threshold."""
        return self.own.messages_time_us() if self.own is not None else 0

    def bytes_threshold_us(self) -> i64:
        return self.own.bytes_time_us() if self.own is not None else 0

    def reset_times(self) -> None:
        """Count the times from now on."""
        if self.own is not None:
            self.own.reset_times()


BROKER: Final = "(broker)"
"""In place of a queue's name, where all of them together have passed a threshold."""


@final
class Quotas:
    """Quotas by name, and the broker's own."""

    def __init__(self, core: Core) -> None:
        options = core.options
        self.by_name: dict[str, Quota] = {}
        self.broker_pool = Pool("the broker's quota", core.agenda.changed_pools)
        """For destinations that have no quota of their own."""
        self.broker_pool.limit(
            options.quota_messages, options.quota_bytes, options.quota_policy == POLICY_PREEMPTIVE
        )
        self.thresholds: Thresholds | None = None
        """Of the broker: for all destinations together."""
        if options.messages_threshold_high >= 0 or options.bytes_threshold_high >= 0:
            self.thresholds = Thresholds(core, BROKER, 0, 0)
            self.thresholds.set(
                options.messages_threshold_high,
                options.messages_threshold_low,
                options.bytes_threshold_high,
                options.bytes_threshold_low,
            )


def quotas_of(core: Core) -> Quotas:
    """Those of a queue manager."""
    return cast(Quotas, core.state(Quotas))


_DEFINED: Final = int(RecordType.QUEUE_DEFINED)
_DELETED: Final = int(RecordType.QUEUE_DELETED)
REPOINTED: Final = "amqp:resource-limit-exceeded"
"""What a blocked sender is told whose destination comes under another quota (WebLogic's rule)."""


def find(core: Core, name: str) -> Quota:
    """The quota of that name; raises QuotaNotFound."""
    quota = quotas_of(core).by_name.get(name)
    if quota is None:
        raise QuotaNotFound(f"there is no quota {name!r}")
    return quota


def create(core: Core, definition: QuotaDefinition) -> Quota:
    """Create a quota and write it to the ledger; the same definition again returns the one that is there."""
    quotas = quotas_of(core)
    definition.check()
    existing = quotas.by_name.get(definition.name)
    if existing is not None:
        if existing.definition == definition:
            return existing
        raise QuotaExists(f"quota {definition.name!r} exists with another definition; update it")
    if len(quotas.by_name) >= core.options.max_quotas:
        raise LimitExceeded(f"{core.options.max_quotas} quotas are the limit (max_quotas)")
    quota = register(core, int(destinations_of(core).next_id), definition)
    _write(core, quota)
    return quota


def register(core: Core, id: int, definition: QuotaDefinition) -> Quota:
    """Make the quota known, without writing anything."""
    quota = Quota(id, definition, core.agenda.changed_pools)
    quotas_of(core).by_name[definition.name] = quota
    destinations_of(core).take_id(id)
    return quota


def update(core: Core, definition: QuotaDefinition) -> Quota:
    """Give the quota of that name another definition. Raises QuotaNotFound, DefinitionInvalid.

    Lowering evicts nothing; raising lets in who waits. Making it shared, or no longer shared, gives its
    destinations other pools, and fails the sends that wait for them.
    """
    quota = find(core, definition.name)
    definition.check()
    for queue in quota.members:
        check_thresholds(queue.definition, definition.messages_maximum, definition.bytes_maximum)
    if definition != quota.definition:
        quota.define(definition)
        for queue in list(quota.members):
            _bind(core, queue)
        _write(core, quota)
    return quota


def delete(core: Core, name: str) -> None:
    """Delete a quota under which no destination is. Raises QuotaNotFound, QuotaInUse."""
    quota = find(core, name)
    if quota.members:
        users = ", ".join(repr(queue.name) for queue in quota.members[:3])
        raise QuotaInUse(f"quota {name!r} is named by {len(quota.members)} destinations ({users}, …)")
    del quotas_of(core).by_name[name]
    core.ledger.record(_DELETED, 0, quota.id, 0, 0, 0, b"")


def _write(core: Core, quota: Quota) -> None:
    detail = json.dumps(quota.definition.to_record(), ensure_ascii=False).encode()
    core.ledger.record(_DEFINED, 0, quota.id, 0, 0, 0, detail)


@final
class QuotaListener(DestinationListener):
    """Has every destination under the quota that its definition says."""

    def check(self, core: Core, definition: QueueDefinition) -> None:
        if definition.quota:
            maxima = find(core, definition.quota).definition
            check_thresholds(definition, maxima.messages_maximum, maxima.bytes_maximum)

    def defined(self, core: Core, destination: Destination) -> None:
        _bind(core, destination)

    def unrouted(self, core: Core, subscription: Subscription) -> None:
        pool = subscription.quota.pool
        if pool is not None and subscription.quota.has_own_pool:
            blocked_sends.free_line(core, pool)
        elif pool is not None:
            pool.mark()  # those that wait there need less of it

    def removed(self, core: Core, destination: Destination) -> None:
        """Nothing waits for it any more."""
        text = destination.deleted_text()
        blocked_sends.refuse_all(core, destination, QueueDeleted.condition, text)
        _join(core, destination, None)
        if destination.statistics.meter is not None:
            destination.statistics.meter.close()


def _bind(core: Core, queue: Destination) -> None:
    """Put a destination under the quota that its definition says, with its thresholds and overrides.

    Sends that wait for it while it was under another are failed.
    """
    queue.overrides = overrides_of(queue.definition)
    queue.limits.persistent = queue.definition.persistent
    before = queue.quota.pool
    pool = _pool_for(core, queue)
    if pool is not before:
        queue.quota.pool = pool
        text = f"queue {queue.name!r} has come under another quota: send it again"
        blocked_sends.refuse_all(core, queue, REPOINTED, text)
    _measure(core, queue, pool)


def _measure(core: Core, queue: Destination, pool: Pool | None) -> None:
    quotas = quotas_of(core)
    statistics, definition = queue.statistics, queue.definition
    meter = statistics.meter
    has_thresholds = definition.messages_threshold_high >= 0 or definition.bytes_threshold_high >= 0
    if meter is None:
        if pool is None and not has_thresholds and quotas.thresholds is None:
            return
        meter = Meter(statistics.depth, statistics.depth_bytes, quotas.thresholds)
        statistics.meter = meter
    assert isinstance(meter, Meter)
    if meter.pool is not pool:
        meter.change_pool(pool)
    if has_thresholds and meter.own is None:
        meter.own = Thresholds(core, queue.name, meter.messages, meter.bytes)
    if meter.own is not None:
        meter.own.set(
            definition.messages_threshold_high,
            definition.messages_threshold_low,
            definition.bytes_threshold_high,
            definition.bytes_threshold_low,
        )


def _pool_for(core: Core, queue: Destination) -> Pool | None:
    """The pool that it is charged to; one for itself is kept as long as it is under the same quota."""
    quotas = quotas_of(core)
    definition, before = queue.definition, queue.quota.resource
    quota = quotas.by_name.get(definition.quota) if definition.quota else None
    _join(core, queue, quota)
    limited = definition.max_messages >= 0 or definition.max_bytes >= 0
    if quota is None and not limited:
        queue.quota.has_own_pool = False
        return quotas.broker_pool if quotas.broker_pool.limited() else None
    if quota is not None and quota.definition.shared:
        queue.quota.has_own_pool = False
        return quota.pool
    pool = queue.quota.pool
    if pool is None or not queue.quota.has_own_pool or quota is not before:
        pool = Pool(f"queue {queue.name!r}", core.agenda.changed_pools)
    queue.quota.has_own_pool = True
    if quota is not None:
        quota.limit(pool)
    else:
        preemptive = definition.quota_policy == POLICY_PREEMPTIVE
        pool.limit(definition.max_messages, definition.max_bytes, preemptive)
    return pool


def _join(core: Core, queue: Destination, quota: Quota | None) -> None:
    before = queue.quota.resource
    if before is not None and before is not quota:
        before.members.remove(queue)
    if quota is not None and before is not quota:
        quota.members.append(queue)
    queue.quota.resource = quota
