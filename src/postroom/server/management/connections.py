"""Connections, as the management node shows them."""

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from postroom.server.management.noun import Operation
from postroom.server.management.request import (
    NOT_FOUND,
    OK,
    Attributes,
    Request,
    RequestError,
    Response,
)

if TYPE_CHECKING:
    from postroom.server.binding import ConnectionBinding
    from postroom.server.broker import Broker

CONNECTION_TYPE: Final = "postroom.connection"
_ATTRIBUTES: Final = (
    *("name", "identity", "type", "container_id"),
    *("user", "opened_us", "links", "transactions"),
)


class Connections:
    """The connections of one broker; a connection's name is its remote address."""

    type: Final = CONNECTION_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.operations: Final[Mapping[str, Operation]] = {"READ": self._read}

    def attribute_names(self) -> list[str]:
        return list(_ATTRIBUTES)

    def count(self) -> int:
        return len(self._broker.connections)

    def rows(self, offset: int, count: int) -> list[Attributes]:
        return [_attributes(binding) for binding in islice(self._broker.connections, offset, offset + count)]

    def _read(self, request: Request, now_us: int) -> Response:
        for binding in self._broker.connections:
            if binding.remote == request.name:
                return Response(OK, "OK", _attributes(binding))
        raise RequestError(NOT_FOUND, f"there is no connection from {request.name!r}")


def _attributes(binding: "ConnectionBinding") -> Attributes:
    """Who is connected, since when, with how many links."""
    return {
        "name": binding.remote,
        "identity": binding.remote,
        "type": CONNECTION_TYPE,
        "container_id": binding.container_id,
        "user": binding.user,
        "opened_us": binding.opened_us,
        "links": len(binding.links),
        "transactions": len(binding.transactions),
    }
