"""Quotas, as the management node shows and changes them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from postroom.manager.kernel.quota_definition import Quota, QuotaDefinition
from postroom.model.entity_types import QUOTA_TYPE
from postroom.server.management.entity_type import ListedEntityType, Operation
from postroom.server.management.request import (
    CONFLICT,
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


_SETTABLE: Final[Mapping[str, type]] = {
    "messages_maximum": int,
    "bytes_maximum": int,
    "policy": str,
    "shared": bool,
}
_ATTRIBUTES: Final = (
    *("name", "identity", "type", *_SETTABLE),
    *("destinations", "messages_used", "bytes_used", "blocked_sends"),
)


class Quotas(ListedEntityType[Quota]):
    """The quota resources of one broker."""

    type: Final = QUOTA_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._manager: Final = broker.manager
        self.operations: Final[Mapping[str, Operation]] = {
            "CREATE": self._create,
            "READ": self.read,
            "UPDATE": self._update,
            "DELETE": self._delete,
        }

    def attribute_names(self) -> list[str]:
        return list(_ATTRIBUTES)

    def all(self) -> Iterable[Quota]:
        return self._manager.quotas.values()

    def find(self, request: Request) -> Quota:
        return self._manager.quota(request.required_name())

    def shown(self, quota: Quota) -> Attributes:
        """Definition and use: of the shared pool, or of all private ones together."""
        definition, pools = quota.definition, quota.pools()
        values = (
            *(quota.name, quota.name, QUOTA_TYPE),
            *(definition.messages_maximum, definition.bytes_maximum, definition.policy, definition.shared),
            len(quota.members),
            *(sum(int(pool.messages) for pool in pools), sum(int(pool.bytes) for pool in pools)),
            sum(int(pool.line.count) for pool in pools),
        )
        return dict(zip(_ATTRIBUTES, values, strict=True))

    def _create(self, request: Request, now_us: int) -> Response:
        name = request.required_name()
        if name in self._manager.quotas:
            raise RequestError(CONFLICT, f"quota {name!r} exists already")
        definition = QuotaDefinition(name, **request.settings("quota", _SETTABLE))
        return Response(CREATED, "created", self.shown(self._manager.create_quota(definition, now_us)))

    def _update(self, request: Request, now_us: int) -> Response:
        changed = replace(self.find(request).definition, **request.settings("quota", _SETTABLE))
        return Response(OK, "OK", self.shown(self._manager.update_quota(changed, now_us)))

    def _delete(self, request: Request, now_us: int) -> Response:
        self._manager.delete_quota(request.required_name(), now_us)
        return Response(NO_CONTENT, "deleted", {})
