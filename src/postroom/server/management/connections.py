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
    *("messages_in", "messages_out", "bytes_in", "bytes_out", "unsettled", "blocked_sends"),
)


class Connections:
    """The connections of one broker; a connection's name is its remote address."""

    type: Final = CONNECTION_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.operations: Final[Mapping[str, Operation]] = {
            "READ": self._read,
            "RESET-STATISTICS": self._reset,
        }

    def attribute_names(self) -> list[str]:
        return list(_ATTRIBUTES)

    def count(self) -> int:
        return len(self._broker.connections)

    def rows(self, offset: int, count: int) -> list[Attributes]:
        return [_attributes(binding) for binding in islice(self._broker.connections, offset, offset + count)]

    def _read(self, request: Request, now_us: int) -> Response:
        return Response(OK, "OK", _attributes(self._connection(request)))

    def _reset(self, request: Request, now_us: int) -> Response:
        """Messages and bytes begin at 0 again; the answer has the counters from before."""
        binding = self._connection(request)
        before = _attributes(binding)
        binding.begin_counting()
        return Response(OK, "reset", before)

    def _connection(self, request: Request) -> "ConnectionBinding":
        for binding in self._broker.connections:
            if binding.remote == request.name:
                return binding
        raise RequestError(NOT_FOUND, f"there is no connection from {request.name!r}")


def _attributes(binding: "ConnectionBinding") -> Attributes:
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
    }
