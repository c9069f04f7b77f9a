"""What stands in front of the application: probes, where the active member is, and a refusal of all else,
until the broker serves."""

from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from postroom.server.http import follower_page
from postroom.server.http.errors import PROBLEM_TYPE, Refusal, problem_details
from postroom.server.http.health import READY_PATH, RETRY_S, GetReport, answer, as_json
from postroom.server.status import Report

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Handed = Callable[[Scope, Receive, Send], Awaitable[None]]

NOT_ACTIVE: Final = "not-active"
JSON_TYPE: Final = "application/json"
API_PREFIX: Final = "/api/"


class _Answer(NamedTuple):
    status: int
    content_type: str
    content: bytes


class Front:
    """An application of ASGI."""

    def __init__(self, report: GetReport, is_open: bool, names_active: bool = False) -> None:
        """``is_open``: whether probes need no token; ``names_active``: whether anybody may know which member
        is active, where it is, and how far this one is behind."""
        self.application: Handed | None = None
        """What answers from now on."""
        self._report: Final = report
        self._is_open: Final = is_open
        self._names_active: Final = names_active

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.application is not None:
            await self.application(scope, receive, send)
        elif scope["type"] == "http":
            await _send(send, self._answer(scope))

    def _answer(self, scope: Scope) -> _Answer:
        report, path = self._report(), scope["path"]
        found = answer(path, report) if self._is_open else None
        if found is not None:
            return _Answer(found[0], JSON_TYPE, as_json(found[1]))
        refusal = Refusal(
            HTTPStatus.SERVICE_UNAVAILABLE,
            NOT_ACTIVE,
            f"the broker is {report['state']}",
            **self._active(report),
        )
        if path.startswith(API_PREFIX):
            return _Answer(refusal.status, PROBLEM_TYPE, as_json(problem_details(refusal, path)))
        if _is_browser(scope):
            health = answer(READY_PATH, report)
            assert health is not None
            page = follower_page.follower_page(report, health[1], self._names_active)
            return _Answer(refusal.status, follower_page.CONTENT_TYPE, page)
        return _Answer(refusal.status, JSON_TYPE, as_json(refusal.body))

    def _active(self, report: Report) -> dict[str, Any]:
        if not self._names_active or "active_member" not in report:
            return {}
        console = follower_page.console_among(report["active_urls"])
        return {"active_member": report["active_member"], "active_url": console}


def _is_browser(scope: Scope) -> bool:
    headers = scope.get("headers", ())
    return any(name == b"accept" and b"text/html" in value for name, value in headers)


async def _send(send: Send, found: _Answer) -> None:
    headers = [
        (b"content-type", found.content_type.encode()),
        (b"content-length", str(len(found.content)).encode()),
        (b"cache-control", b"no-store"),
        *((name.encode(), value.encode()) for name, value in follower_page.HEADERS.items()),
        *([(b"retry-after", str(RETRY_S).encode())] if found.status != HTTPStatus.OK else []),
    ]
    await send({"type": "http.response.start", "status": int(found.status), "headers": headers})
    await send({"type": "http.response.body", "body": found.content})
