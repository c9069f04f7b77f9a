"""From a request to its operation, and back: names are percent-encoded segments of the path."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from postroom.server.http.api import broker_resources, message_operations, resources
from postroom.server.http.api.messages import to_json
from postroom.server.http.api.openapi import description
from postroom.server.http.api.operation import PREFIX, Call, Operation, decoded
from postroom.server.http.api.problems import problem
from postroom.server.http.bodies import FORM_TYPE, JSON_TYPE, body_of, content_type
from postroom.server.http.errors import Refusal
from postroom.server.http.route_group import LABEL, NOT_STORED, RouteGroup, Shared
from postroom.server.management.request import NOBODY

METHODS: Final = ("GET", "POST", "PATCH", "DELETE")
MAX_SEGMENTS: Final = 8
OPENAPI_PATH: Final = "/openapi.json"


def all_operations() -> list[Operation]:
    """Every operation of the API."""
    return [*broker_resources.operations(), *resources.operations(), *message_operations.operations()]


class ApiRoutes(RouteGroup):
    """The API of one broker."""

    prefixes: ClassVar = (f"{PREFIX}/", "/api")

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._operations: Final = all_operations()
        self._templates: Final = {
            tuple(path.split("/")[1:]): {each.method: each for each in self._operations if each.path == path}
            for path in {each.path for each in self._operations}
        }
        self._described: bytes | None = None

    def routes(self) -> Sequence[BaseRoute]:
        described = self.route(f"{PREFIX}{OPENAPI_PATH}", self._openapi)
        any_path = self.route(f"{PREFIX}/{{rest:path}}", self._answer, label=PREFIX)
        return [described, Route(any_path.path, any_path.endpoint, methods=list(METHODS))]

    def label(self, path: str) -> str:
        return PREFIX

    def early_refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Bodies are bounded as they are read; one that says that it is too long isn't begun."""
        length = headers.get(b"content-length", b"0")
        most = self.shared.config.max_body_bytes
        if not length.isdigit() or len(length) > len(str(most)) or int(length) > most:
            what = f"a body has {most} bytes at most (max_body_bytes)"
            return Refusal(413, "too-long", what, {"connection": "close"})
        return None

    def refused(self, refusal: Refusal, path: str) -> Response:
        return problem(refusal, path)

    async def _openapi(self, request: Request) -> Response:
        self.shared.requesters.check_host(request)
        self.shared.admission.keep_pace("", request)
        if self._described is None:
            self._described = to_json(description(self._operations))
        return Response(self._described, media_type=JSON_TYPE)

    async def _answer(self, request: Request) -> Response:
        operation, path = self._found(request)
        request.scope[LABEL] = PREFIX + operation.path
        shared = self.shared
        requester = NOBODY if operation.is_open else await shared.requesters.requester_of(request)
        query = decoded(operation.query, _query_of(request))
        arguments = await self._arguments(operation, request)
        answer = await operation.carry_out(Call(shared, request, requester, path, query, arguments))
        if isinstance(answer, Response):
            return answer
        if operation.answer is None:
            return Response(status_code=operation.status, headers=NOT_STORED)
        return Response(to_json(answer), operation.status, NOT_STORED, media_type=operation.media_type)

    def _found(self, request: Request) -> tuple[Operation, dict[str, str]]:
        """The operation that is meant, and the parameters of its path. Raises `Refusal`."""
        segments = _segments(request.scope)
        allowed: set[str] = set()
        for template, by_method in self._templates.items():
            path = _matched(template, segments)
            if path is not None:
                if request.method in by_method:
                    return by_method[request.method], path
                allowed.update(by_method)
        if not allowed:
            raise Refusal(404, "no-path", f"there is no {request.url.path!r:.200} in the API")
        methods = ", ".join(sorted(allowed))
        what = f"{request.method} isn't possible here, but {methods}"
        raise Refusal(405, "method-not-allowed", what, {"allow": methods})

    async def _arguments(self, operation: Operation, request: Request) -> Any:
        body = await body_of(request, self.shared.config)
        if operation.arguments is None:
            is_form = content_type(request) == FORM_TYPE  # with a CSRF token, which has been looked at
            if not is_form and body.strip() not in (b"", b"{}"):
                raise Refusal(400, "bad-body", "a body, where none is wanted")
            return None
        if not body and not operation.needs_arguments:
            body = b"{}"
        elif content_type(request) != JSON_TYPE:
            raise Refusal(415, "not-json", f"a body of {content_type(request)!r}: give {JSON_TYPE}")
        try:
            return msgspec.json.decode(body, type=operation.arguments)
        except msgspec.DecodeError as error:
            raise Refusal(400, "bad-body", f"the body: {error}") from None
        except (RecursionError, UnicodeDecodeError):
            raise Refusal(400, "bad-body", "the body is too deep, or no UTF-8") from None


def _segments(scope: Scope) -> list[str]:
    """Those of the path as it was sent: a slash in a name is encoded. Raises `Refusal`."""
    raw = scope.get("raw_path") or scope["path"].encode()
    parts = raw.split(b"?")[0].decode("ascii", "replace").removeprefix(PREFIX).split("/")[1:]
    if len(parts) > MAX_SEGMENTS:
        raise Refusal(404, "no-path", "a path of the API has fewer segments; encode slashes of names as %2F")
    try:
        return [unquote(part, errors="strict") for part in parts]
    except UnicodeDecodeError:
        raise Refusal(400, "bad-path", "the path is no UTF-8, percent-encoded") from None


def _matched(template: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    """The parameters where a path is of that form; None where it isn't."""
    if len(template) != len(segments):
        return None
    found: dict[str, str] = {}
    for part, segment in zip(template, segments, strict=True):
        if part.startswith("{"):
            if not segment:
                return None
            found[part[1:-1]] = segment
        elif part != segment:
            return None
    return found


def _query_of(request: Request) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        found.setdefault(name, []).append(value)
    return found
