"""Who is let in by a token of the file of tokens, and how often anybody may come."""

import time
from typing import Final

from starlette.requests import Request

from postroom.server.clock import wall_us
from postroom.server.configuration.http import HttpConfig
from postroom.server.http.bounds import Pace
from postroom.server.http.callers import Callers
from postroom.server.http.errors import Refusal
from postroom.server.http.tokens import Right, Token


class Admission:
    """Of all that one broker serves over HTTP."""

    def __init__(self, config: HttpConfig, callers: Callers) -> None:
        self.callers: Final = callers
        self._config: Final = config
        self._pace: Final = Pace(config.max_requests_per_s)

    def admit(self, request: Request, right: Right, path: str) -> Token:
        """The caller's token. Raises `Refusal` unless it opens that, and hasn't been used too often;
        ``path``: as it is recorded."""
        presented = bearer(request)
        token = self.callers.find(presented, wall_us()) if presented else None
        self.keep_pace(f"token {token.id}" if token is not None else "", request)
        remote = remote_of(request)
        if token is None:
            raise self.callers.unauthorized(bool(presented), remote, path)
        if not self.callers.may(token, right):
            raise self.callers.forbidden(token, right, remote, request.method, path)
        return token

    def keep_pace(self, caller: str, request: Request) -> None:
        """Count a request of that caller, "" its address. Raises `Refusal` for one too many."""
        host = request.client.host if request.client is not None else ""
        wait_s = self._pace.wait_s(caller or f"host {host}", time.monotonic())
        if wait_s > 0:
            what = f"more than {self._config.max_requests_per_s} requests a second"
            raise Refusal(429, "too-fast", what, {"retry-after": str(max(1, round(wait_s)))})


def bearer(request: Request) -> str:
    """What the request shows as a bearer token; "" none."""
    scheme, _, presented = request.headers.get("authorization", "").partition(" ")
    return presented.strip() if scheme.lower() == "bearer" else ""


def remote_of(request: Request) -> str:
    """``HOST:PORT`` of the client."""
    client = request.client
    if client is None:
        return ""
    host = f"[{client.host}]" if ":" in client.host else client.host
    return f"{host}:{client.port}"
