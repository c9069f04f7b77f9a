"""Spark subscriptions: what a Spark query that consumes says to the broker, and what administrators see."""

from collections.abc import Iterable, Mapping
from typing import Final

from postroom.manager.kernel.errors import PositionRefused
from postroom.manager.spark.subscription import SparkSubscription, SparkSubscriptionDefinition
from postroom.manager.spark.subscription_verbs import ON_NEW_CHECKPOINT_FAIL, redefined
from postroom.model.entity_types import SPARK_SUBSCRIPTION_TYPE
from postroom.server.management.arguments import MAX_NUMBER
from postroom.server.management.entity_type import Columns, ListedEntityType, Operation, same_named
from postroom.server.management.request import (
    BAD_REQUEST,
    CREATED,
    NO_CONTENT,
    OK,
    Attributes,
    Request,
    RequestError,
    Response,
)

_CHANGEABLE: Final[Mapping[str, type]] = {"window": int, "window_bytes": int, "lease_s": int}
_SETTABLE: Final[Mapping[str, type]] = {"queue": str, **_CHANGEABLE, "selector": str}
_PLANNED: Final[Mapping[str, type]] = {"checkpoint": str, "on_new_checkpoint": str}
_REGISTERED: Final[Mapping[str, type]] = {"checkpoint": str, "replace": bool}
_CONFIRMED: Final[Mapping[str, type]] = {
    "checkpoint": str,
    "position": int,
    "ledger_id": str,
    "epoch": int,
    "epoch_id": str,
}
_OF_PLAN: Final = (
    *("ledger_id", "epoch", "epoch_id", "last_position", "confirmed", "assigned_through", "held"),
    *("registered", "oldest_waiting", "is_filling", "is_full"),
)
"""Attributes that a query is told."""


class SparkSubscriptions(ListedEntityType[SparkSubscription]):
    """The Spark subscriptions of one broker."""

    type: Final = SPARK_SUBSCRIPTION_TYPE

    def make_columns(self) -> Columns[SparkSubscription]:
        service = self.manager.spark_subscriptions
        return {
            **same_named(*_SETTABLE, of="definition"),
            "state": lambda spark: "ended" if spark.ended_us else "active",
            "registered": lambda spark: spark.checkpoint,
            "assigned_through": lambda spark: int(spark.assigned),
            "held": lambda spark: int(spark.held.count),
            "held_bytes": lambda spark: int(spark.held.size_bytes),
            **same_named("user", "confirmed", "renewed_us", "until_us", "ended_us", "reason"),
            **same_named("lost_first", "lost_last"),
            **self._ledger_columns(),
            "oldest_waiting": service.oldest_waiting,
            "is_filling": service.is_filling,
            "is_full": lambda spark: spark.room() <= 0,
        }

    def _ledger_columns(self) -> Columns[object]:
        """What says which ledger positions are of, and how far it goes."""
        ledger = self.broker.ledger
        return {
            "ledger_id": lambda _: str(ledger.ledger_id),
            "epoch": lambda _: ledger.epoch,
            "epoch_id": lambda _: ledger.epoch_id.hex(),
            "last_position": lambda _: int(ledger.builder.next_position) - 1,
        }

    def make_operations(self) -> Mapping[str, Operation]:
        return {
            "CREATE": self._create,
            "READ": self.read,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "PLAN": self._plan,
            "REGISTER": self._register,
            "CONFIRM": self._confirm,
        }

    def all(self) -> Iterable[SparkSubscription]:
        return self.manager.spark_subscriptions.all.values()

    def find(self, request: Request) -> SparkSubscription:
        return self.manager.spark_subscriptions.find(request.required_name())

    # An administrator's.

    def _create(self, request: Request, now_us: int) -> Response:
        settings: Attributes = {"queue": "", **request.settings("Spark subscription", _SETTABLE)}
        definition = SparkSubscriptionDefinition(request.required_name(), **settings)
        spark = self.manager.spark_subscriptions.create(definition, now_us, request.user)
        return Response(CREATED, "created", self.shown(spark))

    def _update(self, request: Request, now_us: int) -> Response:
        settings = request.settings("Spark subscription", _CHANGEABLE)
        changed = redefined(self.find(request), settings)
        return Response(OK, "OK", self.shown(self.manager.spark_subscriptions.update(changed, now_us)))

    def _delete(self, request: Request, now_us: int) -> Response:
        self.manager.spark_subscriptions.delete(request.required_name(), now_us)
        return Response(NO_CONTENT, "deleted", {})

    # A query's.

    def _plan(self, request: Request, now_us: int) -> Response:
        said = request.settings("plan", _PLANNED)
        spark = self.manager.spark_subscriptions.plan(
            request.required_name(),
            said.get("checkpoint", ""),
            now_us,
            said.get("on_new_checkpoint", ON_NEW_CHECKPOINT_FAIL),
        )
        return Response(OK, "OK", self._planned(spark))

    def _planned(self, spark: SparkSubscription) -> Attributes:
        told = {name: self.columns[name](spark) for name in _OF_PLAN}
        return told | {"available": int(spark.queue.statistics.current)}

    def _register(self, request: Request, now_us: int) -> Response:
        said = request.settings("checkpoint", _REGISTERED)
        spark = self.manager.spark_subscriptions.register(
            request.required_name(), said.get("checkpoint", ""), said.get("replace", False), now_us
        )
        return Response(OK, "registered", self._planned(spark))

    def _confirm(self, request: Request, now_us: int) -> Response:
        said = request.settings("confirmation", _CONFIRMED)
        self._check_ledger(said)
        name, position = request.required_name(), said.get("position", 0)
        if not 0 <= position <= MAX_NUMBER:
            raise RequestError(BAD_REQUEST, f"position is {position}, must be 0 to {MAX_NUMBER}")
        ended = self.manager.spark_subscriptions.confirm(name, said.get("checkpoint", ""), position, now_us)
        spark = self.manager.spark_subscriptions.find(name)
        return Response(OK, "confirmed", {"ended": ended, **self._planned(spark)})

    def _check_ledger(self, said: Attributes) -> None:
        """Raise PositionRefused where a position is of another ledger, or of an epoch that never was."""
        here: Attributes = {name: get(None) for name, get in self._ledger_columns().items()}
        if "ledger_id" in said and said["ledger_id"].replace("-", "") != here["ledger_id"].replace("-", ""):
            raise PositionRefused(
                f"the position is of ledger {said['ledger_id']}, this one is {here['ledger_id']}", here
            )
        epoch = said.get("epoch", 0)
        other = epoch == here["epoch"] and said.get("epoch_id", here["epoch_id"]) != here["epoch_id"]
        if epoch > here["epoch"] or other:
            raise PositionRefused(
                f"the position is of epoch {epoch} ({said.get('epoch_id', '')}), which this ledger has not "
                "had: it was restored from a backup",
                here,
            )
