"""Leases of ledger readers, as the management node grants, renews and releases them."""

from collections.abc import Iterable, Mapping
from typing import Final

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
from postroom.server.management.entity_type import Columns, ListedEntityType, Operation, same_named
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

_GRANTED: Final[Mapping[str, type]] = {
    "owner": str,
    "position": int,
    "bodies": bool,
    "duration_s": int,
    "max_bytes": int,
    "queues": list,
}
_RENEWED: Final[Mapping[str, type]] = {"position": int, "duration_s": int, "max_bytes": int}
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

    def make_columns(self) -> Columns[Lease]:
        leases = self.broker.ledger.leases
        return {
            "state": lambda lease: "broken" if lease.reason else "in force",
            **same_named("owner", "position", "bodies", "duration_s", "max_bytes"),
            "queues": lambda lease: list(lease.queues),
            "held_bytes": leases.held_bytes,
            **same_named("granted_us", "expires_us", "reason", "broken_us", "broken_position"),
            "missing_first": lambda lease: leases.missing(lease).first,
            "missing_last": lambda lease: leases.missing(lease).last,
        }

    def make_operations(self) -> Mapping[str, Operation]:
        return {
            "CREATE": self._grant,
            "READ": self.read,
            "UPDATE": self._renew,
            "DELETE": self._release,
        }

    def all(self) -> Iterable[Lease]:
        return self.broker.ledger.leases.all()

    def find(self, request: Request) -> Lease:
        try:
            return self.broker.ledger.leases.get(request.required_name())
        except LeaseError as error:
            raise _refused(error) from error

    def _grant(self, request: Request, now_us: int) -> Response:
        name = request.required_name()
        settings: Attributes = {"owner": request.user} | request.settings("lease", _GRANTED)
        if not all(isinstance(queue, str) for queue in settings.get("queues", ())):
            raise RequestError(BAD_REQUEST, "queues must be a list of names")
        try:
            lease = self.broker.ledger.leases.grant(name, now_us=now_us, **settings)
        except LeaseError as error:
            raise _refused(error) from error
        self.broker.heed_leases()
        return Response(CREATED, "granted", self.shown(lease))

    def _renew(self, request: Request, now_us: int) -> Response:
        settings = request.settings("lease", _RENEWED)
        try:
            lease = self.broker.ledger.leases.renew(request.required_name(), now_us, **settings)
        except LeaseError as error:
            raise _refused(error) from error
        return Response(OK, "renewed", self.shown(lease))

    def _release(self, request: Request, now_us: int) -> Response:
        self.broker.ledger.leases.release(self.find(request).name, now_us)
        self.broker.heed_leases()
        return Response(NO_CONTENT, "released", {})


def _refused(error: LeaseError) -> RequestError:
    return RequestError(_STATUS.get(type(error), INTERNAL), str(error))
