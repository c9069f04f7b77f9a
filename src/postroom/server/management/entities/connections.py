"""Connections, as the management node shows them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from postroom.model.entity_types import CONNECTION_TYPE
from postroom.server.management.entity_type import ListedEntityType, Operation
from postroom.server.management.request import (
    NOT_FOUND,
    OK,
    Attributes,
    Request,
    RequestError,
    Response,
)

if TYPE_CHECKING:
    from postroom.server.connection.binding import ConnectionBinding
    from postroom.server.connection.broker import Broker

_ATTRIBUTES: Final = (
    *("name", "identity", "type", "container_id"),
    *("user", "opened_us", "links", "transactions"),
    *("messages_in", "messages_out", "bytes_in", "bytes_out", "unsettled", "blocked_sends"),
    "outgoing",
)


class Connections(ListedEntityType["ConnectionBinding"]):
    """The connections of one broker; a connection's name is its remote address."""

    type: Final = CONNECTION_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.operations: Final[Mapping[str, Operation]] = {
            "READ": self.read,
            "RESET-STATISTICS": self._reset,
        }

    def attribute_names(self) -> list[str]:
        return list(_ATTRIBUTES)

    def all(self) -> "Iterable[ConnectionBinding]":
        return self._broker.connections

    def find(self, request: Request) -> "ConnectionBinding":
        for binding in self._broker.connections:
            if binding.remote == request.name:
                return binding
        raise RequestError(NOT_FOUND, f"there is no connection from {request.name!r}")

    def shown(self, binding: "ConnectionBinding") -> Attributes:
        """Who is connected, since when, with how many links, and what has gone over them."""
        return {
            "name": binding.remote,
            "identity": binding.remote,
            "type": CONNECTION_TYPE,
            "container_id": binding.container_id,
            "user": binding.user,
            "opened_us": binding.opened_us,
            "links": len(binding.links),
            "transactions": len(binding.transactions),
            "messages_in": binding.messages_in,
            "messages_out": binding.messages_out,
            "bytes_in": binding.bytes_in,
            "bytes_out": binding.bytes_out,
            "unsettled": sum(int(link.unsettled_count) for link in binding.links),
            "blocked_sends": sum(int(bound.blocked) for bound in binding.links.values()),
            "outgoing": binding.outward is not None,
        }

    def _reset(self, request: Request, now_us: int) -> Response:
        """Messages and bytes begin at 0 again; the answer has the counters from before."""
        binding = self.find(request)
        before = self.shown(binding)
        binding.begin_counting()
        return Response(OK, "reset", before)
