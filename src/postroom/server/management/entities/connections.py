"""Connections, as the management node shows them."""

from collections.abc import Iterable, Mapping
from typing import Final

from postroom.model.entity_types import CONNECTION_TYPE
from postroom.server.access.traffic import traffic_of
from postroom.server.kernel.connection_state import ConnectionState
from postroom.server.management.entity_type import Columns, ListedEntityType, Operation, same_named
from postroom.server.management.request import (
    CONFLICT,
    NO_CONTENT,
    NOT_FOUND,
    OK,
    Request,
    RequestError,
    Response,
)


class Connections(ListedEntityType[ConnectionState]):
    """The connections of one broker; a connection's name is its remote address."""

    type: Final = CONNECTION_TYPE

    def make_columns(self) -> "Columns[ConnectionState]":
        """Who is connected, since when, with how many links, and what has gone over them."""
        return {
            **same_named("container_id", "user", "opened_us"),
            "links": lambda binding: len(binding.links),
            "transactions": lambda binding: len(binding.transactions),
            **same_named("messages_in", "messages_out", "bytes_in", "bytes_out"),
            "unsettled": lambda binding: sum(int(link.unsettled_count) for link in binding.links),
            "blocked_sends": lambda binding: sum(int(bound.blocked) for bound in binding.links.values()),
            "throttled": lambda binding: traffic_of(self.broker).is_held(binding),
            "outgoing": lambda binding: binding.by_us,
        }

    def make_operations(self) -> Mapping[str, Operation]:
        return {"READ": self.read, "CLOSE": self._close, "RESET-STATISTICS": self._reset}

    def all(self) -> "Iterable[ConnectionState]":
        return self.broker.connections

    def find(self, request: Request) -> ConnectionState:
        for binding in self.broker.connections:
            if binding.remote == request.name:
                return binding
        raise RequestError(NOT_FOUND, f"there is no connection from {request.name!r}")

    def name_of(self, thing: ConnectionState) -> str:
        return thing.remote

    def _close(self, request: Request, now_us: int) -> Response:
        """End a client's connection, as an administrator; what it held goes back."""
        binding = self.find(request)
        if binding.by_us:
            raise RequestError(CONFLICT, f"the connection to {binding.remote} is a channel's: stop that")
        binding.close(description=f"closed by {request.user!r}")
        return Response(NO_CONTENT, "closed", {})

    def _reset(self, request: Request, now_us: int) -> Response:
        """Messages and bytes begin at 0 again; the answer has the counters from before."""
        binding = self.find(request)
        before = self.shown(binding)
        binding.begin_counting()
        return Response(OK, "reset", before)
