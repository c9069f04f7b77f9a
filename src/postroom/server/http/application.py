"""Requests over HTTP and their answers: within their bounds, counted, each by the part whose path it is."""

import time
from collections.abc import Sequence
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postroom.manager.security.acts import Act
from postroom.server.configuration.http import HttpConfig
from postroom.server.http.errors import Refusal
from postroom.server.http.http_counters import HttpCounters
from postroom.server.http.route_group import LABEL, LEAVE_WORK, OPEN_FILE, RouteGroup


class Application:
    """What is served, of one broker."""

    def __init__(self, config: HttpConfig, groups: Sequence[RouteGroup], counters: HttpCounters) -> None:
        self._config: Final = config
        self._groups: Final = groups
        self._others: Final = RouteGroup(groups[0].shared)
        """Of paths that are no part's."""
        self._counters: Final = counters
        self._in_work = 0

    def as_asgi(self) -> ASGIApp:
        """The application, within its bounds."""
        routes = [route for group in self._groups for route in group.routes()]
        inner = Starlette(routes=routes, exception_handlers={HTTPException: self._http_error})

        async def bounded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                await self._bounded(inner, scope, receive, send)

        return bounded

    def close(self) -> None:
        """No more is answered."""
        for group in self._groups:
            group.close()

    def record(self, act: Act) -> None:
        """Have a refusal before any request recorded."""
        self._others.shared.admission.callers.record(act)

    async def _bounded(self, inner: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse what is too much, count what isn't."""
        group = self._group_of(scope["path"])
        scope[LABEL] = group.label(scope["path"])
        answer, work = Answer(scope, send), _InWork(self)
        scope[LEAVE_WORK] = work.leave
        try:
            refusal = self._refusal(scope, group)
            if refusal is not None:
                await group.refused(refusal, scope["path"])(scope, receive, answer.send)
            else:
                await inner(scope, receive, answer.send)
        finally:
            if OPEN_FILE in scope:
                scope[OPEN_FILE].close()
            work.leave()
            self._counters.count(answer.path, answer.status, answer.size_bytes, answer.seconds())

    def _group_of(self, path: str) -> RouteGroup:
        return next((each for each in self._groups if path.startswith(each.prefixes)), self._others)

    def _refusal(self, scope: Scope, group: RouteGroup) -> Refusal | None:
        if self._in_work > self._config.max_requests:
            what = f"{self._config.max_requests} requests are in work, as many as max_requests allows"
            return Refusal(429, "too-many-requests", what, {"retry-after": "1"})
        return group.early_refusal(scope, {name: value for name, value in scope["headers"] if value != b"0"})

    def change_work(self, by: int) -> None:
        """So many more requests are in work."""
        self._in_work += by
        self._counters.in_work.set(self._in_work)

    def _http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        word = error.detail.lower().replace(" ", "-")
        what = f"{request.method} {request.url.path}: {error.detail}"
        path = request.url.path
        return self._group_of(path).refused(Refusal(error.status_code, word, what, error.headers), path)


class _InWork:
    """One request among those in work, until it leaves."""

    def __init__(self, application: Application) -> None:
        self._application: Final = application
        self._is_in = True
        application.change_work(1)

    def leave(self) -> None:
        if self._is_in:
            self._is_in = False
            self._application.change_work(-1)


class Answer:
    """One answer on its way out: what of it is counted."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope: Final = scope
        self.status = 0
        """0: the connection went before there was one."""
        self.size_bytes = 0
        self._send: Final = send
        self._began_s: Final = time.monotonic()

    @property
    def path(self) -> str:
        """As it is counted."""
        label: str = self._scope[LABEL]
        return label

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.size_bytes += len(message.get("body", b""))
        await self._send(message)

    def seconds(self) -> float:
        return time.monotonic() - self._began_s
