"""Which range a query that consumes reads next, and what is confirmed. Needs no Spark.

Spark asks where a batch ends that begins behind an offset. That it asks means that the batch which ended
there is in its commit log: so with ``confirm=spark`` that is confirmed now. With ``confirm=table:…`` what the
table itself says is. Looking changes nothing else; the checkpoint is registered when the first range is asked
for, because by then Spark has written it down.

What is confirmed is never handed out again: a range begins behind the position that is confirmed, or that the
table has, where the offset that Spark gives is older: the last entries of its checkpoint may be lost.
"""

import logging
import time
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from postroom.spark.consume.errors import LedgerBehind, SubscriptionEnded, TableBehind, WindowFull
from postroom.spark.consume.offsets import Offset
from postroom.spark.consume.options import ConsumeOptions, Proof
from postroom.spark.consume.subscription import BrokerSubscription, Plan
from postroom.spark.consume.table import open_table, recorded, recorded_in
from postroom.spark.ledger_source.positions import Position, check, position_in
from postroom.spark.ledger_source.ranges import Planner, require_readable
from postroom.spark.places.place import Seen, Slice
from postroom.spark.places.slices import plan_parts

MESSAGES_A_TASK: Final = 100_000
"""About so many messages are given to a task, unless ``partitionRecords`` says how many positions."""

SHOWN_WITHIN_S: Final = 30.0
"""So long the ledger under ``path`` may take to show what the broker has written."""
_SHOWN_PAUSE_S: Final = 0.01
_FILLING_PAUSE_S: Final = 0.02

_log: Final = logging.getLogger(__name__)


class Clock:
    """Time, as `time` has it."""

    def now_s(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Do nothing for so long."""
        time.sleep(seconds)


@dataclass(slots=True)
class Drain:
    """A run over what is available when it begins."""

    through: int = -1
    """The ledger's last position when it began; −1: not asked yet."""
    last: int | None = None
    """Position of the last assignment that it has to read, once all that was available is assigned."""


class ConsumePlanner:
    """What a query reads next. For one thread."""

    def __init__(
        self, options: ConsumeOptions, subscription: BrokerSubscription, clock: Clock | None = None
    ) -> None:
        self._options: Final = options
        self._subscription: Final = subscription
        self._ledgers: Final = Planner(options.tap.source)
        self._clock: Final = clock or Clock()
        self._drain: Drain | None = None
        self._plan: Plan | None = None
        """The last answer for the checkpoint of this query."""
        self._has_registered: bool = False
        self._table: tuple[Offset, Position | None] | None = None
        """What the table had when the query stood at that offset."""
        self._range: tuple[Offset, Position] | None = None
        """Where the range begins that ends at that offset: the same however often a batch is planned."""
        self._checked_epoch: str = ""
        self._warned_at: int = -1
        self._idle_until_s: float = 0.0

    def initial(self) -> Offset:
        """Where Spark begins where there is no checkpoint: at nothing, with a new checkpoint's id."""
        return Offset(uuid4().hex, self._options.subscription)

    def drain(self) -> None:
        """Only what is available now is to be read: the query ends when that is done."""
        self._drain = Drain()

    # --- where a batch ends ------------------------------------------------------------------------

    def next(self, start: Offset) -> Offset:
        """Where a batch ends that begins behind `start`: there, if there is nothing.

        Raises ``ConsumeError``, ``LedgerError``, ``OSError``.
        """
        left_s = self._idle_until_s - self._clock.now_s()
        if left_s > 0:  # nothing came a moment ago
            self._clock.sleep(left_s)
        if start.is_initial:
            return self._begin(start)
        if start.begins and not self._has_registered:
            self._register(start.checkpoint)  # the first batch was done without its rows being asked for
        plan = self._confirmed(start)
        end = self._assigned(start, plan)
        if end <= start.position.position:
            self._idle_until_s = self._clock.now_s() + self._options.poll_ms / 1000
            return start
        return Offset(
            start.checkpoint, start.subscription, start.ledger_id, self._position(plan.ledger_id, end)
        )

    def _begin(self, start: Offset) -> Offset:
        plan = self._subscription.plan(start.checkpoint, self._options.takes_over)
        self._note_start(plan)
        begin = self._position(plan.ledger_id, plan.confirmed)
        has = self._table_position(plan, start)
        if has is not None:
            begin = max(begin, has, key=lambda position: position.position)
        return Offset(start.checkpoint, start.subscription, plan.ledger_id, begin, begins=True)

    def _confirmed(self, start: Offset) -> Plan:
        """How the subscription stands after everything is confirmed that is proved to be safe."""
        plan = self._fetch_plan(start)
        confirm, proved = self._options.confirm, None
        if confirm is not None and confirm.proof is not Proof.CALL:
            is_spark = confirm.proof is Proof.SPARK
            proved = start.position if is_spark else self._required_table(start, plan)
        if proved is not None and proved.position > plan.confirmed:
            self._subscription.confirm(start.checkpoint, plan.ledger_id, proved)
            plan = self._fetch_plan(start)
        return plan

    def _fetch_plan(self, offset: Offset) -> Plan:
        plan = self._subscription.plan(offset.checkpoint)
        if plan.registered != offset.checkpoint:
            raise SubscriptionEnded(
                offset.subscription, "the one there is under that name has not seen this query"
            )
        if offset.ledger_id and plan.ledger_id != offset.ledger_id:
            raise LedgerBehind(
                f"subscription {offset.subscription} is of ledger {plan.ledger_id}, this query has read"
                f" ledger {offset.ledger_id}: the broker was set up anew, or is another one"
            )
        if not offset.is_initial and plan.epoch_id != self._checked_epoch:
            check(self._shown(plan.ledger_id, offset.position.position).snapshot, offset.position)
            self._checked_epoch = plan.epoch_id
        self._plan = plan
        self._note_start(plan)
        return plan

    def _note_start(self, plan: Plan) -> None:
        if self._drain is not None and self._drain.through < 0:
            self._drain.through = plan.last_position

    # --- the table ---------------------------------------------------------------------------------

    def _required_table(self, start: Offset, plan: Plan) -> Position | None:
        """The table's position, which may not be behind what Spark takes for done."""
        if self._table is None or self._table[0] != start:
            self._table = (start, self._table_position(plan, start))
        has = self._table[1]
        if not start.begins and (has is None or has.position < start.position.position):
            confirm = self._options.confirm
            assert confirm is not None
            raise TableBehind(
                f"Spark's checkpoint says that everything up to position {start.position.position} is"
                f" written, table {confirm.table_uri} says {has.position if has else 'nothing'} for app"
                f" {confirm.app}."
                " Either the query's batches don't go through append_once with that table and app, or the"
                " table was restored: then begin with a new checkpoint and onNewCheckpoint=confirmed, which"
                " reads again what the table lacks"
            )
        return has

    def _table_position(self, plan: Plan, offset: Offset) -> Position | None:
        confirm = self._options.confirm
        if confirm is None or confirm.proof is not Proof.TABLE:
            return None
        committed = recorded(open_table(confirm.table_uri), confirm.app, plan.ledger_id)
        if committed is None:
            return None
        if committed.position < plan.confirmed:
            raise TableBehind(
                f"table {confirm.table_uri} has position {committed.position} for app {confirm.app}, but"
                f" everything up to {plan.confirmed} is confirmed, and gone from the queue: the table is an"
                " older copy, or another one. Restore the newest; or give the query another app's name: it"
                " goes on from what is confirmed"
            )
        return recorded_in(self._shown(plan.ledger_id, committed.position).snapshot, committed)

    # --- a run over what is available --------------------------------------------------------------

    def _assigned(self, start: Offset, plan: Plan) -> int:
        """Position of the last assignment that the next batch is to read."""
        if self._drain is None:
            self._warn_if_full(start, plan)
            return plan.assigned_through
        return self._drained(start, plan, self._drain)

    def _drained(self, start: Offset, plan: Plan, drain: Drain) -> int:
        give_up_s = self._clock.now_s() + self._options.broker_timeout_s
        while drain.last is None:
            if not 0 < plan.oldest_waiting <= drain.through:
                drain.last = plan.assigned_through
            elif plan.assigned_through > start.position.position:
                return plan.assigned_through
            elif not plan.is_filling or self._clock.now_s() > give_up_s:
                if plan.is_full:
                    raise WindowFull(
                        f"subscription {start.subscription}: its window is full, everything in it was read"
                        f" up to position {start.position.position}, and only what was assigned up to"
                        f" {plan.confirmed} is confirmed, while more waits. With confirm=call every batch"
                        " must be confirmed: pyspark_postroom_messages.confirm in foreachBatch"
                    )
                return start.position.position  # what waits can't be assigned: paused, or not selected
            else:
                self._clock.sleep(_FILLING_PAUSE_S)
                plan = self._fetch_plan(start)
        return drain.last

    def _warn_if_full(self, start: Offset, plan: Plan) -> None:
        at = start.position.position
        if plan.is_full and plan.assigned_through <= at and self._warned_at < at:
            self._warned_at = at
            _log.warning(
                "subscription %s: the window is full and read; nothing comes until more than position %d is"
                " confirmed",
                start.subscription,
                plan.confirmed,
            )

    # --- ranges ------------------------------------------------------------------------------------

    def parts(self, start: Offset, end: Offset) -> list[list[Slice]]:
        """A batch in slices for a task each; of the first one none: it registers the checkpoint.

        Raises ``ConsumeError``, ``LedgerError``, ``OSError``.
        """
        if start.is_initial:
            self._register(end.checkpoint)
            return []
        after = self._after(start, end)
        if after.position >= end.position.position:
            return []
        return self._parts(end.ledger_id, after, end.position)

    def unconfirmed(self) -> list[Slice]:
        """The slices of everything that is assigned and not confirmed; asked for by no checkpoint."""
        plan = self._subscription.current_plan()
        first = self._position(plan.ledger_id, plan.confirmed)
        last = self._position(plan.ledger_id, max(plan.confirmed, plan.assigned_through))
        self._plan = plan
        return [piece for part in self._parts(plan.ledger_id, first, last) for piece in part]

    def _parts(self, ledger_id: str, after: Position, end: Position) -> list[list[Slice]]:
        seen = self._shown(ledger_id, end.position)
        require_readable(self._options.tap.source, seen.snapshot, after)
        check(seen.snapshot, end)
        # by the number of messages: one position may assign a thousand of them, or be somebody else's
        tasks = max(1, -(-(self._plan.held if self._plan is not None else 0) // MESSAGES_A_TASK))
        positions = max(1, -(-(end.position - after.position) // tasks))
        records = self._options.tap.source.partition_records or positions
        return plan_parts(seen.place, seen.snapshot, after.position + 1, end.position, records)

    def _register(self, checkpoint: str) -> None:
        self._subscription.register(checkpoint, self._options.takes_over)
        self._has_registered = True

    def _after(self, start: Offset, end: Offset) -> Position:
        """Behind which position a batch's rows lie."""
        if self._range is None or self._range[0] != end:
            plan = self._plan or self._fetch_plan(end)
            after = start.position
            if plan.confirmed > after.position:
                after = self._position(plan.ledger_id, plan.confirmed)
            has = self._table_position(plan, end)
            if has is not None and has.position > after.position:
                after = has
            self._range = (end, after)
        return self._range[1]

    # --- the ledger --------------------------------------------------------------------------------

    def _position(self, ledger_id: str, position: int) -> Position:
        return position_in(self._shown(ledger_id, position).snapshot, position)

    def _shown(self, ledger_id: str, position: int) -> Seen:
        """The ledger when it shows the position. Raises ``LedgerBehind``."""
        give_up_s = self._clock.now_s() + SHOWN_WITHIN_S
        while True:
            seen = self._ledgers.refresh()
            if ledger_id in seen and seen[ledger_id].snapshot.durable_through >= position:
                return seen[ledger_id]
            if ledger_id not in seen or self._clock.now_s() > give_up_s:
                raise self._behind(ledger_id, position)
            self._clock.sleep(_SHOWN_PAUSE_S)

    def _behind(self, ledger_id: str, position: int) -> LedgerBehind:
        seen = self._ledgers.refresh()
        paths = ", ".join(self._options.tap.source.uris)
        if ledger_id not in seen:
            return LedgerBehind(f"{paths}: there is ledger {', '.join(seen)}; the broker's is {ledger_id}")
        through = seen[ledger_id].snapshot.durable_through
        return LedgerBehind(
            f"{paths}: ledger {ledger_id} ends at position {through}, the broker speaks of {position}: this"
            " is a copy that is not kept up, or the broker's was restored from an older one"
        )
