"""The ledger's history, as clients look into it: where a message is, and what happened to it."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from postroom.ledger.reading.trace import MAX_RELATIONS, MessageId, TooManyMessages
from postroom.model.codes import IdType
from postroom.model.entity_types import LEDGER_TYPE
from postroom.server.management.arguments import Arguments
from postroom.server.management.entity_type import Operation, UnlistedEntityType
from postroom.server.management.ledger_queries import LedgerQuery, QueryResult, Question, followed, found
from postroom.server.management.request import (
    BAD_REQUEST,
    INTERNAL,
    LIMIT,
    OK,
    Later,
    Request,
    RequestError,
    Response,
)

MAX_WAITING_QUERIES: Final = 100
"""Looks into the ledger that wait for their turn, of all clients."""


class LedgerEntities(UnlistedEntityType):
    """One broker's ledger: there is nothing to list, only to look for."""

    type: Final = LEDGER_TYPE

    def __init__(self, queries: list[LedgerQuery]) -> None:
        """``queries`` are run as they come, and answered."""
        self._queries: Final = queries
        self._waiting: Final[set[LedgerQuery]] = set()
        self.operations: Final[Mapping[str, Operation]] = {
            "FIND-MESSAGES": self._find,
            "FOLLOW-MESSAGES": self._follow,
        }

    def _find(self, request: Request, now_us: int) -> Later:
        arguments = Arguments(request, now_us)
        return self._query(partial(found, _wanted(arguments), arguments.number("first")))

    def _follow(self, request: Request, now_us: int) -> Later:
        arguments = Arguments(request, now_us)
        serials = arguments.value("serials", list, [])
        if not serials or not all(map(_is_serial, serials)):
            raise RequestError(BAD_REQUEST, "serials must be a list of at least one serial, from 1 on")
        if len(serials) > MAX_RELATIONS:
            raise RequestError(LIMIT, f"more than {MAX_RELATIONS} serials: one trace has no more messages")
        numbers = [int(each) for each in serials]
        return self._query(partial(followed, numbers, arguments.number("first"), arguments.number("skip")))

    def _query(self, question: Question) -> Later:
        if len(self._waiting) >= MAX_WAITING_QUERIES:
            raise RequestError(LIMIT, f"{MAX_WAITING_QUERIES} looks into the ledger wait already: ask later")
        query = LedgerQuery(question)
        later = Later(partial(self._cancel, query))
        query.then(partial(self._answer, query, later))
        self._waiting.add(query)
        self._queries.append(query)
        return later

    def _cancel(self, query: LedgerQuery) -> None:
        query.cancelled = True
        self._waiting.discard(query)

    def _answer(self, query: LedgerQuery, later: Later, result: QueryResult, now_us: int) -> None:
        self._waiting.discard(query)
        later.answer(_response(result), now_us)


def _response(result: QueryResult) -> Response:
    if isinstance(result, TooManyMessages):
        error = RequestError(LIMIT, str(result))
        return error.response()
    if isinstance(result, Exception):
        return RequestError(INTERNAL, f"the ledger can't be looked into: {result}").response()
    return Response(OK, "OK", result)


def _wanted(arguments: Arguments) -> MessageId | int:
    """The message id or the serial that is asked for, one of both."""
    serial = arguments.number("serial")
    raw, kind = arguments.message_id()
    if (serial == 0) == (kind == IdType.NONE):
        raise RequestError(BAD_REQUEST, "say which message: message_id, or serial, a number from 1 on")
    return serial or MessageId(raw, IdType(kind))


def _is_serial(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 63
