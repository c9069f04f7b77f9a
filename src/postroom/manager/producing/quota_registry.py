"""Quotas coming, changing and going, and which one each destination is under."""

import json
from typing import Final, final

from postroom.ledger.format.records import RecordType
from postroom.manager.destinations.tables import DestinationListener, destinations_of
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.destination_checks import POLICY_PREEMPTIVE, check_thresholds
from postroom.manager.kernel.errors import LimitExceeded, QueueDeleted, QuotaExists, QuotaInUse, QuotaNotFound
from postroom.manager.kernel.meter import Meter, Thresholds
from postroom.manager.kernel.options import QueueDefinition
from postroom.manager.kernel.overrides import overrides_of
from postroom.manager.kernel.quota_definition import Quota, QuotaDefinition
from postroom.manager.kernel.quota_pool import Pool
from postroom.manager.producing import blocked_sends
from postroom.manager.producing.quotas import quotas_of
from postroom.manager.queues.queue import Subscription

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
    """Create a quota and write it to the ledger; the same definition again returns the one that is there.

    Raises QuotaExists, NameNotAllowed, DefinitionInvalid, LimitExceeded.
    """
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
    destinations = destinations_of(core)
    quotas = quotas_of(core)
    quota = Quota(id, definition, core.agenda.changed_pools)
    quotas.by_name[definition.name] = quota
    if id >= destinations.next_id:
        destinations.next_id = id + 1
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
    _limit_own(pool, definition, quota)
    return pool


def _limit_own(pool: Pool, definition: QueueDefinition, quota: Quota | None) -> None:
    if quota is not None:
        quota.limit(pool)
    else:
        preemptive = definition.quota_policy == POLICY_PREEMPTIVE
        pool.limit(definition.max_messages, definition.max_bytes, preemptive)


def _join(core: Core, queue: Destination, quota: Quota | None) -> None:
    before = queue.quota.resource
    if before is not None and before is not quota:
        before.members.remove(queue)
    if quota is not None and before is not quota:
        quota.members.append(queue)
    queue.quota.resource = quota
