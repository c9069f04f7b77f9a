"""XA branches: the verbs that a transaction manager says on links of a session (all but start, which is a
declare on the coordinator), and what an administrator sees and decides.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from postroom.amqp.encoding.types import Int
from postroom.amqp.extensions import XA_CODE
from postroom.manager.kernel.errors import ManagerError, XaError
from postroom.manager.transactions.xa_branch import BranchRow
from postroom.model.entity_types import BRANCH_TYPE
from postroom.model.rights import Right
from postroom.model.xa import XaCode, XaFlag, Xid, XidInvalid
from postroom.server.access.access import access_of
from postroom.server.links.xa_context import XaContext
from postroom.server.management.entity_type import Columns, ListedEntityType, Operation, same_named
from postroom.server.management.request import (
    BAD_REQUEST,
    CONFLICT,
    NOT_FOUND,
    OK,
    Later,
    Request,
    RequestError,
    Response,
    refusal,
)

_WILDCARDS: Final[Mapping[str, str]] = {"*": ".*", "?": "."}

_Decision = Callable[[Xid, int, str], None]
"""What is decided of a branch, when, and by which user."""


class Branches(ListedEntityType[BranchRow]):
    """The branches of one broker; a branch's name is its Xid in print."""

    type: Final = BRANCH_TYPE

    def make_columns(self) -> Columns[BranchRow]:
        return {
            "state": lambda row: row.state.name.lower().replace("_", "-"),
            **same_named("since_us", "active_us", "puts", "receipts"),
            "container_id": lambda row: row.container,
            **same_named("user", "decided_by"),
        }

    def make_operations(self) -> Mapping[str, Operation]:
        manager = self.manager
        return {
            "READ": self.read,
            "END": self._xa_verb(self._end),
            "PREPARE": self._xa_verb(self._prepare),
            "COMMIT": self._xa_verb(self._commit),
            "ROLLBACK": self._xa_verb(self._rollback),
            "RECOVER": self._xa_verb(self._recover),
            "FORGET": self._xa_verb(self._forget),
            "HEURISTIC-COMMIT": self._decided(manager.heuristic_commit),
            "HEURISTIC-ROLLBACK": self._decided(manager.heuristic_rollback),
            "DELETE": self._decided(lambda xid, now_us, _: manager.delete_branch(xid, now_us)),
        }

    def all(self) -> Iterable[BranchRow]:
        return self.manager.branches()

    def find(self, request: Request) -> BranchRow:
        name = _name(request)
        for row in self.manager.branches():
            if str(row.xid) == name:
                return row
        raise RequestError(NOT_FOUND, f"there is no branch {name!r}")

    def name_of(self, thing: BranchRow) -> str:
        return str(thing.xid)

    # The verbs of a transaction manager.

    def _xa_verb(self, verb: "Callable[[Request, int], Response | Later]") -> Operation:
        """``verb`` with its refusals as a transaction manager reads them."""

        def operation(request: Request, now_us: int) -> Response | Later:
            try:
                return verb(request, now_us)
            except XaError as error:
                return _refused(error)

        return operation

    def _end(self, request: Request, now_us: int) -> Response | Later:
        xid, flags = _xid(request), _flags(request, XaFlag.TMSUCCESS)
        assign = request.properties.get("assign", True)
        if not isinstance(assign, bool):
            raise XaError(XaCode.XAER_INVAL, f"assign must be a boolean, not {assign!r:.100}")
        context = _context(request)
        blocked = context.blocked()
        if blocked is None or flags == XaFlag.TMFAIL or request.postpone is None:
            context.end(xid, flags, assign, now_us)
            return _answer(XaCode.XA_OK)
        later = Later(lambda: None)
        # Sends of it wait for room: they are answered first, as if their sender had waited for each.
        waits = request.postpone(lambda then_us: self._end_again(request, later, then_us))
        blocked.dischargers.append(waits)
        return later

    def _end_again(self, request: Request, later: Later, now_us: int) -> None:
        try:
            response = self._xa_verb(self._end)(request, now_us)
        except ManagerError as error:
            response = refusal(error)
        if isinstance(response, Later):
            response.then(later.answer)
        else:
            later.answer(response, now_us)

    def _prepare(self, request: Request, now_us: int) -> Response:
        _no_flags(request)
        return _answer(self.manager.xa_prepare(_xid(request), now_us))

    def _commit(self, request: Request, now_us: int) -> Response:
        flags = _flags(request, XaFlag.TMNOFLAGS)
        if flags not in (XaFlag.TMNOFLAGS, XaFlag.TMONEPHASE):
            raise XaError(XaCode.XAER_INVAL, f"flags {flags:#x} of commit must be TMNOFLAGS or TMONEPHASE")
        self.manager.xa_commit(_xid(request), flags == XaFlag.TMONEPHASE, now_us)
        return _answer(XaCode.XA_OK)

    def _rollback(self, request: Request, now_us: int) -> Response:
        _no_flags(request)
        self.manager.xa_rollback(_xid(request), now_us)
        return _answer(XaCode.XA_OK)

    def _forget(self, request: Request, now_us: int) -> Response:
        _no_flags(request)
        self.manager.xa_forget(_xid(request), now_us)
        return _answer(XaCode.XA_OK)

    def _recover(self, request: Request, now_us: int) -> Response:
        flags = _flags(request, XaFlag.TMNOFLAGS)
        xids = self.manager.xa_recover(_context(request).known, flags, now_us)
        if not access_of(self.broker).rights_of(request).on_queue_manager(Right.RESOLVE):
            own = {row.xid for row in self.manager.branches() if row.user == request.user}
            xids = [xid for xid in xids if xid in own]
        return _answer(XaCode.XA_OK, {"xids": [str(xid) for xid in xids]})

    # An administrator's.

    def _decided(self, decide: _Decision) -> Operation:
        """``decide`` for the branch, or the branches, that a request names."""

        def operation(request: Request, now_us: int) -> Response:
            name = _name(request)
            if not any(mark in name for mark in _WILDCARDS):
                return self._decide_one(decide, name, now_us, request.user)
            return self._decide_some(decide, name, now_us, request.user)

        return operation

    def _decide_one(self, decide: _Decision, name: str, now_us: int, user: str) -> Response:
        try:
            decide(_parsed(name), now_us, user)
        except XaError as error:
            return _refused(error)
        return Response(OK, "OK", {"xids": [name], "refused": []})

    def _decide_some(self, decide: _Decision, pattern: str, now_us: int, user: str) -> Response:
        """Of those that the pattern means, all that let it be decided; the others are told with the
        reason."""
        meant = re.compile("".join(_WILDCARDS.get(each, re.escape(each)) for each in pattern))
        done: list[str] = []
        refused: list[str] = []
        for row in self.manager.branches():
            if meant.fullmatch(str(row.xid)) is None:
                continue
            try:
                decide(row.xid, now_us, user)
                done.append(str(row.xid))
            except XaError as error:
                refused.append(error.description)
        return Response(OK, "OK", {"xids": done, "refused": refused})


def _answer(code: XaCode, more: Mapping[str, object] | None = None) -> Response:
    return Response(OK, code.name, {XA_CODE: Int(code), **(more or {})})


def _refused(error: XaError) -> Response:
    return Response(CONFLICT, error.description, {XA_CODE: Int(error.code)}, condition=error.condition)


def _name(request: Request) -> str:
    name = request.name or request.text("xid")
    if not name:
        raise RequestError(BAD_REQUEST, f"{request.operation} needs a `name`, the Xid of the branch")
    return name


def _xid(request: Request) -> Xid:
    text = request.properties.get("xid")
    if not isinstance(text, str):
        raise XaError(XaCode.XAER_INVAL, f"{request.operation} needs the application property xid, a string")
    return _parsed(text)


def _parsed(text: str) -> Xid:
    try:
        return Xid.parse(text)
    except XidInvalid as error:
        raise XaError(XaCode.XAER_INVAL, str(error)) from error


def _flags(request: Request, default: XaFlag) -> int:
    flags = request.properties.get("flags", default)
    if isinstance(flags, bool) or not isinstance(flags, int):
        raise XaError(XaCode.XAER_INVAL, f"flags must be a uint, not {flags!r:.100}")
    return int(flags)


def _no_flags(request: Request) -> None:
    flags = _flags(request, XaFlag.TMNOFLAGS)
    if flags != XaFlag.TMNOFLAGS:
        raise XaError(XaCode.XAER_INVAL, f"flags {flags:#x} of {request.operation}: it takes none")


def _context(request: Request) -> XaContext:
    if request.xa is None:
        raise RequestError(BAD_REQUEST, f"{request.operation} is about the session that it is said on")
    return request.xa()
