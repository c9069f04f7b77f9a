"""The management node of one broker: which noun a request is for, and the operations about all of them."""

from typing import TYPE_CHECKING, Final

from postroom.manager.errors import ManagerError
from postroom.server.management.branches import Branches
from postroom.server.management.brokers import Brokers
from postroom.server.management.channels import ChannelNoun
from postroom.server.management.connections import Connections
from postroom.server.management.dead_letter_handlers import DeadLetterHandlerNoun
from postroom.server.management.leases import LeaseNoun
from postroom.server.management.ledgers import LedgerNoun
from postroom.server.management.messages import Messages
from postroom.server.management.noun import Noun, Operation
from postroom.server.management.queues import Queues
from postroom.server.management.quotas import Quotas
from postroom.server.management.remote_queues import RemoteQueues
from postroom.server.management.request import (
    BAD_REQUEST,
    NOT_IMPLEMENTED,
    OK,
    Attributes,
    Later,
    Request,
    RequestError,
    Response,
    refusal,
)
from postroom.server.management.sinks import SinkNoun
from postroom.server.management.spark_subscriptions import SparkSubscriptions
from postroom.server.management.store_holders import StoreHolders
from postroom.server.management.topics import Subscriptions, Topics
from postroom.server.management.transactions import Transactions

if TYPE_CHECKING:
    from postroom.server.connection.broker import Broker

MANAGEMENT_TYPE: Final = "org.amqp.management"

MAX_QUERY_ROWS: Final = 1_000
"""Rows of one answer to QUERY; more are had with offset."""


class Management:
    """The management node of one broker."""

    def __init__(self, broker: "Broker") -> None:
        self._manager: Final = broker.manager
        nouns: list[Noun] = [
            Queues(broker),
            Topics(broker),
            Subscriptions(broker),
            Quotas(broker),
            RemoteQueues(broker),
            ChannelNoun(broker),
            DeadLetterHandlerNoun(broker),
            Connections(broker),
            Brokers(broker),
            LeaseNoun(broker),
            LedgerNoun(broker),
            Messages(broker),
            SparkSubscriptions(broker),
            Transactions(broker),
            Branches(broker),
            SinkNoun(broker),
            StoreHolders(broker),
        ]
        self._nouns: Final = {noun.type: noun for noun in nouns}
        self._operations: Final[dict[str, Operation]] = {
            "QUERY": self._query,
            "GET-TYPES": self._get_types,
            "GET-OPERATIONS": self._get_operations,
            "GET-ATTRIBUTES": self._get_attributes,
            "GET-MGMT-NODES": self._get_nodes,
        }

    def perform(self, request: Request, now_us: int) -> Response | Later:
        """Carry out ``request``. What it changed is not durable yet: the answer must wait for that."""
        self._manager.tell_time(now_us)
        try:
            return self._find(request)(request, now_us)
        except RequestError as error:
            return error.response()
        except ManagerError as refused:
            return refusal(refused)

    def _find(self, request: Request) -> Operation:
        name, type_name = request.operation, request.type
        if not name:
            raise RequestError(BAD_REQUEST, "the application properties have no `operation`")
        if name in self._operations:
            return self._operations[name]
        noun = self._nouns.get(type_name)
        if noun is None:
            raise RequestError(NOT_IMPLEMENTED, f"there is no type {type_name!r}")
        if name not in noun.operations:
            raise RequestError(NOT_IMPLEMENTED, f"type {type_name!r} has no operation {name!r}")
        return noun.operations[name]

    def _asked_about(self, request: Request) -> list[Noun]:
        """The nouns that a request about all of them is restricted to."""
        type_name = request.text("entityType")
        if not type_name:
            return list(self._nouns.values())
        if type_name not in self._nouns:
            raise RequestError(BAD_REQUEST, f"entityType {type_name!r} is none of GET-TYPES")
        return [self._nouns[type_name]]

    def _query(self, request: Request, now_us: int) -> Response:
        nouns = self._asked_about(request)
        offset = request.number("offset", 0)
        count = min(request.number("count", MAX_QUERY_ROWS), MAX_QUERY_ROWS)
        wanted = request.attributes().get("attributeNames")
        if wanted is not None and not isinstance(wanted, list):
            raise RequestError(BAD_REQUEST, "attributeNames must be a list of names")
        names = [str(name) for name in wanted] if wanted else _all_names(nouns)
        rows = [[each.get(name) for name in names] for each in _page(nouns, offset, count)]
        return Response(OK, "OK", {"attributeNames": names, "results": rows}, len(rows))

    def _get_types(self, request: Request, now_us: int) -> Response:
        return Response(OK, "OK", {noun.type: [] for noun in self._asked_about(request)})

    def _get_operations(self, request: Request, now_us: int) -> Response:
        found = {noun.type: list(noun.operations) for noun in self._asked_about(request)}
        if not request.text("entityType"):
            found[MANAGEMENT_TYPE] = list(self._operations)
        return Response(OK, "OK", found)

    def _get_attributes(self, request: Request, now_us: int) -> Response:
        nouns = self._asked_about(request)
        return Response(OK, "OK", {noun.type: sorted(noun.attribute_names()) for noun in nouns})

    def _get_nodes(self, request: Request, now_us: int) -> Response:
        return Response(OK, "OK", [])


def _all_names(nouns: list[Noun]) -> list[str]:
    return sorted({name for noun in nouns for name in noun.attribute_names()})


def _page(nouns: list[Noun], offset: int, count: int) -> list[Attributes]:
    """`count` rows of all nouns, one noun behind the other, from the row at `offset`."""
    found: list[Attributes] = []
    for noun in nouns:
        found += noun.rows(offset, count - len(found))
        if len(found) == count:
            break
        offset = max(0, offset - noun.count())
    return found
