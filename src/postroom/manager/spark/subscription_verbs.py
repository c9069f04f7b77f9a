"""Spark subscriptions coming, being asked, and going: by their query, by their lease, with a restart."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from postroom.ledger.format.records import RecordType
from postroom.manager.consuming import registry as consumers
from postroom.manager.consuming.dispatch import has_room
from postroom.manager.destinations import registry as queues
from postroom.manager.destinations import tap
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.effects import Alarm, Sink
from postroom.manager.kernel.errors import (
    CheckpointReplaced,
    DefinitionInvalid,
    LimitExceeded,
    NotAllowed,
    PositionRefused,
    RequestInvalid,
    SparkSubscriptionExists,
    SparkSubscriptionNotFound,
    SubscriptionEnded,
)
from postroom.manager.kernel.group_transitions import ASSIGNED_SLOT
from postroom.manager.kernel.options import USAGE_TRANSMISSION, ConsumerOptions
from postroom.manager.kernel.turn_state import NO_POSITION
from postroom.manager.queues.queue import Queue
from postroom.manager.spark.assignment import (
    SparkReceiver,
    consume_through,
    give_back_some,
    write_all,
    write_open,
)
from postroom.manager.spark.subscription import (
    MAX_CHECKPOINT_BYTES,
    SparkSubscription,
    SparkSubscriptionDefinition,
    spark_subscriptions_of,
    subscribed_to,
)
from postroom.model import numbers as n
from postroom.model.packed import PACKED_BYTES
from postroom.model.settings import restored

if TYPE_CHECKING:
    from postroom.ledger.recovery.recovered import AssignedRows, Recovered

ON_NEW_CHECKPOINT_FAIL: Final = "fail"
ON_NEW_CHECKPOINT_CONFIRMED: Final = "confirmed"
ON_NEW_CHECKPOINT: Final = (ON_NEW_CHECKPOINT_FAIL, ON_NEW_CHECKPOINT_CONFIRMED)

TIME_OVER: Final = "time"
"""Why a subscription ended: its lease."""

RENEWALS_WRITTEN: Final = 8
"""A renewal is written to the ledger when so many parts of a lease have passed since the last."""
RESTART_GRACE_US: Final = 3600 * 1_000_000
"""After a restart every lease has at least so long, or its whole length: its query couldn't come before."""

_STATE: Final = int(RecordType.SPARK_SUBSCRIPTION_STATE)
_SECOND_US: Final = 1_000_000
_LASTING: Final = ("queue", "selector")
"""What a Spark subscription is from its beginning."""


# --- definitions ----------------------------------------------------------------------------------


def find(core: Core, name: str) -> SparkSubscription:
    """The Spark subscription of that name, one that has ended too; raises SparkSubscriptionNotFound."""
    spark = spark_subscriptions_of(core).by_name.get(name)
    if spark is None:
        raise SparkSubscriptionNotFound(f"there is no Spark subscription {name!r}")
    return spark


def create(core: Core, definition: SparkSubscriptionDefinition, user: str) -> SparkSubscription:
    """Have a new one compete for what is on its queue from now on; the same definition again returns the one
    that is there.

    Raises SparkSubscriptionExists, SubscriptionEnded, NameNotAllowed, DefinitionInvalid, QueueNotFound,
    NotAllowed, AccessRefused, SelectorRefused, LimitExceeded.
    """
    subscriptions = spark_subscriptions_of(core)
    existing = subscriptions.by_name.get(definition.name)
    if existing is not None:
        if existing.definition != definition:
            raise SparkSubscriptionExists(
                f"Spark subscription {definition.name!r} exists with another definition: update or delete it"
            )
        _check_lives(existing)
        return existing
    definition.check(core.options)
    count = len(subscriptions.by_name)
    if count >= core.options.max_spark_subscriptions:
        raise LimitExceeded(
            f"Spark subscription {definition.name!r} can't be created: {count} are "
            "the limit (max_spark_subscriptions)"
        )
    queue = queues.find(core, definition.queue)
    if queue.definition.temporary:
        raise NotAllowed(f"queue {queue.name!r} is temporary: a Spark subscription lasts")
    if queue.definition.usage == USAGE_TRANSMISSION:
        raise NotAllowed(f"queue {queue.name!r} is a transmission queue: its channel takes from it")
    consumer = consumers.open_consumer(core, queue, Sink(), _consumer_options(core, definition, user))
    spark = SparkSubscription(core.holders.ids.take(), definition, queue, user)
    spark.confirmed = core.ledger.next_position
    spark.assigned = spark.confirmed
    core.holders.open(spark.id, n.SPARK_SUBSCRIPTION, spark.opened())
    subscriptions.by_name[definition.name] = spark
    queue.packed_holders.append(spark)
    tap.begin(core, queue)
    spark.renewed_us = core.now_us
    _renewed(core, spark, core.now_us + _lease_us(spark))
    _write(core, spark)
    consumer.bulk = SparkReceiver(core, spark)
    spark.consumer = consumer
    _keep_history(core)
    has_room(core, consumer)
    core.agenda.woken.append(spark.queue)
    return spark


def _consumer_options(core: Core, definition: SparkSubscriptionDefinition, user: str) -> ConsumerOptions:
    return ConsumerOptions(
        name=definition.name, container=core.options.queue_manager, user=user, selector=definition.selector
    )


def update(core: Core, definition: SparkSubscriptionDefinition) -> SparkSubscription:
    """Give it another window or lease."""
    spark = find(core, definition.name)
    _check_lives(spark)
    definition.check(core.options)
    for key in _LASTING:
        if getattr(definition, key) != getattr(spark.definition, key):
            raise DefinitionInvalid(
                f"Spark subscription {spark.name!r}: {key} is {getattr(spark.definition, key)!r} and can't "
                "change: delete it and create it anew",
                key,
            )
    spark.definition = definition
    spark.renewed_us = core.now_us
    _renewed(core, spark, core.now_us + _lease_us(spark))
    _write(core, spark)
    _has_room(core, spark)
    return spark


def delete(core: Core, name: str) -> int:
    """Forget it; what it holds goes back to its places, which may take some turns. Returns how many entries
    that are. Raises SparkSubscriptionNotFound."""
    spark = find(core, name)
    write_open(core, spark)
    count = int(spark.held.count)
    del spark_subscriptions_of(core).by_name[name]
    spark.deleted = True
    _end(core, spark)
    return count


def delete_of_queue(core: Core, queue: Queue) -> None:
    """The queue is about to go: all its Spark subscriptions go before, at once."""
    for spark in subscribed_to(queue):
        if not spark.deleted:
            delete(core, spark.name)
    while queue.returning > 0:
        core.budget.assignments = core.options.max_assigned_per_turn
        give_back(core, queue)


# --- what a query says ----------------------------------------------------------------------------


def plan(core: Core, name: str, checkpoint: str, on_new_checkpoint: str) -> SparkSubscription:
    """A query with that checkpoint looks how far it is; nothing changes but its lease. Raises
    SparkSubscriptionNotFound, SubscriptionEnded, RequestInvalid, CheckpointReplaced."""
    if on_new_checkpoint not in ON_NEW_CHECKPOINT:
        raise RequestInvalid(
            f"on_new_checkpoint is {on_new_checkpoint!r}, must be one of {', '.join(ON_NEW_CHECKPOINT)}"
        )
    spark = find(core, name)
    _check_lives(spark)
    if on_new_checkpoint == ON_NEW_CHECKPOINT_FAIL:
        _check_checkpoint(spark, checkpoint, True)
    _heard(core, spark)
    write_open(core, spark)
    return spark


def register(core: Core, name: str, checkpoint: str, replaces: bool) -> SparkSubscription:
    """The checkpoint is the one whose positions count from now on. Raises SparkSubscriptionNotFound,
    SubscriptionEnded, RequestInvalid; CheckpointReplaced where another is registered, unless it
    ``replaces`` that."""
    if not 0 < len(checkpoint.encode()) <= MAX_CHECKPOINT_BYTES:
        raise RequestInvalid(f"the checkpoint's name must be 1 to {MAX_CHECKPOINT_BYTES} bytes")
    spark = find(core, name)
    _check_lives(spark)
    if not replaces:
        _check_checkpoint(spark, checkpoint, True)
    changed = spark.checkpoint != checkpoint
    spark.checkpoint = checkpoint
    _heard(core, spark)
    if changed:
        _write(core, spark)
    return spark


def confirm(core: Core, name: str, checkpoint: str, position: i64) -> int:
    """What was assigned at ``position`` or before has been taken for good: it is consumed. Returns how many
    entries that ended; again it ends none."""
    spark = find(core, name)
    _check_lives(spark)
    _check_checkpoint(spark, checkpoint, False)
    write_open(core, spark)
    if position > spark.assigned and position > spark.confirmed:
        raise PositionRefused(
            f"Spark subscription {name!r}: position {position} is behind the last that was assigned, "
            f"{spark.assigned}: it is of another ledger, or of one that was set back",
            {"position": int(position), "assigned_through": int(spark.assigned)},
        )
    _heard(core, spark)
    if position <= spark.confirmed:
        return 0
    count = consume_through(core, spark, position)
    spark.confirmed = position
    _write(core, spark)
    _keep_history(core)
    _has_room(core, spark)
    return int(count)


def is_filling(spark: SparkSubscription) -> bool:
    """Whether it has room, and something waits that it may be about to be given."""
    consumer, queue = spark.consumer, spark.queue
    if consumer is None or not consumer.ready or queue.top_band() is None:
        return False
    if consumer.selector_cursor_id != 0 and consumer.waits:
        return True
    return queue.schedule.pending or queue.bodies.fetching or queue.bodies.waits_for_durable


def oldest_waiting(queue: Queue) -> int:
    """The place of what has been available the longest: the position of the event that made it so; 0 nothing
    is. What is behind another of its unit of order counts: it can be assigned when that is confirmed."""
    places: list[int] = []
    if len(queue.delayed.ordered) > 0:
        places.append(int(queue.delayed.ordered.oldest_place()))
    for band in queue.bands:
        front = band.first()
        if front is not None:
            places.append(int(front.place))
        if band.backlog.count > 0:
            chunk = band.backlog.front()
            places.append(int(chunk.place(chunk.first_living())))
    return min(places, default=0)


def _check_lives(spark: SparkSubscription) -> None:
    if spark.ended_us != 0:
        lost = "nothing"
        if spark.lost_last:
            lost = f"what was assigned from position {spark.lost_first} to {spark.lost_last}"
        raise SubscriptionEnded(
            f"Spark subscription {spark.name!r} has ended ({spark.reason}), and {lost} went back to its "
            "place: delete it and create it anew",
            {
                "reason": spark.reason,
                "confirmed": int(spark.confirmed),
                "lost_first": int(spark.lost_first),
                "lost_last": int(spark.lost_last),
                "ended_us": int(spark.ended_us),
            },
        )


def _check_checkpoint(spark: SparkSubscription, checkpoint: str, may_be_none: bool) -> None:
    if spark.checkpoint == checkpoint or (may_be_none and not spark.checkpoint):
        return
    raise CheckpointReplaced(
        f"Spark subscription {spark.name!r} has checkpoint {spark.checkpoint!r} registered, not "
        f"{checkpoint!r}; everything up to position {spark.confirmed} is confirmed",
        {"registered": spark.checkpoint, "confirmed": int(spark.confirmed)},
    )


def _has_room(core: Core, spark: SparkSubscription) -> None:
    if spark.consumer is not None:
        has_room(core, spark.consumer)
        core.agenda.woken.append(spark.queue)


# --- leases ---------------------------------------------------------------------------------------


def _lease_us(spark: SparkSubscription) -> i64:
    lease_s: i64 = spark.definition.lease_s
    return lease_s * _SECOND_US


def _heard(core: Core, spark: SparkSubscription) -> None:
    """Its lease begins again; the ledger hears of it now and then."""
    spark.renewed_us = core.now_us
    _renewed(core, spark, core.now_us + _lease_us(spark))
    if core.now_us - spark.written_us >= _lease_us(spark) // RENEWALS_WRITTEN:
        _write(core, spark)


def _renewed(core: Core, spark: SparkSubscription, until_us: i64) -> None:
    spark.until_us = until_us
    core.agenda.set_alarm(spark.queue, until_us)


def let_history_go(core: Core, reason: str) -> None:
    """What is kept for those that have not read it is more than there is room for: end the slowest."""
    living = [each for each in spark_subscriptions_of(core).by_name.values() if each.consumer is not None]
    if living:
        _run_out(core, min(living, key=lambda spark: int(spark.confirmed)), reason)


def _run_out(core: Core, spark: SparkSubscription, reason: str) -> None:
    """It ends against the will of its query, with an alarm."""
    write_open(core, spark)
    what = f"{spark.held.count} messages of queue {spark.queue.name!r} go back"
    if spark.held.count > 0:
        spark.lost_first = spark.confirmed + 1
        spark.lost_last = spark.assigned
        what += f", assigned from position {spark.lost_first} to {spark.lost_last}"
    spark.reason = reason
    spark_subscriptions_of(core).leases_ended += 1
    core.effects.alarms.append(Alarm("spark-subscription-ended", spark.name, f"{reason}: {what}"))
    _end(core, spark)


def _keep_history(core: Core) -> None:
    """What nobody has confirmed yet must stay to be read."""
    subscriptions = spark_subscriptions_of(core)
    unread: i64 = NO_POSITION
    for spark in subscriptions.by_name.values():
        if spark.consumer is not None and spark.confirmed < unread:
            unread = spark.confirmed + 1
    subscriptions.unread_from = unread


def _end(core: Core, spark: SparkSubscription) -> None:
    """It is given nothing more, and what it holds begins to go back."""
    consumer = spark.consumer
    if consumer is not None:
        spark.consumer = None
        spark.ended_us = core.now_us
        spark.queue.returning += 1
        tap.end(core, spark.queue)
        _keep_history(core)
        consumers.close_reader(core, consumer, False)
        _write(core, spark)
        give_back(core, spark.queue)
    elif spark.returned:
        _forget(core, spark)
    else:
        _write(core, spark)


def give_back(core: Core, queue: Queue) -> None:
    """Have what ended subscriptions hold go back, up to a turn's bound."""
    for spark in subscribed_to(queue):
        if spark.consumer is not None:
            continue
        while spark.held.count > 0 and core.budget.assignments > 0:
            core.budget.assignments -= give_back_some(core, spark, core.budget.assignments)
        if spark.held.count == 0 and not spark.returned:
            spark.returned = True
            queue.returning -= 1
            if spark.deleted:
                _forget(core, spark)
    if queue.returning > 0:
        core.agenda.leave_for_next_turn(queue)
    else:
        core.agenda.woken.append(queue)


def _forget(core: Core, spark: SparkSubscription) -> None:
    spark.queue.packed_holders.remove(spark)
    core.holders.close(spark.id, n.SPARK_SUBSCRIPTION, True)


def _write(core: Core, spark: SparkSubscription) -> None:
    spark.written_us = spark.renewed_us
    core.ledger.record(_STATE, 0, spark.queue.id, spark.id, n.SPARK_SUBSCRIPTION, 0, spark.state())


# --- restarts -------------------------------------------------------------------------------------


def restore(core: Core, recovered: "Recovered") -> None:
    """The Spark subscriptions from before the start, with all that they held and that wasn't lost."""
    by_id: dict[int, SparkSubscription] = {}
    for id, last, record in recovered.spark_subscriptions:
        by_id[id] = _restore_one(core, id, last, record)
    for rows in recovered.assigned:
        _hold(by_id[rows.holder], rows)
    _keep_history(core)
    for spark in by_id.values():
        if spark.consumer is not None:
            has_room(core, spark.consumer)
            core.agenda.woken.append(spark.queue)
        elif spark.held.count > 0:
            spark.queue.returning += 1
            core.agenda.leave_for_next_turn(spark.queue)
        elif spark.deleted:
            _forget(core, spark)
        else:
            spark.returned = True


def _restore_one(core: Core, id: int, last: int, record: dict[str, object]) -> SparkSubscription:
    definition = restored(SparkSubscriptionDefinition, record)
    queue = destinations_of(core).queues[definition.queue]
    spark = SparkSubscription(id, definition, queue, str(record["user"]))
    spark.restore(record)
    queue.packed_holders.append(spark)
    if not spark.deleted:
        spark_subscriptions_of(core).by_name[definition.name] = spark
    if last > spark.assigned:
        spark.assigned = last  # what was lost is not there any more to tell
        _write(core, spark)
    if spark.ended_us == 0:
        options = _consumer_options(core, definition, spark.user)
        spark.consumer = consumers.bind(core, queue, Sink(), options)
        spark.consumer.bulk = SparkReceiver(core, spark)
        tap.begin(core, queue)
        grace_us = min(RESTART_GRACE_US, _lease_us(spark))
        _renewed(core, spark, max(spark.renewed_us + _lease_us(spark), core.now_us + grace_us))
    return spark


def _hold(spark: SparkSubscription, rows: "AssignedRows") -> None:
    before = spark.held.size_bytes
    spark.held.restore(rows.packed, rows.places, rows.positions)
    count = len(rows.packed) // PACKED_BYTES
    spark.queue.statistics.restore_many(count, int(spark.held.size_bytes - before), ASSIGNED_SLOT)


def redefined(spark: SparkSubscription, settings: dict[str, object]) -> SparkSubscriptionDefinition:
    """Its definition with some settings changed."""
    return replace(spark.definition, **settings)  # type: ignore[arg-type]


@final
class SparkSubscriptionPart(TurnPart):
    """Leases end, what was held goes back, and what was assigned is written."""

    def destination_due(self, core: Core, destination: Destination) -> None:
        """End those of which nothing was heard for too long."""
        if not isinstance(destination, Queue):
            return
        for spark in subscribed_to(destination):
            if spark.ended_us != 0 or spark.deleted:
                continue
            if spark.until_us > core.now_us:
                core.agenda.set_alarm(destination, spark.until_us)
                continue
            _run_out(core, spark, TIME_OVER)

    def left_over(self, core: Core, destination: Destination) -> None:
        if isinstance(destination, Queue) and destination.returning > 0:
            give_back(core, destination)

    def end(self, core: Core) -> None:
        if spark_subscriptions_of(core).assigning:
            write_all(core)
