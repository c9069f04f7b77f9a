"""What a part of what is served gives to the application: its routes, and how it answers refusals.

A part is one class derived from `RouteGroup`, named in `http_service`. It gets what all share: `Shared`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from postroom.ledger.errors import LedgerError
from postroom.server.configuration.http import HttpConfig
from postroom.server.http.admission import Admission
from postroom.server.http.errors import Refusal
from postroom.server.http.figures import Figures
from postroom.server.http.gateway import ManagementGateway
from postroom.server.http.health import GetReport
from postroom.server.http.ledger_view import LedgerView
from postroom.server.http.requesters import Requesters
from postroom.server.http.waits import Waits
from postroom.server.logs import LOGGER_NAME, log

LABEL: Final = "postroom.label"
"""Where the request's scope has the path as it is counted: few are told apart."""
OPEN_FILE: Final = "postroom.file"
"""Where the request's scope has what is sent of files: it is closed with the answer, however that ends."""
LEAVE_WORK: Final = "postroom.leave_work"
"""Where the request's scope has what takes it out of the requests in work: for streams, which last, and have
a bound of their own."""
NOT_STORED: Final = {"cache-control": "no-store"}

Answer = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Shared:
    """What the parts share."""

    config: HttpConfig
    admission: Admission
    """By tokens; and the pace of every caller."""
    requesters: Requesters
    """Who calls, where users sign in; sessions."""
    gateway: ManagementGateway
    waits: Waits
    """Streams and requests that wait."""
    ledger_view: LedgerView
    registry: CollectorRegistry
    figures: Figures
    """For streams."""
    report: GetReport
    """How the process is, as `postroom status` says it."""
    data_folder: Path
    tokens_file: Path


class RouteGroup:
    """A part of what is served."""

    prefixes: ClassVar[tuple[str, ...]]
    """Paths that begin so are this part's: refusals on them are answered its way."""

    def __init__(self, shared: Shared) -> None:
        self.shared: Final = shared

    def routes(self) -> Sequence[BaseRoute]:
        """What it serves."""
        raise NotImplementedError

    def label(self, path: str) -> str:
        """A path as it is counted while no route has been found."""
        return "other"

    def early_refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Of a request by its head alone; ``headers``: those that aren't "0". Here: one that has a body."""
        if b"transfer-encoding" in headers or b"content-length" in headers:
            return Refusal(413, "no-body", "a request has no body here", {"connection": "close"})
        return None

    def refused(self, refusal: Refusal, path: str) -> Response:
        """The answer to a request that is refused."""
        return JSONResponse(refusal.body, refusal.status, refusal.headers)

    def close(self) -> None:
        """Nothing more is answered."""

    def route(self, path: str, answer: Answer, method: str = "GET", label: str = "") -> Route:
        """One route of it: refusals are answered; a defect is logged and says nothing of itself outside."""
        counted = label or path

        async def answered(request: Request) -> Response:
            request.scope[LABEL] = counted
            try:
                return await answer(request)
            except Refusal as raised:
                refusal = raised
            except (LedgerError, OSError) as error:
                log(logging.ERROR, "http-failed", path=request.url.path, reason=str(error))
                refusal = Refusal(503, "ledger-unreadable", str(error), {"retry-after": "1"})
            except Exception as error:
                logging.getLogger(LOGGER_NAME).error("internal-error", exc_info=error)
                refusal = Refusal(500, "internal-error", "the broker's log says more")
            return self.refused(refusal, request.url.path)

        return Route(path, answered, methods=[method])
