"""Leases of ledger readers, as the management node grants, renews and releases them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from postroom.ledger.errors import (
    LeaseBroken,
    LeaseError,
    LeaseExists,
    LeaseInvalid,
    LeaseLimit,
    LeaseTooOld,
    LeaseUnknown,
)
from postroom.ledger.retention.leases import Lease
from postroom.model.entity_types import LEASE_TYPE
from postroom.server.management.entity_type import ListedEntityType, Operation
from postroom.server.management.request import (
    BAD_REQUEST,
    CONFLICT,
    CREATED,
    INTERNAL,
    LIMIT,
    NO_CONTENT,
    NOT_FOUND,
    OK,
    Attributes,
    Request,
    RequestError,
    Response,
)

if TYPE_CHECKING:
    from postroom.server.connection.broker import Broker


_GRANTED: Final[Mapping[str, type]] = {
    "owner": str,
    "position": int,
    "bodies": bool,
    "duration_s": int,
    "max_bytes": int,
    "queues": list,
}
_RENEWED: Final[Mapping[str, type]] = {"position": int, "duration_s": int, "max_bytes": int}
_ATTRIBUTES: Final = (
    *("name", "identity", "type", "owner", "state", "position", "bodies", "duration_s", "max_bytes"),
    *("queues", "granted_us", "expires_us", "held_bytes"),
    *("reason", "broken_us", "broken_position", "missing_first", "missing_last"),
)
_STATUS: Final[Mapping[type[LeaseError], int]] = {
    LeaseUnknown: NOT_FOUND,
    LeaseExists: CONFLICT,
    LeaseBroken: CONFLICT,
    LeaseTooOld: CONFLICT,
    LeaseLimit: LIMIT,
    LeaseInvalid: BAD_REQUEST,
}


class LeaseEntities(ListedEntityType[Lease]):
    """The leases on one broker's ledger."""

    type: Final = LEASE_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._broker: Final = broker
        self._leases: Final = broker.ledger.leases
        self.operations: Final[Mapping[str, Operation]] = {
            "CREATE": self._grant,
            "READ": self.read,
            "UPDATE": self._renew,
            "DELETE": self._release,
        }

    def attribute_names(self) -> list[str]:
        return list(_ATTRIBUTES)

    def all(self) -> Iterable[Lease]:
        return self._leases.all()

    def find(self, request: Request) -> Lease:
        try:
            return self._leases.get(request.required_name())
        except LeaseError as error:
            raise _refused(error) from error

    def shown(self, lease: Lease) -> Attributes:
        missing = self._leases.missing(lease)
        values = (
            *(lease.name, lease.name, LEASE_TYPE, lease.owner, "broken" if lease.reason else "in force"),
            *(lease.position, lease.bodies, lease.duration_s, lease.max_bytes),
            *(list(lease.queues), lease.granted_us, lease.expires_us, self._leases.held_bytes(lease)),
            *(lease.reason, lease.broken_us, lease.broken_position, missing.first, missing.last),
        )
        return dict(zip(_ATTRIBUTES, values, strict=True))

    def _grant(self, request: Request, now_us: int) -> Response:
        name = request.required_name()
        settings: Attributes = {"owner": request.user} | request.settings("lease", _GRANTED)
        if not all(isinstance(queue, str) for queue in settings.get("queues", ())):
            raise RequestError(BAD_REQUEST, "queues must be a list of names")
        try:
            lease = self._leases.grant(name, now_us=now_us, **settings)
        except LeaseError as error:
            raise _refused(error) from error
        self._broker.heed_leases()
        return Response(CREATED, "granted", self.shown(lease))

    def _renew(self, request: Request, now_us: int) -> Response:
        settings = request.settings("lease", _RENEWED)
        try:
            lease = self._leases.renew(request.required_name(), now_us, **settings)
        except LeaseError as error:
            raise _refused(error) from error
        return Response(OK, "renewed", self.shown(lease))

    def _release(self, request: Request, now_us: int) -> Response:
        self._leases.release(self.find(request).name, now_us)
        self._broker.heed_leases()
        return Response(NO_CONTENT, "released", {})


def _refused(error: LeaseError) -> RequestError:
    return RequestError(_STATUS.get(type(error), INTERNAL), str(error))
