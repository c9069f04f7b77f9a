"""The ledger's history, as clients look into it: where a message is, and what happened to it."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from postroom.ledger.reading.trace import MAX_RELATIONS, MessageId, TooManyMessages
from postroom.model.codes import IdType
from postroom.model.entity_types import LEDGER_TYPE
from postroom.server.management.arguments import Arguments
from postroom.server.management.entity_type import Operation, UnlistedEntityType
from postroom.server.management.ledger_queries import Ask, Look, Looked, followed, found
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

if TYPE_CHECKING:
    from postroom.server.connection.broker import Broker

MAX_WAITING_LOOKS: Final = 100
"""Looks into the ledger that wait for their turn, of all clients."""


class LedgerEntities(UnlistedEntityType):
    """One broker's ledger: there is nothing to list, only to look for."""

    type: Final = LEDGER_TYPE

    def __init__(self, broker: "Broker") -> None:
        self._broker: Final = broker
        self._waiting: Final[set[Look]] = set()
        self.operations: Final[Mapping[str, Operation]] = {
            "FIND-MESSAGES": self._find,
            "FOLLOW-MESSAGES": self._follow,
        }

    def _find(self, request: Request, now_us: int) -> Later:
        said = Arguments(request, now_us)
        return self._look(partial(found, _wanted(said), said.number("first")))

    def _follow(self, request: Request, now_us: int) -> Later:
        said = Arguments(request, now_us)
        serials = said.value("serials", list, [])
        if not serials or not all(map(_is_serial, serials)):
            raise RequestError(BAD_REQUEST, "serials must be a list of at least one serial, from 1 on")
        if len(serials) > MAX_RELATIONS:
            raise RequestError(LIMIT, f"more than {MAX_RELATIONS} serials: one trace has no more messages")
        numbers = [int(each) for each in serials]
        return self._look(partial(followed, numbers, said.number("first"), said.number("skip")))

    def _look(self, ask: Ask) -> Later:
        if len(self._waiting) >= MAX_WAITING_LOOKS:
            raise RequestError(LIMIT, f"{MAX_WAITING_LOOKS} looks into the ledger wait already: ask later")
        look = Look(ask)
        later = Later(partial(self._cancel, look))
        look.then(partial(self._answer, look, later))
        self._waiting.add(look)
        self._broker.looks.append(look)
        return later

    def _cancel(self, look: Look) -> None:
        look.cancelled = True
        self._waiting.discard(look)

    def _answer(self, look: Look, later: Later, result: Looked, now_us: int) -> None:
        self._waiting.discard(look)
        later.answer(_response(result), now_us)


def _response(result: Looked) -> Response:
    if isinstance(result, TooManyMessages):
        error = RequestError(LIMIT, str(result))
        return error.response()
    if isinstance(result, Exception):
        return RequestError(INTERNAL, f"the ledger can't be looked into: {result}").response()
    return Response(OK, "OK", result)


def _wanted(said: Arguments) -> MessageId | int:
    """The message id or the serial that is asked for, one of both."""
    serial = said.number("serial")
    raw, kind = said.message_id()
    if (serial == 0) == (kind == IdType.NONE):
        raise RequestError(BAD_REQUEST, "say which message: message_id, or serial, a number from 1 on")
    return serial or MessageId(raw, IdType(kind))


def _is_serial(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 63
