"""Spark subscriptions: what a Spark query that consumes says to the broker, and what administrators see."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from postroom.manager.kernel.errors import PositionRefused
from postroom.manager.spark.subscription import SparkSubscription, SparkSubscriptionDefinition
from postroom.manager.spark.subscription_verbs import ON_NEW_CHECKPOINT_FAIL, redefined
from postroom.model.entity_types import SPARK_SUBSCRIPTION_TYPE
from postroom.server.management.arguments import MAX_NUMBER
from postroom.server.management.entity_type import ListedEntityType, Operation
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

if TYPE_CHECKING:
    from postroom.server.connection.broker import Broker


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
_ATTRIBUTES: Final = (
    *("name", "identity", "type", *_SETTABLE, "user", "state", "registered", "confirmed"),
    *("assigned_through", "held", "held_bytes", "renewed_us", "until_us", "ended_us"),
    *("reason", "lost_first", "lost_last"),
    *("ledger_id", "epoch", "epoch_id", "last_position", "oldest_waiting", "is_filling", "is_full"),
)


class SparkSubscriptions(ListedEntityType[SparkSubscription]):
    """The Spark subscriptions of one broker."""

    type: Final = SPARK_SUBSCRIPTION_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._broker: Final = broker
        self._service: Final = broker.manager.spark_subscriptions
        self.operations: Final[Mapping[str, Operation]] = {
            "CREATE": self._create,
            "READ": self.read,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "PLAN": self._plan,
            "REGISTER": self._register,
            "CONFIRM": self._confirm,
        }

    def attribute_names(self) -> list[str]:
        return list(_ATTRIBUTES)

    def all(self) -> Iterable[SparkSubscription]:
        return self._service.all.values()

    def find(self, request: Request) -> SparkSubscription:
        return self._service.find(request.required_name())

    def shown(self, spark: SparkSubscription) -> Attributes:
        definition = spark.definition
        values = (
            *(spark.name, spark.name, SPARK_SUBSCRIPTION_TYPE),
            *(getattr(definition, key) for key in _SETTABLE),
            *(spark.user, "ended" if spark.ended_us else "active", spark.checkpoint, int(spark.confirmed)),
            *(int(spark.assigned), int(spark.held.count), int(spark.held.size_bytes)),
            *(int(spark.renewed_us), int(spark.until_us), int(spark.ended_us)),
            *(spark.reason, int(spark.lost_first), int(spark.lost_last)),
            *self._here().values(),
            *self._waiting(spark).values(),
        )
        return dict(zip(_ATTRIBUTES, values, strict=True))

    # An administrator's.

    def _create(self, request: Request, now_us: int) -> Response:
        settings: Attributes = {"queue": "", **request.settings("Spark subscription", _SETTABLE)}
        definition = SparkSubscriptionDefinition(request.required_name(), **settings)
        spark = self._service.create(definition, now_us, request.user)
        return Response(CREATED, "created", self.shown(spark))

    def _update(self, request: Request, now_us: int) -> Response:
        settings = request.settings("Spark subscription", _CHANGEABLE)
        changed = redefined(self.find(request), settings)
        return Response(OK, "OK", self.shown(self._service.update(changed, now_us)))

    def _delete(self, request: Request, now_us: int) -> Response:
        self._service.delete(request.required_name(), now_us)
        return Response(NO_CONTENT, "deleted", {})

    # A query's.

    def _plan(self, request: Request, now_us: int) -> Response:
        settings = request.settings("plan", _PLANNED)
        spark = self._service.plan(
            request.required_name(),
            settings.get("checkpoint", ""),
            now_us,
            settings.get("on_new_checkpoint", ON_NEW_CHECKPOINT_FAIL),
        )
        return Response(OK, "OK", self._planned(spark))

    def _planned(self, spark: SparkSubscription) -> Attributes:
        queue = spark.queue
        return {
            **self._here(),
            "confirmed": int(spark.confirmed),
            "assigned_through": int(spark.assigned),
            "available": int(queue.statistics.current),
            "held": int(spark.held.count),
            "registered": spark.checkpoint,
            **self._waiting(spark),
        }

    def _waiting(self, spark: SparkSubscription) -> Attributes:
        """What is still to be assigned."""
        return {
            "oldest_waiting": self._service.oldest_waiting(spark),
            "is_filling": self._service.is_filling(spark),
            "is_full": spark.room() <= 0,
        }

    def _here(self) -> Attributes:
        """What says which ledger positions are of, and how far it goes."""
        ledger = self._broker.ledger
        return {
            "ledger_id": str(ledger.ledger_id),
            "epoch": ledger.epoch,
            "epoch_id": ledger.epoch_id.hex(),
            "last_position": int(ledger.builder.next_position) - 1,
        }

    def _register(self, request: Request, now_us: int) -> Response:
        settings = request.settings("checkpoint", _REGISTERED)
        spark = self._service.register(
            request.required_name(), settings.get("checkpoint", ""), settings.get("replace", False), now_us
        )
        return Response(OK, "registered", self._planned(spark))

    def _confirm(self, request: Request, now_us: int) -> Response:
        settings = request.settings("confirmation", _CONFIRMED)
        self._check_ledger(settings)
        name, position = request.required_name(), settings.get("position", 0)
        if not 0 <= position <= MAX_NUMBER:
            raise RequestError(BAD_REQUEST, f"position is {position}, must be 0 to {MAX_NUMBER}")
        ended = self._service.confirm(name, settings.get("checkpoint", ""), position, now_us)
        spark = self._service.find(name)
        return Response(OK, "confirmed", {"ended": ended, **self._planned(spark)})

    def _check_ledger(self, settings: Attributes) -> None:
        """Raise PositionRefused where a position is of another ledger, or of an epoch that never was."""
        here = self._here()
        if "ledger_id" in settings and settings["ledger_id"].replace("-", "") != here["ledger_id"].replace(
            "-", ""
        ):
            raise PositionRefused(
                f"the position is of ledger {settings['ledger_id']}, this one is {here['ledger_id']}", here
            )
        epoch = settings.get("epoch", 0)
        other = epoch == here["epoch"] and settings.get("epoch_id", here["epoch_id"]) != here["epoch_id"]
        if epoch > here["epoch"] or other:
            raise PositionRefused(
                f"the position is of epoch {epoch} ({settings.get('epoch_id', '')}), which this ledger has"
                " not had: it was restored from a backup",
                here,
            )
