"""The management node of one broker: which entity type a request is for, and the operations about all of
them.
"""

from typing import Final, cast

from postroom.amqp.errors import UNAUTHORIZED_ACCESS
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.security.acts import Act
from postroom.model.rights import Right, Rights
from postroom.server.access.access import access_of, missing
from postroom.server.kernel.broker_state import BrokerState
from postroom.server.management.authorization import RULES, SEEN_BY, arguments_of, lacking, may_see
from postroom.server.management.entities.brokers import Brokers
from postroom.server.management.entities.channels import ChannelEntities
from postroom.server.management.entities.connections import Connections
from postroom.server.management.entities.dead_letter_handlers import DeadLetterHandlerEntities
from postroom.server.management.entities.leases import LeaseEntities
from postroom.server.management.entities.ledgers import LedgerEntities
from postroom.server.management.entities.members import MemberEntities
from postroom.server.management.entities.messages import Messages
from postroom.server.management.entities.queues import Queues
from postroom.server.management.entities.quotas import Quotas
from postroom.server.management.entities.remote_queues import RemoteQueues
from postroom.server.management.entities.sinks import SinkEntities
from postroom.server.management.entities.spark_subscriptions import SparkSubscriptions
from postroom.server.management.entities.store_holders import StoreHolders
from postroom.server.management.entities.topics import Subscriptions, Topics
from postroom.server.management.entities.transactions import Transactions
from postroom.server.management.entities.users import Roles, Users
from postroom.server.management.entities.xa_branches import Branches
from postroom.server.management.entity_type import EntityType, Operation
from postroom.server.management.ledger_queries import LedgerQuery
from postroom.server.management.request import (
    ACCEPTED,
    BAD_REQUEST,
    FORBIDDEN,
    NOT_IMPLEMENTED,
    OK,
    Attributes,
    Later,
    Request,
    RequestError,
    Response,
    refusal,
)

MANAGEMENT_TYPE: Final = "org.amqp.management"

MAX_QUERY_ROWS: Final = 1_000
"""Rows of one answer to QUERY; more are had with offset."""


class Management:
    """The management node of one broker."""

    def __init__(self, broker: BrokerState) -> None:
        self.ledger_queries: Final[list[LedgerQuery]] = []
        """Looks into the ledger's history; have each run in the thread for them, and answer it."""
        self._manager: Final = broker.manager
        self._broker: Final = broker
        self._access: Final = access_of(broker)
        self.entity_types: Final[list[EntityType]] = [
            Queues(broker),
            Topics(broker),
            Subscriptions(broker),
            Quotas(broker),
            RemoteQueues(broker),
            ChannelEntities(broker),
            DeadLetterHandlerEntities(broker),
            Connections(broker),
            Brokers(broker),
            LeaseEntities(broker),
            LedgerEntities(self.ledger_queries),
            MemberEntities(broker),
            Messages(broker),
            SparkSubscriptions(broker),
            Transactions(broker),
            Branches(broker),
            SinkEntities(broker),
            StoreHolders(broker),
            Users(broker),
            Roles(broker),
        ]
        self._entity_types: Final = {entity_type.type: entity_type for entity_type in self.entity_types}
        self._operations: Final[dict[str, Operation]] = {
            "QUERY": self._query,
            "GET-TYPES": self._get_types,
            "GET-OPERATIONS": self._get_operations,
            "GET-ATTRIBUTES": self._get_attributes,
            "GET-MGMT-NODES": self._get_nodes,
        }

    def perform(self, request: Request, now_us: int) -> Response | Later:
        """Carry out ``request``, if its user may. What it changed is not durable yet: the answer must wait
        for that."""
        self._manager.set_time_us(now_us)
        try:
            operation = self._find(request)
            if request.operation in self._operations:
                return operation(request, now_us)
            rule = RULES[request.type][request.operation]
            missed = lacking(self._access, self._broker, rule, request)
        except RequestError as error:
            return error.response()
        if missed is not None:
            return self._forbidden(request, *missed, now_us)
        response = self._carry_out(operation, request, now_us)
        if rule.act:
            status, what = ACCEPTED, "taken up"
            if isinstance(response, Response):
                status, what = response.status, response.description
            self._access.acts.done(_act(request, status, what), now_us)
        return response

    def _forbidden(self, request: Request, right: Right, name: str, now_us: int) -> Response:
        """The answer to who lacks that right; recorded."""
        what = missing(request.user, right, name)
        self._access.acts.refused(_act(request, FORBIDDEN, what), now_us)
        body = {"right": right.value, "on": name}
        return Response(FORBIDDEN, what, body, condition=UNAUTHORIZED_ACCESS)

    def _carry_out(self, operation: Operation, request: Request, now_us: int) -> Response | Later:
        try:
            return operation(request, now_us)
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
        entity_type = self._entity_types.get(type_name)
        if entity_type is None:
            raise RequestError(NOT_IMPLEMENTED, f"there is no type {type_name!r}")
        if name not in entity_type.operations:
            raise RequestError(NOT_IMPLEMENTED, f"type {type_name!r} has no operation {name!r}")
        return entity_type.operations[name]

    def _restricted_to(self, request: Request) -> list[EntityType]:
        """The entity types that a request about all of them is restricted to."""
        type_name = request.text("entityType")
        if not type_name:
            return list(self._entity_types.values())
        if type_name not in self._entity_types:
            raise RequestError(BAD_REQUEST, f"entityType {type_name!r} is none of GET-TYPES")
        return [self._entity_types[type_name]]

    def _query(self, request: Request, now_us: int) -> Response:
        entity_types = self._restricted_to(request)
        offset = request.number("offset", 0)
        count = min(request.number("count", MAX_QUERY_ROWS), MAX_QUERY_ROWS)
        wanted = request.attributes().get("attributeNames")
        if wanted is not None and not isinstance(wanted, list):
            raise RequestError(BAD_REQUEST, "attributeNames must be a list of names")
        names = [str(name) for name in wanted] if wanted else _all_names(entity_types)
        rights = self._access.rights_of(request)
        rows = [[each.get(name) for name in names] for each in _page(entity_types, rights, offset, count)]
        body: Attributes = {"attributeNames": names, "results": rows}
        if request.flag("total"):
            body["total"] = sum(_visible(entity_type, rights) for entity_type in entity_types)
        return Response(OK, "OK", body, len(rows))

    def _get_types(self, request: Request, now_us: int) -> Response:
        return Response(OK, "OK", {entity_type.type: [] for entity_type in self._restricted_to(request)})

    def _get_operations(self, request: Request, now_us: int) -> Response:
        found = {
            entity_type.type: list(entity_type.operations) for entity_type in self._restricted_to(request)
        }
        if not request.text("entityType"):
            found[MANAGEMENT_TYPE] = list(self._operations)
        return Response(OK, "OK", found)

    def _get_attributes(self, request: Request, now_us: int) -> Response:
        entity_types = self._restricted_to(request)
        return Response(
            OK,
            "OK",
            {entity_type.type: sorted(entity_type.attribute_names()) for entity_type in entity_types},
        )

    def _get_nodes(self, request: Request, now_us: int) -> Response:
        return Response(OK, "OK", [])


def _all_names(entity_types: list[EntityType]) -> list[str]:
    return sorted({name for entity_type in entity_types for name in entity_type.attribute_names()})


def _page(entity_types: list[EntityType], rights: Rights, offset: int, count: int) -> list[Attributes]:
    """`count` rows of all entity types, one entity type behind the other, from the row at `offset`, of those
    that may be seen."""
    found: list[Attributes] = []
    for entity_type in entity_types:
        if may_see(rights, entity_type.type, ""):
            found += entity_type.rows(offset, count - len(found))
            passed = entity_type.count()
        else:
            seen = _seen(entity_type, rights)
            found += seen[offset : offset + count - len(found)]
            passed = len(seen)
        if len(found) == count:
            break
        offset = max(0, offset - passed)
    return found


def _visible(entity_type: EntityType, rights: Rights) -> int:
    """How many rows of the type may be seen."""
    if may_see(rights, entity_type.type, ""):
        return entity_type.count()
    return len(_seen(entity_type, rights))


def _seen(entity_type: EntityType, rights: Rights) -> list[Attributes]:
    if SEEN_BY[entity_type.type] is not None:
        return []
    rows = entity_type.rows(0, entity_type.count())
    return [row for row in rows if may_see(rights, entity_type.type, str(row["name"]))]


def _act(request: Request, status: int, what: str) -> Act:
    return Act(
        user=request.user,
        remote=request.remote,
        container=request.container,
        operation=request.operation,
        type=request.type,
        name=request.name,
        status=status,
        description=what,
        arguments=arguments_of(request),
    )


def management_of(broker: BrokerState) -> Management:
    """That of a broker."""
    return cast(Management, broker.state(Management))
