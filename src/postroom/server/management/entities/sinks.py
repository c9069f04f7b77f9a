"""Spark sinks: what tasks and drivers say of branches and batches, and what an administrator sees and does.

A thing of this entity type is an app; its name is the app's. See docs/reference/spark-sinks.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from postroom.manager.kernel.errors import SinkBranchSpoiled
from postroom.manager.spark.sink import (
    MAX_DIGEST_CHARS,
    MAX_OFFSETS_BYTES,
    MAX_TEXT_CHARS,
    SinkApp,
    SinkBranch,
    SinkContact,
)
from postroom.model.entity_types import SINK_TYPE
from postroom.server.links.sink_context import SinkContext
from postroom.server.management.entity_type import Columns, ListedEntityType, Operation, same_named
from postroom.server.management.request import (
    BAD_REQUEST,
    CONFLICT,
    NO_CONTENT,
    OK,
    Attributes,
    Request,
    RequestError,
    Response,
    refusal,
)

MAX_SHOWN_BRANCHES: Final = 1000
"""In the answer to READ."""
MAX_INT: Final = (1 << 63) - 1


class SinkEntities(ListedEntityType[SinkApp]):
    """The Spark sinks of one broker."""

    type: Final = SINK_TYPE

    def make_columns(self) -> Columns[SinkApp]:
        return {
            **same_named("query_id", "run_id", "offsets", "position", "user", "since_us", "decided_us"),
            "batch_id": lambda app: app.last_batch() if app.last_batch() >= 0 else None,
            "digest": lambda app: app.batches.get(app.last_batch(), ""),
            "branches": lambda app: len(app.branches),
            "messages": lambda app: sum(len(each.transaction.puts) for each in app.branches.values()),
            "bytes": lambda app: sum(int(each.bytes) for each in app.branches.values()),
        }

    def make_operations(self) -> Mapping[str, Operation]:
        return {
            "READ": self._read,
            "DELETE": self._forget,
            "BEGIN": self._begin,
            "SEAL": self._seal,
            "ROLLBACK": self._rollback,
            "COMMIT": self._commit,
        }

    def all(self) -> Iterable[SinkApp]:
        return self.manager.sinks.all()

    def find(self, request: Request) -> SinkApp:
        return self.manager.sinks.find(request.required_name())

    def _read(self, request: Request, now_us: int) -> Response:
        """As QUERY has it, and the open branches one by one."""
        app = self.find(request)
        rows = self.manager.sinks.branches(app)[:MAX_SHOWN_BRANCHES]
        return Response(OK, "OK", self.shown(app) | {"open_branches": [asdict(row) for row in rows]})

    def _begin(self, request: Request, now_us: int) -> Response:
        arguments = _SinkArguments(request)
        connection = _connection(request)
        contact = arguments.contact(connection.container)
        branch = self.manager.sinks.begin(
            contact, arguments.number("partition"), arguments.number("attempt"), now_us
        )
        body: Attributes = {"decided": branch is None, "branch": "", "txn_id": b""}
        if branch is not None:
            body |= {"branch": branch.name, "txn_id": connection.enter(branch.transaction)}
        app = self.manager.sinks.find(contact.app)
        body |= {"query_id": app.query_id, "position": app.position}
        body |= {"max_messages": self.manager.options.max_sink_branch_messages}
        return Response(OK, "OK", body)

    def _seal(self, request: Request, now_us: int) -> Response:
        app, name = request.required_name(), _SinkArguments(request).text("branch")
        transaction_id = self.manager.sinks.holder_of(app, name)
        connection = _connection(request)
        if connection.is_arriving(transaction_id):
            raise RequestError(CONFLICT, f"a message of branch {name!r} has not come with all its frames")
        connection.leave(transaction_id)
        try:
            branch = self.manager.sinks.seal(app, name, now_us)
        except SinkBranchSpoiled as error:
            return _spoiled(error)
        return Response(OK, "sealed", _held(branch))

    def _rollback(self, request: Request, now_us: int) -> Response:
        name = request.required_name()
        count = self.manager.sinks.rollback(name, _SinkArguments(request).text("branch", ""), now_us)
        return Response(OK, "OK", {"rolled_back": count})

    def _commit(self, request: Request, now_us: int) -> Response:
        arguments = _SinkArguments(request)
        contact = arguments.contact("")
        offsets, position = arguments.offsets(), arguments.position()
        try:
            done, messages = self.manager.sinks.commit(contact, offsets, position, arguments.names(), now_us)
        except SinkBranchSpoiled as error:
            return _spoiled(error)
        return Response(OK, "OK", {"status": "committed" if done else "already", "messages": messages})

    def _forget(self, request: Request, now_us: int) -> Response:
        self.manager.sinks.forget(request.required_name(), now_us)
        return Response(NO_CONTENT, "forgotten", {})


def _connection(request: Request) -> SinkContext:
    if request.sink is None:
        raise RequestError(BAD_REQUEST, f"{request.operation} is about the connection that it is said on")
    return request.sink


def _spoiled(error: SinkBranchSpoiled) -> Response:
    """Refused as what has spoiled it was."""
    refused = refusal(error)
    return Response(
        refused.status, refused.description, refused.body, condition=error.refused or error.condition
    )


def _held(branch: SinkBranch) -> Attributes:
    held = {"messages": len(branch.transaction.puts), "bytes": int(branch.bytes)}
    return {"sent": int(branch.sent), **held}


class _SinkArguments:
    """The body of a request, taken apart."""

    def __init__(self, request: Request) -> None:
        self._request: Final = request
        self._body: Final = request.attributes()

    def contact(self, container: str) -> SinkContact:
        return SinkContact(
            app=_bounded("name", self._request.required_name()),
            query_id=_bounded("query_id", self.text("query_id", "")),
            run_id=_bounded("run_id", self.text("run_id")),
            batch_id=self.number("batch_id"),
            digest=_bounded("digest", self.text("digest", ""), MAX_DIGEST_CHARS),
            above=self.flag("above"),
            accept_duplicates=self.flag("accept_duplicates"),
            user=self._request.user,
            container=container,
        )

    def text(self, name: str, default: str | None = None) -> str:
        """A string; without `default` there must be one."""
        value = self._body.get(name, default)
        if not isinstance(value, str) or (default is None and not value):
            raise RequestError(BAD_REQUEST, f"{name} is {value!r:.100}, must be a string")
        return value

    def flag(self, name: str) -> bool:
        value = self._body.get(name, False)
        if not isinstance(value, bool):
            raise RequestError(BAD_REQUEST, f"{name} is {value!r:.100}, must be a boolean")
        return value

    def number(self, name: str) -> int:
        value: Any = self._body.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INT:
            raise RequestError(BAD_REQUEST, f"{name} is {value!r:.100}, must be a whole number of 0 or more")
        return int(value)

    def position(self) -> int | None:
        value: Any = self._body.get("position")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not -MAX_INT <= value <= MAX_INT:
            raise RequestError(BAD_REQUEST, f"position is {value!r:.100}, must be a whole number of 64 bits")
        return int(value)

    def offsets(self) -> str:
        value = self.text("offsets", "")
        if len(value.encode()) > MAX_OFFSETS_BYTES:
            raise RequestError(BAD_REQUEST, f"offsets are at most {MAX_OFFSETS_BYTES} bytes of text")
        return value

    def names(self) -> list[str]:
        value: Any = self._body.get("branches", [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise RequestError(BAD_REQUEST, "branches must be a list of names")
        return [str(each) for each in value]


def _bounded(name: str, text: str, most: int = MAX_TEXT_CHARS) -> str:
    if len(text) > most:
        raise RequestError(BAD_REQUEST, f"{name} has {len(text)} characters, at most {most}")
    return text
