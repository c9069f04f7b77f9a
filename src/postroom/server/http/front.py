"""What stands in front of the application: probes and a refusal of all else, until the broker serves."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from postroom.server.http.health import RETRY_S, GetReport, answer, as_json

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Handed = Callable[[Scope, Receive, Send], Awaitable[None]]


class Front:
    """An application of ASGI."""

    def __init__(self, report: GetReport, is_open: bool) -> None:
        """``is_open``: whether probes need no token."""
        self.application: Handed | None = None
        """What answers from now on."""
        self._report: Final = report
        self._is_open: Final = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.application is not None:
            await self.application(scope, receive, send)
        elif scope["type"] == "http":
            await _send(send, *self._answer(scope["path"]))

    def _answer(self, path: str) -> tuple[int, dict[str, Any]]:
        report = self._report()
        found = answer(path, report) if self._is_open else None
        if found is not None:
            return found
        return 503, {"error": "not-active", "what": f"the broker is {report['state']}"}


async def _send(send: Send, status: int, body: dict[str, Any]) -> None:
    data = as_json(body)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(data)).encode()),
        (b"cache-control", b"no-store"),
        *([(b"retry-after", str(RETRY_S).encode())] if status != 200 else []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})
